//! The start of the server and its event loop; see the crate's description.

use alloc::vec::Vec;
use core::convert::Infallible;
use core::panic::PanicInfo;
use core::{fmt, ptr};

use objects::arch::{Architecture, Native, PageFaultAccess};
use objects::containers::growth::Grows;
use objects::core::debuglog;
use objects::machine::{Fault, Memory as _, ThreadKey, Time as _};
use sel4::{Message, Received};
use server::{Answer, Boot, Server, StartError};
use server_boot::{BootInfo, MAGIC, service};

use crate::machine::arch::crash;
use crate::machine::chunks::CHUNKS;
use crate::machine::log::{Level, line};
use crate::machine::record;
use crate::machine::serial::console_init;
use crate::machine::thread::{FAULT, NOTIFICATION, YIELD, done};
use crate::machine::{SIGNAL_COMPONENTS, SIGNAL_LINK, SIGNAL_TIMER, Sel4, bootfile, heap, sys};

static VDSO: &[u8] = include_bytes!(env!("HAFNON_VDSO"));
static USERBOOT: &[u8] = include_bytes!(env!("HAFNON_USERBOOT"));

#[global_allocator]
static ALLOCATOR: heap::Allocator = heap::Allocator;

/// Why the server does not start.
enum Error {
    /// The boot page is of another version.
    BootPage,
    /// There is not enough memory for the machine.
    OutOfMemory,
    /// The boot file cannot be read.
    BootFile(bootfile::Error),
    /// The first process cannot be started.
    Start(StartError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::BootPage => f.write_str("root task and server do not belong together"),
            Error::OutOfMemory => f.write_str("too little memory"),
            Error::BootFile(error) => error.fmt(f),
            Error::Start(error) => error.fmt(f),
        }
    }
}

/// The server's first function; its entry point calls it.
pub(super) extern "C" fn start(boot: *const BootInfo) -> ! {
    // SAFETY: the root task mapped the pages for as long as the server lives, and nothing writes to them.
    let boot = unsafe { &*boot };
    let Err(error) = run(boot);
    line(None, Level::Error, format_args!("the system does not start: {error}"));
    crash()
}

fn run(boot: &BootInfo) -> Result<Infallible, Error> {
    if boot.magic != MAGIC {
        return Err(Error::BootPage);
    }
    console_init(boot.console as u16);
    sys::init(boot.root_bits as u8);
    // SAFETY: the root task mapped the server's buffer there, and the server has one thread.
    unsafe { sel4::ipc::init(ptr::with_exposed_provenance_mut(server_boot::layout::IPC_BUFFER as usize)) };
    heap::init(boot.heap_chunks);
    let mut links = Vec::new();
    links.room_exact(boot.chunks as usize).map_err(|_| Error::OutOfMemory)?;
    links.resize(boot.chunks as usize, 0);
    CHUNKS.with(|chunks| chunks.init(boot, links.leak()));

    let mut machine = Sel4::new(boot).map_err(|_| Error::OutOfMemory)?;
    let bootfs_size = bootfile::size().map_err(Error::BootFile)?;
    let bootfs = bootfile::load(&mut machine, bootfs_size).map_err(Error::BootFile)?;
    let (_, bytes) = machine.memory();
    let megahertz = machine.conversion().per_second / 1_000_000;
    let level = log_level(boot.log_level);
    if level <= debuglog::Level::Info {
        let info = format_args!("ready: {} MiB of memory, counter at {megahertz} MHz", bytes >> 20);
        line(Some(machine.clock()), Level::Info, info);
    }

    let boot = Boot { bootfs, bootfs_size, vdso: VDSO, userboot: USERBOOT, command_line: "" };
    let mut server = Server::start(machine, boot).map_err(Error::Start)?;
    server.kernel.set_console_level(level);
    sys::call_root(service::RUNNING, [0; 2]);
    serve(&mut server)
}

/// The log level for the number in the boot pages.
fn log_level(number: u64) -> debuglog::Level {
    match number {
        0 => debuglog::Level::Debug,
        1 => debuglog::Level::Info,
        2 => debuglog::Level::Warning,
        _ => debuglog::Level::Error,
    }
}

/// The event loop.
fn serve(server: &mut Server<Sel4>) -> ! {
    let mut received = sys::ENDPOINT.recv();
    loop {
        received = if received.badge & (FAULT | NOTIFICATION) == 0 {
            let (reply, left) = call(server, &received);
            if left { next_and_late(server, reply) } else { next(reply) }
        } else if received.badge & NOTIFICATION != 0 {
            signals(server, received.badge);
            next_and_late(server, None)
        } else {
            let reply = fault(server, received);
            next_and_late(server, reply)
        };
    }
}

