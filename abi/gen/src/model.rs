//! A system call's definition as Rust types.

use serde::Deserialize;

/// A system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Syscall {
    /// Its name without `zx_`.
    pub name: String,
    /// The noun, which is the name of its file.
    pub noun: String,
    /// The number that the vDSO passes to the server. Numbers never change.
    pub number: u32,
    /// Its arguments in order.
    pub args: Vec<Arg>,
    /// The type of its result: one of [`SCALARS`], `void` or `string_view`.
    pub returns: String,
    /// What answers it.
    pub via: Via,
    /// Whether the vDSO's entry point is written by hand and calls the server with this number.
    pub wrapper: bool,
    /// Whether it may block.
    pub blocking: bool,
    /// Whether it never returns.
    pub noreturn: bool,
    /// The types and rights that its handles must have.
    pub rights: Vec<Right>,
    /// The errors that it returns.
    pub errors: Vec<ErrorCase>,
    /// What it does to memory.
    pub memory: Memory,
    /// The oldest version of Zircon's interface that has it: `2018-03`, `2018-11`, `2020-07` or `newest`.
    pub since: String,
    /// How far it is implemented.
    pub support: Support,
    /// What it does, one paragraph of markdown.
    pub doc: String,
    /// What tests know of it.
    pub tests: Tests,
}

/// This system's own nouns, which Zircon does not have.
const OURS: [&str; 2] = ["endpoint", "vproc"];

impl Syscall {
    /// Whether Zircon has no such call.
    pub fn is_ours(&self) -> bool {
        OURS.contains(&self.noun.as_str())
    }
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arg {
    /// Zircon's name for it.
    pub name: String,
    /// One of [`SCALARS`], `void` for bytes, or a structure of the `abi` crate (`zx_…_t`).
    #[serde(rename = "type")]
    pub ty: String,
    /// For pointers: the direction of data. A scalar without it is a value.
    #[serde(default)]
    pub dir: Option<Dir>,
    /// For pointers: whether it points to any number of `ty`.
    #[serde(default)]
    pub array: bool,
    /// For arrays: the argument that holds the number of elements.
    #[serde(default)]
    pub len: Option<String>,
    /// For pointers: whether it may be null.
    #[serde(default)]
    pub optional: bool,
    /// For handles, and memory that handles are in: whether the handles leave the caller whatever the result is.
    #[serde(default)]
    pub consumed: bool,
    /// For numbers: beginnings of the names of the constants of which the value is made, any of them together.
    #[serde(default)]
    pub flags: Vec<String>,
    /// For numbers: beginnings of the names of the constants of which the value is one.
    #[serde(default)]
    pub one_of: Vec<String>,
    /// For numbers: values that the fuzzer tries more often than others. A value that occurs twice is tried twice as
    /// often.
    #[serde(default)]
    pub likely: Vec<u64>,
}

impl Arg {
    /// Whether it is an address.
    pub fn is_pointer(&self) -> bool {
        self.dir.is_some()
    }
}

/// The direction of data through a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dir {
    /// The system reads it.
    In,
    /// The system writes it.
    Out,
    /// The system reads it, then writes it.
    InOut,
}

/// What answers a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Via {
    /// The server.
    Server,
    /// The vDSO, alone or by other calls: the server has no such call.
    Vdso,
}

/// What a call does to memory, which decides whether the server makes it when memory is short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Memory {
    /// It may keep memory: it is made only while there is a reserve.
    #[default]
    Keeps,
    /// It keeps no new memory: waits, signals, reads, writes into existing room. It is made while the rest of the heap
    /// lasts.
    None,
    /// It gives memory back and takes none that matters: it is always made.
    Frees,
}

/// The type and rights that a handle needs for a call.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Right {
    /// The argument.
    pub arg: String,
    /// The type of object: a noun, `task` for jobs, processes and threads, or `any`.
    pub object: String,
    /// The rights that it needs, without `ZX_RIGHT_`.
    pub needs: Vec<String>,
    /// Whether other arguments may ask for more, or the call answers `ZX_ERR_ACCESS_DENIED` for other reasons, too.
    #[serde(default)]
    pub more: bool,
}

/// An error that a call returns.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorCase {
    /// The status without `ZX_ERR_`.
    pub status: String,
    /// The condition, as sentences.
    pub when: String,
}

