//! What the root task has: slots, memory, its own address space and others with its image in them.

use sel4::bootinfo::{INIT_ASID_POOL, INIT_CNODE, INIT_VSPACE, SlotRange};
use sel4::{
    AsidPool, BootInfo, CPtr, Caching, Endpoint, Error, ObjectType, Page, PageDirectory, PageTable, Pdpt, Rights, Slot,
    Untyped, VSpace,
};

/// Bytes of a page.
pub const PAGE: u64 = 4096;
/// Where tests map things, in one's own address space and in others: 2 MiB with a page table.
pub const FIELD: u64 = 0x2000_0000;
/// The part of the field where memory is watched that nobody else is to reach: in one's own address space alone.
pub const WATCH: u64 = FIELD + 0x10_0000;
/// What an attacker writes.
pub const POISON: u64 = 0x0070_6f69_736f_6e21;

/// What was found, where that is not as it should be.
pub type Found = Result<(), &'static str>;

/// Fails with a text.
pub fn expect(holds: bool, text: &'static str) -> Found {
    if holds { Ok(()) } else { Err(text) }
}

/// The capabilities.
pub struct World {
    next: u64,
    memory: Untyped,
    image: SlotRange,
    /// Where threads' faults and words are heard.
    pub news: Endpoint,
    buffer: *mut u64,
}

unsafe extern "C" {
    /// Where the image begins; from the linker.
    static __executable_start: u8;
    /// Where the code ends; what is written lies behind it.
    static etext: u8;
}

impl World {
    /// With slots from this one on, and the largest piece of memory.
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

    /// So many slots side by side; gives the first.
    pub fn slots(&mut self, count: u64) -> CPtr {
        self.next += count;
        CPtr(self.next - count)
    }

    /// Slots from this one on are empty again.
    pub fn reset_to(&mut self, slot: CPtr) {
        self.next = slot.0;
    }

    /// A new object.
    pub fn make(&mut self, ty: ObjectType) -> CPtr {
        self.make_of(self.memory, ty).expect("memory for a test")
    }

    /// A new object of this memory.
    pub fn make_of(&mut self, memory: Untyped, ty: ObjectType) -> Result<CPtr, Error> {
        let to = self.slot();
        memory.retype(ty, INIT_CNODE, 0, 0, to.0, 1).map(|()| to)
    }

    /// Memory of its own.
    pub fn piece(&mut self, bits: u8) -> Untyped {
        Untyped(self.make(ObjectType::Untyped(bits)))
    }

    /// A copy of a capability.
    pub fn again(&mut self, cap: CPtr) -> CPtr {
        let to = self.slot();
        own(to).copy_from(own(cap), Rights::ALL).expect("a copy");
        to
    }

    /// A page table for 2 MiB of one's own address space.
    pub fn table(&mut self, address: u64) {
        PageTable(self.make(ObjectType::PageTable)).map(INIT_VSPACE, address).expect("a page table");
    }

    /// A new page, mapped in one's own address space.
    pub fn page(&mut self, address: u64) -> Page {
        let page = Page(self.make(ObjectType::Page));
        page.map(INIT_VSPACE, address, Rights::READ_WRITE, Caching::WriteBack).expect("a page");
        page
    }

    /// A new address space of a pool, with the image where it is in one's own, and a page table for the field.
    pub fn space(&mut self, number_of: Option<AsidPool>) -> VSpace {
        self.space_with(number_of, false)
    }

    /// The same, with copies of all that the program writes, as it is now: what runs there is a program of its own.
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

    /// A new page with what another one holds.
    fn copy_of(&mut self, from: u64) -> Page {
        let page = self.page(WATCH);
        (0..PAGE).step_by(8).for_each(|word| write(WATCH + word, read(from + word)));
        page.unmap().expect("a page that is mapped");
        page
    }

    /// This thread's IPC buffer is in use again.
    pub fn take_buffer(&self) {
        // SAFETY: the kernel gave the buffer to this thread, and no other thread of the program runs.
        unsafe { sel4::ipc::init(self.buffer) }
    }
}

/// A slot of one's own.
pub fn own(cptr: CPtr) -> Slot {
    INIT_CNODE.own_slot(cptr)
}

/// Writes a word.
pub fn write(address: u64, word: u64) {
    // SAFETY: tests write to pages of the field alone, where nothing of the program lies; where none is mapped, the thread faults.
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

/// Memory that is a page in an attacker's reach first, and somebody else's after it has been deleted.
#[derive(Clone, Copy)]
pub struct Memory {
    memory: Untyped,
    /// The page.
    pub page: Page,
    /// A slot for the next one.
    to: CPtr,
}

impl Memory {
    /// New memory.
    pub fn new(world: &mut World) -> Memory {
        let memory = world.piece(12);
        let page = Page(world.make_of(memory, ObjectType::Page).expect("a page"));
        Memory { memory, page, to: world.slot() }
    }

    /// As words, for another thread.
    pub fn to_words(self) -> [u64; 3] {
        [self.memory.cptr().0, self.page.cptr().0, self.to.0]
    }

    /// From these words.
    pub fn from_words([memory, page, to]: [u64; 3]) -> Memory {
        Memory { memory: Untyped::new(memory), page: Page::new(page), to: CPtr(to) }
    }

    /// Deletes the page, and has the memory watched from now on.
    pub fn change_hands(self) -> Result<(), Error> {
        own(self.page.cptr()).delete()?;
        self.watch()
    }

    /// Has the memory watched, whose page is deleted.
    pub fn watch(self) -> Result<(), Error> {
        self.memory.retype(ObjectType::Page, INIT_CNODE, 0, 0, self.to.0, 1)?;
        Page(self.to).map(INIT_VSPACE, WATCH, Rights::READ_WRITE, Caching::WriteBack)
    }

    /// Whether nobody has written to it since.
    pub fn is_untouched() -> bool {
        is_full_of(WATCH, 0)
    }
}
