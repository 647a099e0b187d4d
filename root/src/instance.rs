//! Builds a server: see [`server_boot`] for what it finds when it starts.

use core::ptr;

use description::Instance as Wanted;
use sel4::bootinfo::{ASID_CONTROL, INIT_ASID_POOL, INIT_TCB, INIT_VSPACE, IO_PORT_CONTROL, IRQ_CONTROL};
use sel4::{
    CNode, CPtr, Caching, CapData, Endpoint, ObjectType, Page, Rights, SchedParams, Slot, Tcb, TcbConfig, Untyped,
    UserContext, VSpace,
};
use server_boot::cspace::{self, LEAF_BITS, LEAF_SLOTS, root_bits};
use server_boot::layout::{
    BOOT_FILE, BOOT_INFO, BOOT_INFO_PAGES, CHUNK, HEAP, HEAP_LIMIT, HPET, IPC_BUFFER, STACK_GUARD, STACK_SIZE,
    STACK_TOP, WINDOW,
};
use server_boot::service::Interrupt;
use server_boot::{BootInfo, FLAG_BOOT_FILE, FLAG_CONSOLE, FLAG_LINK, FLAG_POWER, MAGIC, MAX_SOURCES, Ports, Source};
use zerocopy::{FromZeros, IntoBytes};

use crate::devices::{self, Devices, PCI, RTC};
use crate::elf::Elf;
use crate::error::{Context, Error, level_number};
use crate::hpet::Hpet;
use crate::memory::{Gift, Memory, own_slot};

/// Instances that the root task watches.
pub const MAX_INSTANCES: usize = 8;

const PAGE: u64 = 4096;
/// Chunks of heap that a server starts with.
const HEAP_CHUNKS: u64 = 2;
const STACK_PAGES: usize = (STACK_SIZE / PAGE) as usize;

/// Priorities: the root task runs at the highest of all.
const SERVER_PRIORITY: u8 = 200;

/// One server.
pub struct Instance {
    name: [u8; 32],
    tcb: Tcb,
    /// Its address space.
    pub vspace: VSpace,
    cnode: CNode,
    root_bits: u8,
    boot_pages: [Page; BOOT_INFO_PAGES],
    entry: u64,
    /// The pages of its stack, from the lowest up; for a report.
    pub stack: [Page; STACK_PAGES],
    /// It may ask for the boot file.
    pub boot_files: bool,
    info: BootInfo,
}

/// The badge of an instance's service capability; that of its fault capability is one higher.
pub fn service_badge(number: usize) -> u64 {
    number as u64 * 2 + 2
}

impl Instance {
    /// Makes everything but its memory.
    pub fn build(
        memory: &mut Memory,
        hpet: &Hpet,
        endpoint: Endpoint,
        image: &[u8],
        number: usize,
        wanted: &Wanted<'_>,
    ) -> Result<Self, Error> {
        let chunks = memory.untouched_chunks();
        let root_bits = root_bits(chunks);
        let vspace = VSpace(memory.make(ObjectType::VSpace)?);
        INIT_ASID_POOL.assign(vspace).context("an address space's number")?;
        let cnode = CNode(memory.make(ObjectType::CNode(root_bits))?);
        let tcb = Tcb(memory.make(ObjectType::Tcb)?);

        let entry = load(memory, vspace, image)?;
        let mut stack = [Page::new(0); STACK_PAGES];
        for (i, page) in stack.iter_mut().enumerate() {
            *page = Page(memory.make(ObjectType::Page)?);
            let address = STACK_GUARD + PAGE + i as u64 * PAGE;
            memory.map(*page, vspace, address, Rights::READ_WRITE, Caching::WriteBack)?;
        }
        let buffer = Page(memory.make(ObjectType::Page)?);
        memory.map(buffer, vspace, IPC_BUFFER, Rights::READ_WRITE, Caching::WriteBack)?;
        let mut boot_pages = [Page::new(0); BOOT_INFO_PAGES];
        for page in &mut boot_pages {
            *page = Page(memory.make(ObjectType::Page)?);
        }
        let registers = memory.again(hpet.page)?;
        memory.map(registers, vspace, HPET, Rights::READ_WRITE, Caching::Uncacheable)?;

        let mut instance = Instance {
            name: [0; 32],
            tcb,
            vspace,
            cnode,
            root_bits,
            boot_pages,
            entry,
            stack,
            boot_files: wanted.boot_files,
            info: BootInfo::new_zeroed(),
        };
        for (to, from) in instance.name.iter_mut().zip(wanted.name.bytes()) {
            *to = from;
        }
        instance.regions(memory, chunks)?;
        instance.leaves(memory, chunks)?;
        instance.capabilities(memory, endpoint, number)?;
        instance.devices(hpet, number, wanted)?;
        tcb.configure(&TcbConfig {
            fault_endpoint: CPtr(cspace::root_slot(cspace::FAULT)),
            cspace: cnode,
            cspace_data: CapData::guard(0, 64 - root_bits - LEAF_BITS),
            vspace,
            ipc_buffer: Some((IPC_BUFFER, buffer)),
            sched: Some(SchedParams {
                authority: INIT_TCB,
                max_controlled: SERVER_PRIORITY,
                priority: SERVER_PRIORITY,
            }),
        })
        .context("configuring a server's thread")?;
        Ok(instance)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        let len = self.name.iter().position(|byte| *byte == 0).unwrap_or(self.name.len());
        core::str::from_utf8(&self.name[..len]).unwrap_or("?")
    }

