//! The state of a connection: which message may come when (5, 6).

use alloc::vec::Vec;

use crate::message::{Fault, Region, Request, VringAddress, VringState};
use crate::{BACKEND_REQ, MQ, PROTOCOL_FEATURES, REPLY_ACK, reply_config, reply_u64, reply_vring};

/// What a device offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Its features.
    pub features: u64,
    /// Features that a driver must take.
    pub required: u64,
    /// The protocol's features.
    pub protocol_features: u64,
    /// Number of queues.
    pub queues: usize,
    /// The number of descriptors of a queue at most, a power of two.
    pub most_descriptors: u16,
    /// The configuration.
    pub config: Vec<u8>,
}

/// A queue, as far as it was set up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Number of descriptors: a power of two, at most [`Settings::most_descriptors`]. 0: not set.
    pub size: u16,
    /// The index to begin with.
    pub base: u16,
    /// The addresses of its parts, as the guest sees them: the whole parts are in memory.
    pub address: Option<VringAddress>,
    /// There is a kick.
    pub kick: bool,
    /// It was enabled.
    pub enabled: bool,
}

/// What a back end does for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Nothing,
    /// Sends these bytes.
    Reply(Vec<u8>),
    /// Maps this memory, instead of what was mapped.
    Memory(Vec<Region>),
    /// Keeps the handle as the kick of this queue.
    Kick(usize),
    /// Keeps the handle as the call of this queue, or has none.
    Call(usize),
    /// Keeps the handle as the channel for requests of the back end.
    BackendChannel,
    /// Stops this queue and answers with the index that it has come to, by [`reply_vring`].
    Stop(usize),
    /// Stops this queue.
    Disable(usize),
}

/// A connection.
#[derive(Clone, Debug)]
pub struct Session {
    settings: Settings,
    owned: bool,
    features: Option<u64>,
    protocol_features: u64,
    regions: Vec<Region>,
    queues: Vec<Queue>,
}

impl Session {
    /// A new connection to this device.
    pub fn new(settings: Settings) -> Session {
        let queues = alloc::vec![Queue::default(); settings.queues];
        Session { settings, owned: false, features: None, protocol_features: 0, regions: Vec::new(), queues }
    }

    /// The negotiated features. `None`: not yet.
    pub fn features(&self) -> Option<u64> {
        self.features
    }

    /// The memory.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// Whether answers to requests without an answer of their own are sent when the request asks for one.
    pub fn acknowledges(&self) -> bool {
        self.protocol_features & REPLY_ACK != 0
    }

    /// A queue that runs (5). `None`: it does not run.
    pub fn running(&self, index: usize) -> Option<(Queue, VringAddress)> {
        let features = self.features?;
        let queue = *self.queues.get(index)?;
        let enabled = queue.enabled || features & PROTOCOL_FEATURES == 0;
        let address = queue.address.filter(|_| enabled && queue.kick && queue.size > 0 && !self.regions.is_empty())?;
        Some((queue, address))
    }

    fn any_runs(&self) -> bool {
        (0..self.queues.len()).any(|index| self.running(index).is_some())
    }

    /// A queue, whose parameters can change now.
    fn stopped(&mut self, index: u32) -> Result<(usize, &mut Queue), Fault> {
        let index = usize::try_from(index).map_err(|_| Fault::Range)?;
        if self.running(index).is_some() {
            return Err(Fault::State);
        }
        Ok((index, self.queues.get_mut(index).ok_or(Fault::Range)?))
    }

    fn queue(&mut self, index: u32) -> Result<(usize, &mut Queue), Fault> {
        let index = usize::try_from(index).map_err(|_| Fault::Range)?;
        Ok((index, self.queues.get_mut(index).ok_or(Fault::Range)?))
    }

    /// Where the guest sees a range that the front end sees at `user`. `None`: it is not inside of one region.
    fn guest_address(&self, user: u64, len: u64) -> Option<u64> {
        let end = user.checked_add(len)?;
        let holds =
            |region: &&Region| region.user_address <= user && end <= region.user_address.saturating_add(region.size);
        let region = self.regions.iter().find(holds)?;
        region.guest_address.checked_add(user - region.user_address)
    }

    /// The addresses of a queue of this size, as the guest sees them, if all its parts are in memory and aligned as the
    /// virtio specification says.
    fn located(&self, address: &VringAddress, size: u16) -> Option<VringAddress> {
        let size = u64::from(size);
        let place = |user: u64, len: u64, align: u64| {
            self.guest_address(user, len).filter(|address| address.is_multiple_of(align))
        };
        Some(VringAddress {
            descriptors: place(address.descriptors, 16 * size, 16)?,
            available: place(address.available, 6 + 2 * size, 2)?,
            used: place(address.used, 6 + 8 * size, 4)?,
            ..*address
        })
    }

