//! Builds a server from an instance's resource pool; [`server_boot`] defines what the server finds when it starts.

use description::Instance as Wanted;
use sel4::bootinfo::{ASID_CONTROL, DOMAIN, INIT_ASID_POOL, INIT_TCB, IRQ_CONTROL};
use sel4::{
    Attributes, CNode, CPtr, Caching, CapData, Endpoint, Notification, ObjectType, Page, Rights, SchedParams, Slot,
    Tcb, TcbConfig, Untyped, VSpace,
};
use server_boot::cspace::{self, LEAF_BITS, LEAF_SLOTS, root_bits};
use server_boot::layout::{
    BOOT_FILE, BOOT_INFO, BOOT_INFO_PAGES, CHUNK, HEAP, HEAP_LIMIT, HPET, IPC_BUFFER, RECORD, STACK_GUARD, STACK_SIZE,
    STACK_TOP, WINDOW,
};
use server_boot::{BootInfo, COMPONENT_EVENTS_BADGE, FLAG_POWER};
use zerocopy::IntoBytes;

use crate::arch::{self, ports};
use crate::devices::{self, PCI, RTC};
use crate::elf::Elf;
use crate::error::{Context, Error};
use crate::hpet::Hpet;
use crate::make::{ObjectMaker, own_slot};
use crate::resource_pool::{Builder, SourcePool};

pub const PAGE: u64 = 4096;
/// Chunks of heap that are mapped when a server starts.
pub const HEAP_CHUNKS: u64 = 2;
const STACK_PAGES: usize = (STACK_SIZE / PAGE) as usize;

/// The server's priority once its first program runs: below the root task, above programs.
const SERVER_PRIORITY: u8 = 200;
/// The default priority of programs, and of all work that starts or ends an instance, so that other instances share the
/// processor with that work.
///
/// It is the priority of programs whose job holds the turn (`server/src/machine/sys.rs`): with a lower one, a single
/// busy program would block this work.
pub const ORDINARY_PRIORITY: u8 = 117;

/// A server, for one life.
pub struct Server {
    /// Its thread.
    pub tcb: Tcb,
    vspace: VSpace,
    cnode: CNode,
    root_bits: u8,
    boot_pages: [Page; BOOT_INFO_PAGES],
    entry: u64,
    /// The pages of its stack, from the lowest up; for a report.
    pub stack: [Page; STACK_PAGES],
    /// The page in which it records its calls; for a report.
    pub record: Page,
    /// Its notification, with which the root task signals events.
    pub component_events: Notification,
    /// Physical address of the large page for its boot file.
    pub buffer: Option<u64>,
}

/// The parameters of a server.
pub struct Plan<'a> {
    /// Its instance.
    pub wanted: &'a Wanted<'a>,
    /// The instance's number.
    pub number: usize,
    /// The program file.
    pub image: &'a [u8],
    /// Maximum number of chunks that it can have.
    pub chunks: u64,
    /// The timer. The server gets the comparator with its instance's number.
    pub hpet: &'a Hpet,
    /// The endpoint for its requests, with [`Plan::badge`], and for its faults, with the next badge.
    pub endpoint: Endpoint,
    /// See above.
    pub badge: u64,
    /// Whether it has a boot file.
    pub boot_file: bool,
    /// Number of ASID pools.
    pub asid_pools: u64,
}

/// Maximum number of slots that building a server takes.
pub fn slots(image: &[u8], chunks: u64) -> Result<u64, Error> {
    const OTHERS: u64 = 128;
    let pages = slots_of_image(image)?;
    Ok(pages + STACK_PAGES as u64 + chunks.div_ceil(LEAF_SLOTS) + (chunks * CHUNK).div_ceil(1 << 30) + OTHERS)
}

