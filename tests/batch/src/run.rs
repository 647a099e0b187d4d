//! The event loop.

use std::collections::{HashMap, VecDeque};
use std::io::{Read, Write};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::Duration;

use batch::{BatchMessage, Decoder, End, KEPT, Order, encode};
use zx::{MonotonicInstant, Port, Status, Vmo};

use crate::mailbox::{Mailbox, Parcel};
use crate::program::{self, About, Program};

/// The key of the packet that announces orders.
const ORDERS: u64 = 0;

struct Batch {
    port: Arc<Port>,
    mailbox: Mailbox,
    programs: HashMap<u32, Program>,
    /// Files and programs of packages with the numbers of their parcels, newest first.
    kept: VecDeque<(u32, Rc<Vmo>)>,
}

/// Runs until the host closes the link.
///
/// # Errors A sentence for the user.
pub fn run() -> Result<(), String> {
    let mailbox = Mailbox::open()?;
    let port = Arc::new(Port::create().map_err(|status| format!("a port: {status}"))?);
    let orders = listen(port.clone())?;
    let mut batch = Batch { port, mailbox, programs: HashMap::new(), kept: VecDeque::new() };
    say(&BatchMessage::Ready { room: batch.mailbox.room() })?;
    loop {
        let deadline = batch.programs.values().filter_map(|program| program.deadline).min();
        match batch.port.wait(deadline.unwrap_or(MonotonicInstant::INFINITE)) {
            Ok(packet) if packet.key == ORDERS => loop {
                match orders.try_recv() {
                    Ok(order) => batch.carry_out(order)?,
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return Ok(()),
                }
            },
            Ok(packet) => batch.happened(packet.key)?,
            Err(Status::TIMED_OUT) => {}
            Err(status) => return Err(format!("the port: {status}")),
        }
        batch.kill_late();
    }
}

/// Reads orders in a thread of its own and sends a packet for each.
fn listen(port: Arc<Port>) -> Result<Receiver<Order>, String> {
    let (sender, receiver) = channel();
    let listen = move || {
        let wake = || port.queue(&abi::zx_port_packet_t { key: ORDERS, ..Default::default() });
        let mut decoder = Decoder::default();
        let mut bytes = vec![0; 16 << 10];
        let mut input = std::io::stdin().lock();
        'all: while let Ok(count @ 1..) = input.read(&mut bytes) {
            decoder.push(&bytes[..count]);
            loop {
                match decoder.message() {
                    Ok(Some(order)) => drop(sender.send(order)),
                    Ok(None) => break,
                    Err(_) => break 'all,
                }
            }
            if wake().is_err() {
                break;
            }
        }
        drop(sender);
        let _ = wake();
    };
    thread::Builder::new().name("orders".to_owned()).spawn(listen).map_err(|error| error.to_string())?;
    Ok(receiver)
}

fn say(message: &BatchMessage) -> Result<(), String> {
    let bytes = encode(message).map_err(|error| error.to_string())?;
    let mut output = std::io::stdout().lock();
    output.write_all(&bytes).and_then(|()| output.flush()).map_err(|error| format!("the host is gone: {error}"))
}

impl Batch {
    fn carry_out(&mut self, order: Order) -> Result<(), String> {
        match order {
            Order::Keep { id, at, size } => {
                let image = self.mailbox.fetch(at, size);
                say(&BatchMessage::Fetched { id })?;
                match image {
                    Ok(image) => self.kept.push_front((id, Rc::new(image))),
                    Err(reason) => eprintln!("batch: a package's files: {reason}"),
                }
                self.kept.truncate(KEPT);
            }
            Order::Run { id, at, size, limit } => {
                let image = self.mailbox.fetch(at, size);
                say(&BatchMessage::Fetched { id })?;
                let limit = limit.map(Duration::from_millis);
                let started = image.and_then(|image| {
                    let parcel = Parcel::open(image).map_err(|status| format!("its parcel: {status}"))?;
                    let kept = |wanted| self.kept.iter().find(|(id, _)| *id == wanted).map(|(_, image)| image.clone());
                    Program::start(&self.port, id, parcel, kept, limit)
                });
                match started {
                    Ok(program) => drop(self.programs.insert(id, program)),
                    Err(reason) => say(&BatchMessage::Ended { id, end: End::NotStarted(reason) })?,
                }
            }
            Order::Input { id, bytes } => {
                if let Some(program) = self.programs.get_mut(&id) {
                    program.put(&bytes);
                    self.feed(id)?;
                }
            }
            Order::Kill { id } => {
                if let Some(program) = self.programs.get_mut(&id) {
                    program.kill(None);
                }
            }
        }
        Ok(())
    }

    fn feed(&mut self, id: u32) -> Result<(), String> {
        let Some(program) = self.programs.get_mut(&id) else { return Ok(()) };
        match program.feed(&self.port) {
            0 => Ok(()),
            count => say(&BatchMessage::InputTaken { id, count }),
        }
    }

    fn happened(&mut self, key: u64) -> Result<(), String> {
        let Some((id, about)) = program::about(key) else { return Ok(()) };
        let Some(program) = self.programs.get_mut(&id) else { return Ok(()) };
        match about {
            About::End => program.ended(),
            About::Input => self.feed(id)?,
            About::Place | About::Files | About::Programs => program.open_folder(about),
            About::Output | About::Errors => {
                let bytes = program.read(&self.port, about);
                if !bytes.is_empty() {
                    let output = about == About::Output;
                    say(&if output { BatchMessage::Output { id, bytes } } else { BatchMessage::Errors { id, bytes } })?;
                }
            }
        }
        if let Some(end) = self.programs.get_mut(&id).and_then(Program::over) {
            self.programs.remove(&id);
            say(&BatchMessage::Ended { id, end })?;
        }
        Ok(())
    }

    fn kill_late(&mut self) {
        let now = MonotonicInstant::now();
        for program in self.programs.values_mut().filter(|program| program.deadline.is_some_and(|at| at <= now)) {
            program.kill(Some(End::TimedOut));
        }
    }
}
