//! A service of the description: its runs, its clients' way to it, its signs of life.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use description::services::Service;
use service::Program;
use service::message::{HEAD, ToInit, ToService};
use zx::{Handle, Status};

use crate::make::Running;

/// How often a service may be started within [`WHILE`].
const STARTS: usize = 10;
/// The time in which starts are counted.
const WHILE: Duration = Duration::from_secs(60);
/// How many clients of a program may be on their way to a service that it has not taken. What is asked for beyond that waits, unread.
const UNDER_WAY: usize = 64;
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
    /// The programs of which this run has had clients, and how many of those it has not taken yet.
    clients: HashMap<Program, usize>,
    /// The channels that wait for it to take clients, by the program that they are of, as they came.
    held: HashMap<Program, VecDeque<u64>>,
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
            clients: HashMap::new(),
            held: HashMap::new(),
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
        self.clients.clear();
        Some((running, self.held.drain().flat_map(|(_, keys)| keys).collect()))
    }

    /// Whether one more client of a program may be sent to it.
    pub fn has_way(&self, program: Program) -> bool {
        self.clients.get(&program).is_none_or(|under_way| *under_way < UNDER_WAY)
    }

    /// Has a channel wait until the service has taken one of this program's clients.
    pub fn hold(&mut self, program: Program, key: u64) {
        self.held.entry(program).or_default().push_back(key);
    }

    /// Sends it a client. One that cannot be sent is closed, which its owner sees.
    pub fn send(&mut self, program: Program, words: &str, handles: impl IntoIterator<Item = Handle>) {
        let Some(running) = &self.running else { return };
        let message = ToService::Client { program, words: words.as_bytes() }.to_bytes();
        // A service that ended meanwhile is told of by its own packet.
        if running.clients.write_handles(&message, handles).is_ok() {
            *self.clients.entry(program).or_default() += 1;
        }
    }

    /// Tells it of the end of a program, if it has had clients of it.
    pub fn tell_end(&mut self, program: Program) {
        self.held.remove(&program);
        if self.clients.remove(&program).is_some()
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
        for _ in 0..UNDER_WAY {
            let mut bytes = [0; HEAD];
            let size = match running.clients.read(&mut bytes, &mut []) {
                Ok(size) => size,
                Err((Status::SHOULD_WAIT, _)) => break,
                Err((status, _)) => return Err(status),
            };
            match ToInit::from_bytes(&bytes[..size.bytes]).ok_or(Status::IO_DATA_INTEGRITY)? {
                ToInit::Taken(program) => {
                    // Of a program that has ended meanwhile nothing is counted any more.
                    let Some(under_way) = self.clients.get_mut(&program) else { continue };
                    *under_way = under_way.saturating_sub(1);
                    freed.extend(self.held.get_mut(&program).and_then(VecDeque::pop_front));
                    if self.held.get(&program).is_some_and(VecDeque::is_empty) {
                        self.held.remove(&program);
                    }
                }
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
