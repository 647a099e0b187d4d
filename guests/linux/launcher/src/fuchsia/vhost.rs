//! The functions of the table with which Linux' own driver `virtio_uml` speaks vhost-user with the system's switch
//! (`guests/linux/overlay/arch/um/os-Linux/vhost.h`; the rules are those of the crate `vhost-user`).
//!
//! The driver expects descriptors of a host. Here they are numbers for handles:
//! - a *connection* to a port, in place of a socket;
//! - an event, in place of an eventfd: the driver kicks by it;
//! - the two ends of a *pipe*. The driver keeps one and sends the other; what the message is about says what they are: for
//!   calls an event, for requests of the switch a channel.
//!
//! What is sent are handles with the rights that rules 2 to 4 name, and no others.

use std::collections::VecDeque;
use std::sync::{Mutex, OnceLock, PoisonError};

use abi::Signals;
use vhost_user::{Header, LONGEST, MAX_REGIONS, MessageKind, Request};
use zx::{AsHandleRef, Channel, Event, Handle, HandleRef, MonotonicInstant, Port, Rights, Status, Vmo};

/// The first descriptor: those below are Linux' own (`file.c`, `memory.c`).
const FIRST: i32 = 16;
/// How many there can be, and how many a network device has at most.
const DESCRIPTORS: usize = 64;
const OF_A_DEVICE: usize = 7;
/// The descriptor of all memory.
const PHYSMEM: i32 = 3;
/// Keys of packets from here on are those of descriptors.
const KEY_FIRST: u64 = 16;

/// Linux' numbers of errors.
const EIO: i64 = -5;
const EBADF: i64 = -9;
const EAGAIN: i64 = -11;
const EINVAL: i64 = -22;
const ENFILE: i64 = -23;
const ECONNRESET: i64 = -104;
const ECONNREFUSED: i64 = -111;

/// See the C definition.
#[repr(C)]
#[derive(Clone, Copy)]
struct VhostMessage {
    bytes: *const u8,
    len: u64,
    descriptors: *const i32,
    count: u64,
}

/// See the C definition.
#[repr(C)]
pub struct VhostTable {
    connect: unsafe extern "C" fn(*const u8, u64) -> i64,
    event: extern "C" fn() -> i64,
    pipe: unsafe extern "C" fn(*mut i32) -> i64,
    send: unsafe extern "C" fn(i32, *const VhostMessage) -> i64,
    read: unsafe extern "C" fn(i32, *mut u8, u64) -> i64,
    write: extern "C" fn(i32) -> i64,
    listen: extern "C" fn(i32) -> i64,
    came: extern "C" fn(u64) -> i64,
    close: extern "C" fn(i32),
}

/// What a descriptor stands for.
enum What {
    Connection(Stream),
    Kick(Event),
    /// The end of a pipe that the driver keeps, until the other one is sent; both have the pipe's number.
    Kept(u64),
    /// The same afterwards.
    Calls(Event),
    Requests(Stream),
    /// The end that is sent.
    Sent(u64),
}

/// A channel, whose messages are read as the bytes of a stream.
struct Stream {
    channel: Channel,
    /// What is left of a message.
    left: VecDeque<u8>,
}

impl Stream {
    fn new(channel: Channel) -> Stream {
        Stream { channel, left: VecDeque::new() }
    }

    /// Waits until `deadline` at most; returns how many bytes it has read, 0 at the end.
    fn read(&mut self, bytes: &mut [u8], deadline: MonotonicInstant) -> Result<usize, Status> {
        if self.left.is_empty() {
            let mut message = [0; LONGEST];
            match self.channel.read_wait(&mut message, &mut [], deadline) {
                Ok(size) => self.left.extend(&message[..size.bytes]),
                Err(Status::PEER_CLOSED) => return Ok(0),
                Err(status) => return Err(status),
            }
        }
        let count = self.left.len().min(bytes.len());
        bytes.iter_mut().zip(self.left.drain(..count)).for_each(|(place, byte)| *place = byte);
        Ok(count)
    }
}

/// A descriptor.
struct Descriptor {
    what: What,
    /// Linux wants to be interrupted when there is something to read.
    listens: bool,
    /// The key of the packet that will come; 0: none will.
    key: u64,
    /// The packet has come, and what it told of was not read yet.
    came: bool,
}

