//! The network service: passes messages and port packets to the [`stack`](network::stack).
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
mod card_session;
#[cfg(target_os = "fuchsia")]
mod data_sockets;
#[cfg(target_os = "fuchsia")]
mod service;
#[cfg(target_os = "fuchsia")]
mod settling;

#[cfg(target_os = "fuchsia")]
fn main() {
    if let Err(reason) = service::run() {
        eprintln!("{reason}");
        std::process::exit(1);
    }
}

#[cfg(not(target_os = "fuchsia"))]
fn main() {
    eprintln!("network: this is a service of a Hafnon system; it has nothing to do elsewhere");
    std::process::exit(2);
}
