//! A service of the system description: its runs, its clients' channels, its responsiveness.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use description::services::Service;
use init::in_flight::{self, InFlight};
use service::Program;
use service::message::{HEAD, ToInit, ToService};
use zx::{Handle, Status};

use crate::make::Running;

/// Maximum number of starts of a service within [`WHILE`].
const STARTS: usize = 10;
/// The period over which starts are counted.
const WHILE: Duration = Duration::from_secs(60);
/// Number of consecutive checks without a sign of life after which a service is killed.
const LOOKS: u32 = 24;

/// A service of the description.
pub struct Known {
    pub service: Service,
    pub running: Option<Running>,
    /// Keys of the packets for its end and for its output.
    pub keys: (u64, u64),
    /// The identity of this run as a client of other services.
    pub program: Program,
    /// Times of its recent starts.
    starts: VecDeque<Instant>,
    /// The message that it does not start has been printed.
    pub complained: bool,
    /// Clients that were sent to this run.
    pub clients: InFlight,
    life: Life,
}

/// The state of the watchdog of a service.
#[derive(Default)]
struct Life {
    asked: bool,
    /// Number of checks since it was asked for a sign of life.
    looks: u32,
}

/// The result of a check.
#[derive(Debug, PartialEq, Eq)]
pub enum Liveness {
    Fine,
    /// The service has not responded for so long that it is considered hung.
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
            clients: InFlight::default(),
            life: Life::default(),
        }
    }

    /// Counts a start.
    ///
    /// # Errors
    /// There were too many starts: a message for the user.
    pub fn count_start(&mut self) -> Result<(), String> {
        self.starts.retain(|at| at.elapsed() < WHILE);
        if self.starts.len() >= STARTS {
            return Err(format!("it was started {STARTS} times within {} s; wait, and try again", WHILE.as_secs()));
        }
        self.starts.push_back(Instant::now());
        Ok(())
    }

    /// The service has started.
    pub fn began(&mut self, running: Running, program: Program, keys: (u64, u64)) {
        (self.running, self.program, self.keys) = (Some(running), program, keys);
        self.complained = false;
        self.life = Life::default();
    }

    /// The service has ended; returns its run and the channels that waited for it.
    pub fn ended(&mut self) -> Option<(Running, Vec<u64>)> {
        let running = self.running.take()?;
        self.keys = (0, 0);
        Some((running, self.clients.drain()))
    }

    /// Sends it a client. If that fails, the client's channel is closed, and the client sees that.
    pub fn send(&mut self, program: Program, (rule, words): (&[u8], &str), handles: impl IntoIterator<Item = Handle>) {
        let Some(running) = &self.running else { return };
        let message = ToService::Client { program, rule, words: words.as_bytes() }.to_bytes();
        // If the service has ended meanwhile, its own packet reports that.
        if running.clients.write_handles(&message, handles).is_ok() {
            self.clients.sent(program);
        }
    }

    /// Reports the end of a program to it, if it has had clients of that program.
    pub fn tell_end(&mut self, program: Program) {
        if self.clients.ended(program)
            && let Some(running) = &self.running
            && running.clients.write(&ToService::Ended(program).to_bytes(), []) == Err(Status::SHOULD_WAIT)
        {
            // It has thousands of unread messages. Killing it frees the resources that it keeps for ended programs.
            let _ = running.process.kill();
        }
    }

    /// Reads its messages on the channel of its clients; returns the channels that need not wait any longer.
    ///
    /// # Errors
    /// It has ended, or it sent an invalid message.
    pub fn heard(&mut self) -> zx::Result<Vec<u64>> {
        let mut freed = Vec::new();
        let Some(running) = &self.running else { return Err(Status::PEER_CLOSED) };
        // Reads a bounded number of messages at a time, so that other events are handled in between.
        for _ in 0..in_flight::MOST {
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

    /// Asks for a sign of life, or counts a check without one.
    pub fn look(&mut self) -> Liveness {
        let Some(running) = &self.running else { return Liveness::Fine };
        if self.life.asked {
            self.life.looks += 1;
        } else {
            self.life.asked = running.clients.write(&ToService::Ping.to_bytes(), []).is_ok();
            // If its channel is full, it has not responded either.
            self.life.looks += u32::from(!self.life.asked);
        }
        if self.life.looks < LOOKS { Liveness::Fine } else { Liveness::Dead }
    }
}
