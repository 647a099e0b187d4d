//! Crash containment: children fail in different ways, and another child keeps running.
#![forbid(unsafe_code)]

#[cfg(not(target_os = "fuchsia"))]
fn main() {
    eprintln!("crash: this demo is for Hafnon");
    std::process::exit(2);
}

#[cfg(target_os = "fuchsia")]
fn main() -> std::process::ExitCode {
    here::main()
}

#[cfg(target_os = "fuchsia")]
mod here {
    use std::hint::black_box;
    use std::io::Write;
    use std::process::{Child, Command, ExitCode, Stdio};
    use std::thread;
    use std::time::Duration;

    /// The return code of a process that died of an exception.
    const EXCEPTION: i32 = -1028;

    /// The ways in which children end: the argument, a description, and the expected return code.
    const ENDINGS: [(&str, &str, i32); 4] = [
        ("null", "reads through a null pointer", EXCEPTION),
        ("stack", "uses up its stack", EXCEPTION),
        ("panic", "panics", 101),
        ("abort", "aborts", EXCEPTION),
    ];

    pub fn main() -> ExitCode {
        let mut arguments = std::env::args();
        let program = arguments.next().unwrap_or_else(|| "/boot/bin/crash".to_owned());
        match arguments.next().as_deref() {
            None => match parent(&program) {
                Ok(()) => ExitCode::SUCCESS,
                Err(problem) => {
                    eprintln!("crash: {problem}");
                    ExitCode::FAILURE
                }
            },
            Some("null") => ExitCode::from(zx::probe::read(0)),
            Some("stack") => ExitCode::from(deeper(0)),
            Some("panic") => panic!("this child panics because it was asked to"),
            Some("abort") => std::process::abort(),
            Some("steady") => steady(),
            Some(_) => {
                eprintln!("usage: crash");
                ExitCode::from(2)
            }
        }
    }

    fn parent(program: &str) -> Result<(), String> {
        let start = |ending: &str| {
            let mut command = Command::new(program);
            command.arg(ending).stdout(Stdio::piped()).stderr(Stdio::null());
            command.spawn().map_err(|error| format!("no child: {error}"))
        };
        let mut steady = start("steady")?;
        for (word, what, expected) in ENDINGS {
            let code = code(start(word)?)?;
            println!("a child that {what} ended with {code}");
            if code != expected {
                return Err(format!("it should be {expected}"));
            }
            if steady.try_wait().map_err(|error| error.to_string())?.is_some() {
                return Err("the steady child ended early".to_owned());
            }
        }
        let _ = steady.kill();
        let _ = steady.wait();
        println!("the child beside them ran all the time, and so does this program");
        Ok(())
    }

    fn code(mut child: Child) -> Result<i32, String> {
        let status = child.wait().map_err(|error| error.to_string())?;
        status.code().ok_or_else(|| format!("a child ended with {status}"))
    }

    /// Runs until it is killed.
    fn steady() -> ExitCode {
        loop {
            thread::sleep(Duration::from_millis(10));
            let _ = std::io::stdout().flush();
        }
    }

    fn deeper(depth: u64) -> u8 {
        let frame = black_box([depth; 64]);
        if black_box(depth) == u64::MAX {
            return 0;
        }
        // Using the array after the call prevents a tail call.
        deeper(depth + 1).wrapping_add(black_box(frame)[1] as u8)
    }
}
