//! Processes of the guest.

use std::rc::Rc;
use std::time::{Duration, Instant};

use abi::hafnon_vproc_state_t;

use super::files::Files;
use super::linux::sig;
use super::space::Space;

/// What a process does about a signal.
#[derive(Clone, Copy, Default)]
pub struct Action {
    /// 0: what is usual; 1: nothing; otherwise its handler.
    pub handler: u64,
    /// `SA_…`.
    pub flags: u64,
    /// Where a handler returns to.
    pub restorer: u64,
    /// Signals that wait while it runs.
    pub mask: u64,
}

/// What is told of a signal.
#[derive(Clone, Copy, Default)]
pub struct Info {
    /// `si_code`.
    pub code: u32,
    /// `si_addr`; or a process in the lower half, its user, which is 0, in the upper.
    pub address: u64,
    /// `si_status`.
    pub status: u32,
    /// The exception's number, and the page fault's code.
    pub trap: (u64, u64),
}

/// A process's signals.
#[derive(Clone)]
pub struct Signals {
    /// What it does about each; that of signal 0 is not used.
    pub actions: [Action; sig::LAST as usize + 1],
    /// Those that wait until this is changed: a bit each, signal 1's is bit 0.
    pub mask: u64,
    /// Those that have come.
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

    /// A signal comes.
    pub fn raise(&mut self, signal: u32, info: Info) {
        self.pending |= bit(signal);
        self.infos[signal as usize] = info;
    }

    /// The next one that need not wait.
    pub fn next(&mut self) -> Option<(u32, Info)> {
        let now = self.pending & !self.mask;
        (now != 0).then(|| {
            let signal = now.trailing_zeros() + 1;
            self.pending &= !bit(signal);
            (signal, self.infos[signal as usize])
        })
    }

    /// Whether nothing is to be done about one.
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
    /// Its parent's.
    pub parent: u32,
    /// Its memory, as long as it lives.
    pub space: Option<Space>,
    /// Its registers, when it does not run.
    pub state: hafnon_vproc_state_t,
    /// Its open files.
    pub files: Files,
    /// Its signals.
    pub signals: Signals,
    /// How it ended, as `wait4` tells it.
    pub end: Option<u32>,
    /// It waits in a call, which is made again when something happens.
    pub waits: bool,
    /// It has begun a call that waits, and is before it.
    pub in_call: bool,
    /// Until when it sleeps.
    pub until: Option<Instant>,
    /// When its alarm goes off, and every how often then.
    pub alarm: Option<(Instant, Duration)>,
    /// Its program.
    pub program: (Vec<u8>, Rc<[u8]>),
}

impl Task {
    /// One that runs a program from such a state on.
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

    /// The child that a fork makes.
    pub fn child(&self, pid: u32, space: Space) -> Task {
        let signals = Signals { pending: 0, ..self.signals.clone() };
        let (files, program) = (self.files.clone(), self.program.clone());
        Task { parent: self.pid, files, signals, ..Task::new(pid, space, self.state, program) }
    }

    /// When it has to be looked at at the latest.
    pub fn deadline(&self) -> Option<Instant> {
        let alarm = self.alarm.map(|(at, _)| at);
        self.until.into_iter().chain(alarm).min()
    }
}
