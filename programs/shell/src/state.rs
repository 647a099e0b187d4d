//! The state of a shell: variables, functions, options, descriptors, working directory.
//!
//! There is no `fork` here. Where other shells fork for a subshell, this one copies its state within the process. A
//! thread may run commands with the copy, and their changes end with it.

use std::collections::BTreeMap;
use std::env;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use brush_parser::ast::FunctionDefinition;

use crate::group::Group;
use crate::jobs::Background;

/// Maximum nesting depth of functions, sourced files and evaluated texts. The stack use of each level is bounded.
pub const DEPTH: u32 = 200;

/// Why the sequence of commands is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// `break` out of this many loops.
    Break(u32),
    /// `continue` the loop at this level.
    Continue(u32),
    /// `return` from a function or a sourced file.
    Return(i64),
    /// The shell ends.
    Exit(i64),
    /// An error; an interactive shell continues with the next line.
    Abort(i64),
}

/// The status of commands, or the reason for leaving the sequence.
pub type Run = Result<i64, Stop>;

/// A variable.
#[derive(Debug, Clone, Default)]
pub struct Variable {
    /// `None`: it has attributes but no value yet.
    pub value: Option<String>,
    /// Programs inherit it.
    pub exported: bool,
    /// It cannot be changed.
    pub readonly: bool,
}

/// The options of `set`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// `-e`: a command that fails ends the shell.
    pub errexit: bool,
    /// `-u`: a variable without a value is an error.
    pub nounset: bool,
    /// `-x`: commands are printed.
    pub xtrace: bool,
    /// `-f`: patterns are not expanded to file names.
    pub noglob: bool,
    /// `-o pipefail`: a pipeline fails if any of its commands fails.
    pub pipefail: bool,
    /// The shell is interactive.
    pub interactive: bool,
}

/// A shell.
#[derive(Clone)]
pub struct Shell {
    /// `$0`
    pub name: String,
    /// `$1` and up.
    pub positional: Vec<String>,
    variables: BTreeMap<String, Variable>,
    /// Its functions.
    pub functions: BTreeMap<String, Arc<FunctionDefinition>>,
    /// Its options.
    pub options: Options,
    /// The working directory.
    pub cwd: PathBuf,
    /// `$?`
    pub status: i64,
    /// The status of the last command substitution in the words of a command.
    pub substituted: Option<i64>,
    /// Open files by descriptor.
    pub fds: BTreeMap<u32, Arc<File>>,
    /// The group of the commands that run.
    pub group: Arc<Group>,
    /// Background jobs.
    pub jobs: Vec<Arc<Background>>,
    /// `$!`
    pub last_background: Option<u64>,
    /// For each running function, the variables that it made local, with their previous values.
    pub locals: Vec<Vec<(String, Option<Variable>)>>,
    /// Depth of conditions, in which a failure does not end the shell.
    pub conditions: u32,
    /// Depth of loops.
    pub loops: u32,
    /// Depth of functions, sourced files and evaluated texts.
    pub depth: u32,
    /// The commands of `trap` for the exit.
    pub at_exit: Option<String>,
}