/// What tests know of a call. The conformance sweep, the fuzzer and the tests of long calls need no list of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tests {
    /// How the conformance sweep makes it, or why it does not.
    #[serde(default)]
    pub sweep: Option<Sweep>,
    /// The cases of `hostile.holds` in which it takes longest, or why it is always short.
    #[serde(default)]
    pub longest: Option<Longest>,
    /// Whether it makes something that can be used up, so that greedy attackers of the fuzzer make it.
    #[serde(default)]
    pub exhausts: bool,
    /// Why it cannot succeed often in the fuzzer, if it cannot.
    #[serde(default)]
    pub seldom: Option<String>,
}

/// How the conformance sweep makes a call.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Sweep {
    /// Rows of arguments that would do, each with at most one handle under test.
    Rows(Vec<Vec<SweepArg>>),
    /// Not at all, for this reason.
    No(String),
}

/// An argument in a row of the sweep.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum SweepArg {
    /// An unsigned number.
    Number(u64),
    /// A word of [`SWEEP_WORDS`], `tested:NOUN`, a noun, or constants and numbers with `|` between them.
    Word(String),
}

/// Words for arguments of the sweep, in this order: the handle under test; a VMO of the pager that is the argument
/// before it; the address of memory; the same, where null is allowed; the same, where the sweep uses only bad
/// addresses; the same, where the server finds another error before it looks at the address.
pub const SWEEP_WORDS: [&str; 6] = ["tested", "paged", "memory", "optional", "swept", "unswept"];

/// The cases of `hostile.holds` in which a call takes longest.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Longest {
    /// These, without `holds.`.
    Cases(Vec<String>),
    /// None, for this reason.
    No(String),
}

/// How far a call is implemented.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Support {
    /// As in Zircon.
    Supported,
    /// With the described parts missing.
    Partial(String),
    /// Not implemented: it returns `ZX_ERR_NOT_SUPPORTED`. The text says why.
    Unsupported(String),
}

impl Support {
    /// `supported`, `partial` or `unsupported`.
    pub fn level(&self) -> &'static str {
        match self {
            Support::Supported => "supported",
            Support::Partial(_) => "partial",
            Support::Unsupported(_) => "unsupported",
        }
    }

    /// What is missing, or why; empty for a supported call.
    pub fn note(&self) -> &str {
        match self {
            Support::Supported => "",
            Support::Partial(note) | Support::Unsupported(note) => note,
        }
    }
}

/// A scalar type: its name in definitions, in C and in Rust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scalar {
    /// In definitions.
    pub name: &'static str,
    /// In C.
    pub c: &'static str,
    /// In Rust.
    pub rust: &'static str,
}

const fn scalar(name: &'static str, c: &'static str, rust: &'static str) -> Scalar {
    Scalar { name, c, rust }
}

/// All scalar types.
pub const SCALARS: &[Scalar] = &[
    scalar("u8", "uint8_t", "u8"),
    scalar("u16", "uint16_t", "u16"),
    scalar("u32", "uint32_t", "u32"),
    scalar("u64", "uint64_t", "u64"),
    scalar("i8", "int8_t", "i8"),
    scalar("i16", "int16_t", "i16"),
    scalar("i32", "int32_t", "i32"),
    scalar("i64", "int64_t", "i64"),
    scalar("usize", "size_t", "usize"),
    scalar("handle", "zx_handle_t", "u32"),
    scalar("status", "zx_status_t", "i32"),
    scalar("time", "zx_time_t", "i64"),
    scalar("duration", "zx_duration_t", "i64"),
    scalar("ticks", "zx_ticks_t", "i64"),
    scalar("koid", "zx_koid_t", "u64"),
    scalar("signals", "zx_signals_t", "u32"),
    scalar("rights", "zx_rights_t", "u32"),
    scalar("futex", "zx_futex_t", "i32"),
];

/// The scalar type with that name.
pub fn scalar_type(name: &str) -> Option<Scalar> {
    SCALARS.iter().copied().find(|s| s.name == name)
}

/// The C type of a definition's type, of a result or of what a pointer points to.
pub fn c_type(ty: &str) -> &str {
    match (scalar_type(ty), ty) {
        (Some(scalar), _) => scalar.c,
        (None, "string_view") => "zx_string_view_t",
        (None, name) => name,
    }
}
