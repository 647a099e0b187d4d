//! Reading and checking the definitions.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use serde::Deserialize;

use crate::model::{Arg, ErrorCase, Memory, Right, Support, Sweep, Syscall, Tests, Via, scalar_type};

/// Maximum number of arguments of a call: eight words reach the server.
pub const MAX_ARGS: usize = 8;
/// Numbers are lower than this, so that they fit into a message's label on every kernel.
pub const MAX_NUMBER: u32 = 1 << 20;
/// The versions of Zircon's interface, oldest first.
pub const VINTAGES: &[&str] = &["2018-03", "2018-11", "2020-07", "newest"];

/// Why the definitions cannot be used.
#[derive(Debug)]
pub enum Error {
    /// A file or the folder cannot be read.
    Io(PathBuf, io::Error),
    /// A file is not TOML, or does not have the form of a definition.
    Form(PathBuf, Box<toml::de::Error>),
    /// A definition contradicts itself or another one: the call, and what is wrong.
    Call(String, String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io(path, error) => write!(f, "{}: {error}", path.display()),
            Error::Form(path, error) => write!(f, "{}: {error}", path.display()),
            Error::Call(call, what) => write!(f, "system call {call}: {what}"),
        }
    }
}

impl std::error::Error for Error {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    syscall: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    number: u32,
    args: Vec<Arg>,
    returns: String,
    via: Via,
    #[serde(default)]
    wrapper: bool,
    #[serde(default)]
    blocking: bool,
    #[serde(default)]
    noreturn: bool,
    #[serde(default)]
    rights: Vec<Right>,
    #[serde(default)]
    errors: Vec<ErrorCase>,
    #[serde(default)]
    memory: Memory,
    since: String,
    support: Support,
    doc: String,
    #[serde(default)]
    tests: Tests,
}

/// Reads every `<noun>.toml` of a folder and checks that they are consistent. Returns the calls sorted by number.
pub fn load(dir: impl AsRef<Path>) -> Result<Vec<Syscall>, Error> {
    let dir = dir.as_ref();
    let in_dir = |error| Error::Io(dir.to_path_buf(), error);
    let mut paths = fs::read_dir(dir)
        .map_err(in_dir)?
        .map(|entry| Ok(entry.map_err(in_dir)?.path()))
        .collect::<Result<Vec<PathBuf>, Error>>()?;
    paths.retain(|path| path.extension().is_some_and(|ext| ext == "toml"));
    paths.sort();
    let mut calls = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).map_err(|error| Error::Io(path.clone(), error))?;
        let noun = path.file_stem().unwrap_or_default().to_string_lossy();
        calls.extend(parse(&noun, &text).map_err(|error| Error::Form(path.clone(), Box::new(error)))?);
    }
    check(&calls)?;
    calls.sort_by_key(|call| call.number);
    Ok(calls)
}

/// Parses one file's text.
pub fn parse(noun: &str, text: &str) -> Result<Vec<Syscall>, toml::de::Error> {
    let file: File = toml::from_str(text)?;
    Ok(file
        .syscall
        .into_iter()
        .map(|e| Syscall {
            name: e.name,
            noun: noun.to_owned(),
            number: e.number,
            args: e.args,
            returns: e.returns,
            via: e.via,
            wrapper: e.wrapper,
            blocking: e.blocking,
            noreturn: e.noreturn,
            rights: e.rights,
            errors: e.errors,
            memory: e.memory,
            since: e.since,
            support: e.support,
            doc: e.doc.trim().to_owned(),
            tests: e.tests,
        })
        .collect())
}

/// Checks each definition, and that names and numbers are unique.
pub fn check(calls: &[Syscall]) -> Result<(), Error> {
    let mut names = HashMap::new();
    let mut numbers = HashMap::new();
    for call in calls {
        let wrong = |what: String| Err(Error::Call(call.name.clone(), what));
        if let Err(what) = check_one(call) {
            return wrong(what);
        }
        if let Some(noun) = names.insert(&call.name, &call.noun) {
            return wrong(format!("defined in {noun}.toml and again in {}.toml", call.noun));
        }
        if let Some(other) = numbers.insert(call.number, &call.name) {
            return wrong(format!("has the number {} of {other}", call.number));
        }
    }
    Ok(())
}

