//! What the root task does once the system runs: waits for requests and for bad news.

use sel4::{Endpoint, Message};
use server_boot::{EXIT_SERVER_DIED, layout::CHUNK, service};

use crate::console::info;
use crate::error::Error;
use crate::fwcfg::FwCfg;
use crate::instance::{Instance, MAX_INSTANCES, service_badge};
use crate::memory::Memory;
use crate::report;
use crate::start::exit;

/// Serves for ever.
pub fn run(
    memory: &mut Memory,
    endpoint: Endpoint,
    instances: &mut [Option<Instance>; MAX_INSTANCES],
    mut device: Option<FwCfg>,
) -> Result<core::convert::Infallible, Error> {
    if let Some(device) = &device {
        for instance in instances.iter().flatten().filter(|instance| instance.boot_files) {
            instance.share_buffer(memory, device.buffer)?;
        }
    }
    info!("the system is built");
    let mut received = endpoint.recv();
    loop {
        let number = (received.badge.saturating_sub(service_badge(0)) / 2) as usize;
        let Some(instance) = instances.get(number).and_then(Option::as_ref) else {
            received = endpoint.recv();
            continue;
        };
        if received.badge != service_badge(number) {
            report::server_died(memory, instance, &received);
            exit(EXIT_SERVER_DIED);
        }
        let (request, words) = (received.info.label(), [received.mr[0], received.mr[1]]);
        let (status, value) = match device.as_mut().filter(|_| instance.boot_files) {
            _ if request == service::INTERRUPT => (instance.interrupt(words[0], words[1]), 0),
            None => (service::NOT_FOUND, 0),
            Some(device) => serve(device, request, words[0], words[1]),
        };
        received = endpoint.reply_recv(Message::one(status, value));
    }
}

fn serve(device: &mut FwCfg, request: u64, offset: u64, len: u64) -> (u64, u64) {
    match request {
        service::SIZE => (service::OK, device.size),
        service::READ if len <= CHUNK && offset.checked_add(len).is_some_and(|end| end <= device.size) => {
            match device.read(offset, len) {
                Ok(()) => (service::OK, len),
                Err(_) => (service::IO, 0),
            }
        }
        _ => (service::BAD_REQUEST, 0),
    }
}
