//! A component: a program directly on seL4, beside the instances. `component-boot` defines what it finds when it
//! starts.

use component_boot::layout::{
    CALLS_END, FACTS, IMAGE_END, IPC_BUFFER, MEMORY, STACK_GUARD, STACK_SIZE, STACK_TOP, WINDOW,
};
use component_boot::{Badge, Facts, MAGIC, cspace, service};
use description::Component as Wanted;
use sel4::bootinfo::{INIT_ASID_POOL, INIT_TCB};
use sel4::{
    CNode, CPtr, Caching, CapData, Endpoint, Fault, Message, ObjectType, Page, Received, Rights, SchedParams, Slot,
    Tcb, TcbConfig, VSpace, ipc,
};
use server_boot::layout::CHUNK;
use zerocopy::IntoBytes;

use crate::arch;
use crate::console;
use crate::error::{Context, Error};
use crate::fwcfg::{File, FwCfg};
use crate::instance::BuildResources;
use crate::make::{ObjectMaker, own_slot};
use crate::memory::Memory;
use crate::report::ReportSubject;
use crate::resource_pool::{Builder, ResourcePool};
use crate::server::{ORDINARY_PRIORITY, PAGE, load, slots_of_image};

const STACK_PAGES: usize = (STACK_SIZE / PAGE) as usize;

/// A large page into which components' program files are read before they are loaded.
#[derive(Clone, Copy)]
pub struct Loader {
    address: u64,
    physical: u64,
}

impl Loader {
    /// Allocates and maps the page.
    pub fn new(memory: &mut Memory) -> Result<Self, Error> {
        let page = Page(memory.make(ObjectType::LargePage)?);
        let address = memory.map_own(page, CHUNK, Caching::WriteBack)?;
        Ok(Loader { address, physical: page.address().context("a page's address")? })
    }

    /// Reads a file that fits into the page.
    fn read(&mut self, device: &mut FwCfg, file: File) -> Option<&[u8]> {
        device.read(file, 0, file.size, self.physical).ok()?;
        let bytes = core::ptr::with_exposed_provenance::<u8>(self.address as usize);
        // SAFETY: the page is mapped there, the file fits in it (otherwise it would not have been read), and nothing
        // writes to it before the next call, which borrows this loader exclusively.
        Some(unsafe { core::slice::from_raw_parts(bytes, file.size as usize) })
    }
}

/// See the module's description.
pub struct Component {
    /// Its entry in the system description.
    pub wanted: Wanted<'static>,
    number: usize,
    resource_pool: ResourcePool,
    file: File,
    life: u64,
    /// Its thread, in the current or last life.
    pub tcb: Tcb,
    /// Its endpoint, while it runs.
    endpoint: Option<Endpoint>,
    vspace: VSpace,
    cnode: CNode,
    /// Its state as a client of an instance.
    client: Client,
    /// The instructions that may fault on an unmapped page in the window, and the address at which the component then
    /// continues.
    catches: (u64, u64),
    stack: [Page; STACK_PAGES],
}

/// A component's state as a client.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Client {
    /// Not a client.
    Stranger,
    /// It has asked to become a client, and waits for the answer.
    Waiting,
    /// The instance's server has its capabilities.
    Known,
}

/// The badge of a component's service capability; the badge of its fault capability is one higher. The badges of
/// instances are smaller.
pub fn service_badge(number: usize) -> u64 {
    number as u64 * 2 + 0x100
}

/// The component that a badge identifies, and whether the badge is the one for faults.
pub fn of_badge(badge: u64) -> Option<(usize, bool)> {
    let number = badge.checked_sub(service_badge(0))?;
    Some(((number / 2) as usize, number % 2 != 0))
}

impl Component {
    /// Builds the component and starts it for the first time.
    pub fn build(resources: &mut BuildResources<'_>, number: usize, wanted: Wanted<'static>) -> Result<Self, Error> {
        /// Slots for everything except the pages of its image.
        const OTHERS: u64 = 96;
        let device = resources.fwcfg.as_mut().ok_or(Error::NoProgram(wanted.name))?;
        let file = device.program(wanted.name).ok_or(Error::NoProgram(wanted.name))?;
        let mut loader = match resources.loader {
            Some(loader) => loader,
            None => *resources.loader.insert(Loader::new(&mut resources.memory)?),
        };
        let image = loader.read(device, file).ok_or(Error::NoProgram(wanted.name))?;
        let pages = wanted.memory / CHUNK + wanted.memory % CHUNK / PAGE;
        let slots = slots_of_image(image)? + STACK_PAGES as u64 + pages + OTHERS;
        let resource_pool = ResourcePool::new(&mut resources.memory, slots)?;
        let nothing = Tcb::new(0);
        let stack = [Page::new(0); STACK_PAGES];
        let mut component = Component {
            wanted,
            number,
            resource_pool,
            file,
            life: 0,
            tcb: nothing,
            endpoint: None,
            vspace: VSpace::new(0),
            cnode: CNode::new(0),
            client: Client::Stranger,
            catches: (0, 0),
            stack,
        };
        component.revive(resources)?;
        component.resource_pool.tell(wanted.name);
        Ok(component)
    }

