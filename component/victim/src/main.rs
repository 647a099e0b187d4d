//! A native component that has state of the processor, and notices when somebody changes it.
//!
//! It fills x87 and vector registers with values of its own, sets a flag, and where the kernel leaves the bases of FS and GS to programs
//! it has its own of these too. Then it sets none of that until it is asked to begin anew: at each turn it looks whether everything
//! is as it was. Between two looks others run: those who call it, those to whom it leaves the processor, and those who take it. What it
//! found wrong first stands in all of its answers.
//!
//! The programs beside it are `tests/hostile/src/bin/tamper/state`, module `component`; [`asked`] says what they ask for.
#![no_std]
#![no_main]

mod state;

use component::{Own, Request, counter};
use state::{State, Wrong};

component::start!(main);

/// What it is asked for, by the label, and what it answers.
mod asked {
    /// Looks. Word 0 says how often it leaves the processor to others and looks again, word 1 for how many microseconds it goes on
    /// looking without leaving the processor. The answer has looks made in all, what was wrong (a number of
    /// [`super::state::Wrong`], or 0), what was found and what should have been there, and the request's words from the third on.
    pub const LOOK: u64 = 1;
    /// Fills its registers anew; what was wrong before is forgotten. It has bases of its own from now on if word 0 is not 0, to be asked
    /// only where programs have the instructions for that. The answer is empty.
    pub const BEGIN: u64 = 2;
    /// The label of an answer to anything else.
    pub const REFUSED: u64 = 0;
}

/// What one request can ask for at most: others wait for it.
const MOST_TURNS: u64 = 1000;
const MOST_MICROSECONDS: u64 = 50_000;
/// Words of a request that say what is to be done, and of an answer that say what was found.
const ORDER: usize = 2;
const FOUND: usize = 4;
/// Words that it gives back at most.
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
                request.answer(asked::BEGIN, &[])
            }
            _ => request.answer(asked::REFUSED, &[]),
        };
    }
}

/// See the module's description.
struct Victim {
    state: State,
    looks: u64,
    /// What was wrong first.
    wrong: Option<Wrong>,
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
