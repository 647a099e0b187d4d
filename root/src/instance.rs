//! An instance: its description, what it holds, and the server of its current life.

use description::{Instance as Wanted, Memory as Share};
use sel4::{Endpoint, Received};
use server_boot::layout::CHUNK;
use server_boot::service::{self, Interrupt};
use server_boot::{BootInfo, MAGIC};
use zerocopy::FromZeros;

use crate::component::Loader;
use crate::console;
use crate::devices::{self, Devices};
use crate::error::{Error, level_number};
use crate::fwcfg::{File, FwCfg};
use crate::hpet::Hpet;
use crate::memory::Memory;
use crate::report::ReportSubject;
use crate::resource_pool::{Builder, ResourcePool, SourcePool};
use crate::server::{self, HEAP_CHUNKS, Plan, Server};

/// Maximum number of instances.
pub const MAX_INSTANCES: usize = description::INSTANCES;

/// Resources of the root task that building an instance needs.
pub struct BuildResources<'a> {
    /// The root task's memory.
    pub memory: Memory,
    /// The timer.
    pub hpet: Hpet,
    /// The endpoint that receives all requests and faults.
    pub endpoint: Endpoint,
    /// The device with the boot files.
    pub fwcfg: Option<FwCfg>,
    /// The server's program file.
    pub image: &'a [u8],
    /// ASID pools for each instance.
    pub asid_pools: u64,
    /// The page into which components' programs are read, if there are components.
    pub loader: Option<Loader>,
}

/// See the module's description.
pub struct Instance {
    /// Its entry in the system description.
    pub wanted: Wanted<'static>,
    number: usize,
    resource_pool: ResourcePool,
    source_pool: SourcePool,
    info: BootInfo,
    /// Maximum number of chunks that it could have got.
    chunks: u64,
    file: Option<File>,
    /// Events of components that its server has not fetched yet: components that have ended, and that wait to become
    /// clients.
    component_events: u64,
    /// It has no further life.
    pub gone: bool,
    /// The server of its current life, or of the last one.
    pub server: Server,
}

/// The badge of an instance's service capability; the badge of its fault capability is one higher.
pub fn service_badge(number: usize) -> u64 {
    number as u64 * 2 + 2
}

impl Instance {
    /// Builds the server for the first life.
    pub fn build(resources: &mut BuildResources<'_>, number: usize, wanted: Wanted<'static>) -> Result<Self, Error> {
        let chunks = resources.memory.untouched_chunks();
        let mut resource_pool = ResourcePool::new(&mut resources.memory, server::slots(resources.image, chunks)?)?;
        let file =
            resources.fwcfg.as_ref().filter(|_| wanted.boot_files).and_then(|device| device.boot_file(wanted.name));
        let server = life(resources, &mut resource_pool, number, &wanted, chunks, file.is_some())?;
        let mut info = BootInfo::new_zeroed();
        for (to, from) in info.name.iter_mut().zip(wanted.name.bytes().take(description::NAME)) {
            *to = from;
        }
        info.magic = MAGIC;
        info.heap_chunks = HEAP_CHUNKS;
        info.tsc = resources.hpet.tsc;
        info.hpet = resources.hpet.count;
        info.comparator = number as u64;
        info.timer_pin = resources.hpet.pin(number)?.into();
        info.console = wanted.console.map_or(0, |console| console.port.into());
        info.link = wanted.link.map_or(0, |link| link.port.into());
        info.flags = server::flags(&wanted);
        info.log_level = level_number(wanted.log);
        Ok(Instance {
            wanted,
            number,
            resource_pool,
            source_pool: SourcePool::new(),
            info,
            chunks,
            file,
            component_events: 0,
            gone: false,
            server,
        })
    }

    /// Its number of chunks, if `all` are divided.
    pub fn share(&self, all: u64) -> u64 {
        match self.wanted.memory {
            Share::Percent(part) => all * u64::from(part) / 100,
            Share::Bytes(bytes) => bytes / CHUNK,
        }
    }

