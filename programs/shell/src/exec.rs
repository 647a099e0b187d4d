//! Runs commands: lists, pipelines, loops. [`crate::simple`] runs simple commands.

use std::io::Read;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use brush_parser::ast::{
    AndOr, AndOrList, CaseItemPostAction, Command, CompoundCommand, CompoundList, Pipeline, Program, RedirectList,
    SeparatorOperator,
};

use crate::group::Group;
use crate::jobs::{Background, INTERRUPTED};
use crate::pattern::Pattern;
use crate::redirect::{self, pipe};
use crate::state::{Run, Shell, Stop, reason};

/// Stack size of a thread that runs commands: enough for [`crate::state::DEPTH`] nested functions.
pub const STACK: usize = 32 << 20;

impl Shell {
    /// Runs commands in a separate shell that ends with them; returns the status.
    pub fn finish(&mut self, run: impl FnOnce(&mut Shell) -> Run) -> i64 {
        let mut status = match run(self) {
            Ok(status) | Err(Stop::Return(status) | Stop::Exit(status) | Stop::Abort(status)) => status,
            Err(Stop::Break(_) | Stop::Continue(_)) => self.status,
        };
        if let Some(text) = self.at_exit.take() {
            self.status = status;
            if let Err(Stop::Exit(other)) = self.evaluate_text("trap", &text) {
                status = other;
            }
        }
        status
    }

