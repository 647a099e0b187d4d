//! A native component that has processor state, and notices when other code changes it.
//!
//! It fills x87 and vector registers with values of its own, and sets a flag. If the kernel lets programs set the bases
//! of FS and GS, it sets these, too. Afterwards it changes none of that until a request says to begin anew, and checks
//! in each round whether everything is unchanged. Between two checks other threads run: its callers, threads to which
//! it yields, and threads that preempt it. All of its answers contain the first change that it found.
//!
//! The programs that use it are `tests/hostile/src/bin/tamper/state`, module `component`; [`asked`] defines the
//! requests.
#![no_std]
#![no_main]

mod arch;

use arch::{State, StateMismatch};
use component::{Own, Request, counter};

component::start!(main);

/// Labels of the requests, and their answers.
mod asked {
    /// Check. Word 0 tells how often it yields and checks again, word 1 for how many microseconds it then checks
    /// without yielding. The answer contains the total number of checks, what was wrong (a number of
    /// [`super::StateMismatch`], or 0), the value found and the value expected, and the request's words from the third
    /// on.
    pub const LOOK: u64 = 1;
    /// Fill the registers anew; earlier changes are forgotten. If word 0 is not 0, it sets bases of its own from now
    /// on; that is allowed only if programs have the instructions. The answer is the address of a word that it changes
    /// at each check.
    pub const BEGIN: u64 = 2;
    /// The label of an answer to anything else.
    pub const REFUSED: u64 = 0;
}

/// Limits of one request, because other callers wait for it.
const MOST_TURNS: u64 = 1000;
const MOST_MICROSECONDS: u64 = 50_000;
/// Words of a request that describe the order, and words of an answer that describe the result.
const ORDER: usize = 2;
const FOUND: usize = 4;
/// Maximum number of words that it returns.
const BACK: usize = 16;

fn main(own: Own) -> ! {
    let mut victim = Victim::new(false);
    let mut request = own.endpoint.receive();
    loop {
        victim.look();
        request = match request.label() {
            asked::LOOK => {
                victim.turns(&request, own.megahertz);
                victim.answer(request)
            }
            asked::BEGIN => {
                victim = Victim::new(request.words().first().is_some_and(|bases| *bases != 0));
                request.answer(asked::BEGIN, &[(&raw const victim.looks).addr() as u64])
            }
            _ => request.answer(asked::REFUSED, &[]),
        };
    }
}

/// See the module's description.
struct Victim {
    state: State,
    looks: u64,
    /// The first change that it found.
    wrong: Option<StateMismatch>,
}

impl Victim {
    fn new(bases: bool) -> Victim {
        Victim { state: State::take(bases), looks: 0, wrong: None }
    }

    fn look(&mut self) {
        self.looks += 1;
        let found = self.state.look();
        self.wrong = self.wrong.or(found);
    }

    fn turns(&mut self, request: &Request, megahertz: u64) {
        let [turns, microseconds] = [0, 1].map(|place| request.words().get(place).copied().unwrap_or(0));
        for _ in 0..turns.min(MOST_TURNS) {
            sel4::r#yield();
            self.look();
        }
        let (from, time) = (counter(), microseconds.min(MOST_MICROSECONDS) * megahertz);
        while counter().wrapping_sub(from) < time {
            self.look();
        }
    }

    fn answer(&self, request: Request) -> Request {
        let mut words = [0; FOUND + BACK];
        words[0] = self.looks;
        if let Some(wrong) = self.wrong {
            (words[1], words[2], words[3]) = (wrong.what as u64, wrong.found, wrong.wanted);
        }
        let back = request.words().get(ORDER..).unwrap_or_default();
        let len = back.len().min(BACK);
        words[FOUND..FOUND + len].copy_from_slice(&back[..len]);
        request.answer(asked::LOOK, &words[..FOUND + len])
    }
}