impl Server {
    /// Makes everything except its memory and the contents of its boot pages.
    pub fn build(builder: &mut Builder<'_>, plan: &Plan<'_>) -> Result<Self, Error> {
        let root_bits = root_bits(plan.chunks);
        let vspace = VSpace(builder.make(ObjectType::VSpace)?);
        INIT_ASID_POOL.assign(vspace).context("an address space's number")?;
        let cnode = CNode(builder.make(ObjectType::CNode(root_bits))?);
        let tcb = Tcb(builder.make(ObjectType::Tcb)?);

        let entry = load(builder, vspace, plan.image, STACK_GUARD)?;
        let mut new_page = |address: u64| {
            let page = Page(builder.make(ObjectType::Page)?);
            builder.map(page, vspace, address, Rights::READ_WRITE, Caching::WriteBack.not_executed())?;
            Ok(page)
        };
        let mut stack = [Page::new(0); STACK_PAGES];
        for (page, number) in stack.iter_mut().zip(0..) {
            *page = new_page(STACK_GUARD + PAGE + number * PAGE)?;
        }
        let ipc_buffer = new_page(IPC_BUFFER)?;
        let record = new_page(RECORD)?;
        let mut boot_pages = [Page::new(0); BOOT_INFO_PAGES];
        for page in &mut boot_pages {
            *page = Page(builder.make(ObjectType::Page)?);
        }
        let registers = builder.again(plan.hpet.page)?;
        builder.map(registers, vspace, HPET, Rights::READ_WRITE, Caching::Uncacheable.not_executed())?;
        let mut buffer = None;
        if plan.boot_file {
            let page = Page(builder.make(ObjectType::LargePage)?);
            builder.map(page, vspace, BOOT_FILE, Rights::READ, Caching::WriteBack.not_executed())?;
            buffer = Some(page.address().context("a page's address")?);
        }

        let notification = Notification(builder.make(ObjectType::Notification)?);
        let component_events = Notification::new(builder.slot()?);
        let badged = own_slot(component_events.cptr().0).mint_from(
            own_slot(notification.cptr().0),
            Rights::WRITE,
            CapData::badge(COMPONENT_EVENTS_BADGE),
        );
        badged.context("a server's notification")?;
        let server =
            Server { tcb, vspace, cnode, root_bits, boot_pages, entry, stack, record, component_events, buffer };
        server.regions(builder, plan.chunks)?;
        server.leaves(builder, plan.chunks)?;
        server.capabilities(builder, plan, notification)?;
        server.devices(plan)?;
        tcb.configure(&TcbConfig {
            fault_endpoint: CPtr(cspace::root_slot(cspace::FAULT)),
            cspace: cnode,
            cspace_data: CapData::guard(0, 64 - root_bits - LEAF_BITS),
            vspace,
            ipc_buffer: Some((IPC_BUFFER, ipc_buffer)),
            sched: Some(SchedParams {
                authority: INIT_TCB,
                max_controlled: SERVER_PRIORITY,
                priority: ORDINARY_PRIORITY,
            }),
        })
        .context("configuring a server's thread")?;
        Ok(server)
    }

    /// Maps the heap's first pages, and the paging structures of the heap and the window.
    fn regions(&self, builder: &mut Builder<'_>, chunks: u64) -> Result<(), Error> {
        for region in 0..HEAP_LIMIT >> 30 {
            builder.prepare_directory(self.vspace, HEAP + (region << 30))?;
        }
        for region in 0..(chunks * CHUNK).div_ceil(1 << 30) {
            builder.prepare_directory(self.vspace, WINDOW + (region << 30))?;
        }
        for chunk in 0..HEAP_CHUNKS {
            let page = Page(builder.make(ObjectType::LargePage)?);
            builder.map(
                page,
                self.vspace,
                HEAP + chunk * CHUNK,
                Rights::READ_WRITE,
                Caching::WriteBack.not_executed(),
            )?;
        }
        Ok(())
    }

