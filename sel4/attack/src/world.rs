//! The root task's resources: slots, memory, its own address space and others with its image in them.

use sel4::bootinfo::{INIT_ASID_POOL, INIT_CNODE, INIT_VSPACE, SlotRange};
use sel4::{
    AsidPool, BootInfo, CPtr, Caching, Endpoint, Error, ObjectType, Page, PageDirectory, PageTable, Pdpt, Rights, Slot,
    Untyped, VSpace,
};

/// Bytes of a page.
pub const PAGE: u64 = 4096;
/// Start of the field, 2 MiB with a page table, in which tests map pages, in the own address space and in others.
pub const FIELD: u64 = 0x2000_0000;
/// The part of the field with watched memory that no other thread may reach. It is mapped only in the own address space.
pub const WATCH: u64 = FIELD + 0x10_0000;
/// The value that attackers write.
pub const POISON: u64 = 0x0070_6f69_736f_6e21;

/// The result of a case: what is wrong, if anything.
pub type Found = Result<(), &'static str>;

/// Fails with a text unless `holds`.
pub fn expect(holds: bool, text: &'static str) -> Found {
    if holds { Ok(()) } else { Err(text) }
}

/// The resources.
pub struct World {
    next: u64,
    memory: Untyped,
    image: SlotRange,
    /// The endpoint that receives the threads' faults and words.
    pub news: Endpoint,
    buffer: *mut u64,
}

unsafe extern "C" {
    /// The beginning of the image; from the linker.
    static __executable_start: u8;
    /// The end of the code; writable data is behind it.
    static etext: u8;
}

impl World {
    /// With slots from `next` on, and the largest piece of memory.
    pub fn new(boot: &BootInfo, next: u64) -> World {
        let largest = boot.untypeds().filter(|piece| !piece.is_device).max_by_key(|piece| piece.size_bits);
        let memory = largest.expect("a machine has memory").cap;
        let (image, buffer) = (boot.user_image_pages(), boot.ipc_buffer());
        let mut world = World { next, memory, image, news: Endpoint::new(0), buffer };
        world.news = Endpoint(world.make(ObjectType::Endpoint));
        world.table(FIELD);
        world
    }

    /// A slot that is empty.
    pub fn slot(&mut self) -> CPtr {
        self.next += 1;
        CPtr(self.next - 1)
    }

    /// This many adjacent slots; returns the first.
    pub fn slots(&mut self, count: u64) -> CPtr {
        self.next += count;
        CPtr(self.next - count)
    }

    /// Makes slots from this one on available again.
    pub fn reset_to(&mut self, slot: CPtr) {
        self.next = slot.0;
    }

    /// A new object.
    pub fn make(&mut self, ty: ObjectType) -> CPtr {
        self.make_of(self.memory, ty).expect("memory for a test")
    }

    /// A new object from this memory.
    pub fn make_of(&mut self, memory: Untyped, ty: ObjectType) -> Result<CPtr, Error> {
        let to = self.slot();
        memory.retype(ty, INIT_CNODE, 0, 0, to.0, 1).map(|()| to)
    }

    /// A separate piece of memory.
    pub fn piece(&mut self, bits: u8) -> Untyped {
        Untyped(self.make(ObjectType::Untyped(bits)))
    }

    /// A copy of a capability.
    pub fn again(&mut self, cap: CPtr) -> CPtr {
        let to = self.slot();
        own(to).copy_from(own(cap), Rights::ALL).expect("a copy");
        to
    }

    /// Maps a page table for 2 MiB of the own address space.
    pub fn table(&mut self, address: u64) {
        PageTable(self.make(ObjectType::PageTable)).map(INIT_VSPACE, address).expect("a page table");
    }

    /// A new page, mapped in the own address space.
    pub fn page(&mut self, address: u64) -> Page {
        let page = Page(self.make(ObjectType::Page));
        page.map(INIT_VSPACE, address, Rights::READ_WRITE, Caching::WriteBack).expect("a page");
        page
    }

    /// A new address space with an ASID from a pool, with the image at the same addresses as in the own one, and a page
    /// table for the field.
    pub fn space(&mut self, number_of: Option<AsidPool>) -> VSpace {
        self.space_with(number_of, false)
    }

