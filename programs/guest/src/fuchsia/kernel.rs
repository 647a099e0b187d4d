//! The core of the guest: schedules processes and handles their exits from the virtual processor.
//!
//! 1. One virtual processor runs one process at a time; runnable processes are in a queue.
//! 2. Another thread kicks the virtual processor every [`TURN`]. The process that ran moves to the end of the queue.
//! 3. A process that waits in a system call keeps its instruction pointer at the call, and makes the call again after
//!    an event ([`Kernel::wake`]).

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use abi::{HAFNON_VPROC_FAULT_FETCH, HAFNON_VPROC_FAULT_PRESENT, HAFNON_VPROC_FAULT_WRITE};
use zx::{Exit, Rights, VirtualProcessor};

use super::counts::Counts;
use super::linux::{Result, Stop, errno, fails, sig};
use super::memory::{EXECUTE, Memory, READ, WRITE};
use super::program;
use super::space::Space;
use super::task::{Info, Task};

/// Length of a time slice.
const TURN: Duration = Duration::from_millis(5);
/// Size of the guest's memory in pages.
const PAGES: usize = 16_384;
/// Number of the first process.
const FIRST: u32 = 1;
/// Exit codes of the guest itself: a required event did not happen; an error in the guest or below it.
const NOT_SEEN: u8 = 98;
const BROKEN: u8 = 99;

/// How a process is resumed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Go {
    /// With all registers of its state.
    Enter,
    /// After its system call, with the general registers of its state.
    Answer,
    /// At the instruction that faulted.
    Retry,
}

/// See the description of the module.
pub struct Kernel<'v> {
    /// The virtual processor that runs the processes.
    pub processor: VirtualProcessor<'v>,
    /// The memory of the processes.
    pub memory: Memory,
    /// Processes that do not run now.
    pub tasks: BTreeMap<u32, Task>,
    queue: VecDeque<u32>,
    /// The last process number.
    pub last: u32,
    /// How the running process is resumed.
    pub go: Go,
    /// The time slice is over.
    pub time_is_over: bool,
    /// Event counters.
    pub counts: Counts,
    files: BTreeMap<Vec<u8>, Rc<[u8]>>,
    traces: bool,
}

/// See the description of the program.
pub fn main() -> ExitCode {
    let (mut must, mut traces) = (String::new(), false);
    let mut arguments = std::env::args().skip(1).peekable();
    while let Some(option) = arguments.next_if(|argument| argument.starts_with("--")) {
        match option.strip_prefix("--must=") {
            Some(names) => must = names.into(),
            None => traces = option == "--trace",
        }
    }
    let arguments: Vec<Vec<u8>> = arguments.map(String::into_bytes).collect();
    let root = zx::startup::vmar_root_self();
    let made = VirtualProcessor::create(&root).and_then(|processor| Ok((processor, Memory::new(PAGES)?)));
    let (processor, memory) = match made {
        Ok(made) => made,
        Err(status) => return broken(&format!("cannot begin: {status}")),
    };
    let kicker = processor.handle().duplicate(Rights::SAME_RIGHTS);
    let (tasks, queue, files, counts) = (BTreeMap::new(), VecDeque::new(), BTreeMap::new(), Counts::default());
    let (go, time_is_over) = (Go::Enter, false);
    let mut kernel = Kernel { processor, memory, tasks, queue, last: FIRST, go, time_is_over, counts, files, traces };
    let over = AtomicBool::new(false);
    let ended = thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) && kicker.as_ref().is_ok_and(|kicker| kicker.kick().is_ok()) {
                thread::sleep(TURN);
            }
        });
        let ended = kernel.run(&arguments);
        over.store(true, Ordering::Relaxed);
        ended
    });
    let status = match ended {
        Ok(status) => status,
        Err(Stop::Broken(why)) => return broken(&why),
        Err(Stop::Errno(errno)) => return broken(&format!("the program cannot be started: {errno}")),
        Err(Stop::Wait) => return broken("nothing can happen any more"),
    };
    let (_, left) = kernel.memory.pages();
    if left != 0 {
        return broken(&format!("{left} pages are left"));
    }
    for name in must.split(',').filter(|name| !name.is_empty()) {
        if kernel.counts.get(name).is_none_or(|count| count == 0) {
            eprintln!("guest: there were no {name}: {:?}", kernel.counts);
            return ExitCode::from(NOT_SEEN);
        }
    }
    // The exit code that a shell reports.
    ExitCode::from(if status & 0x7f != 0 { 128 + (status & 0x7f) as u8 } else { (status >> 8) as u8 })
}

