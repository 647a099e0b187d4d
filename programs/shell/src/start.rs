//! Runs a program: finds its file, passes descriptors and environment, waits for its end.
//!
//! A program is in its group's job, which is also its default job. A file that begins with `#!` is run by the program
//! named there.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use init::program;

use crate::state::{Shell, reason};

/// The return code if there is no such program, as in other shells.
const NOT_FOUND: i64 = 127;
/// The return code if a file cannot be run.
const NOT_RUN: i64 = 126;

/// Runs a program to its end, with additional variables; returns its return code.
pub fn run(shell: &Shell, words: &[String], values: &[(String, String)]) -> i64 {
    let Some(name) = words.first() else { return 0 };
    let Some(path) = find(shell, name) else {
        shell.complain(name, "there is no such program; `ls /boot/bin` shows which there are, `help` the commands");
        return NOT_FOUND;
    };
    let started = check(&path).and_then(|script| match script {
        None => start(shell, &path, words.to_vec(), values),
        Some(mut interpreter) => {
            interpreter.push(path.to_string_lossy().into_owned());
            interpreter.extend(words.iter().skip(1).cloned());
            // `/bin/sh` is this shell, wherever its file is.
            let program = match interpreter[0].as_str() {
                "/bin/sh" | "/bin/bash" => find(shell, "sh"),
                other => find(shell, other),
            };
            let program = program.ok_or_else(|| format!("its interpreter {} is not there", interpreter[0]))?;
            start(shell, &program, interpreter, values)
        }
    });
    match started {
        Ok(code) => {
            if let Some(end) = ending(code)
                && !shell.group.ended()
            {
                shell.complain(name, end);
            }
            code
        }
        Err(problem) => {
            shell.complain(name, &problem);
            NOT_RUN
        }
    }
}

/// Finds a program's file: by path, or by name in the directories of `PATH`.
pub fn find(shell: &Shell, name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        let path = shell.path(name);
        return path.exists().then_some(path);
    }
    let directories = shell.get("PATH").unwrap_or("/boot/bin").split(':');
    let mut paths = directories.filter(|_| !name.is_empty()).map(|directory| shell.path(directory).join(name));
    paths.find(|path| path.is_file())
}

/// Checks whether a file can be run; for a script, returns its interpreter.
fn check(path: &Path) -> Result<Option<Vec<String>>, String> {
    if path.is_dir() {
        return Err("this is a directory".to_owned());
    }
    let mut file = File::open(path).map_err(|error| reason(&error))?;
    let mut head = [0; 256];
    let size = file.read(&mut head).map_err(|error| reason(&error))?;
    if let Some(line) = head[..size].strip_prefix(b"#!") {
        let line = String::from_utf8_lossy(line.split(|byte| *byte == b'\n').next().unwrap_or_default()).into_owned();
        let words: Vec<String> = line.splitn(2, ' ').map(|word| word.trim().to_owned()).collect();
        let words: Vec<String> = words.into_iter().filter(|word| !word.is_empty()).collect();
        return if words.is_empty() { Err("its first line names no interpreter".to_owned()) } else { Ok(Some(words)) };
    }
    if cfg!(target_os = "fuchsia") {
        file.seek(SeekFrom::Start(0)).map_err(|error| reason(&error))?;
        program::check(&mut file, |library| Path::new("/boot/lib").join(library).exists())?;
    }
    Ok(None)
}

#[cfg(target_os = "fuchsia")]
fn start(shell: &Shell, path: &Path, words: Vec<String>, values: &[(String, String)]) -> Result<i64, String> {
    use std::os::fd::AsFd;
    use zx::spawn::Spawn;
    use zx::{AsHandleRef, MonotonicInstant, Signals, Status};

    let path = path.to_str().ok_or("its path is not UTF-8")?;
    let mut spawn = Spawn::file(path);
    words.iter().for_each(|word| _ = spawn.arg(word));
    for (name, value) in environment(shell, values) {
        spawn.env(&format!("{name}={value}"));
    }
    // If the line has no job for its programs, each program gets its own job, so it cannot reach its neighbours.
    let own = match shell.group.job() {
        Some(_) => None,
        None => zx::startup::job_default().and_then(|job| job.create_child().ok()),
    };
    if let Some(job) = shell.group.job().or(own.as_ref()) {
        spawn.job(job);
    }
    for (number, file) in &shell.fds {
        if let Ok(number) = u16::try_from(*number) {
            spawn.descriptor_like(number, file.as_fd());
        }
    }
    let process = spawn.start().map_err(|(status, text)| match status {
        Status::NO_MEMORY => "there is not enough memory for it".to_owned(),
        _ if text.is_empty() => format!("starting it gave {status}"),
        _ => text,
    })?;
    let ended = process.wait_one(Signals::TASK_TERMINATED, MonotonicInstant::INFINITE);
    let info = ended.and_then(|_| process.info()).map_err(|status| format!("its end cannot be seen: {status}"))?;
    Ok(info.return_code)
}

#[cfg(not(target_os = "fuchsia"))]
fn start(shell: &Shell, path: &Path, words: Vec<String>, values: &[(String, String)]) -> Result<i64, String> {
    use std::process::{Command, Stdio};

    let mut command = Command::new(path);
    command.args(&words[1..]).env_clear().envs(environment(shell, values)).current_dir(&shell.cwd);
    let stream = |number| match shell.fds.get(&number) {
        Some(file) => file.try_clone().map(Stdio::from),
        None => Ok(Stdio::null()),
    };
    let all = || Ok((stream(0)?, stream(1)?, stream(2)?));
    let (input, output, errors) = all().map_err(|error: std::io::Error| reason(&error))?;
    let status = command.stdin(input).stdout(output).stderr(errors).status();
    status.map(|status| i64::from(status.code().unwrap_or(-1))).map_err(|error| reason(&error))
}

fn environment<'a>(shell: &'a Shell, values: &'a [(String, String)]) -> Vec<(&'a str, &'a str)> {
    let own = shell.environment().filter(|(name, _)| !values.iter().any(|(other, _)| other == name));
    own.chain(values.iter().map(|(name, value)| (name.as_str(), value.as_str()))).collect()
}

/// A description of an end that the program did not choose.
fn ending(code: i64) -> Option<&'static str> {
    // The range that Zircon reserves for tasks that were killed.
    match code {
        -1024 => Some("was killed"),
        -1025 => Some("was killed because memory ran out"),
        -1026 => Some("was killed by a job policy"),
        -1027 => Some("was killed because of how it used the vDSO"),
        -1028 => Some("was ended by an exception that it did not handle"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_have_words() {
        assert_eq!(ending(0), None);
        assert_eq!(ending(7), None);
        assert!(ending(-1028).is_some_and(|words| words.contains("exception")));
    }
}
