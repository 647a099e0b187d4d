//! The driver of a virtio network card.
//!
//! It has a connection to the bus driver that stands for the card. [`drivers::netdevice`] serves the client; the card's
//! rings are in [`driver::virtio::Card`].
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
fn main() {
    let driven = drivers::netdevice::drive(driver::virtio::Card::new);
    if let Err(problem) = driven {
        eprintln!("{problem}");
        std::process::exit(1);
    }
}

#[cfg(not(target_os = "fuchsia"))]
fn main() {
    eprintln!("virtio-net: this driver runs on Hafnon");
    std::process::exit(2);
}