    /// Makes the leaf CNodes that exist from the start.
    fn leaves(&self, builder: &mut Builder<'_>, chunks: u64) -> Result<(), Error> {
        let chunk_leaves = chunks.div_ceil(LEAF_SLOTS).max(1);
        let first = cspace::CHUNK_CAPS_LEAF;
        if first + chunk_leaves > cspace::HEAP_LEAF {
            return Err(Error::OutOfSlots);
        }
        for leaf in (first..first + chunk_leaves).chain([cspace::SOURCES_LEAF, cspace::HEAP_LEAF]) {
            let made = builder.make(ObjectType::CNode(LEAF_BITS))?;
            self.place(leaf).move_from(own_slot(made.0)).context("a leaf of slots")?;
        }
        Ok(())
    }

    fn place(&self, slot: u64) -> Slot {
        self.cnode.slot(slot, self.root_bits)
    }

    /// The path to a slot that one of the server's pointers names.
    pub fn leaf_place(&self, pointer: u64) -> Slot {
        self.cnode.slot(pointer, self.root_bits + LEAF_BITS)
    }

    fn capabilities(
        &self,
        builder: &mut Builder<'_>,
        plan: &Plan<'_>,
        notification: Notification,
    ) -> Result<(), Error> {
        let own = builder.endpoint()?;
        self.tcb.bind_notification(notification).context("binding a notification")?;
        for (slot, cap) in [
            (cspace::TCB, self.tcb.cptr()),
            (cspace::VSPACE, self.vspace.cptr()),
            (cspace::ENDPOINT, own.cptr()),
            (cspace::NOTIFICATION, notification.cptr()),
        ] {
            self.place(slot).copy_from(own_slot(cap.0), Rights::ALL).context("a server's capability")?;
        }
        let own_root = self.leaf_place(cspace::SELF);
        own_root.copy_from(own_slot(self.cnode.cptr().0), Rights::ALL).context("a server's capability")?;
        let root = own_slot(plan.endpoint.cptr().0);
        for (slot, badge) in [(cspace::ROOT, plan.badge), (cspace::FAULT, plan.badge + 1)] {
            let badged = self.place(slot).mint_from(root, Rights::CALL, CapData::badge(badge));
            badged.context("a server's endpoint")?;
        }
        (0..plan.asid_pools).try_for_each(|number| {
            let pool = Untyped(builder.make(ObjectType::Untyped(12))?);
            let made = ASID_CONTROL.make_pool(pool, self.leaf_place(cspace::asid_pool(number)));
            made.context("numbers for address spaces")
        })
    }

    /// Gives the server the devices that it drives itself.
    fn devices(&self, plan: &Plan<'_>) -> Result<(), Error> {
        let wanted = plan.wanted;
        let vector = plan.number as u64 * 2;
        let line = |slot: u64, pin: u8, vector: u64| {
            IRQ_CONTROL.get_ioapic(self.place(slot), 0, pin.into(), false, false, vector).context("an interrupt")
        };
        line(cspace::IRQ_TIMER, plan.hpet.pin(plan.number)?, vector)?;
        if let Some(link) = wanted.link {
            line(cspace::IRQ_LINK, link.irq, vector + 1)?;
            self.ports(cspace::PORT_LINK, link.port, link.port + 7)?;
        }
        if let Some(console) = wanted.console {
            self.ports(cspace::PORT_CONSOLE, console.port, console.port + 7)?;
        }
        self.ports(cspace::PORT_RTC, RTC.first as u16, RTC.last as u16)?;
        if wanted.power {
            self.ports(cspace::PORT_EXIT, 0xf4, 0xf4)?;
            self.ports(cspace::PORT_ACPI, 0x604, 0x605)?;
        }
        if devices::may_use(&wanted.devices, PCI) {
            self.ports(cspace::PORT_RESET, PCI.first as u16, PCI.last as u16)?;
        } else if wanted.power {
            self.ports(cspace::PORT_RESET, 0xcf9, 0xcf9)?;
        }
        Ok(())
    }