    /// Takes a request; returns what to do for it. After a fault the connection ends.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn take(&mut self, request: Request) -> Result<Step, Fault> {
        let kind = request.message_kind();
        let number = |number: u64| Ok(Step::Reply(reply_u64(kind, number)));
        match request {
            Request::GetFeatures => number(self.settings.features),
            Request::SetFeatures(features) => {
                if self.any_runs() {
                    return Err(Fault::State);
                }
                let Settings { features: offered, required, .. } = self.settings;
                // A driver that has reset the device takes no features until it sets it up again.
                let is_reset = features & !PROTOCOL_FEATURES == 0;
                if features & !offered != 0 || features & required != required && !is_reset {
                    return Err(Fault::Feature);
                }
                self.features = (features & required == required).then_some(features);
                Ok(Step::Nothing)
            }
            Request::SetOwner if self.owned => Err(Fault::State),
            Request::SetOwner => {
                self.owned = true;
                Ok(Step::Nothing)
            }
            // Obsolete; the specification lets a back end ignore it.
            Request::ResetOwner => Ok(Step::Nothing),
            Request::GetProtocolFeatures => number(self.settings.protocol_features),
            Request::SetProtocolFeatures(features) => {
                if features & !self.settings.protocol_features != 0 {
                    return Err(Fault::Feature);
                }
                self.protocol_features = features;
                Ok(Step::Nothing)
            }
            Request::GetQueueNum if self.protocol_features & MQ == 0 => Err(Fault::Feature),
            Request::GetQueueNum => number((self.settings.queues / 2) as u64),
            Request::SetMemTable(regions) => {
                if self.any_runs() {
                    return Err(Fault::State);
                }
                // Addresses of queues were looked up in the memory before.
                self.queues.iter_mut().for_each(|queue| queue.address = None);
                self.regions.clone_from(&regions);
                Ok(Step::Memory(regions))
            }
            Request::SetVringNum(VringState { index, number }) => {
                let most = self.settings.most_descriptors;
                let size = u16::try_from(number).ok().filter(|size| size.is_power_of_two() && *size <= most);
                let (_, queue) = self.stopped(index)?;
                queue.size = size.ok_or(Fault::Range)?;
                // The addresses were checked for another size.
                queue.address = None;
                Ok(Step::Nothing)
            }
            Request::SetVringAddr(address) => {
                let (index, queue) = self.stopped(address.index)?;
                let size = queue.size;
                if size == 0 {
                    return Err(Fault::State);
                }
                if address.flags != 0 {
                    return Err(Fault::Feature);
                }
                let located = self.located(&address, size).ok_or(Fault::Range)?;
                self.queues[index].address = Some(located);
                Ok(Step::Nothing)
            }
            Request::SetVringBase(VringState { index, number }) => {
                let base = u16::try_from(number).map_err(|_| Fault::Range)?;
                self.stopped(index)?.1.base = base;
                Ok(Step::Nothing)
            }
            Request::GetVringBase(index) => {
                let (index, queue) = self.queue(index)?;
                // A new kick starts it again.
                (queue.kick, queue.enabled) = (false, false);
                Ok(Step::Stop(index))
            }
            Request::SetVringKick(index) => {
                let (index, queue) = self.stopped(index)?;
                queue.kick = true;
                Ok(Step::Kick(index))
            }
            Request::SetVringCall(index, _) => Ok(Step::Call(self.queue(index)?.0)),
            Request::SetVringErr(index, _) => self.queue(index).map(|_| Step::Nothing),
            Request::SetVringEnable(index, enabled) => {
                if self.features.is_some_and(|features| features & PROTOCOL_FEATURES == 0) {
                    return Err(Fault::Feature);
                }
                let (index, queue) = self.queue(index)?;
                queue.enabled = enabled;
                Ok(if enabled { Step::Nothing } else { Step::Disable(index) })
            }
            Request::SetBackendReqFd if self.protocol_features & BACKEND_REQ == 0 => Err(Fault::Feature),
            Request::SetBackendReqFd => Ok(Step::BackendChannel),
            Request::GetConfig(offset, size, flags) => {
                Ok(Step::Reply(reply_config(offset, size, flags, &self.settings.config)))
            }
            // Nothing of the configuration can be changed by a driver.
            Request::SetConfig => Err(Fault::Feature),
        }
    }

    /// The back end has stopped a queue at this index. Returns the answer to [`Request::GetVringBase`].
    pub fn stopped_at(&mut self, index: usize, base: u16) -> Vec<u8> {
        if let Some(queue) = self.queues.get_mut(index) {
            queue.base = base;
        }
        reply_vring(VringState { index: index as u32, number: base.into() })
    }

    /// The index that a queue begins with.
    pub fn base(&self, index: usize) -> u16 {
        self.queues.get(index).map_or(0, |queue| queue.base)
    }
}
