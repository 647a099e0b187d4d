//! What single operations cost.
//!
//! Each is done a number of times that nobody counts, so that what is made for the first time is there, and then some
//! hundred times between two looks at the processor's counter, with nothing else between them; what the looks
//! themselves cost is taken off. Where the counter counts instructions (`./hafnon bench`) the figures are lengths of
//! paths: user, kernel and server together. The names of the operations to be measured are the arguments. A line for
//! each figure goes to standard output when all is done, because output has costs, too:
//! `figure NAME UNIT MEAN MIN MAX SAMPLES`.
//!
//! With `--clock` first the figures are nanoseconds of the machine's clock instead.
//!
//! With `--partner WHAT` this program is the second process of an operation that takes two.

mod bulk;
mod calls;
mod memory;
mod parties;
mod queues;
mod sampler;
mod tasks;
mod vproc;

use std::process::ExitCode;
use std::time::Duration;

use sampler::Suite;

/// How long to wait before anything is measured.
const QUIET: Duration = Duration::from_secs(2);

/// The address of a call of the vDSO, and the call with these arguments; gives its result.
macro_rules! call {
    ($name:ident $(, $argument:expr)* $(,)?) => {
        zx::probe::call_with(zx::sys::$name as *const () as usize, [$(($argument) as u64),*])
    };
}
pub(crate) use call;

/// The address of a value for a call to write to or read from.
pub fn place<T: ?Sized>(value: &mut T) -> u64 {
    std::ptr::from_mut(value).cast::<u8>().expose_provenance() as u64
}

/// A result register as a status.
pub fn check(result: u64) -> zx::Result<()> {
    if result as i32 == 0 { Ok(()) } else { Err(zx::Status(result as i32)) }
}

pub fn main() -> ExitCode {
    let began = zx::probe::counter();
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [first, what] = args.as_slice()
        && first == "--partner"
    {
        return match parties::partner(what, began) {
            Ok(()) => ExitCode::SUCCESS,
            Err(status) => failed(what, status),
        };
    }
    // Other programs of the system may still be starting.
    std::thread::sleep(QUIET);
    if let Err(status) = memory::use_some() {
        return failed("memory", status);
    }
    let clock = args.first().is_some_and(|first| first == "--clock");
    let mut suite = Suite::new(if clock { args[1..].to_vec() } else { args }, clock);
    // Once as a rehearsal: what is made for the first time is made then.
    for rehearsal in [true, false] {
        suite.rehearsal = rehearsal;
        for (what, run) in [
            ("calls", calls::run as fn(&mut Suite) -> zx::Result<()>),
            ("queues", queues::run),
            ("memory", memory::run),
            ("parties", parties::run),
            ("tasks", tasks::run),
            ("vproc", vproc::run),
            ("bulk", bulk::run),
        ] {
            if let Err(status) = run(&mut suite) {
                suite.print();
                return failed(what, status);
            }
        }
    }
    suite.print();
    ExitCode::SUCCESS
}

fn failed(what: &str, status: zx::Status) -> ExitCode {
    eprintln!("operations: {what}: {status:?}");
    ExitCode::FAILURE
}
