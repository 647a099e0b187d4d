//! The driver of the PC's clock. It reports the time and the start of a second.
//!
//! Its resources: the clock's two I/O ports and its interrupt. The clock interrupts once a second, right after it has
//! updated the time, and only while a client waits for that.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
mod here {
    use std::collections::HashMap;

    use drivers::clock::{self, Time};
    use drivers::startup;
    use service::{ChannelEnds, Clients, End, Event, Ledger, Program};
    use zx::{AsHandleRef, Channel, Handle, Interrupt, IoPorts, MonotonicInstant, Port, Signals, Status};

    const INTERRUPT: u64 = 1;
    const CLIENTS: u64 = 2;
    const FIRST_CLIENT: u64 = 3;

    /// The maximum number of clients, in total and per program.
    const MOST_CLIENTS: u64 = 4096;
    const OF_A_PROGRAM: u64 = 256;

    struct Client {
        channel: End,
        program: Program,
        /// The client waits for the next second.
        waits: bool,
    }

    struct Rtc {
        ports: IoPorts,
        port: Port,
        clients: HashMap<u64, Client>,
        ends: ChannelEnds,
        ledger: Ledger,
        next: u64,
        interrupts: u64,
    }

    pub fn main() -> Result<(), String> {
        let mut resources = startup::resources();
        let ports = startup::expect(&mut resources, abi::ZX_RSRC_KIND_IOPORT, "I/O ports")?;
        let line = startup::expect(&mut resources, abi::ZX_RSRC_KIND_IRQ, "an interrupt")?;
        let number = line.info().map_err(|status| status.to_string())?.base as u32;
        let step = |what: &'static str| move |status: Status| format!("{what}: {status}");
        let interrupt = Interrupt::create(&line, number, abi::ZX_INTERRUPT_MODE_DEFAULT).map_err(step("interrupt"))?;
        let port = Port::create_for_interrupts().map_err(step("port"))?;
        interrupt.bind(&port, INTERRUPT).map_err(step("interrupt"))?;
        let clients = Clients::take()?;
        let ports = IoPorts::of(&ports).map_err(step("ports"))?;
        let mut rtc = Rtc {
            ports,
            port,
            clients: HashMap::new(),
            ends: ChannelEnds::default(),
            ledger: Ledger::new(MOST_CLIENTS, OF_A_PROGRAM),
            next: FIRST_CLIENT,
            interrupts: 0,
        };
        // Clears the settings of an earlier driver and an interrupt that it has not acknowledged.
        rtc.interrupt_at_change(false);
        rtc.register(clock::STATUS_C);
        rtc.watch(&clients.0, CLIENTS).map_err(step("clients"))?;
        loop {
            let packet = rtc.port.wait(MonotonicInstant::INFINITE).map_err(step("port"))?;
            match packet.key {
                INTERRUPT => {
                    let at = MonotonicInstant::now();
                    if rtc.register(clock::STATUS_C) & clock::CHANGED != 0 {
                        rtc.second(at);
                    }
                    interrupt.ack().map_err(step("interrupt"))?;
                }
                CLIENTS => {
                    match clients.next() {
                        Ok(Event::Client(client)) => {
                            for handle in client.handles {
                                // If the client cannot be served, its channel is closed, and the client sees that.
                                let _ = rtc.add(handle, client.program);
                            }
                        }
                        Ok(Event::Ended(program)) => rtc.ended(program),
                        Err(Status::SHOULD_WAIT) => {}
                        Err(_) => return Ok(()),
                    }
                    rtc.watch(&clients.0, CLIENTS).map_err(step("clients"))?;
                }
                key => {
                    if rtc.answer(key).is_err() {
                        rtc.forget(key);
                    }
                }
            }
        }
    }

    impl Rtc {
        fn register(&self, index: u8) -> u8 {
            self.ports.write8(clock::INDEX, index);
            self.ports.read8(clock::DATA)
        }

        fn interrupt_at_change(&self, on: bool) {
            let form = self.register(clock::STATUS_B);
            let form = if on { form | clock::CHANGED } else { form & !clock::CHANGED };
            self.ports.write8(clock::INDEX, clock::STATUS_B);
            self.ports.write8(clock::DATA, form);
        }

        /// The time. The clock may update it during a read, so it is read until two reads agree.
        fn time(&self) -> i64 {
            loop {
                let read = || clock::FIELDS.map(|field| self.register(field));
                let (first, second) = (read(), read());
                if first == second && self.register(clock::STATUS_A) & clock::CHANGING == 0 {
                    return clock::seconds(first, self.register(clock::STATUS_B)).unwrap_or(0);
                }
            }
        }

        fn watch(&self, channel: &Channel, key: u64) -> zx::Result<()> {
            channel.wait_async(&self.port, key, Signals::CHANNEL_READABLE | Signals::CHANNEL_PEER_CLOSED, 0)
        }

        fn add(&mut self, handle: Handle, program: Program) -> zx::Result<()> {
            let channel = self.ends.take(handle)?;
            self.watch(&channel, self.next)?;
            if !self.ledger.take(program, 1) {
                return Err(Status::NO_RESOURCES);
            }
            self.clients.insert(self.next, Client { channel, program, waits: false });
            self.next += 1;
            Ok(())
        }

        fn forget(&mut self, key: u64) {
            if let Some(client) = self.clients.remove(&key) {
                self.ledger.give(client.program, 1);
            }
        }

        fn ended(&mut self, program: Program) {
            self.clients.retain(|_, client| client.program != program);
            self.ledger.ended(program);
        }

        /// Answers a client's request, or records that the client waits for the next second. A client can wait once at
        /// a time.
        fn answer(&mut self, key: u64) -> zx::Result<()> {
            let Some(client) = self.clients.get(&key) else { return Ok(()) };
            let mut request = [0; 1];
            let read = client.channel.read(&mut request, &mut []);
            // Before the answer, so that a client's end is noticed before what it does next.
            self.watch(&client.channel, key)?;
            match read {
                Ok(_) if request[0] == clock::NEXT => self.wait_for_second(key),
                Ok(_) => self.tell(key, Time { seconds: self.time(), at: 0, interrupts: self.interrupts }),
                Err((Status::SHOULD_WAIT, _)) => Ok(()),
                Err((status, _)) => Err(status),
            }
        }

        fn wait_for_second(&mut self, key: u64) -> zx::Result<()> {
            let client = self.clients.get_mut(&key).ok_or(Status::NOT_FOUND)?;
            if std::mem::replace(&mut client.waits, true) {
                return Err(Status::BAD_STATE);
            }
            self.interrupt_at_change(true);
            Ok(())
        }

        /// Drops a client that does not read its answers.
        fn tell(&self, key: u64, time: Time) -> zx::Result<()> {
            let client = self.clients.get(&key).ok_or(Status::NOT_FOUND)?;
            client.channel.write(&time.to_bytes(), [])
        }

        /// A second has begun.
        fn second(&mut self, at: MonotonicInstant) {
            self.interrupts += 1;
            let time = Time { seconds: self.time(), at: at.0, interrupts: self.interrupts };
            let waited = |(key, client): (&u64, &mut Client)| std::mem::take(&mut client.waits).then_some(*key);
            let waited: Vec<u64> = self.clients.iter_mut().filter_map(waited).collect();
            for key in waited {
                if self.tell(key, time).is_err() {
                    self.forget(key);
                }
            }
            self.interrupt_at_change(false);
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
    eprintln!("rtc: this driver runs on Hafnon");
    std::process::exit(2);
}