/// Sends the reply, if there is one, and receives the next event.
#[inline(always)]
fn next(reply: Option<Message>) -> Received {
    match reply {
        Some(reply) => sys::ENDPOINT.reply_recv(reply),
        None => sys::ENDPOINT.recv(),
    }
}

/// As [`next`], after an event that may have ended a wait: the same kernel entry delivers that answer.
#[inline(always)]
fn next_and_late(server: &mut Server<Sel4>, reply: Option<Message>) -> Received {
    match server.kernel.machine.take_late() {
        Some((tcb, answer)) => sys::answer_first(tcb, answer, reply),
        None => next(reply),
    }
}

/// Handles a call. Returns the reply, if there is one, and whether the call has deferred work.
#[inline]
fn call(server: &mut Server<Sel4>, received: &Received) -> (Option<Message>, bool) {
    let key = server.kernel.machine.thread_of(received.badge);
    server.kernel.machine.set_caller(Some(key));
    record::call(received.info.label() as u32, key.0);
    let answer = server.call(key, received.info.label() as u32, &received.mr);
    let (answer, left) = server.settle_call(key, received.info.label() as u32, answer);
    server.kernel.kernel_time_charge_event(Some(key));
    trace(server, key, received, &answer);
    let reply = match answer {
        Answer::Done(result) => Some(done(result)),
        Answer::Yield => Some(Message::one(YIELD, 0)),
        Answer::Blocked | Answer::Resume | Answer::Nothing => None,
    };
    (reply, left)
}

#[cold]
fn signals(server: &mut Server<Sel4>, signals: u64) {
    server.kernel.machine.set_caller(None);
    if signals & SIGNAL_TIMER != 0 {
        server.kernel.machine.timer_fired();
        server.timer();
    }
    if signals & SIGNAL_LINK != 0 {
        server.kernel.machine.link_interrupt();
        server.serial();
    }
    if signals & SIGNAL_COMPONENTS != 0 {
        let (ended, waiting) = server.kernel.machine.component_events();
        server.components_ended(ended);
        server.components_join(waiting);
    }
    for irq in Sel4::interrupts_of_badge(signals) {
        if let Some(key) = server.kernel.machine.interrupt_came(irq) {
            let timestamp = server.kernel.machine.now();
            server.interrupt(key, timestamp);
        }
    }
    server.kernel.kernel_time_charge_event(None);
}

#[inline(never)]
fn fault(server: &mut Server<Sel4>, received: Received) -> Option<Message> {
    let key = server.kernel.machine.thread_of(received.badge);
    server.kernel.machine.set_caller(None);
    let fault = match sel4::Fault::decode(&received) {
        // The access was not the program's but an implicit one of the processor with the kernel's privileges: to a
        // table of segments, or, where QEMU emulates a return from the kernel, to the stack. Mapping a page
        // does not help, so the fault would repeat forever.
        sel4::Fault::Page { ip, code, .. } if !Native::page_fault_access(code).user => {
            Fault::Exception { ip, vector: Native::PAGE_FAULT, code }
        }
        sel4::Fault::Page { ip, address, fetch, code } => {
            let PageFaultAccess { write, .. } = Native::page_fault_access(code);
            // Without execute-disable the processor does not distinguish fetches from loads.
            let execute = if sel4::KNOWS_EXECUTE { fetch } else { !write && address == ip };
            Fault::Page { address, ip, write, execute }
        }
        sel4::Fault::Exception { ip, number, code, .. } => Fault::Exception { vector: number, code, ip },
        sel4::Fault::UnknownSyscall(registers) => Fault::Syscall { ip: registers.ip },
        // A system call of the kernel through an empty slot.
        sel4::Fault::Cap { ip, .. } => Fault::Syscall { ip },
        sel4::Fault::Other(_) => return None,
    };
    let answer = server.fault(key, fault);
    server.kernel.kernel_time_charge_event(Some(key));
    trace(server, key, &received, &answer);
    match answer {
        Answer::Resume => Some(sel4::Fault::RETRY),
        _ => None,
    }
}

/// Writes one event and its answer to the console, in a build with the feature `trace`.
#[inline]
fn trace(server: &Server<Sel4>, key: ThreadKey, received: &Received, answer: &Answer) {
    if cfg!(feature = "trace") {
        let label = received.info.label();
        let call = abi::SYSCALLS.iter().find(|call| u64::from(call.nr) == label && received.badge & FAULT == 0);
        let name = call.map_or("fault", |call| call.name);
        let clock = server.kernel.machine.clock();
        line(Some(clock), Level::Info, format_args!("{} {name} {label} {:x?} -> {answer:x?}", key.0, received.mr));
    }
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    line(None, Level::Error, format_args!("{info}"));
    crash()
}