    /// Builds the component again and starts it.
    pub fn revive(&mut self, resources: &mut BuildResources<'_>) -> Result<(), Error> {
        let name = self.wanted.name;
        let (device, loader) = resources.fwcfg.as_mut().zip(resources.loader.as_mut()).ok_or(Error::NoProgram(name))?;
        let image = loader.read(device, self.file).ok_or(Error::NoProgram(name))?;
        let mut builder = Builder { memory: &mut resources.memory, resource_pool: &mut self.resource_pool };
        let builder = &mut builder;
        let vspace = VSpace(builder.make(ObjectType::VSpace)?);
        INIT_ASID_POOL.assign(vspace).context("an address space's number")?;
        let cnode = CNode(builder.make(ObjectType::CNode(cspace::BITS))?);
        let tcb = Tcb(builder.make(ObjectType::Tcb)?);
        let endpoint = builder.endpoint()?;
        let entry = load(builder, vspace, image, IMAGE_END)?;

        let mut new_page = |address: u64, object: ObjectType, rights: Rights| {
            let page = Page(builder.make(object)?);
            builder.map(page, vspace, address, rights, Caching::WriteBack.not_executed())?;
            Ok(page)
        };
        for (page, number) in self.stack.iter_mut().zip(0..) {
            *page = new_page(STACK_GUARD + PAGE + number * PAGE, ObjectType::Page, Rights::READ_WRITE)?;
        }
        let ipc_buffer = new_page(IPC_BUFFER, ObjectType::Page, Rights::READ_WRITE)?;
        let (mut at, end) = (MEMORY, MEMORY + self.wanted.memory);
        while at < end {
            let (object, size) =
                if end - at >= CHUNK { (ObjectType::LargePage, CHUNK) } else { (ObjectType::Page, PAGE) };
            new_page(at, object, Rights::READ_WRITE)?;
            at += size;
        }
        self.life += 1;
        let facts =
            Facts { magic: MAGIC, memory: self.wanted.memory, megahertz: console::megahertz(), life: self.life };
        let page = Page(builder.make(ObjectType::Page)?);
        builder.memory.fill(page, 0, facts.as_bytes())?;
        builder.map(page, vspace, FACTS, Rights::READ, Caching::WriteBack.not_executed())?;

        let place = |slot: u64| cnode.slot(slot, cspace::BITS);
        let root = own_slot(resources.endpoint.cptr().0);
        let badge = service_badge(self.number);
        for (slot, badge) in [(cspace::ROOT, badge), (cspace::FAULT, badge + 1)] {
            let badged = place(slot).mint_from(root, Rights::CALL, CapData::badge(badge));
            badged.context("a component's endpoint")?;
        }
        let own = place(cspace::ENDPOINT).copy_from(own_slot(endpoint.cptr().0), Rights::READ);
        own.context("a component's endpoint")?;
        tcb.configure(&TcbConfig {
            fault_endpoint: CPtr(cspace::FAULT),
            cspace: cnode,
            cspace_data: CapData::guard(0, 64 - cspace::BITS),
            vspace,
            ipc_buffer: Some((IPC_BUFFER, ipc_buffer)),
            sched: Some(SchedParams { authority: INIT_TCB, max_controlled: 0, priority: ORDINARY_PRIORITY }),
        })
        .context("configuring a component's thread")?;
        (self.tcb, self.vspace, self.cnode) = (tcb, vspace, cnode);
        self.endpoint = Some(endpoint);
        let registers = arch::without_bases(arch::at_start(entry, STACK_TOP, 0));
        tcb.write_registers(&registers, true).context("starting a component")
    }

    /// Takes back everything that it held; see [`crate::resource_pool`].
    pub fn reclaim(&mut self) -> Result<(), Error> {
        self.endpoint = None;
        (self.client, self.catches) = (Client::Stranger, (0, 0));
        self.resource_pool.reclaim()
    }

