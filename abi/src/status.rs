//! What a call answers.
//!
//! Nearly every call returns a status: zero for success or one of the negative numbers below. There are no positive
//! ones. The set is Zircon's and closed; a call's reference page says which of them it returns and when.

use core::fmt;

/// The result of a call: `Status::OK` or an error.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[must_use]
pub struct Status(pub i32);

macro_rules! statuses {
    ($($(#[doc = $doc:literal])+ $name:ident = $value:literal;)+) => {
        impl Status {
            /// Success.
            pub const OK: Status = Status(0);
            $($(#[doc = $doc])+ pub const $name: Status = Status($value);)+

            /// Zircon's name for the status, or `None` for a number that is none of its statuses.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    0 => Some("ZX_OK"),
                    $($value => Some(concat!("ZX_ERR_", stringify!($name))),)+
                    _ => None,
                }
            }
        }

        /// Every status with its name.
        pub const STATUSES: &[(&str, Status)] =
            &[("ZX_OK", Status::OK), $((concat!("ZX_ERR_", stringify!($name)), Status::$name),)+];
    };
}

statuses! {
    /// Something went wrong that no other status describes.
    INTERNAL = -1;
    /// The call, option or combination is not there.
    NOT_SUPPORTED = -2;
    /// Something other than memory has run out.
    NO_RESOURCES = -3;
    /// Memory has run out.
    NO_MEMORY = -4;
    /// Try again; stays inside the vDSO.
    INTERRUPTED_RETRY = -6;
    /// An argument makes no sense.
    INVALID_ARGS = -10;
    /// The value names no handle of the process.
    BAD_HANDLE = -11;
    /// The handle's object is of another type.
    WRONG_TYPE = -12;
    /// No call has this number.
    BAD_SYSCALL = -13;
    /// An argument lies outside what this call takes.
    OUT_OF_RANGE = -14;
    /// The caller's buffer cannot hold the result.
    BUFFER_TOO_SMALL = -15;
    /// The object's state does not allow this now.
    BAD_STATE = -20;
    /// The deadline passed.
    TIMED_OUT = -21;
    /// Not now, but perhaps after a wait.
    SHOULD_WAIT = -22;
    /// The wait was called off.
    CANCELED = -23;
    /// The other end is gone.
    PEER_CLOSED = -24;
    /// There is no such thing.
    NOT_FOUND = -25;
    /// There is one already.
    ALREADY_EXISTS = -26;
    /// It belongs to someone already.
    ALREADY_BOUND = -27;
    /// Not now; nothing tells when.
    UNAVAILABLE = -28;
    /// The handle's rights, or a policy, forbid this.
    ACCESS_DENIED = -30;
    /// Input or output failed.
    IO = -40;
    /// The device refused.
    IO_REFUSED = -41;
    /// A checksum did not match.
    IO_DATA_INTEGRITY = -42;
    /// The data is lost.
    IO_DATA_LOSS = -43;
    /// The device is gone.
    IO_NOT_PRESENT = -44;
    /// The device sent more than was expected.
    IO_OVERRUN = -45;
    /// The device was too slow.
    IO_MISSED_DEADLINE = -46;
    /// The device did not accept the data.
    IO_INVALID = -47;
    /// The path is too long or malformed.
    BAD_PATH = -50;
    /// Not a directory.
    NOT_DIR = -51;
    /// Not a regular file.
    NOT_FILE = -52;
    /// The file would become too large.
    FILE_BIG = -53;
    /// The file system is full.
    NO_SPACE = -54;
    /// The directory is not empty.
    NOT_EMPTY = -55;
    /// For callbacks: do not call again.
    STOP = -60;
    /// For callbacks: go on.
    NEXT = -61;
    /// For callbacks: someone else goes on.
    ASYNC = -62;
    /// The protocol is not supported.
    PROTOCOL_NOT_SUPPORTED = -70;
    /// No way leads to the address.
    ADDRESS_UNREACHABLE = -71;
    /// The address is taken.
    ADDRESS_IN_USE = -72;
    /// Not connected.
    NOT_CONNECTED = -73;
    /// The other side refused the connection.
    CONNECTION_REFUSED = -74;
    /// The other side reset the connection.
    CONNECTION_RESET = -75;
    /// The connection was given up.
    CONNECTION_ABORTED = -76;
}

impl Status {
    /// Whether this is `ZX_OK`.
    pub const fn is_ok(self) -> bool {
        self.0 == 0
    }

    /// `Ok(())` for `ZX_OK`, the status itself as the error otherwise.
    pub const fn ok(self) -> Result<(), Status> {
        if self.is_ok() { Ok(()) } else { Err(self) }
    }

    /// The status that a result stands for.
    pub fn from_result(result: Result<(), Status>) -> Status {
        match result {
            Ok(()) => Status::OK,
            Err(status) => status,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "status {}", self.0),
        }
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for Status {}
