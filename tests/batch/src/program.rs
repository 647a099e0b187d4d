//! A running program.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use batch::{CREDIT, End, FILES, PROGRAM};
use file_protocol::{Request, encode};
use zx::spawn::Spawn;
use zx::{AsHandleRef, Channel, Job, MonotonicInstant, Port, Process, Rights, Signals, Socket, Status, Vmo};

use crate::mailbox::Parcel;

/// The event that a packet for a program reports. Together with the program's number it makes the packet's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// The process has ended.
    End = 0,
    /// Standard output is readable or closed.
    Output = 1,
    /// Standard error is readable or closed.
    Errors = 2,
    /// Standard input has space.
    Input = 3,
    /// The program accesses the directory of its own file.
    Place = 4,
    /// The program accesses the directory with the package's files.
    Files = 5,
    /// The program accesses the directory with the package's other programs.
    Programs = 6,
}

const ALL: [About; 7] =
    [About::End, About::Output, About::Errors, About::Input, About::Place, About::Files, About::Programs];

/// The service of the memory file system that creates a new tree.
const FRESH: &str = "tmp/fresh";

/// A directory that is created at first access. Until then it is a channel, an image, and the directory's path in the
/// image.
struct Folder {
    about: About,
    channel: Channel,
    image: Rc<Vmo>,
    path: &'static str,
}

impl Folder {
    /// Creates the directory.
    fn open(self) -> zx::Result<()> {
        let tree = zx::startup::connect(FRESH)?;
        let rights = Rights::BASIC | Rights::READ | Rights::GET_PROPERTY;
        let image = self.image.duplicate(rights)?.into();
        let fill = encode(0, &Request::Fill { folder: self.path.as_bytes() }, &[]).map_err(|_| Status::INTERNAL)?;
        tree.write(&fill, [image])?;
        let clone = encode(0, &Request::Clone, &[]).map_err(|_| Status::INTERNAL)?;
        tree.write(&clone, [self.channel.into()])
    }
}

/// Most bytes of output in one message.
const PIECE: usize = 32 << 10;

/// A program that runs, or has ended and still has output to send.
pub struct Program {
    id: u32,
    job: Job,
    process: Process,
    /// Our ends of its pipes, until they are closed.
    output: Option<Socket>,
    errors: Option<Socket>,
    input: Option<Socket>,
    /// Input that it has not taken yet.
    waiting: VecDeque<u8>,
    input_ended: bool,
    /// Directories that it has not accessed yet.
    folders: Vec<Folder>,
    /// When `batch` kills it.
    pub deadline: Option<MonotonicInstant>,
    /// How it ended.
    end: Option<End>,
}

/// The key of a packet about a program. No program has key 0.
pub fn key(id: u32, about: About) -> u64 {
    (u64::from(id) + 1) << 3 | about as u64
}

/// The program and event of a packet's key.
pub fn about(key: u64) -> Option<(u32, About)> {
    let id = u32::try_from((key >> 3).checked_sub(1)?).ok()?;
    Some((id, *ALL.get((key & 7) as usize)?))
}

impl Program {
    /// Starts the program. `kept` gives the images of shared directories.
    ///
    /// # Errors A sentence for the user.
    pub fn start(
        port: &Port,
        id: u32,
        parcel: Parcel,
        kept: impl Fn(u32) -> Option<Rc<Vmo>>,
        limit: Option<Duration>,
    ) -> Result<Program, String> {
        let step = |what: &'static str| move |status: Status| format!("{what}: {status}");
        let above = zx::startup::job_default().ok_or("there is no job for it")?;
        let job = above.create_child().map_err(step("its job"))?;
        let (output, their_output) = Socket::create(0).map_err(step("its output"))?;
        let (errors, their_errors) = Socket::create(0).map_err(step("its output"))?;
        let start = &parcel.start;
        let mut spawn = Spawn::vmo(parcel.program);
        spawn.name(&start.name).job(&job);
        for arg in &start.args {
            spawn.arg(arg);
        }
        for variable in &start.env {
            spawn.env(variable);
        }
        spawn.descriptor(1, their_output.into()).descriptor(2, their_errors.into());
        let mut input = None;
        if start.input {
            let (ours, theirs) = Socket::create(0).map_err(step("its input"))?;
            spawn.descriptor(0, theirs.into());
            input = Some(ours);
        }
        for path in &start.empty {
            spawn.entry(path, zx::startup::connect(FRESH).map_err(step("an empty folder"))?);
        }
        let place = Some((About::Place, start.place.as_str(), parcel.image, PROGRAM));
        let known = [(About::Files, &start.files), (About::Programs, &start.programs)];
        let known = known.into_iter().filter_map(|(about, folder)| Some((about, folder.as_ref()?)));
        let shared = known.filter_map(|(about, (id, path))| Some((about, path.as_str(), kept(*id)?, FILES)));
        let mut folders = Vec::new();
        for (about, entry, image, path) in place.into_iter().chain(shared) {
            let (theirs, channel) = Channel::create().map_err(step("a folder"))?;
            spawn.entry(entry, theirs);
            folders.push(Folder { about, channel, image, path });
        }
        let process = spawn.start().map_err(|(status, text)| match status {
            Status::NO_MEMORY => "there is not enough memory for it".to_owned(),
            _ if text.is_empty() => format!("starting it gave {status}"),
            _ => text,
        })?;
        let program = Program {
            id,
            job,
            process,
            output: Some(output),
            errors: Some(errors),
            input,
            waiting: VecDeque::new(),
            input_ended: false,
            folders,
            deadline: limit.map(|limit| MonotonicInstant::after(limit.into())),
            end: None,
        };
        if let Err(status) = program.watch(port) {
            let _ = program.job.kill();
            return Err(step("waiting for it")(status));
        }
        Ok(program)
    }

