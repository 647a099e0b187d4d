//! The work of a neighbour that needs services.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;

use conformance::check::{Failure, Outcome, ensure, equal};

use crate::Dice;
use crate::neighbour::Work;

/// The argument after `--child` of a program that ends at once with [`CODE`].
pub const NOTHING: &str = "nothing";
/// Its exit code.
pub const CODE: u8 = 7;

/// All of it.
pub const WORK: [Work; 3] = [files, connections, programs];

/// Random bytes.
fn some(dice: &mut Dice) -> Vec<u8> {
    (0..1 + dice.below(3000)).map(|_| dice.word() as u8).collect()
}

/// Writes a file, renames it, reads it, and removes it.
fn files(dice: &mut Dice) -> Outcome {
    let (own, written) = (std::process::id(), some(dice));
    let (first, second) = (format!("/tmp/neighbour-{own}"), format!("/tmp/neighbour-{own}-named"));
    fs::write(&first, &written)?;
    fs::rename(&first, &second)?;
    ensure(fs::read(&second)? == written, "a file does not hold what was written")?;
    Ok(fs::remove_file(&second)?)
}

/// Sends bytes through a connection to itself.
fn connections(dice: &mut Dice) -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let (address, sent) = (listener.local_addr()?, some(dice));
    let there = thread::spawn(move || -> std::io::Result<Vec<u8>> {
        let mut received = Vec::new();
        listener.accept()?.0.read_to_end(&mut received)?;
        Ok(received)
    });
    let mut here = TcpStream::connect(address)?;
    here.write_all(&sent)?;
    drop(here);
    let received = there.join().map_err(|_| Failure::from("a listener panicked".to_owned()))??;
    ensure(received == sent, "a connection does not carry what was sent")
}

/// Starts a program, and checks how it ends.
fn programs(_: &mut Dice) -> Outcome {
    let program = std::env::args().next().ok_or("this program does not know its name")?;
    let status = Command::new(program).args(["--child", NOTHING]).stdin(Stdio::null()).status()?;
    equal(status.code(), Some(i32::from(CODE)))
}
