//! The client's side of a disk connection.

use zx::{AsHandleRef, Channel, Fifo, MonotonicInstant, Result, Signals, Status, Vmo};

use super::{Answer, ELEMENT, Geometry, MOST, OPEN, Operation, Request};

/// Maximum bytes of one request. Several of them fit into the buffer.
const PIECE: usize = 64 << 10;
/// How many times in a row a driver may end without progress.
const PATIENCE: u32 = 10;

/// A disk. When its driver ends, it connects to the next driver and resumes the transfer.
#[derive(Debug)]
pub struct Disk {
    service: String,
    connection: Connection,
    /// How many drivers have ended.
    lost: u32,
}

#[derive(Debug)]
struct Connection {
    /// Closes when the driver ends.
    _channel: Channel,
    fifo: Fifo,
    buffer: Vmo,
    shape: Geometry,
}

impl Connection {
    fn open(service: &str) -> Result<Connection> {
        let channel = zx::startup::connect(service)?;
        channel.write(&[OPEN], [])?;
        let mut bytes = [0; Geometry::SIZE];
        let mut handles = [None, None];
        let size = channel.read_wait(&mut bytes, &mut handles, MonotonicInstant::INFINITE)?;
        let shape = Geometry::from_bytes(&bytes[..size.bytes.min(Geometry::SIZE)]).ok_or(Status::IO_DATA_INTEGRITY)?;
        let [Some(fifo), Some(buffer)] = handles else { return Err(Status::IO_DATA_INTEGRITY) };
        Ok(Connection { _channel: channel, fifo: fifo.into(), buffer: buffer.into(), shape })
    }
}

/// A piece of a transfer: its offset in the caller's bytes and on the disk.
#[derive(Clone, Copy)]
struct Piece {
    start: usize,
    len: usize,
    block: u64,
}

/// The bytes to transfer, and the direction.
enum Bytes<'a> {
    Out(&'a [u8]),
    In(&'a mut [u8]),
}

impl Bytes<'_> {
    fn len(&self) -> usize {
        match self {
            Bytes::Out(bytes) => bytes.len(),
            Bytes::In(bytes) => bytes.len(),
        }
    }
}

impl Disk {
    /// Connects to the service `service`.
    ///
    /// # Errors
    /// `PEER_CLOSED`: the disk does not exist.
    pub fn open(service: &str) -> Result<Disk> {
        Ok(Disk { service: service.to_owned(), connection: Connection::open(service)?, lost: 0 })
    }

    /// The disk's geometry, and the size of the buffer.
    pub fn shape(&self) -> Geometry {
        self.connection.shape
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.connection.shape.blocks * u64::from(self.connection.shape.block)
    }

    /// How many times its driver has ended and it has connected to the next one.
    pub fn lost(&self) -> u32 {
        self.lost
    }

    /// Reads whole blocks.
    ///
    /// # Errors
    /// `INVALID_ARGS` if the length is not a multiple of a block, `OUT_OF_RANGE` beyond the end, `IO`.
    pub fn read(&mut self, block: u64, bytes: &mut [u8]) -> Result<()> {
        self.transfer(block, Bytes::In(bytes))
    }

    /// Writes whole blocks.
    ///
    /// # Errors
    /// As [`Disk::read`]; `ACCESS_DENIED` for a read-only disk.
    pub fn write(&mut self, block: u64, bytes: &[u8]) -> Result<()> {
        self.transfer(block, Bytes::Out(bytes))
    }

    /// Makes all writes durable.
    ///
    /// # Errors
    /// `IO`.
    pub fn flush(&mut self) -> Result<()> {
        for _ in 0..PATIENCE {
            let request = Request { operation: Operation::Flush, id: 0, block: 0, blocks: 0, offset: 0 };
            match self.send(request).and_then(|()| self.receive()) {
                Ok(answer) => return status(answer),
                Err(Status::PEER_CLOSED) => self.again()?,
                Err(other) => return Err(other),
            }
        }
        Err(Status::PEER_CLOSED)
    }

