//! The service `switch`: passes vhost-user messages, kicks and calls, and those of the protocol `netdevice`, to and from the
//! [`Switch`](net_switch::Switch).
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
mod connection;
#[cfg(target_os = "fuchsia")]
mod memory;
#[cfg(target_os = "fuchsia")]
mod mode;
#[cfg(target_os = "fuchsia")]
mod peer;
#[cfg(target_os = "fuchsia")]
mod service;
#[cfg(target_os = "fuchsia")]
mod session_port;
#[cfg(target_os = "fuchsia")]
mod turns;

#[cfg(target_os = "fuchsia")]
fn main() {
    if let Err(reason) = service::run() {
        eprintln!("{reason}");
        std::process::exit(1);
    }
}

#[cfg(not(target_os = "fuchsia"))]
fn main() {
    eprintln!("net-switch: this is a service of a Hafnon system; it has nothing to do elsewhere");
    std::process::exit(2);
}