impl Shell {
    /// A shell with the environment, the standard descriptors and the working directory of this process.
    pub fn new(name: &str) -> Shell {
        let exported = |value| Variable { value: Some(value), exported: true, readonly: false };
        let variables = env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, exported(value.to_string_lossy().into_owned())))
        });
        let mut fds = BTreeMap::new();
        let same = |fd: std::os::fd::BorrowedFd<'_>| fd.try_clone_to_owned().ok().map(File::from);
        let (input, output, errors) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
        for (number, file) in [same(input.as_fd()), same(output.as_fd()), same(errors.as_fd())].into_iter().enumerate()
        {
            if let Some(file) = file {
                fds.insert(number as u32, Arc::new(file));
            }
        }
        let mut shell = Shell {
            name: name.to_owned(),
            positional: Vec::new(),
            variables: variables.collect(),
            functions: BTreeMap::new(),
            options: Options::default(),
            cwd: env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
            status: 0,
            substituted: None,
            fds,
            group: Group::own(),
            jobs: Vec::new(),
            last_background: None,
            locals: Vec::new(),
            conditions: 0,
            loops: 0,
            depth: 0,
            at_exit: None,
        };
        let cwd = shell.cwd.to_string_lossy().into_owned();
        shell.put("PWD", exported(cwd));
        for (name, value) in [("IFS", " \t\n"), ("PS2", "> "), ("PS4", "+ ")] {
            shell.put(name, Variable { value: Some(value.to_owned()), ..Variable::default() });
        }
        if !shell.variables.contains_key("PATH") {
            shell.put("PATH", exported("/boot/bin".to_owned()));
        }
        shell
    }

    /// A copy with independent state.
    pub fn subshell(&self) -> Shell {
        let mut copy = self.clone();
        copy.options.interactive = false;
        copy.at_exit = None;
        copy.jobs.clear();
        copy.loops = 0;
        copy
    }

    /// A variable's value.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name)?.value.as_deref()
    }

    /// A variable.
    pub fn variable(&self, name: &str) -> Option<&Variable> {
        self.variables.get(name)
    }

    /// All variables by name.
    pub fn variables(&self) -> impl Iterator<Item = (&String, &Variable)> {
        self.variables.iter()
    }

    /// Sets a variable, replacing any previous one.
    pub fn put(&mut self, name: &str, variable: Variable) {
        self.variables.insert(name.to_owned(), variable);
    }

    /// Gives a variable a value.
    ///
    /// # Errors
    /// It is read-only; a message has been printed.
    pub fn set(&mut self, name: &str, value: impl Into<String>) -> Result<(), Stop> {
        let variable = self.variables.entry(name.to_owned()).or_default();
        if variable.readonly {
            self.complain(name, "it is read-only");
            return Err(Stop::Abort(1));
        }
        variable.value = Some(value.into());
        Ok(())
    }

    /// Removes a variable; returns whether it could.
    pub fn unset(&mut self, name: &str) -> bool {
        if self.variables.get(name).is_some_and(|variable| variable.readonly) {
            return false;
        }
        self.variables.remove(name);
        true
    }

    /// Restores a variable.
    pub fn restore(&mut self, name: &str, old: Option<Variable>) {
        match old {
            Some(variable) => self.put(name, variable),
            None => _ = self.variables.remove(name),
        }
    }

    /// The variables that programs inherit.
    pub fn environment(&self) -> impl Iterator<Item = (&str, &str)> {
        let exported = self.variables.iter().filter(|(_, variable)| variable.exported);
        exported.filter_map(|(name, variable)| Some((name.as_str(), variable.value.as_deref()?)))
    }

    /// A path relative to the working directory.
    pub fn path(&self, path: &str) -> PathBuf {
        self.cwd.join(Path::new(path))
    }

    /// Writes to standard output; returns whether that succeeded.
    pub fn out(&self, text: impl AsRef<[u8]>) -> bool {
        self.fds.get(&1).is_some_and(|file| file.as_ref().write_all(text.as_ref()).is_ok())
    }

    /// Writes output; returns the status of a command that only writes.
    pub fn say(&self, text: impl AsRef<[u8]>) -> Run {
        Ok(i64::from(!self.out(text)))
    }

    /// Prints a line on standard error.
    pub fn error_line(&self, line: &str) {
        if let Some(file) = self.fds.get(&2) {
            let _ = file.as_ref().write_all(format!("{line}\n").as_bytes());
        }
    }

    /// Prints a line on standard error: the command, and the problem.
    pub fn complain(&self, who: &str, problem: &str) {
        self.error_line(&format!("sh: {who}: {problem}"));
    }

    /// Prints a message; returns the status of a failed command.
    pub fn fail(&self, who: &str, problem: &str) -> Run {
        self.complain(who, problem);
        Ok(1)
    }
}

/// Whether this is a valid name of a variable.
pub fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|char| char.is_ascii_alphabetic() || char == '_')
        && chars.all(|char| char.is_ascii_alphanumeric() || char == '_')
}

/// A short description of an error.
pub fn reason(error: &std::io::Error) -> String {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::NotFound => "there is no such file".to_owned(),
        ErrorKind::IsADirectory => "this is a directory".to_owned(),
        ErrorKind::NotADirectory => "this is no directory".to_owned(),
        ErrorKind::StorageFull => "the file system is full".to_owned(),
        ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => "it cannot be written to".to_owned(),
        _ => error.to_string(),
    }
}
