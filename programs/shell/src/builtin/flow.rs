//! Builtins that change the flow of control.

use std::fs;

use crate::builtin::{find, number};
use crate::start;
use crate::state::{Run, Shell, Stop, reason};

fn levels(shell: &Shell, words: &[String]) -> Result<u32, Stop> {
    let levels = words.get(1).map_or(Ok(1), |word| number(shell, &words[0], word))?;
    Ok(u32::try_from(levels).unwrap_or(u32::MAX).clamp(1, shell.loops.max(1)))
}

/// `break`
pub fn leave(shell: &mut Shell, words: &[String]) -> Run {
    if shell.loops == 0 {
        shell.fail("break", "there is no loop around it")
    } else {
        Err(Stop::Break(levels(shell, words)?))
    }
}

/// `continue`
pub fn next(shell: &mut Shell, words: &[String]) -> Run {
    if shell.loops == 0 {
        shell.fail("continue", "there is no loop around it")
    } else {
        Err(Stop::Continue(levels(shell, words)?))
    }
}

fn status(shell: &Shell, words: &[String]) -> Result<i64, Stop> {
    words.get(1).map_or(Ok(shell.status), |word| number(shell, &words[0], word))
}

/// `exit`
pub fn exit(shell: &mut Shell, words: &[String]) -> Run {
    Err(Stop::Exit(status(shell, words)?))
}

/// `return`
pub fn give_back(shell: &mut Shell, words: &[String]) -> Run {
    Err(Stop::Return(status(shell, words)?))
}

/// `eval`
pub fn eval(shell: &mut Shell, words: &[String]) -> Run {
    shell.evaluate_text("eval", &words[1..].join(" "))
}

/// `.`: runs the commands of a file in this shell.
pub fn source(shell: &mut Shell, words: &[String]) -> Run {
    let Some(name) = words.get(1) else { return shell.fail(&words[0], "takes a file") };
    let beside = shell.path(name);
    let path = if name.contains('/') || beside.is_file() { Some(beside) } else { start::find(shell, name) };
    let text = match path.map(fs::read) {
        Some(Ok(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
        Some(Err(error)) => return shell.fail(name, &reason(&error)),
        None => return shell.fail(name, "there is no such file"),
    };
    let old = (words.len() > 2).then(|| std::mem::replace(&mut shell.positional, words[2..].to_vec()));
    let result = shell.evaluate_text(name, &text);
    if let Some(old) = old {
        shell.positional = old;
    }
    match result {
        Err(Stop::Return(status)) => Ok(status),
        other => other,
    }
}

/// `command`: skips functions of that name; `-v` prints what a name refers to.
pub fn command(shell: &mut Shell, words: &[String]) -> Run {
    match &words[1..] {
        [option, names @ ..] if option == "-v" || option == "-V" => {
            let mut status = 0;
            for name in names {
                if shell.functions.contains_key(name) || find(name).is_some() {
                    shell.say(format!("{name}\n"))?;
                } else if let Some(path) = start::find(shell, name) {
                    shell.say(format!("{}\n", path.display()))?;
                } else {
                    status = 1;
                }
            }
            Ok(status)
        }
        [] => Ok(0),
        rest => match find(&rest[0]) {
            Some(run) => run(shell, rest),
            None => Ok(start::run(shell, rest, &[])),
        },
    }
}

/// `trap`: sets commands for the shell's exit. There are no signals.
pub fn trap(shell: &mut Shell, words: &[String]) -> Run {
    match &words[1..] {
        [] => match &shell.at_exit {
            Some(text) => shell.say(format!("trap -- '{text}' EXIT\n")),
            None => Ok(0),
        },
        [action, events @ ..] => {
            for event in events {
                match event.as_str() {
                    "EXIT" | "0" if action == "-" => shell.at_exit = None,
                    "EXIT" | "0" => shell.at_exit = Some(action.clone()),
                    other => return shell.fail("trap", &format!("{other}: there are no signals, only EXIT")),
                }
            }
            Ok(0)
        }
    }
}
