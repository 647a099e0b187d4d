//! Start and stop of the root task.

use description::{COMPONENTS, System};
use sel4::BootInfo;
use sel4::bootinfo::{self, DOMAIN, INIT_TCB};
use server_boot::EXIT_ROOT_FAILED;
use server_boot::cspace::ASID_POOLS;

use crate::arch::ports::{self, PORTS};
use crate::component::Component;
use crate::console::{self, error, info};
use crate::devices::Devices;
use crate::error::{Context, Error};
use crate::fwcfg::FwCfg;
use crate::hpet::Hpet;
use crate::instance::{BuildResources, Instance, MAX_INSTANCES};
use crate::make::ObjectMaker;
use crate::memory::Memory;
use crate::serve;
use crate::supervise::Supervisor;
use crate::world::World;

/// The server's program file.
static SERVER: &[u8] = include_bytes!(env!("HAFNON_SERVER"));
/// The system description: a mark, the length, and the bytes. The host tool writes them into the finished program, so
/// another description needs no other build.
#[used]
// SAFETY: the section has a name of its own, and contains only this.
#[unsafe(link_section = ".hafnon.system")]
static SYSTEM: [u8; 4096] = {
    let mut bytes = [0; 4096];
    let mut i = 0;
    while i < description::EMBEDDED.len() {
        bytes[i] = description::EMBEDDED[i];
        i += 1;
    }
    bytes
};

// The stack holds the state of all instances and components.
sel4::entry!(main, stack = 512 << 10);

/// Number of ASID pools in the kernel, including the initial one.
const ASID_POOLS_OF_KERNEL: u64 = 8;

fn main(boot: BootInfo) -> ! {
    ports::init(boot.empty().start);
    console::init(boot.tsc_mhz().unwrap_or(1_000));
    let Err(error) = run(&boot);
    error!("the system does not start: {error}");
    exit(EXIT_ROOT_FAILED)
}

fn run(boot: &BootInfo) -> Result<core::convert::Infallible, Error> {
    if SERVER.is_empty() {
        return Err(Error::NoServer);
    }
    INIT_TCB.without_fpu(DOMAIN).context("the root task without FPU")?;
    info!("firmware and kernel took {} thousand ticks of the processor's counter", console::start() / 1000);
    // The compiler must not assume the initial value, because the host tool changes it in the binary.
    let system = System::embedded(core::hint::black_box(&SYSTEM)).map_err(Error::Description)?;
    let mut memory = Memory::new(boot)?;
    let mebibytes = (memory.untouched_chunks() * server_boot::layout::CHUNK) >> 20;
    info!("{mebibytes} MiB of memory, processor counter at {} MHz", boot.tsc_mhz().unwrap_or(0));
    #[cfg(feature = "measure")]
    crate::measure::run(&mut memory, boot, SERVER)?;
    let endpoint = memory.endpoint()?;
    let hpet = Hpet::new(&mut memory)?;
    let fwcfg = FwCfg::open(&mut memory)?;
    let asid_pools = (ASID_POOLS_OF_KERNEL - 1) / (system.instances().count() as u64).max(1);
    let asid_pools = asid_pools.clamp(1, ASID_POOLS);
    let resources = BuildResources { memory, hpet, endpoint, fwcfg, image: SERVER, asid_pools, loader: None };
    let mut world =
        World { resources, instances: [const { None }; MAX_INSTANCES], components: [const { None }; COMPONENTS] };
    let World { resources, instances, components } = &mut world;

    for (number, wanted) in system.instances().enumerate() {
        let place = instances.get_mut(number).ok_or(Error::TooManyInstances)?;
        *place = Some(Instance::build(resources, number, wanted)?);
        if let Some(console) = wanted.console {
            console::open(console.port);
        }
    }
    for (number, wanted) in system.components().enumerate() {
        let place = components.get_mut(number).ok_or(Error::TooManyComponents)?;
        *place = Some(Component::build(resources, number, wanted)?);
    }
    let beside_components = components.iter().any(Option::is_some);
    let count = instances.iter().flatten().count();
    let alarm = resources.hpet.alarm(&mut resources.memory, count)?;
    let mut devices = Devices::new(system, resources.hpet.all_pins());
    let mut chunks = resources.memory.untouched_chunks();
    let all = chunks;
    for instance in instances.iter_mut().flatten() {
        let share = instance.share(all);
        chunks = chunks.checked_sub(share).ok_or(Error::MemoryShare)?;
        instance.settle(&mut resources.memory, &mut devices, share)?;
        instance.start(resources)?;
        if beside_components {
            instance.tell_memory();
        }
    }
    let mut supervisor = Supervisor::new(alarm, &world)?;
    serve::run(&mut world, &mut supervisor)
}

/// Exits the emulator with a code. On a machine without its exit port, stops.
pub fn exit(code: u8) -> ! {
    let _ = PORTS.out8(0xf4, code);
    loop {
        let _ = bootinfo::INIT_TCB.suspend();
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    error!("{info}");
    exit(EXIT_ROOT_FAILED)
}