impl Descriptor {
    /// The object that is waited for, and its signals.
    fn source(&self) -> Option<(HandleRef<'_>, Signals)> {
        match &self.what {
            What::Calls(event) => Some((event.as_handle_ref(), Signals::EVENT_SIGNALED)),
            What::Requests(stream) => {
                let signals = Signals::CHANNEL_READABLE | Signals::CHANNEL_PEER_CLOSED;
                Some((stream.channel.as_handle_ref(), signals))
            }
            _ => None,
        }
    }

    /// Asks for a packet, if Linux wants one and none is on its way.
    fn ask(&mut self, port: &Port, last_key: &mut u64) -> Result<(), Status> {
        if !self.listens || self.came || self.key != 0 {
            return Ok(());
        }
        let Some((object, signals)) = self.source() else { return Ok(()) };
        *last_key += 1;
        object.wait_async(port, *last_key, signals, 0)?;
        self.key = *last_key;
        Ok(())
    }
}

/// The descriptors of a Linux.
struct Vhost {
    descriptors: [Option<Descriptor>; DESCRIPTORS],
    /// The ports that it may have, and the connections to them that were not used yet.
    ports: Vec<(String, Option<Channel>)>,
    physmem: Vmo,
    /// Where packets interrupt it.
    port: Port,
    last_key: u64,
    last_pipe: u64,
}

impl Vhost {
    fn add(&mut self, what: What) -> Result<i32, i64> {
        let index = self.descriptors.iter().position(Option::is_none).ok_or(ENFILE)?;
        self.descriptors[index] = Some(Descriptor { what, listens: false, key: 0, came: false });
        Ok(FIRST + index as i32)
    }

    fn place(&mut self, descriptor: i32) -> Option<&mut Option<Descriptor>> {
        let index = descriptor.checked_sub(FIRST).and_then(|index| usize::try_from(index).ok())?;
        self.descriptors.get_mut(index)
    }

    fn of(&mut self, descriptor: i32) -> Result<&mut Descriptor, i64> {
        self.place(descriptor).and_then(Option::as_mut).ok_or(EBADF)
    }

    fn connect(&mut self, name: &[u8]) -> Result<i64, i64> {
        let known = self.ports.iter_mut().find(|(port, _)| port.as_bytes() == name);
        let (port, made) = known.ok_or(ECONNREFUSED)?;
        // A second connection, after the driver has left the first.
        let channel = match made.take() {
            Some(channel) => channel,
            None => zx::startup::connect(&service(port)).map_err(|_| ECONNREFUSED)?,
        };
        self.add(What::Connection(Stream::new(channel))).map(i64::from)
    }

    fn pipe(&mut self) -> Result<[i32; 2], i64> {
        self.last_pipe += 1;
        let kept = self.add(What::Kept(self.last_pipe))?;
        match self.add(What::Sent(self.last_pipe)) {
            Ok(sent) => Ok([kept, sent]),
            Err(why) => {
                self.close(kept);
                Err(why)
            }
        }
    }

    /// The handle that is sent in place of a descriptor, with a message of this kind.
    fn handle(&mut self, descriptor: i32, kind: u32) -> Result<Handle, i64> {
        const CALL: u32 = MessageKind::SetVringCall as u32;
        const REQUESTS: u32 = MessageKind::SetBackendReqFd as u32;
        let failed = |_| EIO;
        if descriptor == PHYSMEM {
            let rights = Rights::READ | Rights::WRITE | Rights::MAP | Rights::TRANSFER;
            return self.physmem.duplicate_handle(rights).map_err(failed);
        }
        let pipe = match &self.of(descriptor)?.what {
            What::Kick(event) => {
                let rights = Rights::WAIT | Rights::SIGNAL | Rights::TRANSFER;
                return event.duplicate_handle(rights).map_err(failed);
            }
            What::Sent(pipe) => *pipe,
            _ => return Err(EINVAL),
        };
        let is_other = |kept: &&mut Descriptor| matches!(kept.what, What::Kept(other) if other == pipe);
        let kept = self.descriptors.iter_mut().flatten().find(is_other).ok_or(EINVAL)?;
        let (what, handle) = match kind {
            CALL => {
                let event = Event::create().map_err(failed)?;
                let handle = event.duplicate_handle(Rights::SIGNAL | Rights::TRANSFER).map_err(failed)?;
                (What::Calls(event), handle)
            }
            REQUESTS => {
                let (ours, theirs) = Channel::create().map_err(failed)?;
                let rights = Rights::READ | Rights::WRITE | Rights::WAIT | Rights::TRANSFER;
                let theirs = theirs.replace(rights).map_err(failed)?;
                (What::Requests(Stream::new(ours)), theirs.into_handle())
            }
            _ => return Err(EINVAL),
        };
        kept.what = what;
        kept.ask(&self.port, &mut self.last_key).map_err(failed)?;
        Ok(handle)
    }

