//! A machine that runs the program `batch`, and the mailbox between it and the host.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::batch::{BatchMessage, Decoder as Messages, KEPT, Order, encode};
use anyhow::{Context, Result, bail};

use super::parcel::Folder;
use crate::args::Accel;
use crate::check_memory;
use crate::line::Line;
use crate::link::{Decoder as Frames, Frame, ToSystem};
use crate::qemu::{self, Machine, Running};
use crate::session::console::{Console, Listener};
use xtask_build::Built;
use xtask_build::devices::Devices;
use xtask_build::image::{Image, Mode};
use xtask_common::threads::{Thread, Watcher};
use xtask_common::words;

/// The program in the machine.
const BATCH: &str = "/boot/bin/batch";
/// Size of the mailbox in bytes. Only written parts take space on the host.
const MAILBOX: u64 = 256 << 20;
/// Alignment of parcels in bytes.
const ALIGNMENT: u64 = 4096;
/// Maximum time for the start.
const START: Duration = Duration::from_secs(60);

/// A machine that runs programs for the keeper.
#[derive(Debug)]
pub struct BatchMachine {
    link: Mutex<Line>,
    mailbox: File,
    shared: Arc<Shared>,
    running: Mutex<Running>,
    console: Mutex<Option<Thread<Console>>>,
    /// The folders that it keeps, the newest first, with the numbers of their parcels.
    kept: Mutex<VecDeque<(Folder, u32)>>,
}

/// State that the thread that reads from the machine shares with waiting threads.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// For each program, the channel for its messages.
    programs: HashMap<u32, Sender<BatchMessage>>,
    last: u32,
    /// The parts of the mailbox that hold parcels: the program's number, start, end.
    places: Vec<(u32, u64, u64)>,
    next_place: u64,
    /// The reason why the machine died.
    dead: Option<String>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A waiting thread sees its channel close.
    fn died(&self, why: &str) {
        let mut state = self.state();
        state.dead.get_or_insert_with(|| why.to_owned());
        state.programs.clear();
    }
}

impl State {
    /// Finds a place for a parcel: the next one after the last parcel, so that no place is reused soon.
    fn place(&mut self, id: u32, size: u64) -> Option<u64> {
        let from = self.next_place;
        let mut starts: Vec<u64> = self.places.iter().map(|(_, _, end)| *end).chain([from, 0]).collect();
        // Tries places after the last parcel first, and the beginning of the mailbox last.
        starts.sort_by_key(|start| (*start < from, *start));
        let free = |start: &u64| {
            start + size <= MAILBOX
                && self.places.iter().all(|(_, begin, end)| start + size <= *begin || *start >= *end)
        };
        let start = starts.into_iter().find(free)?;
        self.next_place = (start + size).next_multiple_of(ALIGNMENT);
        self.places.push((id, start, self.next_place));
        Some(start)
    }
}

/// A program that was handed over.
#[derive(Debug)]
pub struct StartedProgram {
    /// Its number.
    pub id: u32,
    /// Messages about it; the channel closes without [`BatchMessage::Ended`] when the machine dies.
    pub news: Receiver<BatchMessage>,
}

