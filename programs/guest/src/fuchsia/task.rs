//! Processes of the guest.

use std::rc::Rc;
use std::time::{Duration, Instant};

use abi::hafnon_vproc_state_t;

use super::files::Files;
use super::linux::sig;
use super::space::Space;

/// The action for a signal.
#[derive(Clone, Copy, Default)]
pub struct Action {
    /// 0: the default action; 1: the signal is ignored; otherwise the handler's address.
    pub handler: u64,
    /// `SA_…`.
    pub flags: u64,
    /// The address to which a handler returns.
    pub restorer: u64,
    /// Signals that are masked while it runs.
    pub mask: u64,
}

/// Information about a signal.
#[derive(Clone, Copy, Default)]
pub struct Info {
    /// `si_code`.
    pub code: u32,
    /// `si_addr`; or a process number in the lower half and its user, 0, in the upper half.
    pub address: u64,
    /// `si_status`.
    pub status: u32,
    /// The exception's number, and the error code of a page fault.
    pub trap: (u64, u64),
}

/// A process's signals.
#[derive(Clone)]
pub struct Signals {
    /// The action for each signal; entry 0 is unused.
    pub actions: [Action; sig::LAST as usize + 1],
    /// The signal mask: one bit per signal, bit 0 for signal 1.
    pub mask: u64,
    /// Pending signals.
    pub pending: u64,
    infos: [Info; sig::LAST as usize + 1],
}

/// The bit of a signal.
pub fn bit(signal: u32) -> u64 {
    1 << (signal - 1)
}

impl Signals {
    fn new() -> Signals {
        let infos = [Info::default(); sig::LAST as usize + 1];
        Signals { actions: [Action::default(); sig::LAST as usize + 1], mask: 0, pending: 0, infos }
    }

    /// Makes a signal pending.
    pub fn raise(&mut self, signal: u32, info: Info) {
        self.pending |= bit(signal);
        self.infos[signal as usize] = info;
    }

    /// The next pending signal that is not masked.
    pub fn next(&mut self) -> Option<(u32, Info)> {
        let now = self.pending & !self.mask;
        (now != 0).then(|| {
            let signal = now.trailing_zeros() + 1;
            self.pending &= !bit(signal);
            (signal, self.infos[signal as usize])
        })
    }

    /// Whether a signal is ignored.
    pub fn ignores(&self, signal: u32) -> bool {
        let usual = matches!(signal, sig::CHLD | sig::CONT | sig::URG | sig::WINCH);
        let handler = self.actions[signal as usize].handler;
        handler == 1 || handler == 0 && usual
    }
}

/// A process.
pub struct Task {
    /// Its number.
    pub pid: u32,
    /// Its parent's number.
    pub parent: u32,
    /// Its address space while it lives.
    pub space: Option<Space>,
    /// Its registers while it does not run.
    pub state: hafnon_vproc_state_t,
    /// Its open files.
    pub files: Files,
    /// Its signals.
    pub signals: Signals,
    /// Its exit status as `wait4` reports it.
    pub end: Option<u32>,
    /// It waits in a system call, which is made again after an event.
    pub waits: bool,
    /// It has begun a waiting call, and its instruction pointer is at the call.
    pub in_call: bool,
    /// The end of its sleep.
    pub until: Option<Instant>,
    /// When its alarm expires next, and the period.
    pub alarm: Option<(Instant, Duration)>,
    /// Its program: path and file.
    pub program: (Vec<u8>, Rc<[u8]>),
}

impl Task {
    /// A process that runs a program from this state on.
    pub fn new(pid: u32, space: Space, state: hafnon_vproc_state_t, program: (Vec<u8>, Rc<[u8]>)) -> Task {
        Task {
            pid,
            parent: 0,
            space: Some(space),
            state,
            files: Files::new(),
            signals: Signals::new(),
            end: None,
            waits: false,
            in_call: false,
            until: None,
            alarm: None,
            program,
        }
    }

    /// The child of a fork.
    pub fn child(&self, pid: u32, space: Space) -> Task {
        let signals = Signals { pending: 0, ..self.signals.clone() };
        let (files, program) = (self.files.clone(), self.program.clone());
        Task { parent: self.pid, files, signals, ..Task::new(pid, space, self.state, program) }
    }

    /// The next time at which it has an event.
    pub fn deadline(&self) -> Option<Instant> {
        let alarm = self.alarm.map(|(at, _)| at);
        self.until.into_iter().chain(alarm).min()
    }
}
