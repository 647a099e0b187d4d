//! Simple commands: words, redirections, and the lookup of the command's name.

use brush_parser::ast::{
    Assignment, AssignmentName, AssignmentValue, CommandPrefixOrSuffixItem, FunctionDefinition, IoRedirect,
    SimpleCommand, Word,
};

use crate::jobs::INTERRUPTED;
use crate::state::{DEPTH, Run, Shell, Stop, Variable};
use crate::{builtin, start};

impl Shell {
    /// Runs a simple command.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn simple(&mut self, command: &SimpleCommand) -> Run {
        let mut parts = Parts::default();
        let prefix = command.prefix.iter().flat_map(|prefix| &prefix.0);
        prefix.for_each(|item| parts.add(item, true));
        parts.words.extend(&command.word_or_name);
        let suffix = command.suffix.iter().flat_map(|suffix| &suffix.0);
        suffix.for_each(|item| parts.add(item, false));
        if parts.process_substitution {
            return self.fail("redirection", "process substitution is not supported");
        }

        self.substituted = None;
        let words = self.command_words(&parts.words)?;
        let Some((name, arguments)) = words.split_first() else {
            // Assignments without a command change the shell's variables.
            for assignment in &parts.assignments {
                let (name, value) = self.assignment(assignment)?;
                self.trace(&[format!("{name}={value}")]);
                self.set(&name, value)?;
            }
            let substituted = self.substituted;
            let before = match self.redirect(parts.redirections) {
                Ok(before) => before,
                Err(Stop::Abort(status)) => return Ok(status),
                Err(stop) => return Err(stop),
            };
            self.fds = before;
            return Ok(substituted.unwrap_or(0));
        };
        let mut values = Vec::new();
        for assignment in &parts.assignments {
            values.push(self.assignment(assignment)?);
        }
        self.trace(&words);
        let before = match self.redirect(parts.redirections) {
            Ok(before) => before,
            Err(Stop::Abort(status)) => return Ok(status),
            Err(stop) => return Err(stop),
        };
        if name == "exec" {
            // Without a program, the redirections stay.
            return if arguments.is_empty() { Ok(0) } else { Err(Stop::Exit(self.run_external(arguments, &values)?)) };
        }
        let result = self.run_words(name, &words, &values);
        self.fds = before;
        result
    }

    /// Runs a command by its name: a function, a builtin, or a program.
    fn run_words(&mut self, name: &str, words: &[String], values: &[(String, String)]) -> Run {
        if let Some(function) = self.functions.get(name).cloned() {
            return self.with_values(values, |shell| shell.function(&function, &words[1..]));
        }
        match builtin::find(name) {
            Some(run) => self.with_values(values, |shell| run(shell, words)),
            None => self.run_external(words, values),
        }
    }

    fn run_external(&mut self, words: &[String], values: &[(String, String)]) -> Run {
        let status = start::run(self, words, values);
        if self.group.ended() { Err(Stop::Abort(INTERRUPTED)) } else { Ok(status) }
    }

    /// Runs something while variables have other values.
    fn with_values(&mut self, values: &[(String, String)], run: impl FnOnce(&mut Shell) -> Run) -> Run {
        let mut old = Vec::new();
        for (name, value) in values {
            old.push((name, self.variable(name).cloned()));
            self.set(name, value.clone())?;
            let variable = Variable { value: Some(value.clone()), exported: true, readonly: false };
            self.put(name, variable);
        }
        let result = run(self);
        for (name, variable) in old.into_iter().rev() {
            self.restore(name, variable);
        }
        result
    }

    fn function(&mut self, function: &FunctionDefinition, arguments: &[String]) -> Run {
        self.deeper(&function.fname.value, |shell| {
            let positional = std::mem::replace(&mut shell.positional, arguments.to_vec());
            let loops = std::mem::take(&mut shell.loops);
            shell.locals.push(Vec::new());
            let body = &function.body;
            let result = shell.with(body.1.as_ref(), |shell| shell.compound(&body.0));
            for (name, variable) in shell.locals.pop().into_iter().flatten().rev() {
                shell.restore(&name, variable);
            }
            shell.loops = loops;
            shell.positional = positional;
            match result {
                Err(Stop::Return(status)) => Ok(status),
                other => other,
            }
        })
    }

    /// Runs something one nesting level deeper, up to the limit.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn deeper(&mut self, who: &str, run: impl FnOnce(&mut Shell) -> Run) -> Run {
        if self.depth >= DEPTH {
            self.complain(who, "functions and texts are too deep in each other");
            return Err(Stop::Abort(1));
        }
        self.depth += 1;
        let result = run(self);
        self.depth -= 1;
        result
    }

    fn command_words(&mut self, words: &[&Word]) -> Result<Vec<String>, Stop> {
        let declares = words.first().is_some_and(|word| matches!(word.value.as_str(), "export" | "readonly" | "local"));
        if !declares {
            return self.fields(words.iter().copied());
        }
        // The value after `NAME=` is one text, as in an assignment.
        let mut fields = Vec::new();
        for word in words {
            match word.value.split_once('=') {
                Some((name, value)) if crate::state::is_name(name) => {
                    let value = self.text(value)?;
                    fields.push(format!("{name}={value}"));
                }
                _ => fields.extend(self.fields([*word])?),
            }
        }
        Ok(fields)
    }

    fn assignment(&mut self, assignment: &Assignment) -> Result<(String, String), Stop> {
        let (AssignmentName::VariableName(name), AssignmentValue::Scalar(word)) = (&assignment.name, &assignment.value)
        else {
            self.complain("assignment", "arrays are not supported");
            return Err(Stop::Abort(2));
        };
        let mut value = self.text(&word.value)?;
        if assignment.append {
            value.insert_str(0, self.get(name).unwrap_or_default());
        }
        Ok((name.clone(), value))
    }

    fn trace(&self, words: &[String]) {
        if self.options.xtrace {
            self.error_line(&format!("{}{}", self.get("PS4").unwrap_or_default(), words.join(" ")));
        }
    }
}

/// The parts of a simple command.
#[derive(Default)]
struct Parts<'a> {
    assignments: Vec<&'a Assignment>,
    words: Vec<&'a Word>,
    redirections: Vec<&'a IoRedirect>,
    process_substitution: bool,
}

impl<'a> Parts<'a> {
    fn add(&mut self, item: &'a CommandPrefixOrSuffixItem, prefix: bool) {
        match item {
            CommandPrefixOrSuffixItem::IoRedirect(redirection) => self.redirections.push(redirection),
            CommandPrefixOrSuffixItem::Word(word) => self.words.push(word),
            CommandPrefixOrSuffixItem::AssignmentWord(assignment, _) if prefix => self.assignments.push(assignment),
            CommandPrefixOrSuffixItem::AssignmentWord(_, word) => self.words.push(word),
            CommandPrefixOrSuffixItem::ProcessSubstitution(..) => self.process_substitution = true,
        }
    }
}
