//! Builtins that change variables and options.

use crate::builtin::number;
use crate::state::{Run, Shell, Stop, Variable, is_name};

/// Handles each `NAME` and `NAME=VALUE`.
fn each(
    shell: &mut Shell,
    words: &[String],
    change: impl Fn(&mut Shell, &str, Option<&str>) -> Result<(), Stop>,
) -> Run {
    for word in &words[1..] {
        let (name, value) = word.split_once('=').map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
        if !is_name(name) {
            return shell.fail(&words[0], &format!("{name}: this is no name of a variable"));
        }
        change(shell, name, value)?;
    }
    Ok(0)
}

fn marked(shell: &mut Shell, name: &str, value: Option<&str>, mark: impl Fn(&mut Variable)) -> Result<(), Stop> {
    if let Some(value) = value {
        shell.set(name, value)?;
    }
    let mut variable = shell.variable(name).cloned().unwrap_or_default();
    mark(&mut variable);
    shell.put(name, variable);
    Ok(())
}

/// Prints the selected variables as commands that recreate them.
fn show(shell: &Shell, command: &str, which: impl Fn(&Variable) -> bool) -> Run {
    let mut text = String::new();
    for (name, variable) in shell.variables().filter(|(_, variable)| which(variable)) {
        let value = variable.value.as_ref().map(|value| format!("='{}'", value.replace('\'', "'\\''")));
        text.push_str(&format!("{command}{name}{}\n", value.unwrap_or_default()));
    }
    shell.say(text)
}

/// `export`
pub fn export(shell: &mut Shell, words: &[String]) -> Run {
    match words.get(1).map(String::as_str) {
        None | Some("-p") => show(shell, "export ", |variable| variable.exported),
        Some("-n") => each(shell, &words[1..], |shell, name, value| {
            marked(shell, name, value, |variable| variable.exported = false)
        }),
        _ => each(shell, words, |shell, name, value| marked(shell, name, value, |variable| variable.exported = true)),
    }
}

/// `readonly`
pub fn readonly(shell: &mut Shell, words: &[String]) -> Run {
    if words.len() == 1 {
        return show(shell, "readonly ", |variable| variable.readonly);
    }
    each(shell, words, |shell, name, value| marked(shell, name, value, |variable| variable.readonly = true))
}

/// `local`
pub fn local(shell: &mut Shell, words: &[String]) -> Run {
    if shell.locals.is_empty() {
        return shell.fail("local", "there is no function around it");
    }
    each(shell, words, |shell, name, value| {
        let old = shell.variable(name).cloned();
        if let Some(scope) = shell.locals.last_mut() {
            scope.push((name.to_owned(), old));
        }
        let variable = Variable { value: Some(value.unwrap_or_default().to_owned()), ..Variable::default() };
        shell.put(name, variable);
        Ok(())
    })
}

/// `unset`
pub fn unset(shell: &mut Shell, words: &[String]) -> Run {
    let functions = words.get(1).is_some_and(|word| word == "-f");
    let names = words[1..].iter().filter(|word| !matches!(word.as_str(), "-f" | "-v"));
    let mut status = 0;
    for name in names {
        if functions {
            shell.functions.remove(name);
        } else if !shell.unset(name) {
            shell.complain("unset", &format!("{name}: it is read-only"));
            status = 1;
        }
    }
    Ok(status)
}

/// `shift`
pub fn shift(shell: &mut Shell, words: &[String]) -> Run {
    let count = words.get(1).map_or(Ok(1), |word| number(shell, "shift", word))?;
    match usize::try_from(count) {
        Ok(count) if count <= shell.positional.len() => {
            shell.positional.drain(..count);
            Ok(0)
        }
        _ => shell.fail("shift", "there are not so many arguments"),
    }
}

/// `set`
pub fn set(shell: &mut Shell, words: &[String]) -> Run {
    if words.len() == 1 {
        return show(shell, "", |_| true);
    }
    let mut rest = words[1..].iter();
    while let Some(word) = rest.next() {
        let (on, flags) = match (word.strip_prefix('-'), word.strip_prefix('+')) {
            (Some("-"), _) => {
                shell.positional = rest.cloned().collect();
                return Ok(0);
            }
            (Some(flags), _) => (true, flags),
            (_, Some(flags)) => (false, flags),
            _ => {
                shell.positional = std::iter::once(word).chain(rest).cloned().collect();
                return Ok(0);
            }
        };
        for flag in flags.chars() {
            let name = if flag == 'o' { rest.next().cloned().unwrap_or_default() } else { flag.to_string() };
            if !shell.option(&name, on) {
                return shell.fail("set", &format!("{name}: there is no such option"));
            }
        }
    }
    Ok(0)
}

impl Shell {
    /// Sets an option by its letter or its name; returns whether it exists.
    pub fn option(&mut self, name: &str, on: bool) -> bool {
        let options = &mut self.options;
        let option = match name {
            "e" | "errexit" => &mut options.errexit,
            "u" | "nounset" => &mut options.nounset,
            "x" | "xtrace" => &mut options.xtrace,
            "f" | "noglob" => &mut options.noglob,
            "pipefail" => &mut options.pipefail,
            _ => return false,
        };
        *option = on;
        true
    }
}
