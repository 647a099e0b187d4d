//! Errors that keep the system from starting.

use core::fmt;

use description::Level;

/// See the module's description.
#[derive(Debug)]
pub enum Error {
    /// No server is embedded.
    NoServer,
    /// The system description cannot be read.
    Description(description::Error),
    /// There are more instances than this root task supports.
    TooManyInstances,
    /// The instances request more memory than there is.
    MemoryShare,
    /// There are more components than this root task supports.
    TooManyComponents,
    /// The program of the component with this name cannot be read.
    NoProgram(&'static str),
    /// A program file cannot be loaded, for this reason.
    Image(&'static str),
    /// The root task's own memory is used up.
    OutOfMemory,
    /// The root task's capability slots are used up.
    OutOfSlots,
    /// The kernel refused this operation.
    Kernel(&'static str, sel4::Error),
    /// A server's boot pages have no room for more pieces of this kind; the number is the maximum.
    Pieces(&'static str, usize),
    /// This device does not exist.
    Device(&'static str),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoServer => f.write_str("this root task was built without a server"),
            Error::Description(error) => error.fmt(f),
            Error::TooManyInstances => write!(f, "more than {} instances", crate::instance::MAX_INSTANCES),
            Error::MemoryShare => f.write_str("the instances want more memory than there is"),
            Error::TooManyComponents => write!(f, "more than {} components", description::COMPONENTS),
            Error::NoProgram(name) => write!(f, "the program of component {name:?} cannot be read"),
            Error::Image(why) => write!(f, "a program's image: {why}"),
            Error::OutOfMemory => f.write_str("too little memory for the root task's own needs"),
            Error::OutOfSlots => f.write_str("no capability slots left"),
            Error::Kernel(what, error) => write!(f, "{what}: {error}"),
            Error::Pieces(what, most) => write!(f, "{what} in more than {most} pieces"),
            Error::Device(what) => write!(f, "no {what}"),
        }
    }
}

/// Adds the operation that the kernel refused.
pub trait Context<T> {
    /// See [`Context`].
    fn context(self, what: &'static str) -> Result<T, Error>;
}

impl<T> Context<T> for sel4::Result<T> {
    fn context(self, what: &'static str) -> Result<T, Error> {
        self.map_err(|error| Error::Kernel(what, error))
    }
}

/// The number of a severity in the boot pages.
pub fn level_number(level: Level) -> u64 {
    match level {
        Level::Debug => 0,
        Level::Info => 1,
        Level::Warning => 2,
        Level::Error => 3,
    }
}
