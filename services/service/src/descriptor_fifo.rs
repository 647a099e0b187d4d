//! Ends of FIFOs of descriptors (crate [`netdevice`]).

use netdevice::ELEMENT;
use zx::{AsHandleRef, Fifo, Port, Result, Signals, Status};

/// Numbers that are read at a time.
const BATCH: usize = 64;

/// An end of a FIFO through which numbers of descriptors come and go.
#[derive(Debug)]
pub struct DescriptorFifo {
    fifo: Fifo,
    key: u64,
    awaits: bool,
}

impl DescriptorFifo {
    /// An end, whose packets have this key.
    pub fn new(fifo: Fifo, key: u64) -> DescriptorFifo {
        DescriptorFifo { fifo, key, awaits: false }
    }

    /// The packet that was requested has come.
    pub fn arrived(&mut self) {
        self.awaits = false;
    }

    /// Reads numbers, if no packet is requested for them. If there are no more, it requests a packet for the next ones.
    ///
    /// # Errors
    /// The other side has gone.
    pub fn read(&mut self, port: &Port) -> Result<impl Iterator<Item = u16> + use<>> {
        let mut elements = [[0; ELEMENT]; BATCH];
        let mut count = 0;
        if !self.awaits {
            count = match self.fifo.read(ELEMENT, elements.as_flattened_mut()) {
                Err(Status::SHOULD_WAIT) => 0,
                read => read?,
            };
            if count < BATCH {
                // Another read would say that there are none.
                self.fifo.wait_async(port, self.key, Signals::FIFO_READABLE | Signals::FIFO_PEER_CLOSED, 0)?;
                self.awaits = true;
            }
        }
        Ok(elements.into_iter().take(count).map(u16::from_le_bytes))
    }

    /// Writes numbers. There is room for all, unless the other side breaks the rules.
    ///
    /// # Errors
    /// The other side has gone. `BAD_STATE`: there was no room.
    pub fn write(&self, numbers: &[u16]) -> Result<()> {
        if numbers.is_empty() {
            return Ok(());
        }
        let bytes: Vec<[u8; ELEMENT]> = numbers.iter().map(|number| number.to_le_bytes()).collect();
        let written = self.fifo.write(ELEMENT, bytes.as_flattened())?;
        if written == numbers.len() { Ok(()) } else { Err(Status::BAD_STATE) }
    }
}
