//! A component: a program for the bare kernel beside the instances. `component-boot` says what it finds when it starts.

use component_boot::layout::{
    CALLS_END, FACTS, IMAGE_END, IPC_BUFFER, MEMORY, STACK_GUARD, STACK_SIZE, STACK_TOP, WINDOW,
};
use component_boot::{Badge, Facts, MAGIC, cspace, service};
use description::Component as Wanted;
use sel4::bootinfo::{INIT_ASID_POOL, INIT_TCB};
use sel4::{
    CNode, CPtr, Caching, CapData, Endpoint, Fault, Message, NO_BASES, ObjectType, Page, Received, Rights, SchedParams,
    Slot, Tcb, TcbConfig, UserContext, VSpace, ipc,
};
use server_boot::layout::CHUNK;
use zerocopy::IntoBytes;

use crate::console;
use crate::error::{Context, Error};
use crate::estate::{Builder, Estate};
use crate::fwcfg::{File, FwCfg};
use crate::instance::Means;
use crate::make::{Make, own_slot};
use crate::memory::Memory;
use crate::report::Who;
use crate::server::{ORDINARY_PRIORITY, PAGE, load, slots_of_image};

const STACK_PAGES: usize = (STACK_SIZE / PAGE) as usize;

/// A large page in which programs of components are read before they are loaded.
#[derive(Clone, Copy)]
pub struct Loader {
    address: u64,
    physical: u64,
}

impl Loader {
    /// Takes the page.
    pub fn new(memory: &mut Memory) -> Result<Self, Error> {
        let page = Page(memory.make(ObjectType::LargePage)?);
        let address = memory.map_own(page, CHUNK, Caching::WriteBack)?;
        Ok(Loader { address, physical: page.address().context("a page's address")? })
    }

    /// Reads a file, which fits in the page.
    fn read(&mut self, device: &mut FwCfg, file: File) -> Option<&[u8]> {
        device.read(file, 0, file.size, self.physical).ok()?;
        let bytes = core::ptr::with_exposed_provenance::<u8>(self.address as usize);
        // SAFETY: the page is mapped there, the file fits in it (or it would not have been read), and nothing writes to it
        // before the next call, which takes this loader for itself.
        Some(unsafe { core::slice::from_raw_parts(bytes, file.size as usize) })
    }
}

/// See the module's description.
pub struct Component {
    /// What the description says.
    pub wanted: Wanted<'static>,
    number: usize,
    estate: Estate,
    file: File,
    life: u64,
    /// Its thread, in its present life or its last.
    pub tcb: Tcb,
    /// Its endpoint, while it lives.
    endpoint: Option<Endpoint>,
    vspace: VSpace,
    cnode: CNode,
    /// What it is to the instance that it may be a client of.
    client: Client,
    /// The instructions at which it may meet a page that is not there in the window, and where it goes on then.
    catches: (u64, u64),
    stack: [Page; STACK_PAGES],
}

/// What a component is to an instance.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Client {
    /// Nothing, yet.
    Stranger,
    /// It has asked to be a client, and waits for the answer.
    Waiting,
    /// The instance's server has its capabilities.
    Known,
}

/// The badge of a component's capability for requests; that of its fault capability is one higher. Those of instances are
/// smaller.
pub fn service_badge(number: usize) -> u64 {
    number as u64 * 2 + 0x100
}

/// The component of a badge, and whether it is that for faults.
pub fn of_badge(badge: u64) -> Option<(usize, bool)> {
    let number = badge.checked_sub(service_badge(0))?;
    Some(((number / 2) as usize, number % 2 != 0))
}

