//! A program with as many connections to the clock as it may have: once it closes one, the next is accepted, however
//! soon it comes.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
mod fuchsia {
    use std::collections::VecDeque;

    use drivers::clock::NOW;
    use zx::{Channel, MonotonicInstant, Status};

    /// The clock's limit for a program.
    const CONNECTIONS: usize = 256;
    const ROUNDS: usize = 5_000;

    fn ask(clock: &Channel) -> zx::Result<()> {
        clock.write(&[NOW], [])?;
        clock.read_wait(&mut [0; 64], &mut [], MonotonicInstant::INFINITE).map(drop)
    }

    fn connect() -> zx::Result<Channel> {
        let clock = zx::startup::connect("clock")?;
        ask(&clock).map(|()| clock)
    }

    pub fn main() -> Result<(), String> {
        let step = |what: String| move |status: Status| format!("{what}: {status}");
        let mut open = VecDeque::new();
        for number in 0..CONNECTIONS {
            open.push_back(connect().map_err(step(format!("connection {number}")))?);
        }
        if connect().map(drop) != Err(Status::PEER_CLOSED) {
            return Err(format!("more than {CONNECTIONS} connections were accepted"));
        }
        for round in 0..ROUNDS {
            let oldest = open.pop_front().ok_or("no connection")?;
            ask(&oldest).map_err(step(format!("the answer in round {round}")))?;
            drop(oldest);
            open.push_back(connect().map_err(step(format!("the next connection in round {round}")))?);
        }
        println!("{ROUNDS} connections followed closed ones");
        Ok(())
    }
}

#[cfg(target_os = "fuchsia")]
fn main() -> Result<(), String> {
    fuchsia::main()
}

#[cfg(not(target_os = "fuchsia"))]
fn main() {}