    /// Determines its memory and devices for all lives.
    pub fn settle(&mut self, memory: &mut Memory, devices: &mut Devices<'_>, chunks: u64) -> Result<(), Error> {
        self.source_pool.take_memory(memory, chunks, &mut self.info)?;
        let source_pool = &mut self.source_pool;
        devices.decide(memory, &self.wanted.devices, &mut self.info, |gift| source_pool.take_device(gift))
    }

    /// Starts the server that was built.
    pub fn start(&mut self, resources: &mut BuildResources<'_>) -> Result<(), Error> {
        self.server.give_sources(&self.source_pool, &self.info, &resources.hpet)?;
        let mut builder = Builder { memory: &mut resources.memory, resource_pool: &mut self.resource_pool };
        self.server.start(&mut builder, &mut self.info)?;
        if self.component_events != 0 {
            self.server.component_events.signal();
        }
        Ok(())
    }

    /// Signals events of components to its server, one bit each, in the format of [`service::COMPONENT_EVENTS`]. The
    /// server then fetches them.
    pub fn tell(&mut self, components: u64) {
        self.component_events |= components;
        self.server.component_events.signal();
    }

    /// What a report of its server's end needs.
    pub fn who(&self) -> ReportSubject<'_> {
        let Server { tcb, stack, record, .. } = &self.server;
        ReportSubject { kind: "server", name: self.wanted.name, tcb: *tcb, stack, record: Some(*record) }
    }

    /// Logs which memory belongs to it.
    pub fn tell_memory(&self) {
        self.source_pool.tell(self.wanted.name);
        self.resource_pool.tell(self.wanted.name);
    }

    /// Takes back everything that the ended server and its programs held; see [`crate::resource_pool`].
    pub fn reclaim(&mut self) -> Result<(), Error> {
        devices::silence(&self.wanted.devices);
        self.component_events = 0;
        self.source_pool.reclaim()?;
        self.resource_pool.reclaim()
    }

    /// Builds the server of the next life and starts it.
    pub fn revive(&mut self, resources: &mut BuildResources<'_>) -> Result<(), Error> {
        let file = self.file.is_some();
        self.server = life(resources, &mut self.resource_pool, self.number, &self.wanted, self.chunks, file)?;
        if let (Some(link), Some(mark)) = (self.wanted.link, resources.fwcfg.as_ref().and_then(FwCfg::mark)) {
            console::send(link.port, &mark);
        }
        self.start(resources)
    }

    /// Serves a request; returns status and value.
    pub fn serve(&mut self, device: Option<&mut FwCfg>, received: &Received) -> (u64, u64) {
        let [first, second, ..] = received.mr;
        if received.info.label() == service::COMPONENT_EVENTS {
            return (service::OK, core::mem::take(&mut self.component_events));
        }
        match (received.info.label(), device.zip(self.file).zip(self.server.buffer)) {
            (service::INTERRUPT, _) => {
                let to = self.server.leaf_place(first);
                (devices::interrupt(&self.info, to, Interrupt::decode(second)), 0)
            }
            (service::SIZE | service::READ, None) => (service::NOT_FOUND, 0),
            (service::SIZE, Some(((_, file), _))) => (service::OK, file.size),
            (service::READ, Some(((device, file), buffer))) if in_file(file, first, second) => {
                match device.read(file, first, second, buffer) {
                    Ok(()) => (service::OK, second),
                    Err(_) => (service::IO, 0),
                }
            }
            _ => (service::BAD_REQUEST, 0),
        }
    }
}

fn in_file(file: File, offset: u64, len: u64) -> bool {
    len <= CHUNK && offset.checked_add(len).is_some_and(|end| end <= file.size)
}

fn life(
    resources: &mut BuildResources<'_>,
    resource_pool: &mut ResourcePool,
    number: usize,
    wanted: &Wanted<'_>,
    chunks: u64,
    boot_file: bool,
) -> Result<Server, Error> {
    let (image, hpet, endpoint) = (resources.image, &resources.hpet, resources.endpoint);
    let (badge, asid_pools) = (service_badge(number), resources.asid_pools);
    let plan = Plan { wanted, number, image, chunks, hpet, endpoint, badge, boot_file, asid_pools };
    Server::build(&mut Builder { memory: &mut resources.memory, resource_pool }, &plan)
}
