//! The commands that the shell carries out itself.

use std::fs;
use std::io::{self, Write};

use crate::{Shell, ps};

const HELP: &str = "\
PROGRAM [ARGUMENTS...]   run a program: a path, or a name in /boot/bin
ls [PATH...]             list a directory of the boot image (default /boot)
cat FILE...              show files
echo [WORDS...]          show words; $? is the last return code, $NAME a variable
ps                       show jobs, processes and threads
handles KOID|NAME        show how many handles of which kind a process holds
kill KOID|NAME           end a process or a job
help                     this text
exit [CODE]              leave the shell (default: with the last return code)

Quote with ' or \". Ctrl-C ends the program that runs; Ctrl-D is the end of input.";

/// Runs a built-in command; `None` if there is none of this name.
pub fn run(shell: &mut Shell, name: &str, arguments: &[String]) -> Option<i64> {
    Some(match name {
        "ls" => ls(arguments),
        "cat" => cat(arguments),
        "echo" => {
            println!("{}", arguments.join(" "));
            0
        }
        "ps" => ps::run(),
        "handles" => match arguments {
            [which] => ps::handles(which),
            _ => complain("handles", "takes the number or the name of one process, as `ps` shows them"),
        },
        "kill" => match arguments {
            [which] => ps::kill(which),
            _ => complain("kill", "takes the number or the name of one process or job, as `ps` shows them"),
        },
        "help" | "?" => {
            println!("{HELP}");
            0
        }
        "exit" => return Some(exit(shell, arguments)),
        _ => return None,
    })
}

fn exit(shell: &mut Shell, arguments: &[String]) -> i64 {
    let code = match arguments {
        [] => Some(shell.last),
        [code] => code.parse().ok(),
        _ => None,
    };
    match code {
        Some(code) => {
            shell.done = true;
            code
        }
        None => complain("exit", "takes one number"),
    }
}

fn complain(name: &str, problem: &str) -> i64 {
    eprintln!("sh: {name}: {problem}");
    1
}

/// Paths without a slash in front are meant from `/boot`: there is no other place yet.
pub fn full_path(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/boot/{path}") }
}

fn ls(arguments: &[String]) -> i64 {
    let default = ["/boot".to_owned()];
    let paths = if arguments.is_empty() { &default[..] } else { arguments };
    let mut code = 0;
    for path in paths {
        if let Err(error) = list(&full_path(path)) {
            code = complain("ls", &format!("{path}: {}", reason(&error)));
        }
    }
    code
}

fn list(path: &str) -> io::Result<()> {
    let data = fs::metadata(path)?;
    if data.is_file() {
        println!("{:>10}  {path}", data.len());
        return Ok(());
    }
    let mut rows = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == "." || name == ".." {
            continue;
        }
        let data = fs::metadata(entry.path())?;
        rows.push(if data.is_dir() { (format!("{name}/"), None) } else { (name, Some(data.len())) });
    }
    rows.sort();
    for (name, size) in rows {
        println!("{:>10}  {name}", size.map(|size| size.to_string()).unwrap_or_default());
    }
    Ok(())
}

fn cat(arguments: &[String]) -> i64 {
    if arguments.is_empty() {
        return complain("cat", "name a file, such as config/mode");
    }
    let mut code = 0;
    for path in arguments {
        let shown = fs::File::open(full_path(path)).and_then(|mut file| {
            let mut output = io::stdout().lock();
            io::copy(&mut file, &mut output)?;
            output.flush()
        });
        if let Err(error) = shown {
            code = complain("cat", &format!("{path}: {}", reason(&error)));
        }
    }
    code
}

/// An error in a few words.
pub fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such file".to_owned(),
        io::ErrorKind::IsADirectory => "this is a directory".to_owned(),
        _ => error.to_string(),
    }
}
