//! The roles of this program as its own child, set by the variable `CHILD`.

use std::io::{IsTerminal, Write, stderr, stdin, stdout};
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// This program in another role.
pub fn child(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env("CHILD", role);
    command
}

/// The output and the end of a child.
pub fn output(role: &str) -> Output {
    child(role).output().unwrap()
}

/// The output as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Waits for its end, at most a minute: a child that hangs is a failure, not a hang of the test.
pub fn end(child: &mut Child) -> std::process::ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if start.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("the child did not end");
        }
        thread::sleep(Duration::from_millis(5));
    }
}

struct Loud(&'static str);

impl Drop for Loud {
    fn drop(&mut self) {
        print!("{} ", self.0);
        stdout().flush().unwrap();
    }
}

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("in drop");
    }
}

extern "C" fn never_unwinds() {
    panic!("in a C function");
}

thread_local! {
    static FIRST: Loud = const { Loud("first") };
    static AGAIN: Again = const { Again };
}

/// Uses another thread-local value while its own is destroyed.
struct Again;

impl Drop for Again {
    fn drop(&mut self) {
        FIRST.with(|_| ());
        print!("again ");
        stdout().flush().unwrap();
    }
}

/// The children.
pub fn be(role: &str) -> ExitCode {
    let arguments = || std::env::args_os().skip(1);
    match role {
        "arguments" => arguments().for_each(|argument| {
            stdout().write_all(argument.as_encoded_bytes()).unwrap();
            stdout().write_all(b"\n").unwrap();
        }),
        "count" => print!("{} {}", arguments().count(), arguments().map(|argument| argument.len()).sum::<usize>()),
        "zero" => print!("{}", std::env::args().next().unwrap()),
        "environment" => std::env::vars().for_each(|(key, value)| println!("{key}={value}")),
        "directory" => print!("{}", std::env::current_dir().unwrap().display()),
        "places" => print!("{:?} {:?}", std::env::temp_dir(), std::env::home_dir()),
        "exit" => std::process::exit(arguments().next().unwrap().to_str().unwrap().parse().unwrap()),
        "exit in a thread" => {
            AGAIN.with(|_| ());
            thread::spawn(|| std::process::exit(9)).join().unwrap();
        }
        "abort" => std::process::abort(),
        "grow" => drop(vec![0u8; 1 << 45]),
        "drop" => {
            let _bomb = Bomb;
            panic!("first");
        }
        "c" => never_unwinds(),
        "main destructors" => {
            FIRST.with(|_| ());
            AGAIN.with(|_| ());
        }
        "lines" => {
            let mut first = String::new();
            stdin().read_line(&mut first).unwrap();
            print!("{first:?}");
            stdin().lines().for_each(|line| print!(" {:?}", line.unwrap()));
        }
        "threads" => {
            let writers = ["a", "b", "c", "d"]
                .map(|letter| thread::spawn(move || (0..50).for_each(|_| println!("{}", letter.repeat(100)))));
            writers.into_iter().for_each(|writer| writer.join().unwrap());
        }
        "terminals" => print!("{} {} {}", stdin().is_terminal(), stdout().is_terminal(), stderr().is_terminal()),
        "both" => {
            let bytes = vec![b'.'; 3 << 20];
            let errors = bytes.clone();
            let writer = thread::spawn(move || stderr().write_all(&errors).unwrap());
            stdout().write_all(&bytes).unwrap();
            writer.join().unwrap();
        }
        "speak" => {
            print!("out");
            eprint!("err");
        }
        "sleep" => thread::sleep(Duration::from_secs(1000)),
        "id" => print!("{}", std::process::id()),
        "inherit" => {
            let status = child("speak").stdin(Stdio::null()).status().unwrap();
            assert!(status.success());
        }
        other => panic!("no role {other}"),
    }
    ExitCode::SUCCESS
}