impl BatchMachine {
    /// Boots a machine. The calling thread must live as long as the machine: the machine ends with it.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(built: &Built, memory: u64, accel: Accel) -> Result<BatchMachine> {
        let folder = qemu::runtime_folder()?;
        let path = folder.path().join("mailbox");
        let mailbox = File::options().read(true).write(true).create_new(true).open(&path);
        let mailbox = mailbox.context("cannot make the mailbox")?;
        mailbox.set_len(MAILBOX).context("cannot make the mailbox")?;
        let devices = Devices { disk: Some(path), raw: true, ..Devices::default() };
        let image = Image::new(built, false, &devices)?.finish(&Mode::Run(BATCH.into(), Vec::new()), &[])?;
        check_memory(image.len() as u64, memory)?;
        let machine = Machine {
            kernel: &built.kernel,
            root: &built.root,
            image: &image,
            memory,
            accel,
            gdb: None,
            devices,
            linux: None,
        };
        let running = machine.start()?;
        let clone = |stream: &Line| stream.try_clone().context("cannot share a serial port");
        let shared = Arc::new(Shared::default());
        let (ready, is_ready) = channel();
        let (link, heard) = (clone(&running.link)?, shared.clone());
        let told = shared.clone();
        let watcher = Watcher::new(move |failed| told.died(&failed.to_string()));
        watcher.start("link", move || {
            let why = listen(link, &heard, &ready);
            heard.died(&why);
        })?;
        let listener = Listener { verbose: false, ours: true, files: None, watcher };
        let console = listener.watch(clone(&running.console)?, String::new())?;
        let machine = BatchMachine {
            link: Mutex::new(clone(&running.link)?),
            mailbox,
            shared,
            running: Mutex::new(running),
            console: Mutex::new(Some(console)),
            kept: Mutex::default(),
        };
        if is_ready.recv_timeout(START).is_err() {
            bail!("the machine for programs does not start: {}", machine.end("it was not ready in time"));
        }
        Ok(machine)
    }

    /// Whether it accepts programs.
    pub fn is_alive(&self) -> bool {
        self.shared.state().dead.is_none()
    }

    /// Makes it keep a folder for programs; returns the number of its parcel.
    ///
    /// # Errors
    /// It is too large.
    pub fn keep(&self, folder: Folder) -> Result<u32> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, id)) = kept.iter().find(|(known, _)| *known == folder) {
            return Ok(*id);
        }
        let parcel = folder.parcel()?;
        let mut state = self.shared.state();
        state.last += 1;
        let id = state.last;
        let at = state.place(id, parcel.len() as u64);
        drop(state);
        let at = at.context("there is no room for it")?;
        self.mailbox.write_all_at(&parcel, at).context("cannot write into the mailbox")?;
        self.order(&Order::Keep { id, at, size: parcel.len() as u64 })?;
        // The machine drops the oldest folder in the same way, one at a time.
        kept.push_front((folder, id));
        kept.truncate(KEPT);
        Ok(id)
    }

    /// Hands a program over.
    ///
    /// # Errors
    /// Its parcel is too large. If the machine is dead, [`StartedProgram::news`] shows it.
    pub fn hand_over(&self, parcel: &[u8], limit: Option<Duration>) -> Result<StartedProgram> {
        let (sender, news) = channel();
        let (id, at) = {
            let mut state = self.shared.state();
            state.last += 1;
            let id = state.last;
            let at = state.place(id, parcel.len() as u64);
            if state.dead.is_none() {
                state.programs.insert(id, sender);
            }
            (id, at.with_context(|| format!("there is no room for a program of {} MiB", parcel.len() >> 20))?)
        };
        self.mailbox.write_all_at(parcel, at).context("cannot write into the mailbox")?;
        let limit = limit.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
        self.order(&Order::Run { id, at, size: parcel.len() as u64, limit })?;
        Ok(StartedProgram { id, news })
    }

    /// Sends an order.
    ///
    /// # Errors
    /// It cannot be encoded. A dead machine is not an error.
    pub fn order(&self, order: &Order) -> Result<()> {
        let bytes = encode(order).context("cannot encode an order")?;
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        for piece in bytes.chunks(4096) {
            if link.write_all(&ToSystem::Stdin(piece).encode()).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Ends the machine. Returns why it died: its own message, or otherwise `why`.
    pub fn end(&self, why: &str) -> String {
        self.shared.died(why);
        let complaints = self.running.lock().unwrap_or_else(PoisonError::into_inner).end(Duration::ZERO);
        let mut text = self.shared.state().dead.clone().unwrap_or_default();
        if !complaints.is_empty() {
            text.push_str(&format!("\n  QEMU: {complaints}"));
        }
        let console = self.console.lock().unwrap_or_else(PoisonError::into_inner).take();
        let last = console.and_then(|thread| thread.join().ok()).unwrap_or_default().last;
        if !last.is_empty() {
            text.push_str("\n  the last lines on the console:");
            last.iter().for_each(|line| text.push_str(&format!("\n  | {line}")));
        }
        text
    }
}

/// Passes on the machine's messages until its output ends; returns the reason.
fn listen(mut link: Line, shared: &Shared, ready: &Sender<()>) -> String {
    let (mut frames, mut messages) = (Frames::default(), Messages::default());
    let mut errors = words::Lines::default();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = match link.read(&mut buffer) {
            Ok(0) => return "the machine turned off".into(),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return error.to_string(),
        };
        let frames = match frames.push(&buffer[..count]) {
            Ok(frames) => frames,
            Err(error) => return error.to_string(),
        };
        for frame in frames {
            match frame {
                Frame::Stdout(bytes) => messages.push(&bytes),
                // The output of the system itself. Programs' output comes in messages.
                Frame::Stderr(bytes) => errors.push(&bytes, |line| words::say(&words::visible(line))),
                Frame::Exit(code) => return format!("the program that runs programs ended ({code})"),
                Frame::Event(_) | Frame::Trace(_) => {}
            }
        }
        loop {
            match messages.message::<BatchMessage>() {
                Ok(None) => break,
                Ok(Some(said)) => pass_on(said, shared, ready),
                Err(error) => return format!("the program that runs programs cannot be understood: {error}"),
            }
        }
    }
}

fn pass_on(said: BatchMessage, shared: &Shared, ready: &Sender<()>) {
    let mut state = shared.state();
    let id = match said {
        BatchMessage::Ready { .. } => {
            let _ = ready.send(());
            return;
        }
        BatchMessage::Fetched { id } => return state.places.retain(|(of, ..)| *of != id),
        BatchMessage::InputTaken { id, .. }
        | BatchMessage::Output { id, .. }
        | BatchMessage::Errors { id, .. }
        | BatchMessage::Ended { id, .. } => id,
    };
    // The waiting thread may be gone.
    if matches!(said, BatchMessage::Ended { .. }) {
        state.programs.remove(&id).map(|sender| sender.send(said));
    } else if let Some(sender) = state.programs.get(&id) {
        let _ = sender.send(said);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages about unknown or ended programs are ignored.
    #[test]
    fn messages_about_unknown_programs_are_ignored() {
        let (shared, ready) = (Shared::default(), channel().0);
        for id in [0, 1, u32::MAX] {
            for said in [
                BatchMessage::Ready { room: u64::MAX },
                BatchMessage::Fetched { id },
                BatchMessage::InputTaken { id, count: usize::MAX },
                BatchMessage::Output { id, bytes: vec![0x1b; 9] },
                BatchMessage::Ended { id, end: ::batch::End::Returned(i64::MIN) },
            ] {
                pass_on(said, &shared, &ready);
            }
        }
        assert!(shared.state().programs.is_empty());
    }

    #[test]
    fn places_do_not_overlap_and_come_back() {
        let mut state = State::default();
        let size = MAILBOX / 4;
        let places: Vec<u64> = (0..4).map(|id| state.place(id, size).unwrap()).collect();
        assert_eq!(places, [0, size, 2 * size, 3 * size]);
        assert_eq!(state.place(4, 1), None);
        state.places.retain(|(id, ..)| *id != 2);
        assert_eq!(state.place(5, size), Some(2 * size));
        assert_eq!(state.place(6, 1), None);
        state.places.clear();
        assert_eq!(state.place(7, MAILBOX), Some(0));
        assert_eq!(State::default().place(0, MAILBOX + 1), None);
    }
}