    /// Its thread.
    pub fn tcb(&self) -> Tcb {
        self.tcb
    }

    /// The heap's first pages, and the paging structures of the heap and the window.
    fn regions(&mut self, memory: &mut Memory, chunks: u64) -> Result<(), Error> {
        for region in 0..HEAP_LIMIT >> 30 {
            memory.prepare_directory(self.vspace, HEAP + (region << 30))?;
        }
        for region in 0..(chunks * CHUNK).div_ceil(1 << 30) {
            memory.prepare_directory(self.vspace, WINDOW + (region << 30))?;
        }
        for chunk in 0..HEAP_CHUNKS {
            let page = Page(memory.make(ObjectType::LargePage)?);
            memory.map(page, self.vspace, HEAP + chunk * CHUNK, Rights::READ_WRITE, Caching::WriteBack)?;
        }
        self.info.heap_chunks = HEAP_CHUNKS;
        Ok(())
    }

    /// The leaf CNodes that stand from the start.
    fn leaves(&mut self, memory: &mut Memory, chunks: u64) -> Result<(), Error> {
        let chunk_leaves = chunks.div_ceil(LEAF_SLOTS).max(1);
        let first = cspace::CHUNK_CAPS_LEAF;
        if first + chunk_leaves > cspace::HEAP_LEAF {
            return Err(Error::OutOfSlots);
        }
        for leaf in (first..first + chunk_leaves).chain([cspace::SOURCES_LEAF, cspace::HEAP_LEAF]) {
            let made = memory.make(ObjectType::CNode(LEAF_BITS))?;
            self.cnode.slot(leaf, self.root_bits).move_from(own_slot(made.0)).context("a leaf of slots")?;
        }
        Ok(())
    }

    fn place(&self, slot: u64) -> Slot {
        self.cnode.slot(slot, self.root_bits)
    }

    fn leaf_place(&self, pointer: u64) -> Slot {
        self.cnode.slot(pointer, self.root_bits + LEAF_BITS)
    }

    fn capabilities(&mut self, memory: &mut Memory, endpoint: Endpoint, number: usize) -> Result<(), Error> {
        let own = memory.endpoint()?;
        let notification = memory.make(ObjectType::Notification)?;
        self.tcb.bind_notification(sel4::Notification(notification)).context("binding a notification")?;
        for (slot, cap) in [
            (cspace::TCB, self.tcb.cptr()),
            (cspace::VSPACE, self.vspace.cptr()),
            (cspace::ENDPOINT, own.cptr()),
            (cspace::NOTIFICATION, notification),
        ] {
            self.place(slot).copy_from(own_slot(cap.0), Rights::ALL).context("a server's capability")?;
        }
        let own_root = self.leaf_place(cspace::SELF);
        own_root.copy_from(own_slot(self.cnode.cptr().0), Rights::ALL).context("a server's capability")?;
        let badge = service_badge(number);
        for (slot, badge) in [(cspace::ROOT, badge), (cspace::FAULT, badge + 1)] {
            let badged = self.place(slot).mint_from(own_slot(endpoint.cptr().0), Rights::CALL, CapData::badge(badge));
            badged.context("a server's endpoint")?;
        }
        let pool = Untyped(memory.make(ObjectType::Untyped(12))?);
        ASID_CONTROL.make_pool(pool, self.place(cspace::ASID_POOL)).context("numbers for address spaces")
    }

