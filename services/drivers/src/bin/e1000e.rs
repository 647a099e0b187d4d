//! The driver of Intel's network card 82574L, which QEMU calls `e1000e`.
//!
//! It has a connection to the bus driver that stands for the card. [`drivers::netdevice`] serves the client; the card's
//! registers and rings are in [`driver::e1000e::Card`].
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
fn main() {
    let driven = drivers::netdevice::drive(driver::e1000e::Card::new);
    if let Err(problem) = driven {
        eprintln!("{problem}");
        std::process::exit(1);
    }
}

#[cfg(not(target_os = "fuchsia"))]
fn main() {
    eprintln!("e1000e: this driver runs on Hafnon");
    std::process::exit(2);
}
