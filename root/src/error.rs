//! Why the system does not start.

use core::fmt;

use description::Level;

/// See the module's description.
#[derive(Debug)]
pub enum Error {
    /// No server is embedded.
    NoServer,
    /// The system description cannot be read.
    Description(description::Error),
    /// There are more instances than this root task watches.
    TooManyInstances,
    /// The instances want more memory than there is.
    MemoryShare,
    /// There are more components than this root task watches.
    TooManyComponents,
    /// The program of a component cannot be read: which component's.
    NoProgram(&'static str),
    /// A program file is none that can be loaded: why not.
    Image(&'static str),
    /// The root task's own memory is used up.
    OutOfMemory,
    /// The root task's capability slots are used up.
    OutOfSlots,
    /// The kernel refused something: what it was.
    Kernel(&'static str, sel4::Error),
    /// A server's boot page has no room for more pieces of something: of what, and how many it has room for.
    Pieces(&'static str, usize),
    /// A device is not there.
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

/// Names what the kernel was asked for.
pub trait Context<T> {
    /// See [`Context`].
    fn context(self, what: &'static str) -> Result<T, Error>;
}

impl<T> Context<T> for sel4::Result<T> {
    fn context(self, what: &'static str) -> Result<T, Error> {
        self.map_err(|error| Error::Kernel(what, error))
    }
}

/// A level of the description as the boot page has it.
pub fn level_number(level: Level) -> u64 {
    match level {
        Level::Debug => 0,
        Level::Info => 1,
        Level::Warning => 2,
        Level::Error => 3,
    }
}