fn check_one(call: &Syscall) -> Result<(), String> {
    if call.name.is_empty() || !call.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_') {
        return Err("its name may have small letters, digits and underscores only".into());
    }
    if call.number == 0 || call.number >= MAX_NUMBER {
        return Err(format!("its number {} is not between 1 and {}", call.number, MAX_NUMBER - 1));
    }
    if call.args.len() > MAX_ARGS {
        return Err(format!("it has {} arguments, more than {MAX_ARGS}", call.args.len()));
    }
    for (n, arg) in call.args.iter().enumerate() {
        check_arg(call, arg).map_err(|what| format!("argument {}: {what}", arg.name))?;
        if call.args[..n].iter().any(|earlier| earlier.name == arg.name) {
            return Err(format!("two arguments are called {}", arg.name));
        }
    }
    if !(matches!(call.returns.as_str(), "void" | "string_view") || scalar_type(&call.returns).is_some()) {
        return Err(format!("unknown type {} of its result", call.returns));
    }
    if call.noreturn && call.returns != "void" {
        return Err("it never comes back, so it returns void".into());
    }
    if call.wrapper && call.via == Via::Vdso {
        return Err("a wrapper enters the server, so it is via the server".into());
    }
    for right in &call.rights {
        if !call.args.iter().any(|arg| arg.name == right.arg) {
            return Err(format!("rights are asked of {}, which is no argument", right.arg));
        }
    }
    if call.errors.iter().any(|error| error.status.starts_with("ZX_")) {
        return Err("errors are named without ZX_ERR_".into());
    }
    if !VINTAGES.contains(&call.since.as_str()) {
        return Err(format!("unknown vintage {}", call.since));
    }
    if call.doc.is_empty() {
        return Err("nothing says what it does".into());
    }
    if call.support != Support::Supported && call.support.note().is_empty() {
        return Err("nothing says what is missing".into());
    }
    check_tests(call)
}

/// Checks that a call that the server implements says how it is tested.
fn check_tests(call: &Syscall) -> Result<(), String> {
    let built = call.via == Via::Server && !matches!(call.support, Support::Unsupported(_));
    let asks = call.args.iter().any(|arg| arg.is_pointer() || arg.ty == "handle");
    if built && asks && call.tests.sweep.is_none() {
        return Err("tests.sweep is missing: arguments that would do, or why the sweep leaves it out".into());
    }
    if built && call.tests.longest.is_none() {
        return Err("tests.longest is missing: the cases of hostile.holds that make it long, or why it is short".into());
    }
    if let Some(Sweep::Rows(rows)) = &call.tests.sweep
        && let Some(row) = rows.iter().find(|row| row.len() != call.args.len())
    {
        return Err(format!("a row of tests.sweep has {} arguments, not {}", row.len(), call.args.len()));
    }
    Ok(())
}

fn check_arg(call: &Syscall, arg: &Arg) -> Result<(), String> {
    let structure = ["zx_", "hafnon_"].iter().any(|whose| arg.ty.starts_with(whose)) && arg.ty.ends_with("_t");
    if scalar_type(&arg.ty).is_none() && !structure && arg.ty != "void" {
        return Err(format!("unknown type {}", arg.ty));
    }
    if !arg.is_pointer() {
        if structure || matches!(arg.ty.as_str(), "void" | "futex") {
            return Err(format!("a {} is passed by address: say which way by dir", arg.ty));
        }
        if arg.array || arg.len.is_some() || arg.optional {
            return Err("array, len and optional are for pointers".into());
        }
    }
    let has_handles = ["handle", "zx_handle_disposition_t", "zx_channel_call_args_t", "zx_channel_call_etc_args_t"];
    if arg.consumed && !has_handles.contains(&arg.ty.as_str()) {
        return Err(format!("consumed is for handles, and a {} has none", arg.ty));
    }
    if !(arg.flags.is_empty() || arg.one_of.is_empty()) {
        return Err("it is either flags or one_of".into());
    }
    match (&arg.len, arg.array) {
        (Some(_), false) => Err("len is for arrays".into()),
        (None, true) => Err("an array needs len".into()),
        (Some(len), true) if !call.args.iter().any(|other| other.name == *len && !other.is_pointer()) => {
            Err(format!("its len {len} is no argument"))
        }
        _ => Ok(()),
    }
}