    /// Connects to the next driver.
    fn again(&mut self) -> Result<()> {
        self.lost += 1;
        self.connection = Connection::open(&self.service)?;
        Ok(())
    }

    fn transfer(&mut self, block: u64, mut bytes: Bytes<'_>) -> Result<()> {
        let size = self.shape().block as usize;
        if !bytes.len().is_multiple_of(size) {
            return Err(Status::INVALID_ARGS);
        }
        let piece = (PIECE / size * size).max(size);
        let pieces = (0..bytes.len()).step_by(piece).map(|start| Piece {
            start,
            len: piece.min(bytes.len() - start),
            block: block + (start / size) as u64,
        });
        let mut open: Vec<Piece> = pieces.collect();
        let mut patience = PATIENCE;
        while !open.is_empty() {
            let before = open.len();
            match self.pass(&mut open, &mut bytes) {
                Err(Status::PEER_CLOSED) if patience > 0 => {
                    // Pieces without an answer are still in `open`.
                    patience = if open.len() < before { PATIENCE } else { patience - 1 };
                    self.again()?;
                }
                other => other?,
            }
        }
        Ok(())
    }

    /// Keeps as many pieces in flight as fit into the buffer until all are done, and removes the answered pieces from
    /// `open`.
    fn pass(&mut self, open: &mut Vec<Piece>, bytes: &mut Bytes<'_>) -> Result<()> {
        let size = self.shape().block as usize;
        let stride = open.iter().map(|piece| piece.len).max().unwrap_or(size);
        let places = (self.shape().buffer as usize / stride).clamp(1, MOST);
        let mut under_way: Vec<Option<Piece>> = vec![None; places];
        let mut waiting = open.clone().into_iter();
        loop {
            for (place, free) in under_way.iter_mut().enumerate().filter(|(_, piece)| piece.is_none()) {
                let Some(piece) = waiting.next() else { break };
                let offset = place * stride;
                let operation = match bytes {
                    Bytes::Out(bytes) => {
                        let data = &bytes[piece.start..piece.start + piece.len];
                        self.connection.buffer.write(data, offset as u64)?;
                        Operation::Write
                    }
                    Bytes::In(_) => Operation::Read,
                };
                let blocks = (piece.len / size) as u32;
                let request =
                    Request { operation, id: place as u32, block: piece.block, blocks, offset: offset as u32 };
                self.send(request)?;
                *free = Some(piece);
            }
            if under_way.iter().all(Option::is_none) {
                return Ok(());
            }
            let answer = self.receive()?;
            let place = answer.id as usize;
            let piece = under_way.get_mut(place).and_then(Option::take).ok_or(Status::IO_DATA_INTEGRITY)?;
            status(answer)?;
            if let Bytes::In(bytes) = bytes {
                let data = &mut bytes[piece.start..piece.start + piece.len];
                self.connection.buffer.read(data, (place * stride) as u64)?;
            }
            open.retain(|other| other.start != piece.start);
        }
    }

    /// The FIFO always has room, because no more requests are in flight than it has elements.
    fn send(&self, request: Request) -> Result<()> {
        self.connection.fifo.write(ELEMENT, &request.to_bytes()).map(drop)
    }

    fn receive(&self) -> Result<Answer> {
        let fifo = &self.connection.fifo;
        let mut bytes = [0; ELEMENT];
        loop {
            match fifo.read(ELEMENT, &mut bytes) {
                Ok(_) => return Ok(Answer::from_bytes(&bytes)),
                Err(Status::SHOULD_WAIT) => {
                    let signals = Signals::FIFO_READABLE | Signals::FIFO_PEER_CLOSED;
                    fifo.wait_one(signals, MonotonicInstant::INFINITE)?;
                }
                Err(other) => return Err(other),
            }
        }
    }
}

fn status(answer: Answer) -> Result<()> {
    if answer.status == 0 { Ok(()) } else { Err(Status(answer.status)) }
}
