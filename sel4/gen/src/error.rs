//! Errors in a kernel's definitions, with messages that say what to do about them.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why no binding could be generated.
#[derive(Debug)]
#[allow(missing_docs)] // the names of the fields say it
pub enum Error {
    /// A file could not be read.
    Read { path: PathBuf, source: io::Error },
    /// A file is not the expected XML.
    Xml { path: PathBuf, what: String },
    /// A condition or a configuration line could not be parsed.
    Syntax { path: PathBuf, text: String, what: &'static str },
    /// A method has a parameter of a type that the generator does not know.
    UnknownType { path: PathBuf, method: String, ty: String },
    /// The kernel is of a kind that Hafnon does not run on.
    Unsuitable { path: PathBuf, why: String },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Read { path, source } => write!(
                f,
                "cannot read {}: {source}; it should come with the kernel: check that the build or installation of seL4 is complete",
                path.display()
            ),
            Error::Xml { path, what } => write!(f, "{}: {what}", path.display()),
            Error::Syntax { path, text, what } => write!(f, "{}: {what} in `{text}`", path.display()),
            Error::UnknownType { path, method, ty } => write!(
                f,
                "{}: {method} has a parameter of type {ty}, whose size is not known; add it to the table in sel4/gen/src/types.rs",
                path.display()
            ),
            Error::Unsuitable { path, why } => write!(f, "the seL4 kernel of {} cannot be used: {why}", path.display()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Read { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Reads a text file.
pub(crate) fn read(path: &std::path::Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.into(), source })
}
