//! An ordinary Rust program that uses common features: threads, channels, locks, time, memory, arguments.
//!
//! Without a command it walks through all of them and checks each result. Its output is the same on every system:
//! measured times are checked but not printed. With a command as first argument it ends in one particular way
//! (`hello help` lists them), which shows how a system reports the end of a program.

mod endings;
mod tour;

use std::process::ExitCode;

const HELP: &str = "\
usage: hello [ARGUMENTS...]      walk through threads, channels, locks, time and memory
       hello exit N              end with exit code N
       hello panic               panic in the main thread
       hello thread-panic        panic in a thread; the main thread catches it by joining
       hello abort               abort the process
       hello null                read through a null pointer
       hello stack-overflow      recurse until the stack is used up
       hello wild-call           call a function where there is none
       hello illegal             execute an illegal instruction
       hello loop                run for ever
       hello big-output N        write N bytes of numbered lines
       hello stdin-echo          copy standard input to standard output
       hello help                this text";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rest = arguments.get(1).map(String::as_str);
    match arguments.first().map(String::as_str) {
        Some("help" | "--help" | "-h") => {
            println!("{HELP}");
            ExitCode::SUCCESS
        }
        Some("exit") => endings::exit(rest),
        Some("panic") => panic!("hello panics because it was asked to"),
        Some("thread-panic") => endings::thread_panic(),
        Some("abort") => std::process::abort(),
        Some("null") => endings::null(),
        Some("wild-call") => endings::wild_call(),
        Some("stack-overflow") => endings::stack_overflow(),
        Some("illegal") => endings::illegal(),
        Some("loop") => endings::run_for_ever(),
        Some("big-output") => endings::big_output(rest),
        Some("stdin-echo") => endings::stdin_echo(),
        _ => tour::run(&arguments),
    }
}