    fn devices(&mut self, hpet: &Hpet, number: usize, wanted: &Wanted<'_>) -> Result<(), Error> {
        let line = |slot: u64, pin: u64, vector: u64| {
            IRQ_CONTROL.get_ioapic(self.place(slot), 0, pin, false, false, vector).context("an interrupt")
        };
        let vector = number as u64 * 2;
        line(cspace::IRQ_TIMER, hpet.pin.into(), vector)?;
        let mut flags = 0;
        if let Some(link) = wanted.link {
            line(cspace::IRQ_LINK, link.irq.into(), vector + 1)?;
            self.ports(cspace::PORT_LINK, link.port, link.port + 7)?;
            flags |= FLAG_LINK;
        }
        if let Some(console) = wanted.console {
            self.ports(cspace::PORT_CONSOLE, console.port, console.port + 7)?;
            flags |= FLAG_CONSOLE;
        }
        self.ports(cspace::PORT_RTC, RTC.first as u16, RTC.last as u16)?;
        if wanted.power {
            self.ports(cspace::PORT_EXIT, 0xf4, 0xf4)?;
            self.ports(cspace::PORT_ACPI, 0x604, 0x605)?;
            flags |= FLAG_POWER;
        }
        if devices::may_use(&wanted.devices, PCI) {
            self.ports(cspace::PORT_RESET, PCI.first as u16, PCI.last as u16)?;
        } else if wanted.power {
            self.ports(cspace::PORT_RESET, 0xcf9, 0xcf9)?;
        }
        if wanted.boot_files {
            flags |= FLAG_BOOT_FILE;
        }
        self.info.flags = flags;
        self.info.log_level = level_number(wanted.log);
        Ok(())
    }

    fn ports(&self, slot: u64, first: u16, last: u16) -> Result<(), Error> {
        issue(first, last, self.place(slot))
    }

    /// Gives it so many chunks of memory.
    pub fn give_memory(&mut self, memory: &mut Memory, chunks: u64) -> Result<(), Error> {
        let mut sources = [Source::default(); MAX_SOURCES];
        let mut caps = [Untyped::new(0); MAX_SOURCES];
        let (mut count, mut left) = (0, chunks);
        while left > 0 && count < MAX_SOURCES {
            let gift = memory.gift(left)?;
            left -= (1 << gift.bits) / CHUNK;
            sources[count] = Source { address: gift.address, bits: gift.bits.into() };
            caps[count] = gift.cap;
            count += 1;
        }
        // They came largest first.
        sources[..count].reverse();
        caps[..count].reverse();
        for (i, cap) in caps[..count].iter().enumerate() {
            let to = self.leaf_place(cspace::leaf_slot(cspace::SOURCES_LEAF, i as u64));
            to.move_from(own_slot(cap.cptr().0)).context("a server's memory")?;
        }
        self.info.source = sources;
        self.info.sources = count as u64;
        self.info.chunks = chunks - left;
        Ok(())
    }

    /// Gives it the devices that its programs may drive.
    pub fn give_devices(
        &mut self,
        memory: &mut Memory,
        devices: &mut Devices<'_>,
        hpet: &Hpet,
        wanted: &Wanted<'_>,
    ) -> Result<(), Error> {
        let mut info = self.info;
        let place = |first: u64, i: usize| self.leaf_place(cspace::leaf_slot(cspace::SOURCES_LEAF, first + i as u64));
        let gift = |i: usize, gift: &Gift| {
            place(cspace::DEVICES_AT, i).move_from(own_slot(gift.cap.cptr().0)).context("device memory")
        };
        let ports = |i: usize, ports: &Ports| issue(ports.first, ports.last, place(cspace::PORTS_AT, i));
        devices.give(memory, &wanted.devices, &mut info, gift, ports)?;
        if info.timer_page != 0 {
            let to = self.leaf_place(cspace::TIMER_PAGE);
            to.copy_from(own_slot(hpet.page.cptr().0), Rights::READ).context("the timer's page")?;
        }
        self.info = info;
        Ok(())
    }

