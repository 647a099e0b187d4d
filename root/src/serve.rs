//! The root task's main loop: it waits for requests, faults and alarms.

use core::convert::Infallible;

use sel4::{Message, Received};
use server_boot::service;

use crate::arch::tsc;
use crate::component;
use crate::console::info;
use crate::error::Error;
use crate::hpet::Alarm;
use crate::instance::service_badge;
use crate::report;
use crate::supervise::{Supervisor, at_ordinary_priority};
use crate::world::World;

/// Serves forever.
pub fn run(world: &mut World<'_>, supervisor: &mut Supervisor) -> Result<Infallible, Error> {
    info!("the system is built");
    let mut received = world.resources.endpoint.recv();
    loop {
        let reply = if received.badge == Alarm::BADGE {
            supervisor.fired(world)?;
            None
        } else if let Some((number, fault)) = component::of_badge(received.badge) {
            of_component(world, supervisor, number, fault, &received)?
        } else {
            of_instance(world, supervisor, &received)?
        };
        received = match reply {
            Some(reply) => world.resources.endpoint.reply_recv(reply),
            None => world.resources.endpoint.recv(),
        };
    }
}

/// Handles a server's request, or its end. Returns the reply, if there is one.
fn of_instance(
    world: &mut World<'_>,
    supervisor: &mut Supervisor,
    received: &Received,
) -> Result<Option<Message>, Error> {
    let number = (received.badge.saturating_sub(service_badge(0)) / 2) as usize;
    let Some(instance) = world.instances.get_mut(number).and_then(Option::as_mut) else { return Ok(None) };
    if received.badge != service_badge(number) {
        let ended = tsc();
        at_ordinary_priority(|| {
            report::died(&mut world.resources.memory, &instance.who(), received);
            Ok(())
        })?;
        at_ordinary_priority(|| supervisor.ended(number, ended, world))?;
        return Ok(None);
    }
    let (status, value) = match received.info.label() {
        service::RUNNING => {
            at_ordinary_priority(|| supervisor.runs(number, world))?;
            (service::OK, 0)
        }
        service::FIND | service::MINT => world.serve(number, received)?,
        service::CLIENT => return Ok(Some(world.join(number, received.mr))),
        _ => instance.serve(world.resources.fwcfg.as_mut(), received),
    };
    Ok(Some(Message::one(status, value)))
}

/// Handles a component's request, or its end. Returns the reply, if there is one.
fn of_component(
    world: &mut World<'_>,
    supervisor: &mut Supervisor,
    number: usize,
    fault: bool,
    received: &Received,
) -> Result<Option<Message>, Error> {
    let Some(component) = world.components.get_mut(number).and_then(Option::as_mut) else { return Ok(None) };
    if fault && component.catches(received) {
        return Ok(None);
    }
    if received.info.label() == component_boot::service::CONNECT && !fault {
        let instance = component.connect(received);
        return Ok(world.connect(number, instance));
    }
    if fault {
        let ended = tsc();
        at_ordinary_priority(|| {
            report::died(&mut world.resources.memory, &component.who(), received);
            Ok(())
        })?;
        at_ordinary_priority(|| supervisor.component_ended(number, ended, world))?;
        return Ok(None);
    }
    Ok(Some(Message::empty(component.serve(received))))
}
