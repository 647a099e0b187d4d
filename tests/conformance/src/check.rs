//! Cases, and the functions with which they check.
//!
//! A case returns an [`Outcome`]. The functions here turn a violated expectation into a [`Failure`] that names the
//! place in the source. `?` turns an unexpected status into a failure in the same way.

use std::fmt;
use std::panic::Location;

/// The body of a case.
type Run = Box<dyn Fn() -> Outcome>;

/// A named case.
pub struct Case {
    /// `group.call.what`
    pub name: String,
    /// Runs it.
    pub run: Run,
}

impl Case {
    /// Creates a case.
    pub fn new(name: &str, run: impl Fn() -> Outcome + 'static) -> Self {
        Self { name: name.to_owned(), run: Box::new(run) }
    }
}

/// Success, or why the case failed.
pub type Outcome = Result<(), Failure>;

/// Why a case failed, and the place in the source.
#[derive(Debug)]
pub struct Failure {
    text: String,
    place: &'static Location<'static>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A result is one line, whatever the text contains.
        let text = self.text.replace(['\n', '\r', '\t'], " ");
        let file = self.place.file().rsplit('/').next().unwrap_or_default();
        write!(f, "{text} ({file}:{})", self.place.line())
    }
}

impl From<&str> for Failure {
    #[track_caller]
    fn from(text: &str) -> Self {
        Self { text: text.to_owned(), place: Location::caller() }
    }
}

impl From<String> for Failure {
    #[track_caller]
    fn from(text: String) -> Self {
        Self { text, place: Location::caller() }
    }
}

impl From<std::io::Error> for Failure {
    #[track_caller]
    fn from(error: std::io::Error) -> Self {
        Self { text: error.to_string(), place: Location::caller() }
    }
}

#[cfg(target_os = "fuchsia")]
mod statuses {
    use super::*;
    use zx::Status;

    impl From<Status> for Failure {
        #[track_caller]
        fn from(status: Status) -> Self {
            Self { text: format!("a call gave {status}"), place: Location::caller() }
        }
    }

    /// The call must fail with `expected`.
    #[track_caller]
    pub fn fails<T>(result: zx::Result<T>, expected: Status) -> Outcome {
        match result {
            Err(status) if status == expected => Ok(()),
            Err(status) => Err(format!("gave {status}, expected {expected}").into()),
            Ok(_) => Err(format!("succeeded, expected {expected}").into()),
        }
    }

    /// The raw status must be `expected`.
    #[track_caller]
    pub fn gives(status: Status, expected: Status) -> Outcome {
        if status == expected { Ok(()) } else { Err(format!("gave {status}, expected {expected}").into()) }
    }
}
#[cfg(target_os = "fuchsia")]
pub use statuses::{fails, gives};

/// Both values must be the same.
#[track_caller]
pub fn equal<T: PartialEq + fmt::Debug>(found: T, expected: T) -> Outcome {
    if found == expected { Ok(()) } else { Err(format!("found {found:?}, expected {expected:?}").into()) }
}

/// The condition must hold; `text` describes the failure if it does not.
#[track_caller]
pub fn ensure(condition: bool, text: &str) -> Outcome {
    if condition { Ok(()) } else { Err(text.into()) }
}
