//! A service of the description: its runs, its clients' way to it, its signs of life.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use description::services::Service;
use init::under_way::{self, UnderWay};
use service::Program;
use service::message::{HEAD, ToInit, ToService};
use zx::{Handle, Status};

use crate::make::Running;

/// How often a service may be started within [`WHILE`].
const STARTS: usize = 10;
/// The time in which starts are counted.
const WHILE: Duration = Duration::from_secs(60);
/// After how many looks in a row without a sign of life a service is ended.
const LOOKS: u32 = 24;

/// A service of the description.
pub struct Known {
    pub service: Service,
    pub running: Option<Running>,
    /// Of the packets that tell of its end, and of its words.
    pub keys: (u64, u64),
    /// What its run is as a client of others.
    pub program: Program,
    /// When it was started last.
    starts: VecDeque<Instant>,
    /// It was said that it does not start.
    pub complained: bool,
    /// What was sent to this run.
    pub clients: UnderWay,
    life: Life,
}

/// Whether a service was asked for a sign of life.
#[derive(Default)]
struct Life {
    asked: bool,
    /// For how many looks it has been.
    looks: u32,
}

/// What came of a look at a service.
#[derive(Debug, PartialEq, Eq)]
pub enum Look {
    Fine,
    /// It has given no sign of life for so long that it will give none.
    Dead,
}

impl Known {
    pub fn new(service: Service) -> Known {
        Known {
            service,
            running: None,
            keys: (0, 0),
            program: Program::INIT,
            starts: VecDeque::new(),
            complained: false,
            clients: UnderWay::default(),
            life: Life::default(),
        }
    }

    /// Counts one more start.
    ///
    /// # Errors
    /// There were too many: a sentence for the user.
    pub fn count_start(&mut self) -> Result<(), String> {
        self.starts.retain(|at| at.elapsed() < WHILE);
        if self.starts.len() >= STARTS {
            return Err(format!("it was started {STARTS} times within {} s; wait, and try again", WHILE.as_secs()));
        }
        self.starts.push_back(Instant::now());
        Ok(())
    }

    /// It runs.
    pub fn began(&mut self, running: Running, program: Program, keys: (u64, u64)) {
        (self.running, self.program, self.keys) = (Some(running), program, keys);
        self.complained = false;
        self.life = Life::default();
    }

    /// It runs no more; gives its run, and the channels that waited for it.
    pub fn ended(&mut self) -> Option<(Running, Vec<u64>)> {
        let running = self.running.take()?;
        self.keys = (0, 0);
        Some((running, self.clients.over()))
    }

    /// Sends it a client. One that cannot be sent is closed, which its owner sees.
    pub fn send(&mut self, program: Program, words: &str, handles: impl IntoIterator<Item = Handle>) {
        let Some(running) = &self.running else { return };
        let message = ToService::Client { program, words: words.as_bytes() }.to_bytes();
        // A service that ended meanwhile is told of by its own packet.
        if running.clients.write_handles(&message, handles).is_ok() {
            self.clients.sent(program);
        }
    }

    /// Tells it of the end of a program, if it has had clients of it.
    pub fn tell_end(&mut self, program: Program) {
        if self.clients.ended(program)
            && let Some(running) = &self.running
            && running.clients.write(&ToService::Ended(program).to_bytes(), []) == Err(Status::SHOULD_WAIT)
        {
            // It has thousands of messages that it does not read. It must not keep what is nobody's.
            let _ = running.process.kill();
        }
    }

    /// Reads what it says on the channel of its clients; gives the channels that need wait no longer.
    ///
    /// # Errors
    /// It has gone, or what it says is none of what a service says.
    pub fn heard(&mut self) -> zx::Result<Vec<u64>> {
        let mut freed = Vec::new();
        let Some(running) = &self.running else { return Err(Status::PEER_CLOSED) };
        // So many at a time, then others have their turn.
        for _ in 0..under_way::MOST {
            let mut bytes = [0; HEAD];
            let size = match running.clients.read(&mut bytes, &mut []) {
                Ok(size) => size,
                Err((Status::SHOULD_WAIT, _)) => break,
                Err((status, _)) => return Err(status),
            };
            match ToInit::from_bytes(&bytes[..size.bytes]).ok_or(Status::IO_DATA_INTEGRITY)? {
                ToInit::Taken(program) => freed.extend(self.clients.taken(program)),
                ToInit::Alive => self.life = Life::default(),
            }
        }
        Ok(freed)
    }

    /// Asks for a sign of life, or counts that none has come.
    pub fn look(&mut self) -> Look {
        let Some(running) = &self.running else { return Look::Fine };
        if self.life.asked {
            self.life.looks += 1;
        } else {
            self.life.asked = running.clients.write(&ToService::Ping.to_bytes(), []).is_ok();
            // That its channel is full is no sign of life either.
            self.life.looks += u32::from(!self.life.asked);
        }
        if self.life.looks < LOOKS { Look::Fine } else { Look::Dead }
    }
}
