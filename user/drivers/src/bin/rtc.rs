//! The PC's clock: tells the time, and when a second begins.
//!
//! Given: the clock's two I/O ports and its interrupt. The clock interrupts once a second, right after it has changed
//! the time, and only while somebody waits for that.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
mod here {
    use std::collections::HashMap;

    use drivers::clock::{self, Time};
    use drivers::startup;
    use service::Clients;
    use zx::{AsHandleRef, Channel, Interrupt, IoPorts, MonotonicInstant, Port, Signals, Status};

    const INTERRUPT: u64 = 1;
    const CLIENTS: u64 = 2;
    const FIRST_CLIENT: u64 = 3;

    struct Rtc {
        ports: IoPorts,
        port: Port,
        clients: HashMap<u64, Channel>,
        next: u64,
        /// Those who wait for the next second.
        waiting: Vec<u64>,
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
        let mut rtc =
            Rtc { ports, port, clients: HashMap::new(), next: FIRST_CLIENT, waiting: Vec::new(), interrupts: 0 };
        // What an earlier driver asked for, and an interrupt that nobody has settled.
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
                        Ok(client) => client.handles.into_iter().for_each(|handle| rtc.add(handle.into())),
                        Err(Status::SHOULD_WAIT) => {}
                        Err(_) => return Ok(()),
                    }
                    rtc.watch(&clients.0, CLIENTS).map_err(step("clients"))?;
                }
                key => {
                    if rtc.answer(key).is_err() {
                        rtc.clients.remove(&key);
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

        /// The time, read twice until both are the same: it may change in between.
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

        fn add(&mut self, channel: Channel) {
            if self.watch(&channel, self.next).is_ok() {
                self.clients.insert(self.next, channel);
                self.next += 1;
            }
        }

        /// Answers a client's request, or remembers that it waits.
        fn answer(&mut self, key: u64) -> zx::Result<()> {
            let Some(client) = self.clients.get(&key) else { return Ok(()) };
            let mut request = [0; 1];
            match client.read(&mut request, &mut []) {
                Ok(_) if request[0] == clock::NEXT => {
                    self.waiting.push(key);
                    self.interrupt_at_change(true);
                }
                Ok(_) => {
                    let time = Time { seconds: self.time(), at: 0, interrupts: self.interrupts };
                    client.write(&time.to_bytes(), [])?;
                }
                Err((Status::SHOULD_WAIT, _)) => {}
                Err((status, _)) => return Err(status),
            }
            self.watch(client, key)
        }

        /// A second has begun.
        fn second(&mut self, at: MonotonicInstant) {
            self.interrupts += 1;
            let time = Time { seconds: self.time(), at: at.0, interrupts: self.interrupts };
            for key in std::mem::take(&mut self.waiting) {
                if let Some(client) = self.clients.get(&key) {
                    // One that has gone is seen by its own packet.
                    let _ = client.write(&time.to_bytes(), []);
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
