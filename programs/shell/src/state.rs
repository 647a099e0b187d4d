//! What a shell knows: variables, functions, options, descriptors, where it is.
//!
//! There is no `fork` here. What other shells fork for, a subshell, is a copy of this in the same process: a thread may run
//! commands with it, and what they change ends with it.

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

/// How deep functions, sourced files and evaluated texts may be in each other: what each takes of the stack is bounded.
pub const DEPTH: u32 = 200;

/// Why commands do not go on where they were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// `break` out of so many loops.
    Break(u32),
    /// `continue` the loop that so many are around.
    Continue(u32),
    /// `return` from a function or a sourced file.
    Return(i64),
    /// The shell ends.
    Exit(i64),
    /// Something is wrong; a shell that talks with its user goes on with the next line.
    Abort(i64),
}

/// The status of commands, or why there is more to it.
pub type Run = Result<i64, Stop>;

/// A variable.
#[derive(Debug, Clone, Default)]
pub struct Variable {
    /// `None`: it has properties and no value yet.
    pub value: Option<String>,
    /// Programs get it.
    pub exported: bool,
    /// It keeps its value.
    pub readonly: bool,
}

/// `set -e` and its like.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// `-e`: a command that fails ends the shell.
    pub errexit: bool,
    /// `-u`: a variable without a value is an error.
    pub nounset: bool,
    /// `-x`: commands are shown.
    pub xtrace: bool,
    /// `-f`: patterns stand for themselves.
    pub noglob: bool,
    /// `-o pipefail`: a pipeline fails with any of its commands.
    pub pipefail: bool,
    /// It talks with a user.
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
    /// Of the last command substitution in the words of a command.
    pub substituted: Option<i64>,
    /// Open files by descriptor.
    pub fds: BTreeMap<u32, Arc<File>>,
    /// What ends together with the commands that run.
    pub group: Arc<Group>,
    /// What runs in the background.
    pub jobs: Vec<Arc<Background>>,
    /// `$!`
    pub last_background: Option<u64>,
    /// For each function that runs, the variables that it made its own, as they were.
    pub locals: Vec<Vec<(String, Option<Variable>)>>,
    /// In a condition, failure is no failure.
    pub conditions: u32,
    /// Loops around.
    pub loops: u32,
    /// How deep in functions and such.
    pub depth: u32,
    /// What `trap` left to do at the end.
    pub at_exit: Option<String>,
}

impl Shell {
    /// A shell with the environment, the standard descriptors and the place of this process.
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

    /// A copy whose changes this one does not see.
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

    /// All variables by their names.
    pub fn variables(&self) -> impl Iterator<Item = (&String, &Variable)> {
        self.variables.iter()
    }

    /// Puts a variable in the place of another, whatever that was.
    pub fn put(&mut self, name: &str, variable: Variable) {
        self.variables.insert(name.to_owned(), variable);
    }

    /// Gives a variable a value.
    ///
    /// # Errors
    /// It cannot be changed; that is said.
    pub fn set(&mut self, name: &str, value: impl Into<String>) -> Result<(), Stop> {
        let variable = self.variables.entry(name.to_owned()).or_default();
        if variable.readonly {
            self.complain(name, "it is read-only");
            return Err(Stop::Abort(1));
        }
        variable.value = Some(value.into());
        Ok(())
    }

    /// Removes a variable; says whether it could.
    pub fn unset(&mut self, name: &str) -> bool {
        if self.variables.get(name).is_some_and(|variable| variable.readonly) {
            return false;
        }
        self.variables.remove(name);
        true
    }

    /// Puts a variable back as it was.
    pub fn restore(&mut self, name: &str, old: Option<Variable>) {
        match old {
            Some(variable) => self.put(name, variable),
            None => _ = self.variables.remove(name),
        }
    }

    /// What programs get of the variables.
    pub fn environment(&self) -> impl Iterator<Item = (&str, &str)> {
        let exported = self.variables.iter().filter(|(_, variable)| variable.exported);
        exported.filter_map(|(name, variable)| Some((name.as_str(), variable.value.as_deref()?)))
    }

    /// A path as seen from the working directory.
    pub fn path(&self, path: &str) -> PathBuf {
        self.cwd.join(Path::new(path))
    }

    /// Writes to standard output; says whether somebody took it.
    pub fn out(&self, text: impl AsRef<[u8]>) -> bool {
        self.fds.get(&1).is_some_and(|file| file.as_ref().write_all(text.as_ref()).is_ok())
    }

    /// Writes output; gives the status of a command that does just that.
    pub fn say(&self, text: impl AsRef<[u8]>) -> Run {
        Ok(i64::from(!self.out(text)))
    }

    /// A line on standard error.
    pub fn error_line(&self, line: &str) {
        if let Some(file) = self.fds.get(&2) {
            let _ = file.as_ref().write_all(format!("{line}\n").as_bytes());
        }
    }

    /// A line on standard error: who, and what is wrong.
    pub fn complain(&self, who: &str, problem: &str) {
        self.error_line(&format!("sh: {who}: {problem}"));
    }

    /// Complains; gives the status of a command that failed.
    pub fn fail(&self, who: &str, problem: &str) -> Run {
        self.complain(who, problem);
        Ok(1)
    }
}

/// Whether this can be the name of a variable.
pub fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|char| char.is_ascii_alphabetic() || char == '_')
        && chars.all(|char| char.is_ascii_alphanumeric() || char == '_')
}

/// An error in a few words.
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