    fn send(&mut self, descriptor: i32, bytes: &[u8], descriptors: &[i32]) -> Result<i64, i64> {
        let kind = Header::from_bytes(bytes).ok_or(EINVAL)?.request;
        let handles = descriptors.iter().map(|descriptor| self.handle(*descriptor, kind));
        let handles = handles.collect::<Result<Vec<Handle>, i64>>()?;
        let What::Connection(stream) = &self.of(descriptor)?.what else { return Err(EINVAL) };
        match stream.channel.write_handles(bytes, handles) {
            Ok(()) => Ok(bytes.len() as i64),
            Err(Status::PEER_CLOSED) => Err(ECONNRESET),
            Err(_) => Err(EIO),
        }
    }

    /// Connections wait for bytes; others do not.
    fn read(&mut self, descriptor: i32, bytes: &mut [u8]) -> Result<i64, i64> {
        let found = self.of(descriptor)?;
        let read = match &mut found.what {
            What::Connection(stream) => stream.read(bytes, MonotonicInstant::INFINITE),
            What::Requests(stream) => stream.read(bytes, MonotonicInstant::ZERO),
            // As an eventfd is read.
            What::Calls(event) if found.came => {
                let number = bytes.first_chunk_mut().ok_or(EINVAL)?;
                *number = 1_u64.to_ne_bytes();
                found.came = false;
                event.signal(Signals::EVENT_SIGNALED, Signals::NONE).map(|()| number.len())
            }
            What::Calls(_) | What::Kept(_) => Err(Status::SHOULD_WAIT),
            What::Kick(_) | What::Sent(_) => return Err(EINVAL),
        };
        match read {
            Ok(count) => Ok(count as i64),
            Err(Status::SHOULD_WAIT | Status::TIMED_OUT) => {
                found.came = false;
                self.ask(descriptor).and(Err(EAGAIN))
            }
            Err(_) => Err(EIO),
        }
    }

    fn ask(&mut self, descriptor: i32) -> Result<(), i64> {
        let Vhost { descriptors, port, last_key, .. } = self;
        let index = (descriptor - FIRST) as usize;
        descriptors[index].as_mut().map_or(Ok(()), |found| found.ask(port, last_key)).map_err(|_| EIO)
    }

    /// As an eventfd is written.
    fn kick(&mut self, descriptor: i32) -> Result<i64, i64> {
        let What::Kick(event) = &self.of(descriptor)?.what else { return Err(EINVAL) };
        event.signal(Signals::NONE, Signals::EVENT_SIGNALED).map(|()| 8).map_err(|_| EIO)
    }

    fn listen(&mut self, descriptor: i32) -> Result<i64, i64> {
        self.of(descriptor)?.listens = true;
        self.ask(descriptor).map(|()| 0)
    }

    /// Takes a packet; returns the descriptor that it is for.
    fn came(&mut self, key: u64) -> Result<i64, i64> {
        let waits = |place: &Option<Descriptor>| place.as_ref().is_some_and(|found| found.key == key);
        let index = self.descriptors.iter().position(waits).ok_or(EBADF)?;
        if let Some(found) = &mut self.descriptors[index] {
            (found.key, found.came) = (0, true);
        }
        Ok(i64::from(FIRST) + index as i64)
    }

    fn close(&mut self, descriptor: i32) {
        if let Some(place) = self.place(descriptor) {
            *place = None;
        }
    }
}

static VHOST: OnceLock<Mutex<Vhost>> = OnceLock::new();

/// The name of a port as a service.
fn service(port: &str) -> String {
    format!("switch/{port}")
}

/// Connects to a port, and waits until the switch has answered once.
fn connect(port: &str) -> Result<Channel, String> {
    let failed = |status| format!("the port {port}: {status}");
    let channel = zx::startup::connect(&service(port)).map_err(failed)?;
    let mut answer = [0; LONGEST];
    // The driver asks the same again.
    let asked = channel.write(&Request::GetFeatures.to_bytes(false), []);
    match asked.and_then(|()| channel.read_wait(&mut answer, &mut [], MonotonicInstant::INFINITE)) {
        Ok(_) => Ok(channel),
        Err(Status::PEER_CLOSED) => Err(why_refused(port)),
        Err(status) => Err(failed(status)),
    }
}