    /// Runs a program.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn program(&mut self, program: &Program) -> Run {
        let mut status = self.status;
        for commands in &program.complete_commands {
            status = self.list(commands)?;
        }
        Ok(status)
    }

    fn list(&mut self, list: &CompoundList) -> Run {
        let mut status = 0;
        for item in &list.0 {
            status = match item.1 {
                SeparatorOperator::Async => self.background(&item.0)?,
                SeparatorOperator::Sequence => self.and_or(&item.0)?,
            };
            self.status = status;
        }
        Ok(status)
    }

    fn background(&mut self, commands: &AndOrList) -> Run {
        let group = Group::new();
        let job = Background::new(self, commands.to_string(), group.clone());
        let mut copy = self.subshell();
        copy.group = group;
        match redirect::nothing() {
            Ok(file) => _ = copy.fds.insert(0, file),
            Err(error) => return self.fail("&", &reason(&error)),
        }
        let (commands, theirs) = (commands.clone(), job.clone());
        let run = move || {
            let status = copy.finish(|shell| shell.and_or(&commands));
            // Its ends of pipes are closed first: a thread that waits for the status may check them.
            drop(copy);
            theirs.finish(status);
        };
        if let Err(error) = thread::Builder::new().name("background".to_owned()).stack_size(STACK).spawn(run) {
            return self.fail("&", &reason(&error));
        }
        if self.options.interactive {
            self.error_line(&format!("[{}] {}", job.number, job.group.id()));
        }
        self.last_background = Some(job.group.id());
        self.jobs.push(job);
        Ok(0)
    }

    fn and_or(&mut self, commands: &AndOrList) -> Run {
        let mut status = self.and_or_part(&commands.first, !commands.additional.is_empty())?;
        for (index, next) in commands.additional.iter().enumerate() {
            self.status = status;
            let more = index + 1 < commands.additional.len();
            let (wanted, pipeline) = match next {
                AndOr::And(pipeline) => (status == 0, pipeline),
                AndOr::Or(pipeline) => (status != 0, pipeline),
            };
            if wanted {
                status = self.and_or_part(pipeline, more)?;
            }
        }
        Ok(status)
    }

    /// A pipeline of a list. The failure of a pipeline before `&&` or `||`, or after `!`, does not end the shell.
    fn and_or_part(&mut self, pipeline: &Pipeline, decides: bool) -> Run {
        self.conditions += u32::from(decides || pipeline.bang);
        let status = self.pipeline(pipeline);
        self.conditions -= u32::from(decides || pipeline.bang);
        let status = status?;
        self.status = status;
        // If the pipeline was in a condition, its failure does not end the shell.
        if status != 0 && self.options.errexit && self.conditions == 0 && !decides && !pipeline.bang {
            return Err(Stop::Exit(status));
        }
        Ok(status)
    }

    fn pipeline(&mut self, pipeline: &Pipeline) -> Run {
        let begin = Instant::now();
        let result = match pipeline.seq.as_slice() {
            [command] => self.command(command),
            commands => self.pipe_together(commands),
        };
        if pipeline.timed.is_some() {
            self.error_line(&format!("real {:.3} s", begin.elapsed().as_secs_f64()));
        }
        match result {
            Ok(status) if pipeline.bang => Ok(i64::from(status == 0)),
            other => other,
        }
    }

    /// Runs commands concurrently, each in its own subshell, and waits for all.
    fn pipe_together(&mut self, commands: &[Command]) -> Run {
        let pipefail = self.options.pipefail;
        let statuses = thread::scope(|scope| {
            let mut threads = Vec::new();
            let mut input = None;
            for (index, command) in commands.iter().enumerate() {
                let mut copy = self.subshell();
                // `jobs | ...` shows the jobs of this shell.
                copy.jobs.clone_from(&self.jobs);
                if let Some(reader) = input.take() {
                    copy.fds.insert(0, reader);
                }
                if index + 1 < commands.len() {
                    let (reader, writer) = pipe()?;
                    copy.fds.insert(1, writer);
                    input = Some(reader);
                }
                let run = move || copy.finish(|shell| shell.command(command));
                let name = "pipeline".to_owned();
                threads.push(thread::Builder::new().name(name).stack_size(STACK).spawn_scoped(scope, run)?);
            }
            Ok(threads.into_iter().map(|thread| thread.join().unwrap_or(1)).collect::<Vec<i64>>())
        });
        let statuses = match statuses {
            Ok(statuses) => statuses,
            Err(error) => return self.fail("|", &reason(&error)),
        };
        let failed = statuses.iter().rev().find(|status| **status != 0).copied().unwrap_or(0);
        Ok(if pipefail { failed } else { statuses.last().copied().unwrap_or(0) })
    }

    fn command(&mut self, command: &Command) -> Run {
        if self.group.ended() {
            return Err(Stop::Abort(INTERRUPTED));
        }
        match command {
            Command::Simple(command) => self.simple(command),
            Command::Compound(command, redirections) => {
                self.with(redirections.as_ref(), |shell| shell.compound(command))
            }
            Command::Function(function) => {
                self.functions.insert(function.fname.value.clone(), Arc::new(function.clone()));
                Ok(0)
            }
            Command::ExtendedTest(test, redirections) => {
                self.with(redirections.as_ref(), |shell| shell.extended_test(&test.expr).map(|true_| i64::from(!true_)))
            }
        }
    }

    /// Runs something with redirections.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn with(&mut self, redirections: Option<&RedirectList>, run: impl FnOnce(&mut Shell) -> Run) -> Run {
        let list = redirections.map(|list| list.0.as_slice()).unwrap_or_default();
        let before = match self.redirect(list) {
            Ok(before) => before,
            Err(Stop::Abort(status)) => return Ok(status),
            Err(stop) => return Err(stop),
        };
        let status = run(self);
        self.fds = before;
        status
    }

    fn condition(&mut self, list: &CompoundList) -> Result<bool, Stop> {
        self.conditions += 1;
        let status = self.list(list);
        self.conditions -= 1;
        Ok(status? == 0)
    }

    /// Runs a compound command.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn compound(&mut self, command: &CompoundCommand) -> Run {
        match command {
            CompoundCommand::BraceGroup(group) => self.list(&group.list),
            CompoundCommand::Subshell(subshell) => {
                let mut copy = self.subshell();
                copy.loops = 0;
                Ok(copy.finish(|shell| shell.list(&subshell.list)))
            }
            CompoundCommand::IfClause(clause) => {
                if self.condition(&clause.condition)? {
                    return self.list(&clause.then);
                }
                for part in clause.elses.iter().flatten() {
                    let chosen = match &part.condition {
                        Some(condition) => self.condition(condition)?,
                        None => true,
                    };
                    if chosen {
                        return self.list(&part.body);
                    }
                }
                Ok(0)
            }
            CompoundCommand::WhileClause(clause) => {
                self.repeat(&clause.1.list, |shell| shell.condition(&clause.0), |_| Ok(()))
            }
            CompoundCommand::UntilClause(clause) => {
                self.repeat(&clause.1.list, |shell| Ok(!shell.condition(&clause.0)?), |_| Ok(()))
            }
            CompoundCommand::ForClause(clause) => {
                let values = match &clause.values {
                    Some(words) => self.fields(words)?,
                    None => self.positional.clone(),
                };
                let mut values = values.into_iter();
                let next = |shell: &mut Shell| match values.next() {
                    Some(value) => shell.set(&clause.variable_name, value).map(|()| true),
                    None => Ok(false),
                };
                self.repeat(&clause.body.list, next, |_| Ok(()))
            }
            CompoundCommand::ArithmeticForClause(clause) => {
                if let Some(first) = &clause.initializer {
                    self.arithmetic(&first.value)?;
                }
                let holds = |shell: &mut Shell| match &clause.condition {
                    Some(condition) => Ok(shell.arithmetic(&condition.value)? != 0),
                    None => Ok(true),
                };
                self.repeat(&clause.body.list, holds, |shell| match &clause.updater {
                    Some(update) => shell.arithmetic(&update.value).map(drop),
                    None => Ok(()),
                })
            }
            CompoundCommand::Arithmetic(command) => Ok(i64::from(self.arithmetic(&command.expr.value)? == 0)),
            CompoundCommand::CaseClause(clause) => {
                let value: Vec<char> = self.text(&clause.value.value)?.chars().collect();
                let mut status = 0;
                let mut chosen = false;
                for case in &clause.cases {
                    for pattern in &case.patterns {
                        chosen = chosen || Pattern::new(&self.pattern(&pattern.value)?).fits(&value);
                    }
                    if chosen {
                        if let Some(list) = &case.cmd {
                            status = self.list(list)?;
                        }
                        match case.post_action {
                            CaseItemPostAction::ExitCase => break,
                            CaseItemPostAction::UnconditionallyExecuteNextCaseItem => {}
                            CaseItemPostAction::ContinueEvaluatingCases => chosen = false,
                        }
                    }
                }
                Ok(status)
            }
            CompoundCommand::Coprocess(_) => self.fail("coproc", "it is not supported"),
        }
    }

    fn repeat(
        &mut self,
        body: &CompoundList,
        mut goes_on: impl FnMut(&mut Shell) -> Result<bool, Stop>,
        mut then: impl FnMut(&mut Shell) -> Result<(), Stop>,
    ) -> Run {
        let mut status = 0;
        self.loops += 1;
        let result = loop {
            if self.group.ended() {
                break Err(Stop::Abort(INTERRUPTED));
            }
            match goes_on(self) {
                Ok(true) => {}
                Ok(false) => break Ok(status),
                Err(stop) => break Err(stop),
            }
            match self.list(body) {
                Ok(last) => status = last,
                Err(Stop::Break(1)) => break Ok(0),
                Err(Stop::Break(levels)) => break Err(Stop::Break(levels - 1)),
                Err(Stop::Continue(1)) => {}
                Err(Stop::Continue(levels)) => break Err(Stop::Continue(levels - 1)),
                Err(stop) => break Err(stop),
            }
            if let Err(stop) = then(self) {
                break Err(stop);
            }
        };
        self.loops -= 1;
        result
    }

    /// A command's output, without trailing newlines.
    ///
    /// # Errors
    /// The text cannot be parsed; a message has been printed.
    pub fn substitution(&mut self, text: &str) -> Result<String, Stop> {
        let program = self.parse(text)?;
        let mut copy = self.subshell();
        let made = pipe().and_then(|(reader, writer)| {
            copy.fds.insert(1, writer);
            let run = move || {
                let status = copy.finish(|shell| shell.program(&program));
                drop(copy);
                status
            };
            let name = "substitution".to_owned();
            let thread = thread::Builder::new().name(name).stack_size(STACK).spawn(run)?;
            let mut bytes = Vec::new();
            reader.as_ref().read_to_end(&mut bytes)?;
            Ok((bytes, thread.join().unwrap_or(1)))
        });
        match made {
            Ok((bytes, status)) => {
                self.substituted = Some(status);
                Ok(String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned())
            }
            Err(error) => {
                self.complain("$()", &reason(&error));
                Err(Stop::Abort(1))
            }
        }
    }
}
