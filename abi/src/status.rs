//! Results of calls.
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

            /// Zircon's name for the status, or `None` if the number is no status.
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
    /// An error that no other status describes.
    INTERNAL = -1;
    /// The call, option or combination is not supported.
    NOT_SUPPORTED = -2;
    /// A resource other than memory has run out.
    NO_RESOURCES = -3;
    /// Memory has run out.
    NO_MEMORY = -4;
    /// Try again; never leaves the vDSO.
    INTERRUPTED_RETRY = -6;
    /// An argument is invalid.
    INVALID_ARGS = -10;
    /// The value is no valid handle of the process.
    BAD_HANDLE = -11;
    /// The handle's object has the wrong type.
    WRONG_TYPE = -12;
    /// No call has this number.
    BAD_SYSCALL = -13;
    /// An argument is outside of the range that this call accepts.
    OUT_OF_RANGE = -14;
    /// The caller's buffer cannot hold the result.
    BUFFER_TOO_SMALL = -15;
    /// The object's state does not allow this now.
    BAD_STATE = -20;
    /// The deadline passed.
    TIMED_OUT = -21;
    /// The operation cannot be completed now, but perhaps after a wait.
    SHOULD_WAIT = -22;
    /// The wait was cancelled.
    CANCELED = -23;
    /// The peer is closed.
    PEER_CLOSED = -24;
    /// The requested item does not exist.
    NOT_FOUND = -25;
    /// The item exists already.
    ALREADY_EXISTS = -26;
    /// The object is bound already.
    ALREADY_BOUND = -27;
    /// Not available now; no signal tells when it will be.
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
    /// The device is not present any more.
    IO_NOT_PRESENT = -44;
    /// The device sent more than expected.
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
    /// For callbacks: continue.
    NEXT = -61;
    /// For callbacks: the operation continues elsewhere.
    ASYNC = -62;
    /// The protocol is not supported.
    PROTOCOL_NOT_SUPPORTED = -70;
    /// The address has no route.
    ADDRESS_UNREACHABLE = -71;
    /// The address is in use.
    ADDRESS_IN_USE = -72;
    /// Not connected.
    NOT_CONNECTED = -73;
    /// The peer refused the connection.
    CONNECTION_REFUSED = -74;
    /// The peer reset the connection.
    CONNECTION_RESET = -75;
    /// The connection was aborted.
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

    /// The status for a result.
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
