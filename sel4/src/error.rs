//! Errors of invocations that the kernel refuses.

use core::fmt;

/// The result of an invocation.
pub type Result<T, E = Error> = core::result::Result<T, E>;

/// The reason why the kernel refused an invocation, with the kernel's details.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names of the fields say it
pub enum Error {
    /// The argument with this number is invalid.
    InvalidArgument(u64),
    /// The capability with this number (0: the invoked one) is of the wrong kind, or does not exist.
    InvalidCapability(u64),
    /// The object does not support the operation, or not in its present state, or not with these rights.
    IllegalOperation,
    /// A number lies outside these bounds, both included.
    Range { min: u64, max: u64 },
    /// An address is not aligned.
    Alignment,
    /// An address in a CSpace cannot be resolved, or a paging structure for an address is missing.
    FailedLookup { source: bool, failure: LookupFailure },
    /// The message is too short, or a capability is missing from it.
    Truncated,
    /// The slot or the mapping is in use: delete or unmap first.
    DeleteFirst,
    /// The object has children: revoke first.
    RevokeFirst,
    /// The untyped has only this many bytes left.
    NotEnoughMemory { left: u64 },
    /// A code that this binding does not know.
    Unknown(u64),
}

/// Where a look-up in a CSpace, or in the paging structures of a VSpace, failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names of the fields say it
pub enum LookupFailure {
    /// The root is no CNode, or no VSpace.
    InvalidRoot,
    /// Nothing is there, with this many bits of the address still to resolve.
    MissingCapability { bits_left: u64 },
    /// A CNode resolves another number of bits than requested.
    DepthMismatch { bits_left: u64, bits_found: u64 },
    /// A CNode's guard differs.
    GuardMismatch { bits_left: u64, guard: u64 },
    /// A code that this binding does not know.
    Unknown(u64),
}

/// A level of paging structures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TableLevel {
    /// Maps 2 MiB with 4 KiB pages.
    PageTable,
    /// Maps 1 GiB.
    PageDirectory,
    /// Maps 512 GiB.
    Pdpt,
}

impl Error {
    /// Decodes the label of a reply (not 0) and its first words.
    pub(crate) fn decode(label: u64, mr: &[u64; 4]) -> Self {
        // These are the same in all supported versions: `errors.h` and the kernel's replies.
        match label {
            1 => Error::InvalidArgument(mr[0]),
            2 => Error::InvalidCapability(mr[0]),
            3 => Error::IllegalOperation,
            4 => Error::Range { min: mr[0], max: mr[1] },
            5 => Error::Alignment,
            6 => Error::FailedLookup { source: mr[0] != 0, failure: LookupFailure::decode(mr[1], mr[2], mr[3]) },
            7 => Error::Truncated,
            8 => Error::DeleteFirst,
            9 => Error::RevokeFirst,
            10 => Error::NotEnoughMemory { left: mr[0] },
            other => Error::Unknown(other),
        }
    }

    /// If a mapping failed because a paging structure is missing: the structure that must be mapped first.
    pub fn missing_table(&self) -> Option<TableLevel> {
        match self {
            Error::FailedLookup { failure: LookupFailure::MissingCapability { bits_left }, .. } => match bits_left {
                21 => Some(TableLevel::PageTable),
                30 => Some(TableLevel::PageDirectory),
                39 => Some(TableLevel::Pdpt),
                _ => None,
            },
            _ => None,
        }
    }
}

impl LookupFailure {
    pub(crate) fn decode(kind: u64, first: u64, second: u64) -> Self {
        match kind {
            1 => LookupFailure::InvalidRoot,
            2 => LookupFailure::MissingCapability { bits_left: first },
            3 => LookupFailure::DepthMismatch { bits_left: first, bits_found: second },
            4 => LookupFailure::GuardMismatch { bits_left: first, guard: second },
            other => LookupFailure::Unknown(other),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::InvalidArgument(n) => write!(f, "seL4: argument {n} is invalid"),
            Error::InvalidCapability(n) => write!(f, "seL4: capability {n} is invalid"),
            Error::IllegalOperation => f.write_str("seL4: illegal operation"),
            Error::Range { min, max } => write!(f, "seL4: out of range {min:#x}..={max:#x}"),
            Error::Alignment => f.write_str("seL4: misaligned address"),
            Error::FailedLookup { source, failure } => {
                write!(f, "seL4: look-up of the {} failed: {failure:?}", if *source { "source" } else { "destination" })
            }
            Error::Truncated => f.write_str("seL4: truncated message"),
            Error::DeleteFirst => f.write_str("seL4: already in use, delete first"),
            Error::RevokeFirst => f.write_str("seL4: has children, revoke first"),
            Error::NotEnoughMemory { left } => write!(f, "seL4: not enough memory, {left} bytes left"),
            Error::Unknown(label) => write!(f, "seL4: unknown error {label}"),
        }
    }
}

impl core::error::Error for Error {}
