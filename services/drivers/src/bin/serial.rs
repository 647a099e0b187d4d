//! A terminal on a 16550 serial port: the console.
//!
//! Its resources: the UART's eight I/O ports and its interrupt. It serves one session at a time. A client sends a
//! socket, which carries the session's input and output, and a channel. The first byte on the channel reports that the
//! session has begun; each later byte reports that the user wants the program to end. The driver closes the channel
//! when the session is over and all output has been sent.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
mod here {
    use std::collections::VecDeque;

    use drivers::startup;
    use drivers::terminal::{Terminal, Typed};
    use drivers::uart::{self, Cause};
    use service::{ChannelEnds, Client, Clients, End, Event};
    use zx::{AsHandleRef, Interrupt, IoPorts, MonotonicInstant, Port, Signals, Socket, Status};

    /// Keys of packets. A session's keys have its number in the upper bits.
    const INTERRUPT: u64 = 1;
    const CLIENTS: u64 = 2;
    const OUTPUT: u64 = 3;
    const INPUT: u64 = 4;

    /// Maximum number of input bytes that wait for a program that does not read.
    const MOST_INPUT: usize = 64 << 10;
    /// Maximum number of output bytes taken from a program at once.
    const OUTPUT_AT_ONCE: usize = 4096;
    /// Maximum number of FIFO fills before other events are handled.
    const BURSTS: usize = 64;

    /// Messages on a client's channel: the session has begun; the user wants the program to end.
    const BEGUN: u8 = 0;
    const WANTS_END: u8 = 3;

    struct Session {
        number: u64,
        socket: Socket,
        control: End,
        /// The program has closed its end, and all its output has been read.
        over: bool,
        /// A port packet is requested for output; for room for input.
        awaits_output: bool,
        awaits_room: bool,
    }

    struct Serial {
        ports: IoPorts,
        port: Port,
        clients: Clients,
        ends: ChannelEnds,
        terminal: Terminal,
        /// Output that waits for the line.
        output: VecDeque<u8>,
        /// Input that waits for the program.
        input: VecDeque<u8>,
        /// No more input follows `input`.
        ended: bool,
        session: Option<Session>,
        sessions: u64,
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
        let mut serial = Serial {
            ports: IoPorts::of(&ports).map_err(step("ports"))?,
            port,
            clients: Clients::take()?,
            ends: ChannelEnds::default(),
            terminal: Terminal::default(),
            output: VecDeque::new(),
            input: VecDeque::new(),
            ended: false,
            session: None,
            sessions: 0,
        };
        uart::SET_UP.iter().for_each(|(register, value)| serial.ports.write8(*register, *value));
        serial.ports.write8(uart::INTERRUPTS, uart::ON_DATA);
        serial.await_clients().map_err(step("clients"))?;
        loop {
            let packet = serial.port.wait(MonotonicInstant::INFINITE).map_err(step("port"))?;
            match packet.key {
                INTERRUPT => {
                    serial.interrupted();
                    interrupt.ack().map_err(step("interrupt"))?;
                }
                CLIENTS => match serial.clients.next() {
                    Ok(Event::Client(client)) => {
                        serial.begin(client);
                        serial.await_clients().map_err(step("clients"))?;
                    }
                    // Every session belongs to `init`, so the end of a program changes nothing.
                    Ok(Event::Ended(_)) | Err(Status::SHOULD_WAIT) => {
                        serial.await_clients().map_err(step("clients"))?
                    }
                    // No clients are left.
                    Err(_) => return Ok(()),
                },
                key => {
                    if let Some(session) = serial.session.as_mut().filter(|session| session.number == key >> 8) {
                        match key & 0xff {
                            OUTPUT => session.awaits_output = false,
                            _ => session.awaits_room = false,
                        }
                    }
                }
            }
            serial.go_on();
        }
    }

    impl Serial {
        fn await_clients(&self) -> zx::Result<()> {
            let signals = Signals::CHANNEL_READABLE | Signals::CHANNEL_PEER_CLOSED;
            self.clients.0.wait_async(&self.port, CLIENTS, signals, 0)
        }

        /// Begins a new session, which ends the previous one.
        fn begin(&mut self, client: Client) {
            let mut handles = client.handles.into_iter();
            let (Some(socket), Some(control)) = (handles.next(), handles.next()) else { return };
            let (Ok(socket), Ok(control)) = (service::socket(socket), self.ends.take(control)) else { return };
            // If the client has already closed the channel, its socket shows that too.
            let _ = control.write(&[BEGUN], []);
            self.sessions += 1;
            self.ended = false;
            self.session = Some(Session {
                number: self.sessions,
                socket,
                control,
                over: false,
                awaits_output: false,
                awaits_room: false,
            });
        }

