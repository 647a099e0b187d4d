//! The driver of a virtio disk. It serves the disk's blocks.
//!
//! It has a connection to the bus driver that stands for the disk. Through it, it gets the disk's registers, its
//! interrupt and the BTI. [`drivers::block`] defines the clients' messages. Each client has its own buffer. All
//! requests that fit into the disk's queue are in flight at the same time.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
mod here {
    use std::collections::HashMap;

    use driver::Dma;
    use driver::virtio::{self, BLOCK, Token};
    use drivers::block::{Answer, ELEMENT, Geometry, MOST, OPEN, Operation, Request};
    use drivers::pci_client::{Parts, PciClient};
    use service::{ChannelEnds, Clients, End, Event, Ledger, Program};
    use zx::{AsHandleRef, Bti, Channel, Fifo, Handle, MonotonicInstant, Port, Rights, Signals, Status};

    const INTERRUPT: u64 = 1;
    const CLIENTS: u64 = 2;
    /// Keys from here on belong to clients. Each client has two: an even one for its channel and an odd one for its
    /// FIFO.
    const FIRST: u64 = 4;

    /// Size of a client's buffer in bytes.
    const BUFFER: usize = 512 << 10;
    /// The maximum number of clients, in total and per program. Each client's buffer is physically contiguous.
    const MOST_CLIENTS: u64 = 16;
    const OF_A_PROGRAM: u64 = 4;

    struct Client {
        channel: End,
        program: Program,
        /// Set once the client has opened the disk.
        session: Option<Session>,
        /// The client has gone or has broken the rules. The driver waits for its requests in flight.
        gone: bool,
        under_way: usize,
    }

    struct Session {
        fifo: Fifo,
        buffer: Dma,
        /// A port packet is requested for its requests.
        awaits: bool,
    }

    struct Server {
        /// The bus driver stops the disk when this connection closes.
        _device: PciClient,
        disk: virtio::Disk,
        bti: Bti,
        port: Port,
        /// Clients by key.
        clients: HashMap<u64, Client>,
        ends: ChannelEnds,
        ledger: Ledger,
        next: u64,
        /// The client whose requests are started first; a different one each time.
        turn: usize,
        /// For each request in flight, its client and the client's number for it.
        requests: HashMap<Token, (u64, u32)>,
        /// Clients that wait until all requests in flight are done, and then for a flush.
        flushes: Vec<(u64, u32)>,
    }

    pub fn main() -> Result<(), String> {
        let step = |what: &'static str| move |status: Status| format!("{what}: {status}");
        let Parts { device, windows, bti, interrupt, port } = PciClient::take(INTERRUPT)?;
        // From now on the disk can access memory. Until the reset it knows no memory that is in use: buffers of an
        // earlier driver are in quarantine.
        device.start();
        let disk = virtio::Disk::new(device.clone(), windows, &bti)?;
        let clients = Clients::take()?;
        let mut server = Server {
            _device: device,
            disk,
            bti,
            port,
            clients: HashMap::new(),
            ends: ChannelEnds::default(),
            ledger: Ledger::new(MOST_CLIENTS, OF_A_PROGRAM),
            next: FIRST,
            turn: 0,
            requests: HashMap::new(),
            flushes: Vec::new(),
        };
        server.watch(&clients.0, CLIENTS).map_err(step("clients"))?;
        loop {
            let packet = server.port.wait(MonotonicInstant::INFINITE).map_err(step("port"))?;
            match packet.key {
                // The driver re-enables the interrupt first and then looks for completed requests, so it misses none.
                INTERRUPT => interrupt.ack().map_err(step("interrupt"))?,
                CLIENTS => {
                    match clients.next() {
                        Ok(Event::Client(client)) => {
                            for handle in client.handles {
                                // If the client cannot be served, its channel is closed, and the client sees that.
                                let _ = server.add(handle, client.program);
                            }
                        }
                        Ok(Event::Ended(program)) => server.ended(program),
                        Err(Status::SHOULD_WAIT) => {}
                        Err(_) => return Ok(()),
                    }
                    server.watch(&clients.0, CLIENTS).map_err(step("clients"))?;
                }
                key if key % 2 == 0 => server.message(key),
                key => {
                    if let Some(session) = server.clients.get_mut(&(key - 1)).and_then(|c| c.session.as_mut()) {
                        session.awaits = false;
                    }
                }
            }
            server.go_on();
        }
    }

    impl Server {
        fn watch(&self, channel: &Channel, key: u64) -> zx::Result<()> {
            channel.wait_async(&self.port, key, Signals::CHANNEL_READABLE | Signals::CHANNEL_PEER_CLOSED, 0)
        }

        fn add(&mut self, handle: Handle, program: Program) -> zx::Result<()> {
            let channel = self.ends.take(handle)?;
            self.watch(&channel, self.next)?;
            if !self.ledger.take(program, 1) {
                return Err(Status::NO_RESOURCES);
            }
            self.clients.insert(self.next, Client { channel, program, session: None, gone: false, under_way: 0 });
            self.next += 2;
            Ok(())
        }

        /// The program's clients have gone. The driver waits for their requests in flight.
        fn ended(&mut self, program: Program) {
            let clients = self.clients.values_mut().filter(|client| client.program == program);
            clients.for_each(|client| client.gone = true);
        }

