//! A service that stops serving: `init` must notice (docs/services.md).
//!
//! A client makes it wait for ever with the word `hang`. Each other client gets a byte.
//!
//! As a program, `hung hang`, it is a client of that service: it makes the service hang, and then asks to be served.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
mod fuchsia {
    use std::process::ExitCode;

    use service::{ChannelEnds, Clients, Event};
    use zx::{AsHandleRef, MonotonicInstant, Signals, Status};

    const FOREVER: MonotonicInstant = MonotonicInstant::INFINITE;

    fn serve() -> Result<(), String> {
        let step = |what: &'static str| move |status: Status| format!("{what}: {status}");
        let (clients, ends) = (Clients::take()?, ChannelEnds::default());
        let mut served = Vec::new();
        loop {
            let signals = Signals::CHANNEL_READABLE | Signals::CHANNEL_PEER_CLOSED;
            clients.0.wait_one(signals, FOREVER).map_err(step("clients"))?;
            match clients.next() {
                Ok(Event::Client(client)) if client.words == "hang" => {
                    let never = zx::Event::create().map_err(step("an event"))?;
                    never.wait_one(Signals::USER_0, FOREVER).map_err(step("waiting"))?;
                }
                Ok(Event::Client(client)) => {
                    for end in client.handles.into_iter().filter_map(|handle| ends.take(handle).ok()) {
                        // A client that has gone needs no answer.
                        let _ = end.write(&[1], []);
                        served.push((client.program, end));
                    }
                }
                Ok(Event::Ended(program)) => served.retain(|(of, _)| *of != program),
                Err(Status::SHOULD_WAIT) => {}
                Err(_) => return Ok(()),
            }
        }
    }

    /// The client.
    fn ask() -> Result<(), String> {
        let step = |what: &'static str| move |status: Status| format!("{what}: {status}");
        let served = |name: &str| {
            let channel = zx::startup::connect(name)?;
            channel.read_wait(&mut [0], &mut [], FOREVER).map(drop)
        };
        served("hung").map_err(step("before"))?;
        // Nothing serves it, and it notices that when `init` ends the service.
        match served("hung/hang") {
            Err(Status::PEER_CLOSED) => {}
            other => return Err(format!("while it hangs: {other:?}")),
        }
        served("hung").map_err(step("afterwards"))
    }

    pub fn main() -> ExitCode {
        let done = if std::env::args().nth(1).as_deref() == Some("hang") { ask() } else { serve() };
        match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("{why}");
                ExitCode::FAILURE
            }
        }
    }
}

#[cfg(target_os = "fuchsia")]
fn main() -> std::process::ExitCode {
    fuchsia::main()
}

#[cfg(not(target_os = "fuchsia"))]
fn main() {
    eprintln!("hung: this service runs on Hafnon");
}
