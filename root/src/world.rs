//! Everything that the root task supervises.

use component_boot::Badge;
use description::{COMPONENTS, NAME};
use sel4::{Message, MessageInfo, Received, Rights};
use server_boot::service::{self, Offered};

use crate::component::Component;
use crate::error::Error;
use crate::instance::{BuildResources, Instance, MAX_INSTANCES};

/// See the module's description.
pub struct World<'a> {
    /// The resources for building.
    pub resources: BuildResources<'a>,
    /// The instances, in the order of the description.
    pub instances: [Option<Instance>; MAX_INSTANCES],
    /// The components, likewise.
    pub components: [Option<Component>; COMPONENTS],
}

impl World<'_> {
    /// A component has ended, and its resources have been taken back: notifies the instances that know it.
    pub fn component_gone(&mut self, number: usize) {
        let Some(component) = &self.components[number] else { return };
        for (instance, n) in self.instances.iter_mut().flatten().zip(0..) {
            if component.is_known_to(n) {
                instance.tell(1 << number);
            }
        }
    }

    /// A component asks to become a client of an instance. Returns the answer if the root task can give it.
    pub fn connect(&mut self, number: usize, instance: Option<usize>) -> Option<Message> {
        let instance = instance.and_then(|instance| self.instances.get_mut(instance)).and_then(Option::as_mut);
        match instance.filter(|instance| !instance.gone) {
            Some(instance) => {
                instance.tell(1 << number << service::WAITING);
                None
            }
            None => Some(Message::empty(component_boot::service::UNAVAILABLE)),
        }
    }

    /// A server takes over a component that waits for it.
    pub fn join(&mut self, number: usize, words: [u64; 4]) -> Message {
        let [component, slots @ ..] = words;
        let (Some(component), Some(instance)) =
            (self.components.get_mut(component as usize).and_then(Option::as_mut), &self.instances[number])
        else {
            return Message::empty(service::NOT_FOUND);
        };
        if !component.waits_for(number) {
            return Message::empty(service::AWAY);
        }
        // The server chooses the slots, so an error of the kernel is the server's mistake.
        if !component.join(slots.map(|slot| instance.server.leaf_place(slot))) {
            return Message::empty(service::BAD_REQUEST);
        }
        let mut name = [0; 32];
        for (to, from) in name.iter_mut().zip(component.wanted.name.bytes().take(NAME)) {
            *to = from;
        }
        let (words, _) = name.as_chunks();
        Message { info: MessageInfo::new(service::OK, 4), mr: core::array::from_fn(|i| u64::from_le_bytes(words[i])) }
    }

    /// The server of an instance has ended, and its resources have been taken back. `gone`: it has no further life.
    pub fn server_gone(&mut self, number: usize, gone: bool) -> Result<(), Error> {
        let clients = self.components.iter_mut().flatten();
        for component in clients.filter(|component| component.wanted.client_of == Some(number as u8)) {
            component.server_gone()?;
        }
        if let Some(instance) = &mut self.instances[number] {
            instance.gone = gone;
        }
        Ok(())
    }

    /// Serves a server's request about components; returns status and value.
    pub fn serve(&mut self, number: usize, received: &Received) -> Result<(u64, u64), Error> {
        match received.info.label() {
            service::FIND => Ok(self.find(number, received.mr)),
            service::MINT => self.mint(number, received.mr),
            _ => Ok((service::BAD_REQUEST, 0)),
        }
    }

    fn find(&self, number: usize, words: [u64; 4]) -> (u64, u64) {
        let mut bytes = [0; 32];
        for (to, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
        let len = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        let Ok(name) = core::str::from_utf8(&bytes[..len]) else { return (service::NOT_FOUND, 0) };
        let components = self.components.iter().flatten().zip(0..);
        let found = components.filter_map(|(one, component)| Some((one.find(name, number)?, component))).next();
        match found {
            None => (service::NOT_FOUND, 0),
            Some(((_, None), _)) => (service::AWAY, 0),
            Some(((offer, Some(life)), component)) => {
                (service::OK, Offered { component, offer: offer as u8, life: life as u32 }.encode())
            }
        }
    }

    fn mint(&mut self, number: usize, words: [u64; 4]) -> Result<(u64, u64), Error> {
        let [what, slot, badge, use_of_it] = words;
        let Offered { component, offer, life } = Offered::decode(what);
        let (Some(component), Some(instance)) =
            (self.components.get(usize::from(component)).and_then(Option::as_ref), &self.instances[number])
        else {
            return Ok((service::NOT_FOUND, 0));
        };
        let badge = Badge { instance: number as u8, offer, chosen: badge as u32 };
        let rights = if use_of_it == service::TO_CALL { Rights::CALL } else { Rights::WRITE };
        // The server chooses the slot, so an error of the kernel is the server's mistake.
        match component.mint(life.into(), badge, rights, instance.server.leaf_place(slot)) {
            Ok(true) => Ok((service::OK, 0)),
            Ok(false) => Ok((service::AWAY, 0)),
            Err(_) => Ok((service::BAD_REQUEST, 0)),
        }
    }
}
