//! A virtio network card.
//!
//! Its frames lie in memory of a client, which the device reads and writes directly. Their headers lie in memory of this
//! process. When the client has gone, the device is reset, so that it does not write to that memory any more.

use std::string::{String, ToString};
use std::vec::Vec;

use virtio_drivers::transport::{DeviceStatus, Transport};
use zx::Bti;

use super::Interrupting;
use super::ring::Ring;
use crate::broken::Broken;
use crate::config::Config;
use crate::dma::Window;
use crate::net::{NetworkCard, Rings};

/// Features: the device has a hardware address, its status, the new layout of registers, and indices for events.
const MAC: u64 = 1 << 5;
const STATUS: u64 = 1 << 16;
const EVENT_INDEX: u64 = 1 << 29;
const VERSION_1: u64 = 1 << 32;
/// The queues.
const RECEIVE: u16 = 0;
const SEND: u16 = 1;
/// In the status: there is a link.
const LINK: u16 = 1;
/// Offset of the status in the device's configuration.
const STATUS_AT: usize = 6;

/// A network card.
pub struct Card {
    transport: Interrupting,
    bti: Bti,
    mac: [u8; 6],
    has_status: bool,
}

impl Card {
    /// Resets the device. It sends and receives nothing before its start.
    ///
    /// # Errors
    /// A sentence for the log.
    pub fn new(config: impl Config, windows: Vec<Window>, bti: &Bti) -> Result<Card, String> {
        let mut transport = super::open(config, windows, bti)?;
        let features = transport.read_device_features();
        if features & VERSION_1 == 0 || features & MAC == 0 {
            return Err("the card is too old, or has no hardware address".to_string());
        }
        // When the link changes, there is the same message as for frames.
        transport.config_vector = 0;
        let mac = transport.read_config_space(0).map_err(|error| error.to_string())?;
        let bti = bti.duplicate(zx::Rights::SAME_RIGHTS).map_err(|status| std::format!("the BTI: {status}"))?;
        Ok(Card { transport, bti, mac, has_status: features & STATUS != 0 })
    }
}

impl NetworkCard for Card {
    type Ring = Ring;

    // A longest frame with a VLAN's mark, which is not cut but refused by the client.
    const MIN_RX_BUFFER: usize = 1518;
    // An Ethernet header.
    const MIN_TX_BUFFER: usize = 14;

    fn mac(&self) -> [u8; 6] {
        self.mac
    }

    fn online(&self) -> bool {
        let status = || self.transport.read_config_space::<u16>(STATUS_AT).is_ok_and(|status| status & LINK != 0);
        !self.has_status || status()
    }

    fn stop(&mut self) -> bool {
        self.transport.reset().is_ok()
    }

    // Both sides agree on features first: what queues there are may depend on them.
    fn rings(&mut self) -> zx::Result<Rings<Ring>> {
        let transport = &mut self.transport;
        let mut status = DeviceStatus::ACKNOWLEDGE | DeviceStatus::DRIVER;
        transport.set_status(status);
        let offered = transport.read_device_features();
        let event_index = offered & EVENT_INDEX != 0;
        transport.write_driver_features(offered & (MAC | STATUS | EVENT_INDEX | VERSION_1));
        status |= DeviceStatus::FEATURES_OK;
        transport.set_status(status);
        if !transport.get_status().contains(DeviceStatus::FEATURES_OK) {
            return Err(zx::Status::IO);
        }
        Ok(Rings {
            receive: Ring::new(transport, &self.bti, RECEIVE, true, event_index)?,
            send: Ring::new(transport, &self.bti, SEND, false, event_index)?,
        })
    }

    // Without a control queue the device filters nothing.
    fn start(&mut self, rings: &Rings<Ring>, _promiscuous: bool) -> zx::Result<()> {
        rings.receive.announce(&mut self.transport);
        rings.send.announce(&mut self.transport);
        let status = self.transport.get_status() | DeviceStatus::DRIVER_OK;
        self.transport.set_status(status);
        Ok(())
    }

    fn tell(&mut self, rings: &mut Rings<Ring>) {
        rings.receive.tell(&mut self.transport);
        rings.send.tell(&mut self.transport);
    }

    fn be_quiet(&mut self, rings: &Rings<Ring>) {
        rings.receive.be_quiet();
        rings.send.be_quiet();
    }

    fn be_loud(&mut self, rings: &Rings<Ring>, sends_much: bool) -> Result<bool, Broken> {
        if !sends_much {
            rings.send.be_quiet();
        }
        // Both, in any case.
        Ok(rings.receive.be_loud() | (sends_much && rings.send.be_loud()))
    }
}
