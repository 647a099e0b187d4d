//! What single operations cost.
//!
//! Each operation runs a number of times without being counted, so that everything that is created only once exists.
//! Then it runs some hundred times between two reads of the processor's counter, with nothing else between them; the
//! cost of the reads is subtracted. Where the counter counts instructions (`./hafnon bench`), a figure is the length of
//! a path: user, kernel and server together. Arguments name the operations to measure. The program prints a line for
//! each figure at the end, because output has costs, too: `figure NAME UNIT MEAN MIN MAX SAMPLES`.
//!
//! With `--clock` as the first argument, figures are nanoseconds of the machine's clock.
//!
//! With `--partner WHAT`, this program is the second process of an operation that takes two.

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

/// How long to wait before the measurement.
const QUIET: Duration = Duration::from_secs(2);

/// Calls a function of the vDSO, whose address it hides from the compiler, with these arguments; gives its result.
macro_rules! call {
    ($name:ident $(, $argument:expr)* $(,)?) => {
        zx::probe::call_with(zx::sys::$name as *const () as usize, [$(($argument) as u64),*])
    };
}
pub(crate) use call;

/// The address of a value, for a call that writes to it or reads from it.
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
    // Other programs of the system may still start.
    std::thread::sleep(QUIET);
    if let Err(status) = memory::use_some() {
        return failed("memory", status);
    }
    let clock = args.first().is_some_and(|first| first == "--clock");
    let mut suite = Suite::new(if clock { args[1..].to_vec() } else { args }, clock);
    // The first pass is a rehearsal: everything that is created only once is created then.
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