    fn ports(&self, slot: u64, first: u16, last: u16) -> Result<(), Error> {
        ports::issue(first, last, self.place(slot))
    }

    /// Gives the server its memory, and the devices that its programs may drive.
    pub fn give_sources(&self, source_pool: &SourcePool, info: &BootInfo, hpet: &Hpet) -> Result<(), Error> {
        let place = |first: u64| move |i: u64| self.leaf_place(cspace::leaf_slot(cspace::SOURCES_LEAF, first + i));
        source_pool.give_memory(place(0))?;
        source_pool.give_devices(place(cspace::DEVICES_AT))?;
        for (range, i) in info.port.iter().take(info.ports as usize).zip(0..) {
            ports::issue(range.first, range.last, place(cspace::PORTS_AT)(i))?;
        }
        if info.timer_page != 0 {
            let to = self.leaf_place(cspace::TIMER_PAGE);
            to.copy_from(own_slot(hpet.page.cptr().0), Rights::READ).context("the timer's page")?;
        }
        Ok(())
    }

    /// Raises the server's priority above its programs. Called when the first program runs.
    pub fn raise_priority(&self) -> Result<(), Error> {
        self.tcb.set_priority(INIT_TCB, SERVER_PRIORITY).context("a server's priority")
    }

    /// Fills the boot pages and starts the server.
    pub fn start(&self, builder: &mut Builder<'_>, info: &mut BootInfo) -> Result<(), Error> {
        info.root_bits = self.root_bits.into();
        let parts = info.as_bytes().chunks(PAGE as usize);
        for ((page, bytes), number) in self.boot_pages.into_iter().zip(parts).zip(0..) {
            builder.memory.fill(page, 0, bytes)?;
            let address = BOOT_INFO + number * PAGE;
            builder.map(page, self.vspace, address, Rights::READ, Caching::WriteBack.not_executed())?;
        }
        let registers = arch::without_bases(arch::at_start(self.entry, STACK_TOP, BOOT_INFO));
        self.tcb.without_fpu(DOMAIN).context("a server without FPU")?;
        self.tcb.write_registers(&registers, true).context("starting a server")
    }
}

/// The flags of the boot pages that follow from its description.
pub fn flags(wanted: &Wanted<'_>) -> u64 {
    if wanted.power { FLAG_POWER } else { 0 }
}

/// Maximum number of slots for a program's segments.
pub fn slots_of_image(image: &[u8]) -> Result<u64, Error> {
    let mut pages = 0;
    for segment in Elf::new(image)?.segments() {
        pages += segment?.size / PAGE + 2;
    }
    Ok(pages)
}

/// Loads a program's segments, page by page, below its stack at `limit`; returns the entry address.
pub fn load(builder: &mut Builder<'_>, vspace: VSpace, image: &[u8], limit: u64) -> Result<u64, Error> {
    let elf = Elf::new(image)?;
    for segment in elf.segments() {
        let segment = segment?;
        let end = segment.address + segment.size;
        if end > limit {
            return Err(Error::Image("it reaches into the stack"));
        }
        let mut at = segment.address & !(PAGE - 1);
        while at < end {
            let page = Page(builder.make(ObjectType::Page)?);
            let skip = segment.address.saturating_sub(at) as usize;
            let from = (at + skip as u64 - segment.address) as usize;
            let bytes = segment.bytes.get(from..).unwrap_or(&[]);
            let bytes = &bytes[..bytes.len().min(PAGE as usize - skip)];
            if !bytes.is_empty() {
                builder.memory.fill(page, skip, bytes)?;
            }
            let rights = if segment.write { Rights::READ_WRITE } else { Rights::READ };
            let attributes = Attributes { caching: Caching::WriteBack, execute: segment.execute };
            builder.map(page, vspace, at, rights, attributes)?;
            at += PAGE;
        }
    }
    Ok(elf.entry)
}
