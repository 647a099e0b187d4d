//! A root task that tries to get more from the kernel than its capabilities allow.
//!
//! It is booted instead of the system, with the name of one case ([`cases`]) or with `random` ([`random`]) in QEMU's
//! firmware configuration device ([`host`]). A case prints its result in one line on the console, and the machine ends.
//! A case uses capabilities that any native component, driver or server may have, and watches memory and registers that
//! these capabilities do not give access to. It fails if any of them has changed.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod cases;
#[cfg(target_os = "none")]
mod host;
#[cfg(target_os = "none")]
mod random;
#[cfg(target_os = "none")]
mod threads;
#[cfg(target_os = "none")]
mod world;

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("kernel-attack runs on seL4: `./hafnon test kernel` builds and boots it");
    std::process::exit(1);
}

#[cfg(target_os = "none")]
mod start {
    use sel4::BootInfo;

    use crate::{cases, host, random, world::World};

    sel4::entry!(main, stack = 65_536);

    fn main(boot: BootInfo) -> ! {
        host::init(boot.empty().start);
        let order = host::Order::read();
        let mut world = World::new(&boot, boot.empty().start + host::SLOTS);
        let result = match order.name() {
            "random" => random::run(&mut world, order.number(1), order.number(2)),
            name => match cases::ALL.iter().find(|case| case.name == name) {
                Some(case) => (case.run)(&mut world),
                None => Err("there is no such case"),
            },
        };
        match result {
            Ok(()) => host::end(format_args!("passed"), 0),
            Err(why) => host::end(format_args!("failed: {why}"), 1),
        }
    }

    #[panic_handler]
    fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
        host::end(format_args!("failed: {info}"), 2)
    }
}
