//! A virtio network card.
//!
//! Its frames lie in memory of a client, which the device reads and writes directly. Their headers lie in memory of this
//! process. When the client has gone, the device is reset, so that it does not write to that memory any more.

use std::string::{String, ToString};
use std::vec::Vec;

use virtio_drivers::transport::{DeviceStatus, Transport};
use zx::Bti;

use super::Interrupting;
use super::ring::{HEADER, Ring};
use crate::broken::Broken;
use crate::config::Config;
use crate::dma::{Pinned, Window};
use crate::net::{MUCH, NetworkCard};

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
    /// Set while there is a session.
    session: Option<Session>,
}

struct Session {
    frames: Pinned,
    receive: Ring,
    send: Ring,
}

impl Card {
    /// Resets the device. It sends and receives nothing before [`Card::open`].
    ///
    /// # Errors
    /// A sentence for the log.
    pub fn new(config: impl Config, windows: Vec<Window>, bti: &Bti) -> Result<Card, String> {
        let mut transport = super::open(config, windows, bti)?;
        let features = transport.read_device_features();
        if features & VERSION_1 == 0 || features & MAC == 0 {
            return Err("the card is too old, or has no hardware address".to_string());
        }
        let mac = transport.read_config_space(0).map_err(|error| error.to_string())?;
        let bti = bti.duplicate(zx::Rights::SAME_RIGHTS).map_err(|status| std::format!("the BTI: {status}"))?;
        Ok(Card { transport, bti, mac, has_status: features & STATUS != 0, session: None })
    }

    /// Agrees on features, makes the rings, and starts the device: it has no buffers yet.
    fn start(&mut self) -> zx::Result<(Ring, Ring)> {
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
        let receive = Ring::new(transport, &self.bti, RECEIVE, true, event_index)?;
        let send = Ring::new(transport, &self.bti, SEND, false, event_index)?;
        status |= DeviceStatus::DRIVER_OK;
        transport.set_status(status);
        Ok((receive, send))
    }
}

impl NetworkCard for Card {
    // A longest frame with a VLAN's mark, which is not cut but refused by the client.
    const MIN_RX_BUFFER: usize = 1518;

    fn mac(&self) -> [u8; 6] {
        self.mac
    }

    fn online(&self) -> bool {
        let status = || self.transport.read_config_space::<u16>(STATUS_AT).is_ok_and(|status| status & LINK != 0);
        !self.has_status || status()
    }

    fn open(&mut self, frames: Pinned) -> zx::Result<()> {
        self.close()?;
        match self.start() {
            Ok((receive, send)) => {
                self.session = Some(Session { frames, receive, send });
                Ok(())
            }
            Err(status) => {
                self.close()?;
                frames.unpin();
                Err(status)
            }
        }
    }

    fn close(&mut self) -> zx::Result<()> {
        // The rings' memory is the device's, too, until it has stopped.
        let stopped = self.transport.reset();
        let Some(session) = self.session.take() else { return stopped.map_err(|_| zx::Status::IO) };
        match stopped {
            Ok(()) => {
                session.frames.unpin();
                Ok(())
            }
            Err(_) => {
                core::mem::forget(session);
                Err(zx::Status::IO)
            }
        }
    }

    fn receive(&mut self, number: u16, offset: usize, len: usize) -> bool {
        let Some(session) = &mut self.session else { return false };
        match (session.frames.address(offset, len), u32::try_from(len)) {
            (Some(address), Ok(len)) => session.receive.give(number, address, len),
            _ => false,
        }
    }

    fn send(&mut self, number: u16, offset: usize, len: usize) -> bool {
        let Some(session) = &mut self.session else { return false };
        match (session.frames.address(offset, len), u32::try_from(len)) {
            (Some(address), Ok(len)) => session.send.give(number, address, len),
            _ => false,
        }
    }

    fn can_receive(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.receive.has_room())
    }

    fn can_send(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.send.has_room())
    }

    fn tell(&mut self) {
        if let Some(session) = &mut self.session {
            session.receive.tell(&mut self.transport);
            session.send.tell(&mut self.transport);
        }
    }

    fn received(&mut self) -> Result<Option<(u16, usize)>, Broken> {
        let Some(session) = &mut self.session else { return Ok(None) };
        let Some((number, written)) = session.receive.take()? else { return Ok(None) };
        // Without a header there is no frame.
        Ok(Some((number, (written as usize).saturating_sub(HEADER))))
    }

    fn sent(&mut self) -> Result<Option<u16>, Broken> {
        let Some(session) = &mut self.session else { return Ok(None) };
        Ok(session.send.take()?.map(|(number, _)| number))
    }

    fn be_quiet(&mut self) {
        if let Some(session) = &self.session {
            session.receive.be_quiet();
            session.send.be_quiet();
        }
    }

    fn be_loud(&mut self) -> Result<bool, Broken> {
        let Some(session) = &self.session else { return Ok(false) };
        let sends_much = session.send.given() >= MUCH;
        if !sends_much {
            session.send.be_quiet();
        }
        // Both, in any case.
        Ok(session.receive.be_loud() | (sends_much && session.send.be_loud()))
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        // After a failure nothing more can be done: the memory stays pinned.
        let _ = self.close();
    }
}