    /// Serves [`server_boot::service::INTERRUPT`].
    pub fn interrupt(&self, slot: u64, which: u64) -> u64 {
        devices::interrupt(&self.info, self.leaf_place(slot), Interrupt::decode(which))
    }

    /// Lets it see the page that boot files are read into.
    pub fn share_buffer(&self, memory: &mut Memory, buffer: Page) -> Result<(), Error> {
        let page = memory.again(buffer)?;
        memory.map(page, self.vspace, BOOT_FILE, Rights::READ, Caching::WriteBack)
    }

    /// Fills the boot pages and lets it run.
    pub fn start(&mut self, memory: &mut Memory, hpet: &Hpet) -> Result<(), Error> {
        self.info.magic = MAGIC;
        self.info.root_bits = self.root_bits.into();
        self.info.tsc = hpet.tsc;
        self.info.hpet = hpet.count;
        self.info.timer_pin = hpet.pin.into();
        self.info.name = self.name;
        let scratch = memory.own_address(PAGE);
        let parts = self.info.as_bytes().chunks(PAGE as usize);
        for ((page, bytes), number) in self.boot_pages.into_iter().zip(parts).zip(0..) {
            fill(memory, page, scratch, 0, bytes)?;
            let address = BOOT_INFO + number * PAGE;
            memory.map(page, self.vspace, address, Rights::READ, Caching::WriteBack)?;
        }
        let registers = UserContext { rip: self.entry, rsp: STACK_TOP, rdi: BOOT_INFO, ..UserContext::default() };
        self.tcb.write_registers(&registers, true).context("starting a server")
    }
}

/// Puts the capability to a range of I/O ports into a slot.
fn issue(first: u16, last: u16, to: Slot) -> Result<(), Error> {
    let control = own_slot(IO_PORT_CONTROL.cptr().0);
    IO_PORT_CONTROL.issue(control, first, last, to).context("I/O ports")
}

/// Loads a program's segments, page by page; returns its entry.
fn load(memory: &mut Memory, vspace: VSpace, image: &[u8]) -> Result<u64, Error> {
    let elf = Elf::new(image)?;
    let scratch = memory.own_address(PAGE);
    for segment in elf.segments() {
        let segment = segment?;
        let end = segment.address + segment.size;
        if end > STACK_GUARD {
            return Err(Error::Image("it reaches into the stack"));
        }
        let mut at = segment.address & !(PAGE - 1);
        while at < end {
            let page = Page(memory.make(ObjectType::Page)?);
            let skip = segment.address.saturating_sub(at) as usize;
            let from = (at + skip as u64 - segment.address) as usize;
            let bytes = segment.bytes.get(from..).unwrap_or(&[]);
            let bytes = &bytes[..bytes.len().min(PAGE as usize - skip)];
            if !bytes.is_empty() {
                fill(memory, page, scratch, skip, bytes)?;
            }
            let rights = if segment.write { Rights::READ_WRITE } else { Rights::READ };
            memory.map(page, vspace, at, rights, Caching::WriteBack)?;
            at += PAGE;
        }
    }
    Ok(elf.entry)
}

/// Writes bytes into a page that is mapped nowhere, by way of `scratch` in the root task's own space.
fn fill(memory: &mut Memory, page: Page, scratch: u64, offset: usize, bytes: &[u8]) -> Result<(), Error> {
    memory.map(page, INIT_VSPACE, scratch, Rights::READ_WRITE, Caching::WriteBack)?;
    let to = ptr::with_exposed_provenance_mut::<u8>(scratch as usize + offset);
    // SAFETY: the page is mapped there for writing, nothing else is, and the callers keep `offset` and `bytes` within it.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    page.unmap().context("unmapping a page")
}
