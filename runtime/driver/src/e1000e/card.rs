//! The card: its registers.

use std::string::{String, ToString};
use std::thread;
use std::time::Duration;
use std::vec::Vec;

use zx::{Bti, Status};

use super::registers::*;
use super::ring::{BUFFER, BYTES, Memory, Ring};
use crate::broken::Broken;
use crate::config::Config;
use crate::dma::{Dma, Window};
use crate::net::{MOST_FRAMES, NetworkCard, Rings};

/// Between two looks whether the card has done something. It gets 100 ms or more for each step.
const STEP: Duration = Duration::from_millis(1);
/// How long the card may set up its side of the link after a reset, as Linux lets it.
const SETTLE: Duration = Duration::from_millis(25);
/// Time between two interrupts, in the card's units: 50 µs.
const BETWEEN_INTERRUPTS: u32 = 195;

impl Memory for Dma {
    fn read_u16(&self, offset: usize) -> u16 {
        self.read(offset)
    }
    fn read_u32(&self, offset: usize) -> u32 {
        self.read(offset)
    }
    fn write_u64(&self, offset: usize, value: u64) {
        self.write(offset, value);
    }
}

/// A network card.
#[derive(Debug)]
pub struct Card {
    registers: Window,
    bti: Bti,
    mac: [u8; 6],
    /// Interrupts are off.
    is_quiet: bool,
}

impl Card {
    /// Resets the card. It sends and receives nothing before its start.
    ///
    /// # Errors
    /// A sentence for the log.
    pub fn new(config: impl Config, windows: Vec<Window>, bti: &Bti) -> Result<Card, String> {
        let address = config.window(0).map(|(address, _)| address);
        let registers = windows.into_iter().find(|window| Some(window.address) == address);
        let registers = registers.filter(|window| window.len >= REGISTERS).ok_or("the card has no registers")?;
        let bti = bti.duplicate(zx::Rights::SAME_RIGHTS).map_err(|status| std::format!("the BTI: {status}"))?;
        let mut card = Card { registers, bti, mac: [0; 6], is_quiet: false };
        card.reset().map_err(|_| "the card does not stop".to_string())?;
        // After that it accesses no memory of an earlier driver.
        card.bti.release_quarantine().map_err(|status| std::format!("the memory of an earlier driver: {status}"))?;
        card.settle().map_err(|_| "the card does not read its settings after a reset".to_string())?;
        card.mac = mac(card.get(RAL_0), card.get(RAH_0)).ok_or("the card has no hardware address")?;
        Ok(card)
    }

    fn get(&self, register: usize) -> u32 {
        self.registers.read(register).unwrap_or(NOTHING)
    }

    fn set(&self, register: usize, value: u32) {
        self.registers.write(register, value);
    }

    /// Stops the card and resets it. Some models of the card keep their settings in a reset, so first all is switched off.
    ///
    /// # Errors
    /// `IO`: the card does not stop.
    fn reset(&mut self) -> zx::Result<()> {
        self.set(IMC, u32::MAX);
        self.is_quiet = true;
        self.set(RCTL, 0);
        self.set(TCTL, 0);
        // What is under way is finished.
        self.set(CTRL, self.get(CTRL) | CTRL_GIO_MASTER_DISABLE);
        self.wait(STATUS, STATUS_GIO_MASTER_ENABLE, false)?;
        self.set(CTRL, self.get(CTRL) | CTRL_RST);
        // Not at once: the card does not answer in the first moments.
        thread::sleep(STEP);
        self.wait(CTRL, CTRL_RST, false)?;
        // The reset switches nothing on, but the data sheet asks for this.
        self.set(IMC, u32::MAX);
        self.set(ICR, u32::MAX);
        Ok(())
    }

    /// Waits until the card has its settings after a reset. They do not matter to a card that only stops.
    ///
    /// # Errors
    /// `IO`: the card does not read them.
    fn settle(&self) -> zx::Result<()> {
        self.wait(EECD, EECD_AUTO_RD, true)?;
        thread::sleep(SETTLE);
        Ok(())
    }

    /// Waits until a bit is on or off.
    ///
    /// # Errors
    /// `IO`: it does not become so, or the card is not there any more.
    fn wait(&self, register: usize, bit: u32, on: bool) -> zx::Result<()> {
        let is = wait(|| self.get(register), bit, on, || thread::sleep(STEP));
        if is { Ok(()) } else { Err(Status::IO) }
    }
}

