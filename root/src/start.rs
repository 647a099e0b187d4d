//! Where the root task starts, and how it stops.

use description::System;
use sel4::{BootInfo, bootinfo};
use server_boot::EXIT_ROOT_FAILED;

use crate::console::{self, error, info};
use crate::devices::Devices;
use crate::error::Error;
use crate::fwcfg::FwCfg;
use crate::hpet::Hpet;
use crate::instance::{Instance, MAX_INSTANCES};
use crate::memory::Memory;
use crate::serve;

/// The server's program file.
static SERVER: &[u8] = include_bytes!(env!("HAFNON_SERVER"));
/// The system description.
static SYSTEM: &[u8] = include_bytes!(env!("HAFNON_SYSTEM"));

/// The root task's own port capability covers all ports.
pub const PORTS: sel4::IoPort = sel4::IoPort(bootinfo::IO_PORT_CONTROL.cptr());

sel4::entry!(main, stack = 256 << 10);

fn main(boot: BootInfo) -> ! {
    console::init(boot.tsc_mhz().unwrap_or(1_000));
    let Err(error) = run(&boot);
    error!("the system does not start: {error}");
    exit(EXIT_ROOT_FAILED)
}

fn run(boot: &BootInfo) -> Result<core::convert::Infallible, Error> {
    if SERVER.is_empty() {
        return Err(Error::NoServer);
    }
    info!("firmware and kernel took {} thousand ticks of the processor's counter", console::start() / 1000);
    let system = System::decode(SYSTEM).map_err(Error::Description)?;
    let mut memory = Memory::new(boot);
    let mebibytes = (memory.untouched_chunks() * server_boot::layout::CHUNK) >> 20;
    info!("{mebibytes} MiB of memory, processor counter at {} MHz", boot.tsc_mhz().unwrap_or(0));
    #[cfg(feature = "measure")]
    crate::measure::run(&mut memory, boot, SERVER)?;
    let endpoint = memory.endpoint()?;
    let hpet = Hpet::new(&mut memory)?;

    let mut instances: [Option<Instance>; MAX_INSTANCES] = [const { None }; MAX_INSTANCES];
    for (number, wanted) in system.instances().enumerate() {
        let place = instances.get_mut(number).ok_or(Error::TooManyInstances)?;
        *place = Some(Instance::build(&mut memory, &hpet, endpoint, SERVER, number, &wanted)?);
    }
    let fwcfg = FwCfg::open(&mut memory)?;
    let mut devices = Devices::new(system, hpet.pin);
    let mut chunks = memory.untouched_chunks();
    let all = chunks;
    for (instance, wanted) in instances.iter_mut().flatten().zip(system.instances()) {
        let share = match wanted.memory {
            description::Memory::Percent(part) => all * u64::from(part) / 100,
            description::Memory::Bytes(bytes) => bytes / server_boot::layout::CHUNK,
        };
        if share > chunks {
            return Err(Error::MemoryShare);
        }
        chunks -= share;
        instance.give_memory(&mut memory, share)?;
        instance.give_devices(&mut memory, &mut devices, &hpet, &wanted)?;
        instance.start(&mut memory, &hpet)?;
    }
    serve::run(&mut memory, endpoint, &mut instances, fwcfg)
}

/// Ends the emulator with a code; on a machine without its exit port, stays.
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
