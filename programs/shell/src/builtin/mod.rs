//! The builtins: commands that change the shell, and commands that scripts run too often for a process each.

mod files;
mod flow;
mod test;
mod text;
mod variables;

use crate::ps;
use crate::start;
use crate::state::{Run, Shell, Stop};
use crate::top;

/// Runs a builtin; the first word is its name.
pub type Builtin = fn(&mut Shell, &[String]) -> Run;

const HELP: &str = "\
PROGRAM [ARGUMENTS...]      run a program: a path, or a name in PATH (`ls /boot/bin` shows which there are)
A | B    A && B    A || B   pipelines; one if the other succeeded, or failed
A > FILE  >> FILE  < FILE   redirections; 2> for errors, 2>&1 for errors to where output goes, << for text
A &     jobs  fg  wait      in the background; kill %1 ends that
'...'  \"...\"  $NAME  $(A)  $((1+2))  *.txt  {a,b}    quotes and expansions
if while until for case NAME() { ...; }  { ...; }  ( ... )  [[ ... ]]  ! A  time A
. : [ break cd command continue echo eval exec exit export false help local printf pwd read readonly
return set shift test trap true type unset wait
ps                          show jobs, processes and threads
top [-n TIMES] [-d SECONDS] show what jobs have and may have, and what processes use, until Ctrl-C
handles KOID|NAME           show how many handles of which kind a process holds
kill KOID|NAME|%JOB         end a process, a job or what runs in the background

Ctrl-C ends what runs in the foreground; Ctrl-D is the end of input.
";

/// All builtins by name.
const ALL: &[(&str, Builtin)] = &[
    (".", flow::source),
    (":", |_, _| Ok(0)),
    ("[", test::bracket),
    ("break", flow::leave),
    ("cd", files::cd),
    ("command", flow::command),
    ("continue", flow::next),
    ("echo", text::echo),
    ("eval", flow::eval),
    ("exit", flow::exit),
    ("export", variables::export),
    ("false", |_, _| Ok(1)),
    ("fg", |shell, words| shell.to_foreground(words.get(1).map(String::as_str))),
    ("handles", handles),
    ("help", |shell, _| shell.say(HELP)),
    ("jobs", |shell, _| shell.list_jobs()),
    ("kill", kill),
    ("local", variables::local),
    ("printf", text::printf),
    ("ps", |shell, _| ps::run(shell)),
    ("pwd", files::pwd),
    ("read", text::read),
    ("readonly", variables::readonly),
    ("return", flow::give_back),
    ("set", variables::set),
    ("shift", variables::shift),
    ("source", flow::source),
    ("test", test::test),
    ("top", top::run),
    ("trap", flow::trap),
    ("true", |_, _| Ok(0)),
    ("type", which),
    ("unset", variables::unset),
    ("wait", |shell, words| shell.wait_for(&words[1..])),
];

/// The builtin with this name.
pub fn find(name: &str) -> Option<Builtin> {
    ALL.iter().find(|(known, _)| *known == name).map(|(_, run)| *run)
}

fn handles(shell: &mut Shell, words: &[String]) -> Run {
    match &words[1..] {
        [which] => ps::handles(shell, which),
        _ => shell.fail("handles", "takes the number or the name of one process, as `ps` shows them"),
    }
}

fn kill(shell: &mut Shell, words: &[String]) -> Run {
    // There are no signals: every request kills.
    let which: Vec<&String> = words[1..].iter().filter(|word| !word.starts_with('-')).collect();
    if which.is_empty() {
        return shell.fail("kill", "takes numbers or names of processes or jobs, as `ps` and `jobs` show them");
    }
    let mut status = 0;
    for which in which {
        match shell.job(Some(which)) {
            Some(job) => job.group.end(),
            None => status = status.max(ps::kill(shell, which)?),
        }
    }
    Ok(status)
}

fn which(shell: &mut Shell, words: &[String]) -> Run {
    let mut status = 0;
    for name in &words[1..] {
        let line = if shell.functions.contains_key(name) {
            format!("{name} is a function\n")
        } else if name == "exec" || find(name).is_some() {
            format!("{name} is a command of the shell\n")
        } else if let Some(path) = start::find(shell, name) {
            format!("{name} is {}\n", path.display())
        } else {
            shell.complain("type", &format!("{name}: there is no such command"));
            status = 1;
            continue;
        };
        shell.say(line)?;
    }
    Ok(status)
}

/// Parses a numeric argument; prints a message if it is not a number.
fn number(shell: &Shell, who: &str, text: &str) -> Result<i64, Stop> {
    text.parse().map_err(|_| {
        shell.complain(who, &format!("{text}: this is no number"));
        Stop::Abort(2)
    })
}