    /// As [`World::space`], but with copies of all writable data as it is now: a thread there runs an independent
    /// program.
    pub fn private_space(&mut self) -> VSpace {
        self.space_with(None, true)
    }

    fn space_with(&mut self, number_of: Option<AsidPool>, is_private: bool) -> VSpace {
        let space = VSpace(self.make(ObjectType::VSpace));
        number_of.unwrap_or(INIT_ASID_POOL).assign(space).expect("an address space's number");
        let image = (&raw const __executable_start).addr() as u64 & !(PAGE - 1);
        Pdpt(self.make(ObjectType::Pdpt)).map(space, 0).expect("the first table");
        PageDirectory(self.make(ObjectType::PageDirectory)).map(space, 0).expect("the second table");
        for table in [image, FIELD] {
            PageTable(self.make(ObjectType::PageTable)).map(space, table).expect("the third table");
        }
        let written = (&raw const etext).addr() as u64;
        for (slot, address) in self.image.iter().zip((image..).step_by(PAGE as usize)) {
            let page = if is_private && address >= written { self.copy_of(address) } else { Page(self.again(slot)) };
            page.map(space, address, Rights::READ_WRITE, Caching::WriteBack).expect("a page of the image");
        }
        space
    }

    /// A new page with a copy of another page's contents.
    fn copy_of(&mut self, from: u64) -> Page {
        let page = self.page(WATCH);
        (0..PAGE).step_by(8).for_each(|word| write(WATCH + word, read(from + word)));
        page.unmap().expect("a page that is mapped");
        page
    }

    /// Uses this thread's IPC buffer again.
    pub fn take_buffer(&self) {
        // SAFETY: the kernel gave the buffer to this thread, and no other thread of the program runs.
        unsafe { sel4::ipc::init(self.buffer) }
    }
}

/// The path to a slot in the own CSpace.
pub fn own(cptr: CPtr) -> Slot {
    INIT_CNODE.own_slot(cptr)
}

/// Writes a word.
pub fn write(address: u64, word: u64) {
    // SAFETY: tests write only to pages of the field, which contain nothing of the program; if none is mapped, the
    // thread faults.
    unsafe { (address as *mut u64).write_volatile(word) }
}

/// Reads a word.
pub fn read(address: u64) -> u64 {
    // SAFETY: as above.
    unsafe { (address as *const u64).read_volatile() }
}

/// Whether all words of a page are this one.
pub fn is_full_of(page: u64, word: u64) -> bool {
    (0..PAGE / 8).all(|i| read(page + i * 8) == word)
}

/// Memory that is first a page in an attacker's reach, and belongs to another owner after that page has been deleted.
#[derive(Clone, Copy)]
pub struct Memory {
    memory: Untyped,
    /// The page.
    pub page: Page,
    /// A slot for the next page.
    to: CPtr,
}

impl Memory {
    /// New memory.
    pub fn new(world: &mut World) -> Memory {
        let memory = world.piece(12);
        let page = Page(world.make_of(memory, ObjectType::Page).expect("a page"));
        Memory { memory, page, to: world.slot() }
    }

    /// Encodes it as words, for another thread.
    pub fn to_words(self) -> [u64; 3] {
        [self.memory.cptr().0, self.page.cptr().0, self.to.0]
    }

    /// Decodes these words.
    pub fn from_words([memory, page, to]: [u64; 3]) -> Memory {
        Memory { memory: Untyped::new(memory), page: Page::new(page), to: CPtr(to) }
    }

    /// Deletes the page, and watches the memory from now on.
    pub fn change_hands(self) -> Result<(), Error> {
        own(self.page.cptr()).delete()?;
        self.watch()
    }

    /// Watches the memory, whose page has been deleted.
    pub fn watch(self) -> Result<(), Error> {
        self.memory.retype(ObjectType::Page, INIT_CNODE, 0, 0, self.to.0, 1)?;
        Page(self.to).map(INIT_VSPACE, WATCH, Rights::READ_WRITE, Caching::WriteBack)
    }

    /// Whether the watched memory has not been written.
    pub fn is_untouched() -> bool {
        is_full_of(WATCH, 0)
    }
}