impl Component {
    /// Builds it and lets it run for the first time.
    pub fn build(means: &mut Means<'_>, number: usize, wanted: Wanted<'static>) -> Result<Self, Error> {
        /// For what else a component is made of.
        const OTHERS: u64 = 96;
        let device = means.fwcfg.as_mut().ok_or(Error::NoProgram(wanted.name))?;
        let file = device.program(wanted.name).ok_or(Error::NoProgram(wanted.name))?;
        let mut loader = match means.loader {
            Some(loader) => loader,
            None => *means.loader.insert(Loader::new(&mut means.memory)?),
        };
        let image = loader.read(device, file).ok_or(Error::NoProgram(wanted.name))?;
        let pages = wanted.memory / CHUNK + wanted.memory % CHUNK / PAGE;
        let slots = slots_of_image(image)? + STACK_PAGES as u64 + pages + OTHERS;
        let estate = Estate::new(&mut means.memory, slots)?;
        let nothing = Tcb::new(0);
        let stack = [Page::new(0); STACK_PAGES];
        let mut component = Component {
            wanted,
            number,
            estate,
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
        component.revive(means)?;
        component.estate.tell(wanted.name);
        Ok(component)
    }

    /// Builds it again and lets it run.
    pub fn revive(&mut self, means: &mut Means<'_>) -> Result<(), Error> {
        let name = self.wanted.name;
        let (device, loader) = means.fwcfg.as_mut().zip(means.loader.as_mut()).ok_or(Error::NoProgram(name))?;
        let image = loader.read(device, self.file).ok_or(Error::NoProgram(name))?;
        let mut builder = Builder { memory: &mut means.memory, estate: &mut self.estate };
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
        let root = own_slot(means.endpoint.cptr().0);
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
        let registers = UserContext { rip: entry, rsp: STACK_TOP, fs_base: NO_BASES, ..UserContext::default() };
        tcb.write_registers(&registers, true).context("starting a component")
    }

    /// Takes back everything that it held: see [`crate::estate`].
    pub fn reclaim(&mut self) -> Result<(), Error> {
        self.endpoint = None;
        (self.client, self.catches) = (Client::Stranger, (0, 0));
        self.estate.reclaim()
    }

    /// Of whom a report of its end is.
    pub fn who(&self) -> Who<'_> {
        Who { kind: "component", name: self.wanted.name, tcb: self.tcb, stack: &self.stack, record: None }
    }

    /// Whether an instance may know of it.
    pub fn is_known_to(&self, instance: usize) -> bool {
        self.wanted.offers_to >> instance & 1 != 0
    }

    /// The number of what it offers to an instance under a name, and the life that it offers it in; none in which it is away.
    pub fn find(&self, name: &str, instance: usize) -> Option<(usize, Option<u64>)> {
        let offer = self.wanted.offer(name, instance)?;
        Some((offer, self.endpoint.map(|_| self.life)))
    }

    /// Puts a capability to its endpoint, marked with who it is for, into a slot; says whether there is such an endpoint.
    pub fn mint(&self, life: u64, badge: Badge, rights: Rights, to: Slot) -> Result<bool, Error> {
        let offered = self.wanted.offers.get(usize::from(badge.offer)).copied().flatten();
        let offered = offered.and_then(|name| self.wanted.offer(name, badge.instance.into()));
        let Some(endpoint) = self.endpoint.filter(|_| offered.is_some() && self.life == life) else { return Ok(false) };
        let from = own_slot(endpoint.cptr().0);
        to.mint_from(from, rights, CapData::badge(badge.encode())).context("a capability to a component")?;
        Ok(true)
    }

    /// It asks to become a client: the number of the instance, which will answer.
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

    /// Gives an instance that it waits for its thread, its address space and its capability space; says whether that is done. If it
    /// cannot be, it has been told.
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

    /// Tells it that it does not become a client.
    pub fn refuse(&mut self, status: u64) {
        self.client = Client::Stranger;
        self.tcb.answer(Message::empty(status));
    }

    /// The server of the instance that it is a client of, or would be, has ended: what it waits for, it asks for again. What was mapped in
    /// the window is gone.
    pub fn server_is_away(&mut self) -> Result<(), Error> {
        if self.client == Client::Stranger {
            return Ok(());
        }
        self.client = Client::Stranger;
        self.tcb.suspend().and_then(|()| self.tcb.resume()).context("having a component ask again")
    }

    /// A fault of its own. Where it copies to or from the window it may meet a page that is not there: it goes on behind that.
    pub fn catches(&self, received: &Received) -> bool {
        let Fault::Page { ip, address, .. } = Fault::decode(received) else { return false };
        let (from, to) = self.catches;
        if !(from..to).contains(&ip) || !(WINDOW..CALLS_END).contains(&address) {
            return false;
        }
        let set = self
            .tcb
            .read_registers(false)
            .and_then(|registers| self.tcb.write_registers(&UserContext { rip: to, ..registers }, true));
        set.is_ok()
    }

    /// Serves a request; gives the status. What the message holds is read first.
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

/// Bytes of a line; what is longer is cut.
const LINE: usize = 240;
