//! Two threads exchange messages over a Zircon channel.
#![forbid(unsafe_code)]

#[cfg(not(target_os = "fuchsia"))]
fn main() {
    eprintln!("ping-pong: channels are on Hafnon only");
    std::process::exit(2);
}

#[cfg(target_os = "fuchsia")]
fn main() -> std::process::ExitCode {
    match here::run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("ping-pong: {problem}");
            std::process::ExitCode::FAILURE
        }
    }
}

#[cfg(target_os = "fuchsia")]
mod here {
    use std::thread;
    use std::time::Instant;

    use zx::{Channel, MonotonicInstant};

    pub fn run() -> Result<(), String> {
        let rounds: u32 = match std::env::args().nth(1) {
            None => 1000,
            Some(rounds) => rounds.parse().ok().filter(|rounds| *rounds > 0).ok_or("the rounds are a number over 0")?,
        };
        let (ours, theirs) = Channel::create().map_err(|status| format!("no channel: {status}"))?;
        let partner = thread::spawn(move || pong(&theirs));
        let start = Instant::now();
        for round in 0..rounds {
            ours.write(&round.to_le_bytes(), []).map_err(|status| format!("write: {status}"))?;
            let answer = receive(&ours).map_err(|status| format!("read: {status}"))?;
            if answer != round + 1 {
                return Err(format!("{answer} came back for {round}"));
            }
        }
        let time = start.elapsed();
        // Closing this end tells the partner to stop.
        drop(ours);
        let answered = partner.join().map_err(|_| "the partner panicked".to_owned())?;
        println!("{answered} messages there and back, {} microseconds a round", time.as_micros() / u128::from(rounds));
        if answered == rounds { Ok(()) } else { Err(format!("there should be {rounds}")) }
    }

    fn receive(channel: &Channel) -> zx::Result<u32> {
        let mut bytes = [0; 4];
        channel.read_wait(&mut bytes, &mut [], MonotonicInstant::INFINITE)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// Answers each number with the next one until the other end is closed; returns the number of answers.
    fn pong(channel: &Channel) -> u32 {
        let mut count = 0;
        while let Ok(number) = receive(channel) {
            if channel.write(&number.wrapping_add(1).to_le_bytes(), []).is_err() {
                break;
            }
            count += 1;
        }
        count
    }
}
