//! Standard input from the host to the foreground program.
//!
//! The thread that reads the host link must never wait for a program, or an INTERRUPT behind the data would not be
//! read. So a buffer lies between them. It holds as many bytes as the host may send before it hears that the program
//! has taken some. A host that ignores this limit is blocked here.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Maximum number of bytes from the host that are not taken yet.
pub const WINDOW: usize = 64 << 10;

#[derive(Default)]
struct State {
    bytes: VecDeque<u8>,
    ended: bool,
    /// Number of the current program. A reader of an earlier one gets nothing any more.
    generation: u64,
}

/// The buffer between the link's thread and the thread that feeds the foreground program.
#[derive(Default)]
pub struct Stdin {
    state: Mutex<State>,
    changed: Condvar,
}

/// One program's claim on the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim(u64);

impl Stdin {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds input from the host; waits while more than [`WINDOW`] bytes are buffered.
    pub fn put(&self, bytes: &[u8]) {
        let mut state = self.lock();
        while state.bytes.len() >= WINDOW {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.bytes.extend(bytes);
        self.changed.notify_all();
    }

    /// The host's input has ended. Buffered input can still be taken.
    pub fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_all();
    }

    /// Directs the input to the caller's program; earlier claims end.
    pub fn claim(&self) -> Claim {
        let mut state = self.lock();
        state.generation += 1;
        self.changed.notify_all();
        Claim(state.generation)
    }

    /// Waits for input and takes up to `limit` bytes from the buffer. `None` at the end of the input, or when another
    /// program has claimed it.
    pub fn take(&self, claim: Claim, limit: usize) -> Option<Vec<u8>> {
        let mut state = self.lock();
        loop {
            if state.generation != claim.0 {
                return None;
            }
            if !state.bytes.is_empty() {
                let length = state.bytes.len().min(limit);
                let bytes = state.bytes.drain(..length).collect();
                self.changed.notify_all();
                return Some(bytes);
            }
            if state.ended {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;

    #[test]
    fn everything_comes_out_in_order_and_then_the_end() {
        let stdin = Arc::new(Stdin::default());
        let claim = stdin.claim();
        let sender = Arc::clone(&stdin);
        let sent: Vec<u8> = (0..300_000_u32).map(|number| number as u8).collect();
        let expected = sent.clone();
        let sender = thread::spawn(move || {
            for piece in sent.chunks(1000) {
                sender.put(piece);
            }
            sender.end();
        });
        let mut received = Vec::new();
        while let Some(bytes) = stdin.take(claim, 777) {
            assert!(!bytes.is_empty() && bytes.len() <= 777);
            received.extend(bytes);
        }
        sender.join().unwrap();
        assert!(received == expected);
    }

    #[test]
    fn a_new_claim_ends_the_old_one() {
        let stdin = Arc::new(Stdin::default());
        let old = stdin.claim();
        let waiter = Arc::clone(&stdin);
        let waiter = thread::spawn(move || waiter.take(old, 10));
        let new = stdin.claim();
        assert_eq!(waiter.join().unwrap(), None);
        stdin.put(b"for the new one");
        assert_eq!(stdin.take(old, 10), None);
        assert_eq!(stdin.take(new, 7).unwrap(), b"for the");
    }

    #[test]
    fn more_than_the_window_waits_for_a_taker() {
        let stdin = Arc::new(Stdin::default());
        let claim = stdin.claim();
        stdin.put(&vec![1; WINDOW]);
        let sender = Arc::clone(&stdin);
        let sender = thread::spawn(move || sender.put(&[2]));
        assert_eq!(stdin.take(claim, WINDOW).unwrap().len(), WINDOW);
        sender.join().unwrap();
        assert_eq!(stdin.take(claim, 10).unwrap(), [2]);
    }
}
