//! `sh`: see the library.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::thread;

use shell::state::Shell;
use shell::{STACK, group};

const USAGE: &str = "usage: sh [-eufxi] [-o OPTION] [FILE [ARGUMENTS...]]
       sh [-eufxi] [-o OPTION] -c COMMANDS [NAME [ARGUMENTS...]]";

fn main() -> ExitCode {
    // Nested functions need a larger stack than the initial thread has.
    let run = thread::Builder::new().name("shell".to_owned()).stack_size(STACK).spawn(run);
    match run.map(thread::JoinHandle::join) {
        Ok(Ok(code)) => exit(code),
        Ok(Err(_)) => ExitCode::from(101),
        Err(error) => {
            eprintln!("sh: no thread for the commands: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> i64 {
    let mut arguments = std::env::args().peekable();
    let mut shell = Shell::new(arguments.next().as_deref().unwrap_or("sh"));
    let (mut commands, mut interactive) = (false, false);
    while let Some(word) = arguments.next_if(|word| word.len() > 1 && word.starts_with(['-', '+'])) {
        let on = word.starts_with('-');
        if word == "--" {
            break;
        }
        for flag in word[1..].chars() {
            let known = match flag {
                'c' => {
                    commands = true;
                    true
                }
                'i' => {
                    interactive = true;
                    true
                }
                'o' => shell.option(&arguments.next().unwrap_or_default(), on),
                flag => shell.option(&flag.to_string(), on),
            };
            if !known {
                eprintln!("sh: {word}: there is no such option\n{USAGE}");
                return 2;
            }
        }
    }
    let first = arguments.next();
    if commands {
        let Some(text) = first else {
            eprintln!("sh: -c takes commands\n{USAGE}");
            return 2;
        };
        if let Some(name) = arguments.next() {
            shell.name = name;
        }
        shell.positional = arguments.collect();
        return shell.finish(|shell| shell.evaluate_text("-c", &text));
    }
    if let Some(file) = first {
        shell.positional = arguments.collect();
        shell.name.clone_from(&file);
        return shell.file(&file);
    }
    shell.options.interactive = group::listen() || interactive;
    if shell.options.interactive {
        shell.out(
            "Type a program's name to run it; `ls /boot/bin` shows which there are, `help` what the shell knows.\n",
        );
    }
    shell.lines()
}

// A return code has 64 bits here, and the return code of the last program is passed on in full.
#[cfg(target_os = "fuchsia")]
fn exit(code: i64) -> ! {
    zx::process_exit(code)
}

#[cfg(not(target_os = "fuchsia"))]
fn exit(code: i64) -> ! {
    std::process::exit(code as i32)
}