fn broken(why: &str) -> ExitCode {
    eprintln!("guest: {why}");
    ExitCode::from(BROKEN)
}

impl Kernel<'_> {
    /// Prints to standard error if tracing is on.
    pub fn trace(&self, text: impl FnOnce() -> String) {
        if self.traces {
            eprintln!("guest: {}", text());
        }
    }

    /// A file of the underlying system.
    pub fn file(&mut self, path: &[u8]) -> Result<Rc<[u8]>> {
        if let Some(data) = self.files.get(path) {
            return Ok(data.clone());
        }
        let Ok(data) = std::fs::read(OsStr::from_bytes(path)) else { return fails(errno::ENOENT) };
        Ok(self.files.entry(path.to_vec()).or_insert(data.into()).clone())
    }

    /// Runs a program to its end; returns its status.
    fn run(&mut self, arguments: &[Vec<u8>]) -> Result<u32> {
        let Some(path) = arguments.first() else { return fails(errno::ENOENT) };
        let path = super::calls::whole(path);
        let data = self.file(&path)?;
        let mut space = Space::new(&mut self.memory)?;
        let environment: Vec<Vec<u8>> =
            std::env::vars().map(|(name, value)| format!("{name}={value}").into()).collect();
        let told = (arguments, environment.as_slice());
        let state = program::load(&mut space, (&mut self.memory, &mut self.counts), &data, &path, told)?;
        self.tasks.insert(FIRST, Task::new(FIRST, space, state, (path, data)));
        self.queue.push_back(FIRST);
        loop {
            let Some(mut task) = self.queue.pop_front().and_then(|pid| self.tasks.remove(&pid)) else {
                self.idle()?;
                continue;
            };
            self.turn(&mut task)?;
            if let Some(status) = task.end {
                self.ended(&mut task)?;
                if task.pid == FIRST {
                    return self.end_all().map(|()| status);
                }
            } else if !task.waits {
                self.queue.push_back(task.pid);
            }
            self.tasks.insert(task.pid, task);
        }
    }

    /// A process ends: frees its resources and notifies its parent.
    fn ended(&mut self, task: &mut Task) -> Result<()> {
        if let Some(space) = task.space.take() {
            space.end(&mut self.memory)?;
        }
        (0..super::files::MOST as u64).try_for_each(|number| task.files.put(number, None))?;
        for child in self.tasks.values_mut().filter(|child| child.parent == task.pid) {
            child.parent = FIRST;
        }
        let status = task.end.unwrap_or_default();
        let (code, status) = if status & 0x7f == 0 { (1, status >> 8) } else { (2, status & 0x7f) };
        let info = Info { code, address: task.pid.into(), status, ..Info::default() };
        self.raise(task.parent, sig::CHLD, info);
        self.wake();
        Ok(())
    }

    fn end_all(&mut self) -> Result<()> {
        for (_, mut task) in std::mem::take(&mut self.tasks) {
            task.space.take().map_or(Ok(()), |space| space.end(&mut self.memory))?;
        }
        Ok(())
    }

    /// Processes that wait make their calls again (step 3).
    pub fn wake(&mut self) {
        for task in self.tasks.values_mut().filter(|task| task.waits) {
            task.waits = false;
            self.queue.push_back(task.pid);
        }
    }

    /// No process is runnable: sleeps until the next deadline.
    fn idle(&mut self) -> Result<()> {
        let Some(deadline) = self.tasks.values().filter_map(Task::deadline).min() else { return Err(Stop::Wait) };
        thread::sleep(deadline.saturating_duration_since(Instant::now()));
        self.alarms(None);
        self.wake();
        Ok(())
    }

    /// Delivers expired alarms, also to the running process.
    fn alarms(&mut self, running: Option<&mut Task>) {
        let now = Instant::now();
        let mut late = false;
        for task in self.tasks.values_mut().chain(running) {
            late |= task.until.is_some_and(|until| until <= now);
            if let Some((at, every)) = task.alarm
                && at <= now
            {
                task.alarm = (!every.is_zero()).then(|| (now + every, every));
                task.signals.raise(sig::ALRM, Info { code: 0x80, ..Info::default() });
                late = true;
            }
        }
        if late {
            self.wake();
        }
    }

    /// Runs a process until it ends or waits, or its time slice is over.
    fn turn(&mut self, task: &mut Task) -> Result<()> {
        self.go = Go::Enter;
        self.time_is_over = false;
        loop {
            if self.go != Go::Retry {
                self.deliver(task)?;
            }
            let Some(space) = task.space.as_ref().filter(|_| task.end.is_none() && !task.waits) else { return Ok(()) };
            if self.time_is_over && self.go != Go::Retry {
                self.alarms(Some(task));
                self.counts.switches += u64::from(!self.queue.is_empty());
                return Ok(());
            }
            let exit = match self.go {
                Go::Enter => {
                    *self.processor.state() = task.state;
                    self.processor.enter(&space.process)?
                }
                Go::Answer => {
                    *self.processor.state() = task.state;
                    self.processor.resume()?
                }
                Go::Retry => self.processor.resume()?,
            };
            self.stopped(task, exit)?;
        }
    }

    /// Handles an exit from the virtual processor.
    fn stopped(&mut self, task: &mut Task, exit: Exit) -> Result<()> {
        match exit {
            Exit::Syscall => {
                self.go = Go::Answer;
                task.state = *self.processor.state();
                self.call(task)
            }
            Exit::PageFault(address) => self.page_fault(task, address),
            Exit::Exception(vector) => {
                let code = self.processor.page().code;
                self.processor.fill_state()?;
                self.go = Go::Enter;
                task.state = *self.processor.state();
                let address = if matches!(vector, 0 | 6) { task.state.ip } else { 0 };
                let (signal, si_code) = match vector {
                    0 => (sig::FPE, 1),
                    1 | 3 => (sig::TRAP, 0x80),
                    6 => (sig::ILL, 2),
                    16 | 19 => (sig::FPE, 7),
                    17 => (sig::BUS, 1),
                    _ => (sig::SEGV, 0x80),
                };
                self.trace(|| format!("{}: exception {vector} at {:#x}", task.pid, task.state.ip));
                self.force(task, signal, Info { code: si_code, address, trap: (vector, code), status: 0 });
                Ok(())
            }
            Exit::Kick => {
                self.counts.kicks += 1;
                self.go = Go::Enter;
                task.state = *self.processor.state();
                self.time_is_over = true;
                Ok(())
            }
            // Only occurs if the underlying kernel allows such a call.
            Exit::ForeignCall => {
                self.processor.fill_state()?;
                self.go = Go::Enter;
                task.state = *self.processor.state();
                self.force(task, sig::SYS, Info::default());
                Ok(())
            }
            Exit::Unknown => Err(Stop::Broken("a stop that nobody knows".into())),
        }
    }

    fn page_fault(&mut self, task: &mut Task, address: u64) -> Result<()> {
        let code = self.processor.page().code;
        let wanted = match code {
            code if code & HAFNON_VPROC_FAULT_WRITE != 0 => WRITE,
            code if code & HAFNON_VPROC_FAULT_FETCH != 0 => EXECUTE,
            _ => READ,
        };
        let Some(space) = &mut task.space else { return Ok(()) };
        let answered = space.fault(&mut self.memory, &mut self.counts, address, wanted);
        self.trace(|| format!("{}: fault at {address:#x}, code {code:#x}: {answered:?}", task.pid));
        match answered {
            Ok(true) => {
                self.go = Go::Retry;
                return Ok(());
            }
            Ok(false) | Err(Stop::Errno(_)) => {}
            Err(other) => return Err(other),
        }
        let there = space.access(address) != 0;
        self.processor.fill_state()?;
        self.go = Go::Enter;
        task.state = *self.processor.state();
        // The presence bit comes from the guest's own tables: a page may exist and not be mapped yet in the sub-domain.
        let code = code & !HAFNON_VPROC_FAULT_PRESENT | u64::from(there) | 4;
        let info = Info { code: 1 + u32::from(there), address, trap: (14, code), status: 0 };
        self.force(task, sig::SEGV, info);
        Ok(())
    }
}