        /// Handles all pending causes. The interrupt line is then inactive, so that the next cause produces an edge.
        fn interrupted(&mut self) {
            loop {
                match Cause::from_register(self.ports.read8(uart::CAUSE)) {
                    Cause::None => return,
                    Cause::Data => {
                        while self.ports.read8(uart::STATUS) & uart::HAS_DATA != 0 {
                            let byte = self.ports.read8(uart::DATA);
                            self.typed(byte);
                        }
                    }
                    // `go_on` sends once the packet has been handled. Reading the cause has acknowledged it.
                    Cause::Room => {}
                    Cause::Line => drop(self.ports.read8(uart::STATUS)),
                    Cause::Modem => drop(self.ports.read8(uart::MODEM_STATUS)),
                }
            }
        }

        fn typed(&mut self, byte: u8) {
            let mut echo = Vec::new();
            match self.terminal.key(byte, &mut echo) {
                Some(Typed::Line(line)) if self.input.len() + line.len() > MOST_INPUT => echo.push(7),
                Some(Typed::Line(line)) => self.input.extend(line),
                Some(Typed::Interrupt) => {
                    self.input.clear();
                    if let Some(session) = &self.session {
                        let _ = session.control.write(&[WANTS_END], []);
                    }
                }
                Some(Typed::End) => self.ended = true,
                None => {}
            }
            self.output.extend(echo);
        }

        /// Moves all data that can move, in both directions, and requests a packet for the rest.
        fn go_on(&mut self) {
            self.take_output();
            self.send();
            self.give_input();
            // Ending the session closes the client's channel, which reports that all output has been sent.
            if self.output.is_empty() && self.session.as_ref().is_some_and(|session| session.over) {
                self.session = None;
            }
        }

        /// Takes the program's next output, once its previous output has been sent.
        fn take_output(&mut self) {
            let Some(session) = &mut self.session else { return };
            if !self.output.is_empty() || session.over || session.awaits_output {
                return;
            }
            let mut bytes = [0; OUTPUT_AT_ONCE];
            match session.socket.read(&mut bytes) {
                Ok(count) => {
                    let mut out = Vec::new();
                    Terminal::output(&bytes[..count], &mut out);
                    self.output.extend(out);
                }
                Err(Status::SHOULD_WAIT) => {
                    let signals = Signals::SOCKET_READABLE | Signals::SOCKET_PEER_CLOSED;
                    let key = session.number << 8 | OUTPUT;
                    session.awaits_output = session.socket.wait_async(&self.port, key, signals, 0).is_ok();
                }
                Err(_) => session.over = true,
            }
        }

        /// Sends bursts of at most one FIFO. The transmit interrupt sends the rest.
        fn send(&mut self) {
            for _ in 0..BURSTS {
                if self.output.is_empty() || self.ports.read8(uart::STATUS) & uart::HAS_ROOM == 0 {
                    break;
                }
                let count = self.output.len().min(uart::FIFO_SIZE);
                let burst: Vec<u8> = self.output.drain(..count).collect();
                self.ports.write8_all(uart::DATA, &burst);
            }
            // With nothing to send, the transmit interrupt still comes once. The driver then takes more of the
            // program's output.
            let more = !self.output.is_empty() || self.session.as_ref().is_some_and(|s| !s.awaits_output && !s.over);
            self.ports.write8(uart::INTERRUPTS, if more { uart::ON_DATA | uart::ON_ROOM } else { uart::ON_DATA });
        }

        /// Passes the typed input to the program.
        fn give_input(&mut self) {
            let Some(session) = &mut self.session else { return };
            while !self.input.is_empty() && !session.awaits_room {
                let (bytes, _) = self.input.as_slices();
                match session.socket.write(bytes) {
                    Ok(count) => drop(self.input.drain(..count)),
                    Err(Status::SHOULD_WAIT) => {
                        let signals = Signals::SOCKET_WRITABLE | Signals::SOCKET_PEER_CLOSED;
                        let key = session.number << 8 | INPUT;
                        session.awaits_room = session.socket.wait_async(&self.port, key, signals, 0).is_ok();
                    }
                    // The program does not read any more.
                    Err(_) => self.input.clear(),
                }
            }
            if self.input.is_empty() && core::mem::take(&mut self.ended) {
                let _ = session.socket.set_disposition(abi::ZX_SOCKET_DISPOSITION_WRITE_DISABLED, 0);
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
    eprintln!("serial: this driver runs on Hafnon");
    std::process::exit(2);
}