    /// What a report of its end needs.
    pub fn who(&self) -> ReportSubject<'_> {
        ReportSubject { kind: "component", name: self.wanted.name, tcb: self.tcb, stack: &self.stack, record: None }
    }

    /// Whether it offers an endpoint to an instance.
    pub fn is_known_to(&self, instance: usize) -> bool {
        self.wanted.offers_to >> instance & 1 != 0
    }

    /// The number of its offer to an instance under a name, and the life in which it makes that offer; no life while it
    /// is not running.
    pub fn find(&self, name: &str, instance: usize) -> Option<(usize, Option<u64>)> {
        let offer = self.wanted.offer(name, instance)?;
        Some((offer, self.endpoint.map(|_| self.life)))
    }

    /// Mints a capability to its endpoint, with a badge that tells whom it is for, into a slot. Returns whether there
    /// is such an endpoint.
    pub fn mint(&self, life: u64, badge: Badge, rights: Rights, to: Slot) -> Result<bool, Error> {
        let offered = self.wanted.offers.get(usize::from(badge.offer)).copied().flatten();
        let offered = offered.and_then(|name| self.wanted.offer(name, badge.instance.into()));
        let Some(endpoint) = self.endpoint.filter(|_| offered.is_some() && self.life == life) else { return Ok(false) };
        let from = own_slot(endpoint.cptr().0);
        to.mint_from(from, rights, CapData::badge(badge.encode())).context("a capability to a component")?;
        Ok(true)
    }

    /// It asks to become a client. Returns the number of the instance, which will answer.
    pub fn connect(&mut self, received: &Received) -> Option<usize> {
        let instance = self.wanted.client_of?;
        self.catches = (received.mr[0], received.mr[1]);
        self.client = Client::Waiting;
        Some(instance.into())
    }

    /// Whether it waits for the answer of an instance.
    pub fn waits_for(&self, instance: usize) -> bool {
        self.client == Client::Waiting && self.wanted.client_of.is_some_and(|of| usize::from(of) == instance)
    }

    /// Gives copies of its thread, its address space and its capability space to an instance for which it waits;
    /// returns whether that succeeded. If it failed, the component has been notified.
    pub fn join(&mut self, to: [Slot; 3]) -> bool {
        let caps = [self.tcb.cptr(), self.vspace.cptr(), self.cnode.cptr()];
        let copied = to.iter().zip(caps).try_for_each(|(to, cap)| to.copy_from(own_slot(cap.0), Rights::ALL));
        if copied.is_err() {
            self.refuse(service::NO_MEMORY);
            return false;
        }
        self.client = Client::Known;
        true
    }

    /// Answers that it does not become a client.
    pub fn refuse(&mut self, status: u64) {
        self.client = Client::Stranger;
        self.tcb.answer(Message::empty(status));
    }

    /// The server of the instance whose client it is or wants to be has ended. A component that waits for an answer
    /// repeats its request. The mappings in the window are gone.
    pub fn server_gone(&mut self) -> Result<(), Error> {
        if self.client == Client::Stranger {
            return Ok(());
        }
        self.client = Client::Stranger;
        self.tcb.suspend().and_then(|()| self.tcb.resume()).context("having a component ask again")
    }

    /// Handles a fault of the component. Code that copies to or from the window may meet an unmapped page; it then
    /// continues behind the copy. Returns whether this was such a fault.
    pub fn catches(&self, received: &Received) -> bool {
        let Fault::Page { ip, address, .. } = Fault::decode(received) else { return false };
        let (from, to) = self.catches;
        if !(from..to).contains(&ip) || !(WINDOW..CALLS_END).contains(&address) {
            return false;
        }
        let set = self
            .tcb
            .read_registers(false)
            .and_then(|registers| self.tcb.write_registers(&arch::with_ip(registers, to), true));
        set.is_ok()
    }

    /// Serves a request; returns the status. The message is read first.
    pub fn serve(&self, received: &Received) -> u64 {
        match received.info.label() {
            service::LOG => {
                let mut text = [0; LINE];
                let words = received.info.length().saturating_sub(1);
                for (index, bytes) in (1..=words).zip(text.as_chunks_mut().0) {
                    let word = received.mr.get(index).copied().unwrap_or_else(|| ipc::message_word(index));
                    *bytes = word.to_le_bytes();
                }
                let len = received.mr[0].min(LINE as u64).min(words as u64 * 8) as usize;
                console::says(self.wanted.name, &text[..len]);
                service::OK
            }
            _ => service::BAD_REQUEST,
        }
    }
}

/// Maximum length of a line, in bytes; longer lines are truncated.
const LINE: usize = 240;