/// Why a switch closes a connection: it tells a program about the ports that the program may have.
fn why_refused(port: &str) -> String {
    let told = || -> Result<Vec<String>, Status> {
        let channel = zx::startup::connect(&service("counters"))?;
        let mut text = vec![0; zx::MAX_MESSAGE_BYTES];
        let size = channel.read_wait(&mut text, &mut [], MonotonicInstant::INFINITE)?;
        let text = String::from_utf8_lossy(&text[..size.bytes]);
        Ok(text.lines().filter_map(|line| line.split(' ').next()).map(String::from).collect())
    };
    match told() {
        Ok(ports) if ports.iter().any(|other| other == port) => format!("the port {port} is taken"),
        Ok(ports) => format!(
            "this program may not have a port {port}, or there is none of that name; it may have: {}",
            ports.join(", ")
        ),
        Err(_) => format!("the port {port}: this machine has no switch, or this program may have no port of it"),
    }
}

/// Connects to these ports. Linux gets its packets at `port`, and lends its memory to the switch.
///
/// # Errors
/// It cannot have one of them; the text says why.
pub fn start(ports: &[String], physmem: Vmo, port: Port) -> Result<VhostTable, String> {
    const MOST: usize = DESCRIPTORS / OF_A_DEVICE;
    if ports.len() > MOST {
        return Err(format!("{MOST} network cards at most"));
    }
    let ports = ports.iter().map(|name| Ok((name.clone(), Some(connect(name)?))));
    let ports = ports.collect::<Result<Vec<_>, String>>()?;
    let descriptors = [const { None }; DESCRIPTORS];
    let vhost = Vhost { descriptors, ports, physmem, port, last_key: KEY_FIRST - 1, last_pipe: 0 };
    let _ = VHOST.set(Mutex::new(vhost));
    Ok(VhostTable { connect: connect_to, event, pipe, send, read, write, listen, came, close })
}

/// Does something with the descriptors.
fn with(act: impl FnOnce(&mut Vhost) -> Result<i64, i64>) -> i64 {
    let Some(vhost) = VHOST.get() else { return EBADF };
    let mut vhost = vhost.lock().unwrap_or_else(PoisonError::into_inner);
    act(&mut vhost).unwrap_or_else(|error| error)
}

/// # Safety
/// `name` refers to `len` bytes.
unsafe extern "C" fn connect_to(name: *const u8, len: u64) -> i64 {
    // SAFETY: the caller's.
    let name = unsafe { std::slice::from_raw_parts(name, len as usize) };
    with(|vhost| vhost.connect(name))
}

extern "C" fn event() -> i64 {
    with(|vhost| {
        let event = Event::create().map_err(|_| EIO)?;
        vhost.add(What::Kick(event)).map(i64::from)
    })
}

/// # Safety
/// `descriptors` has room for two.
unsafe extern "C" fn pipe(descriptors: *mut i32) -> i64 {
    with(|vhost| {
        let ends = vhost.pipe()?;
        // SAFETY: the caller's.
        unsafe { descriptors.cast::<[i32; 2]>().write(ends) };
        Ok(0)
    })
}

/// # Safety
/// `message` refers to a message, whose parts have the lengths that it says.
unsafe extern "C" fn send(descriptor: i32, message: *const VhostMessage) -> i64 {
    // SAFETY: the caller's.
    let VhostMessage { bytes, len, descriptors, count } = unsafe { message.read() };
    if len > LONGEST as u64 || count > MAX_REGIONS as u64 {
        return EINVAL;
    }
    // SAFETY: the caller's.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, len as usize) };
    let descriptors = match count {
        0 => &[],
        // SAFETY: the caller's.
        _ => unsafe { std::slice::from_raw_parts(descriptors, count as usize) },
    };
    with(|vhost| vhost.send(descriptor, bytes, descriptors))
}

/// # Safety
/// `bytes` refers to `len` bytes that Linux may write.
unsafe extern "C" fn read(descriptor: i32, bytes: *mut u8, len: u64) -> i64 {
    // SAFETY: the caller's.
    let bytes = unsafe { std::slice::from_raw_parts_mut(bytes, len as usize) };
    with(|vhost| vhost.read(descriptor, bytes))
}

extern "C" fn write(descriptor: i32) -> i64 {
    with(|vhost| vhost.kick(descriptor))
}

extern "C" fn listen(descriptor: i32) -> i64 {
    with(|vhost| vhost.listen(descriptor))
}

extern "C" fn came(key: u64) -> i64 {
    with(|vhost| vhost.came(key))
}

extern "C" fn close(descriptor: i32) {
    with(|vhost| {
        vhost.close(descriptor);
        Ok(0)
    });
}