        /// Handles a client's first message, or the end of its channel.
        fn message(&mut self, key: u64) {
            let Some(client) = self.clients.get(&key).filter(|client| !client.gone) else { return };
            let mut byte = [0; 1];
            let read = client.channel.read(&mut byte, &mut []);
            // Before the answer, so that a client's end is noticed before what it does next.
            let watched = self.watch(&client.channel, key);
            let result = match read {
                Ok(_) if byte[0] == OPEN && client.session.is_none() => self.open(key),
                Ok(_) => Err(Status::INVALID_ARGS),
                Err((Status::SHOULD_WAIT, _)) => Ok(()),
                Err((status, _)) => Err(status),
            };
            if result.and(watched).is_err()
                && let Some(client) = self.clients.get_mut(&key)
            {
                client.gone = true;
            }
        }

        fn open(&mut self, key: u64) -> zx::Result<()> {
            let buffer = Dma::new(&self.bti, BUFFER)?;
            let (fifo, theirs) = Fifo::create(MOST, ELEMENT)?;
            let vmo = buffer.vmo().duplicate(Rights::BASIC | Rights::READ | Rights::WRITE | Rights::MAP)?;
            let shape = Geometry {
                block: BLOCK as u32,
                blocks: self.disk.blocks(),
                read_only: self.disk.read_only(),
                buffer: BUFFER as u32,
            };
            let client = self.clients.get_mut(&key).ok_or(Status::NOT_FOUND)?;
            client.channel.write(&shape.to_bytes(), [theirs.into(), vmo.into()])?;
            self.disk.learn(&buffer);
            client.session = Some(Session { fifo, buffer, awaits: false });
            Ok(())
        }

        /// Answers completed requests, starts as many as fit, and removes clients that have gone.
        fn go_on(&mut self) {
            loop {
                self.finish();
                let mut keys: Vec<u64> = self.clients.keys().copied().collect();
                keys.sort_unstable();
                let first = self.turn % keys.len().max(1);
                self.turn = first + 1;
                keys.rotate_left(first);
                keys.into_iter().for_each(|key| self.start(key));
                // With no request in flight a flush can start now, and no interrupt would trigger it.
                if self.flushes.is_empty() || self.disk.under_way() > 0 {
                    break;
                }
            }
            let over: Vec<u64> =
                self.clients.iter().filter(|(_, c)| c.gone && c.under_way == 0).map(|(key, _)| *key).collect();
            for key in over {
                let Some(client) = self.clients.remove(&key) else { continue };
                self.ledger.give(client.program, 1);
                if let Some(session) = client.session {
                    self.disk.forget(&session.buffer);
                }
            }
        }

        /// Answers completed requests.
        fn finish(&mut self) {
            while let Some((token, fine)) = self.disk.done() {
                if let Some((key, id)) = self.requests.remove(&token) {
                    self.finished(key, id, fine);
                }
            }
            // The disk flushes while no other request is in flight. Until then no new request is started.
            if !self.flushes.is_empty()
                && let Some(fine) = self.disk.flush()
            {
                for (key, id) in std::mem::take(&mut self.flushes) {
                    self.finished(key, id, fine);
                }
            }
        }

        fn finished(&mut self, key: u64, id: u32, fine: bool) {
            if let Some(client) = self.clients.get_mut(&key) {
                client.under_way -= 1;
                client.answer(id, if fine { Status::OK } else { Status::IO });
            }
        }

        /// Starts requests of one client, at most as many as its FIFO holds. If it has more, other clients come first.
        fn start(&mut self, key: u64) {
            let Some(client) = self.clients.get_mut(&key).filter(|client| !client.gone) else { return };
            for _ in 0..MOST {
                if !self.flushes.is_empty() || self.disk.under_way() >= virtio::MOST_REQUESTS {
                    // The completion of its requests in flight calls this function again.
                    return;
                }
                let Some(session) = client.session.as_mut().filter(|session| !session.awaits) else { return };
                let mut bytes = [0; ELEMENT];
                match session.fifo.read(ELEMENT, &mut bytes) {
                    Ok(_) => {}
                    Err(Status::SHOULD_WAIT) => break,
                    Err(_) => {
                        client.gone = true;
                        return;
                    }
                }
                let request = match Request::from_bytes(&bytes) {
                    Ok(request) => request,
                    Err(id) => {
                        client.answer(id, Status::INVALID_ARGS);
                        continue;
                    }
                };
                let Request { operation, id, block, blocks, offset } = request;
                let write = operation == Operation::Write;
                if operation == Operation::Flush {
                    client.under_way += 1;
                    self.flushes.push((key, id));
                    continue;
                }
                if write && self.disk.read_only() {
                    client.answer(id, Status::ACCESS_DENIED);
                    continue;
                }
                match self.disk.submit(write, block, blocks, &session.buffer, offset as usize) {
                    Some(token) => {
                        client.under_way += 1;
                        self.requests.insert(token, (key, id));
                    }
                    None => client.answer(id, Status::OUT_OF_RANGE),
                }
            }
            let Some(session) = client.session.as_mut().filter(|session| !session.awaits) else { return };
            let signals = Signals::FIFO_READABLE | Signals::FIFO_PEER_CLOSED;
            session.awaits = session.fifo.wait_async(&self.port, key + 1, signals, 0).is_ok();
            client.gone |= !session.awaits;
        }
    }

    impl Client {
        /// Drops a client that has more requests in flight than allowed, or that does not read its answers.
        fn answer(&mut self, id: u32, status: Status) {
            if let Some(session) = &self.session
                && session.fifo.write(ELEMENT, &Answer { id, status: status.0 }.to_bytes()).is_err()
            {
                self.gone = true;
            }
        }
    }
}

#[cfg(target_os = "fuchsia")]
fn main() {
    if let Err(problem) = here::main() {
        eprintln!("{problem}");
        std::process::exit(1);
    }
}

#[cfg(not(target_os = "fuchsia"))]
fn main() {
    eprintln!("virtio-blk: this driver runs on Hafnon");
    std::process::exit(2);
}
