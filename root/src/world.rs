//! All that the root task watches.

use component_boot::Badge;
use description::COMPONENTS;
use sel4::{Received, Rights};
use server_boot::service::{self, Offered};

use crate::component::Component;
use crate::error::Error;
use crate::instance::{Instance, MAX_INSTANCES, Means};

/// See the module's description.
pub struct World<'a> {
    /// What building takes.
    pub means: Means<'a>,
    /// The instances, in the order of the description.
    pub instances: [Option<Instance>; MAX_INSTANCES],
    /// The components, likewise.
    pub components: [Option<Component>; COMPONENTS],
}

impl World<'_> {
    /// A component has ended and what it held is taken back: the instances that know it are told.
    pub fn component_is_away(&mut self, number: usize) {
        let Some(component) = &self.components[number] else { return };
        for (instance, n) in self.instances.iter_mut().flatten().zip(0..) {
            if component.is_known_to(n) {
                instance.tell(1 << number);
            }
        }
    }

    /// Serves a server's request that is of components; gives status and value.
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
        // The slot is the server's to choose: what the kernel refuses is its mistake.
        match component.mint(life.into(), badge, rights, instance.server.leaf_place(slot)) {
            Ok(true) => Ok((service::OK, 0)),
            Ok(false) => Ok((service::AWAY, 0)),
            Err(_) => Ok((service::BAD_REQUEST, 0)),
        }
    }
}