    fn watch(&self, port: &Port) -> zx::Result<()> {
        self.process.wait_async(port, key(self.id, About::End), Signals::TASK_TERMINATED, 0)?;
        for (socket, about) in [(&self.output, About::Output), (&self.errors, About::Errors)] {
            if let Some(socket) = socket {
                self.wait_for_output(port, socket, about)?;
            }
        }
        for folder in &self.folders {
            let signals = Signals::CHANNEL_READABLE | Signals::CHANNEL_PEER_CLOSED;
            folder.channel.wait_async(port, key(self.id, folder.about), signals, 0)?;
        }
        Ok(())
    }

    fn wait_for_output(&self, port: &Port, socket: &Socket, about: About) -> zx::Result<()> {
        socket.wait_async(port, key(self.id, about), Signals::SOCKET_READABLE | Signals::SOCKET_PEER_CLOSED, 0)
    }

    /// Kills the program and everything that it started.
    pub fn kill(&mut self, end: Option<End>) {
        self.deadline = None;
        self.end = self.end.take().or(end);
        let _ = self.job.kill();
    }

    /// The process has ended: kills everything that it started.
    pub fn ended(&mut self) {
        let code = self.process.info().map_or(abi::ZX_TASK_RETCODE_SYSCALL_KILL, |info| info.return_code);
        self.kill(Some(End::Returned(code)));
        self.input = None;
    }

    /// The program accesses a directory, or has closed its channel. If the directory cannot be created, its channel is
    /// closed, which the program notices.
    pub fn open_folder(&mut self, about: About) {
        if let Some(index) = self.folders.iter().position(|folder| folder.about == about) {
            let folder = self.folders.swap_remove(index);
            let looks = folder.channel.wait_one(Signals::CHANNEL_READABLE, MonotonicInstant::ZERO).is_ok();
            if looks && let Err(status) = folder.open() {
                eprintln!("batch: a folder of a program: {status}");
            }
        }
    }

    /// Reads output of the program; empty if there is none.
    pub fn read(&mut self, port: &Port, about: About) -> Vec<u8> {
        let socket = if about == About::Output { self.output.take() } else { self.errors.take() };
        let Some(socket) = socket else { return Vec::new() };
        let mut bytes = vec![0; PIECE];
        let read = match socket.read(&mut bytes) {
            Ok(count) => count,
            Err(Status::SHOULD_WAIT) => 0,
            Err(_) => return Vec::new(),
        };
        bytes.truncate(read);
        if self.wait_for_output(port, &socket, about).is_ok() {
            *(if about == About::Output { &mut self.output } else { &mut self.errors }) = Some(socket);
        }
        bytes
    }

    /// Takes input from the host; no bytes mean the end of the input.
    pub fn put(&mut self, bytes: &[u8]) {
        self.input_ended |= bytes.is_empty();
        // Input beyond the host's credit is dropped.
        let room = CREDIT.saturating_sub(self.waiting.len()).min(bytes.len());
        self.waiting.extend(&bytes[..room]);
    }

    /// Gives the program as much input as it takes; returns how many bytes left the queue.
    pub fn feed(&mut self, port: &Port) -> usize {
        let mut gone = 0;
        while let Some(socket) = &self.input {
            let (piece, _) = self.waiting.as_slices();
            if piece.is_empty() {
                if self.input_ended {
                    self.input = None;
                }
                break;
            }
            match socket.write(piece) {
                Ok(count) => {
                    self.waiting.drain(..count);
                    gone += count;
                }
                Err(Status::SHOULD_WAIT) => {
                    let signals = Signals::SOCKET_WRITABLE | Signals::SOCKET_PEER_CLOSED;
                    if socket.wait_async(port, key(self.id, About::Input), signals, 0).is_err() {
                        self.input = None;
                    }
                    break;
                }
                // The program has closed its input, so the rest is dropped, as with a pipe.
                Err(_) => self.input = None,
            }
        }
        if self.input.is_none() {
            gone += self.waiting.len();
            self.waiting.clear();
        }
        gone
    }

    /// How it ended, once all its output has been read.
    pub fn over(&mut self) -> Option<End> {
        if self.output.is_some() || self.errors.is_some() { None } else { self.end.take() }
    }
}
