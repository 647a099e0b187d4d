//! Prints the date from the PC's clock. `date N` waits for the starts of the next N seconds and prints the date at
//! each.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
fn main() -> Result<(), String> {
    use drivers::clock::{self, Time};

    let count: u32 = match std::env::args().nth(1) {
        Some(text) => text.parse().map_err(|_| "usage: date [SECONDS]")?,
        None => 0,
    };
    let clock = zx::startup::connect("clock").map_err(|status| format!("there is no clock: {status}"))?;
    let ask = |what: u8| {
        let mut bytes = [0; 24];
        clock.write(&[what], []).map_err(|status| format!("the clock does not answer: {status}"))?;
        let read = clock.read_wait(&mut bytes, &mut [], zx::MonotonicInstant::INFINITE);
        read.map_err(|status| format!("the clock does not answer: {status}"))?;
        Time::from_bytes(&bytes).ok_or("the clock gave no time".to_owned())
    };
    let show = |time: Time| {
        let [year, month, day, hour, minute, second] = clock::date(time.seconds);
        print!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC");
        if time.at > 0 {
            print!(", interrupt {} at {} ms", time.interrupts, time.at / 1_000_000);
        }
        println!();
    };
    for _ in 0..count {
        show(ask(clock::NEXT)?);
    }
    if count == 0 {
        show(ask(clock::NOW)?);
    }
    Ok(())
}

#[cfg(not(target_os = "fuchsia"))]
fn main() {
    eprintln!("date: this program asks Hafnon's clock");
    std::process::exit(2);
}