impl NetworkCard for Card {
    type Ring = Ring<Dma>;

    // The card knows one size for all buffers.
    const MIN_RX_BUFFER: usize = BUFFER;
    // What the card needs to pad a frame.
    const MIN_TX_BUFFER: usize = 17;

    fn mac(&self) -> [u8; 6] {
        self.mac
    }

    fn online(&self) -> bool {
        // Before the look: a later change is a cause again.
        self.set(ICR, CAUSES_OF_LINK);
        let status = self.get(STATUS);
        status != NOTHING && status & STATUS_LU != 0
    }

    fn stop(&mut self) -> bool {
        self.reset().is_ok()
    }

    fn rings(&mut self) -> zx::Result<Rings<Ring<Dma>>> {
        let ring = || Dma::new(&self.bti, BYTES).map(|memory| Ring::new(memory, MOST_FRAMES));
        Ok(Rings { receive: ring()?, send: ring()? })
    }

    fn start(&mut self, rings: &Rings<Ring<Dma>>, promiscuous: bool) -> zx::Result<()> {
        self.settle()?;
        let control = self.get(CTRL) & !(CTRL_GIO_MASTER_DISABLE | CTRL_FORCED);
        self.set(CTRL, control | CTRL_SLU | CTRL_FD);
        (0..MTA_ENTRIES).for_each(|entry| self.set(MTA + 4 * entry, 0));
        for register in [RXCSUM, RFCTL, MRQC, EIAC].into_iter().chain(DELAYS) {
            self.set(register, 0);
        }
        self.set(CTRL_EXT, self.get(CTRL_EXT) | CTRL_EXT_PBA_CLR);
        self.set(IVAR, IVAR_ALL_TO_0);
        self.set(EITR_0, BETWEEN_INTERRUPTS);
        self.set(TIPG, TIPG_VALUE);
        for (ring, base) in [(&rings.receive, RECEIVE), (&rings.send, SEND)] {
            let address = ring.memory().address();
            self.set(base + ADDRESS_LOW, address as u32);
            self.set(base + ADDRESS_HIGH, (address >> 32) as u32);
            self.set(base + LENGTH, BYTES as u32);
            self.set(base + HEAD, 0);
            self.set(base + TAIL, 0);
        }
        self.set(TCTL, self.get(TCTL) | TCTL_EN | TCTL_PSP | TCTL_COLLISIONS);
        // Without the bits for long packets, for packets with errors, and for buffers of another size than 2,048 bytes.
        let all = if promiscuous { RCTL_UPE } else { 0 };
        self.set(RCTL, RCTL_EN | all | RCTL_MPE | RCTL_BAM | RCTL_SECRC);
        // The card has all of this when it answers.
        if self.get(RCTL) & RCTL_EN == 0 || self.get(STATUS) == NOTHING {
            return Err(Status::IO);
        }
        Ok(())
    }

    fn tell(&mut self, rings: &mut Rings<Ring<Dma>>) {
        for (ring, base) in [(&mut rings.receive, RECEIVE), (&mut rings.send, SEND)] {
            if let Some(tail) = ring.untold() {
                self.set(base + TAIL, tail.into());
            }
        }
    }

    fn be_quiet(&mut self, _: &Rings<Ring<Dma>>) {
        if !self.is_quiet {
            self.set(IMC, u32::MAX);
            self.is_quiet = true;
        }
    }

    fn be_loud(&mut self, rings: &Rings<Ring<Dma>>, sends_much: bool) -> Result<bool, Broken> {
        // Causes from before are of frames that the last look below finds. Those of the link stay until that is looked at.
        self.set(ICR, !CAUSES_OF_LINK);
        let causes = CAUSE_RXQ0 | CAUSES_OF_LINK;
        self.set(IMS, if sends_much { causes | CAUSE_TXQ0 } else { causes });
        self.is_quiet = false;
        // The answer comes after both writes have reached the card, and after what the card wrote before them.
        if self.get(STATUS) == NOTHING {
            return Err(Broken::Registers);
        }
        Ok(rings.receive.is_done() || (sends_much && rings.send.is_done()))
    }
}
