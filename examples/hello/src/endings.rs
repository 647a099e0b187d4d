//! The ways in which a program can end, intended and unintended.
//!
//! Some of them need `unsafe`: safe Rust excludes reads through a null pointer, calls of an address without a function
//! and illegal instructions. They are here because a system must contain such faults.

use std::hint::black_box;
use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::thread;

/// Exits with the given code, or explains what is missing.
pub fn exit(code: Option<&str>) -> ExitCode {
    match code.map(str::parse::<i32>) {
        Some(Ok(code)) => std::process::exit(code),
        _ => usage("exit needs a number"),
    }
}

fn usage(problem: &str) -> ExitCode {
    eprintln!("hello: {problem}; try `hello help`");
    ExitCode::from(2)
}

/// A panic in a thread unwinds only that thread; the thread that joins it gets the payload.
pub fn thread_panic() -> ExitCode {
    struct Noisy;
    impl Drop for Noisy {
        fn drop(&mut self) {
            println!("the thread's values are dropped while it unwinds");
        }
    }
    let outcome = thread::Builder::new()
        .name("panicker".to_owned())
        .spawn(|| {
            let _noisy = Noisy;
            panic!("this thread panics because it was asked to");
        })
        .map(thread::JoinHandle::join);
    match outcome {
        Ok(Err(payload)) => {
            let text = payload.downcast_ref::<&str>().copied().unwrap_or("(no text)");
            println!("caught by join: {text}");
            ExitCode::SUCCESS
        }
        Ok(Ok(())) => {
            println!("the thread did not panic");
            ExitCode::FAILURE
        }
        Err(error) => {
            println!("no thread: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Reads through a null pointer; nothing is ever mapped there.
pub fn null() -> ExitCode {
    let nowhere: *const u64 = black_box(std::ptr::null());
    // SAFETY: not sound, on purpose: the read faults, and this program shows how the system handles that. The access is
    // volatile because the compiler may assume that no such read happens.
    let value = unsafe { nowhere.read_volatile() };
    println!("read {value} through a null pointer");
    ExitCode::FAILURE
}

/// Calls a function at an unmapped address.
pub fn wild_call() -> ExitCode {
    // SAFETY: not sound, on purpose: the call faults, and this program shows how the system handles that.
    let nowhere: extern "C" fn() -> u64 = unsafe { std::mem::transmute(black_box(0x1000_usize)) };
    println!("no function gave {}", nowhere());
    ExitCode::FAILURE
}

/// Executes `ud2`, which every x86-64 processor rejects.
pub fn illegal() -> ExitCode {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction touches neither memory nor registers; the processor raises its exception instead.
    unsafe {
        std::arch::asm!("ud2", options(nomem, nostack));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("udf #0", options(nomem, nostack));
    }
    println!("an illegal instruction was executed");
    ExitCode::FAILURE
}

/// Recurses until the stack is used up.
pub fn stack_overflow() -> ExitCode {
    fn deeper(depth: u64) -> u64 {
        let frame = black_box([depth; 64]);
        if black_box(depth) == u64::MAX {
            return frame[0];
        }
        // Using the array after the call prevents a tail call.
        deeper(depth + 1).wrapping_add(black_box(frame)[1])
    }
    println!("the stack held {} frames", deeper(0));
    ExitCode::FAILURE
}

/// Runs for ever, without sleeping.
pub fn run_for_ever() -> ExitCode {
    println!("running for ever");
    loop {
        std::hint::spin_loop();
    }
}

/// Writes exactly `size` bytes: numbered lines of 64 bytes, the last one cut.
pub fn big_output(size: Option<&str>) -> ExitCode {
    let Some(Ok(size)) = size.map(str::parse::<u64>) else {
        return usage("big-output needs a number of bytes");
    };
    match write_lines(&mut io::stdout().lock(), size) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hello: standard output: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write_lines(output: &mut impl Write, size: u64) -> io::Result<()> {
    let mut left = size;
    let mut number = 0_u64;
    while left > 0 {
        let line = format!("{number:012} {}\n", "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMN");
        let length = line.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        output.write_all(&line.as_bytes()[..length])?;
        left -= length as u64;
        number += 1;
    }
    output.flush()
}

/// Copies standard input to standard output until its end, and prints the number of bytes on standard error.
pub fn stdin_echo() -> ExitCode {
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let mut buffer = [0; 8192];
    let mut total = 0;
    loop {
        let copied = input.read(&mut buffer).and_then(|length| {
            output.write_all(&buffer[..length])?;
            output.flush()?;
            Ok(length)
        });
        match copied {
            Ok(0) => {
                eprintln!("{total} bytes");
                return ExitCode::SUCCESS;
            }
            Ok(length) => total += length,
            Err(error) => {
                eprintln!("hello: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::write_lines;

    #[test]
    fn big_output_has_exactly_the_size() {
        for size in [0, 1, 63, 64, 65, 1_000_000] {
            let mut output = Vec::new();
            write_lines(&mut output, size).unwrap();
            assert_eq!(output.len() as u64, size);
        }
    }

    #[test]
    fn lines_are_numbered_and_of_one_length() {
        let mut output = Vec::new();
        write_lines(&mut output, 6400).unwrap();
        for (index, line) in output.split_inclusive(|byte| *byte == b'\n').enumerate() {
            assert_eq!(line.len(), 64);
            assert!(line.starts_with(format!("{index:012} ").as_bytes()));
        }
    }
}
