//! Writes samples into memory that it shares with programs: a native component that is a client of the programs'
//! instance.
//!
//! A program sends it one end of a channel (`zx_endpoint_connect`), and then on that channel:
//!
//! 1. a VMO of one page and an event: the ring, and the signal that it contains new samples;
//! 2. the number of samples that it wants, eight bytes. The component writes them into the ring, signals the event, and
//!    answers with the total number of samples so far.
#![no_std]
#![no_main]

use component::client::{self, Client, Shared};
use component::{Own, log};
use zx::{AsHandleRef, Channel, Event, MonotonicInstant, Port, Signals, Status, Vmo};

component::start!(main);

/// Size of the ring in bytes, and of a sample: its number, and the measurement.
const RING: usize = 4096;
const SAMPLE: usize = 16;
/// Maximum number of programs that it serves at the same time.
const PROGRAMS: usize = 8;
/// The key of packets for new programs; those of connected programs have smaller keys.
const FURTHER: u64 = PROGRAMS as u64;
/// Signals of a channel that needs service.
const ASKED: Signals = Signals::CHANNEL_READABLE.union(Signals::CHANNEL_PEER_CLOSED);

fn main(own: Own) -> ! {
    let mut connections = 0;
    loop {
        match client::connect() {
            Ok(client) => {
                connections += 1;
                log!("life {}: connection {connections}", own.life);
                let Err(why) = serve(&client);
                log!("the connection has ended ({})", why.0);
            }
            Err(why) => {
                log!("no connection ({})", why.0);
                let _ = own.endpoint.receive();
            }
        }
    }
}

/// A program, and the objects that it shares.
struct Program<'c> {
    channel: Channel,
    shared: Option<(Shared<'c>, Event)>,
    samples: u64,
}

/// Serves programs until the connection ends.
fn serve(client: &Client) -> Result<core::convert::Infallible, Status> {
    let port = Port::create()?;
    let mut programs = [const { None }; PROGRAMS];
    client.clients().wait_async(&port, FURTHER, ASKED, 0)?;
    loop {
        let packet = port.wait(MonotonicInstant::INFINITE)?;
        if packet.key == FURTHER {
            let (_, handle) = client.accept()?;
            client.clients().wait_async(&port, FURTHER, ASKED, 0)?;
            // If there is no room, its end of the channel is closed, which the program sees.
            if let Some((place, key)) = programs.iter_mut().zip(0..).find(|(place, _)| place.is_none()) {
                let program = Program { channel: handle.into(), shared: None, samples: 0 };
                if program.channel.wait_async(&port, key, ASKED, 0).is_ok() {
                    *place = Some(program);
                }
            }
        } else if let Some(place) = programs.get_mut(packet.key as usize)
            && let Some(program) = place
        {
            let served = program.serve(client);
            if served.and_then(|()| program.channel.wait_async(&port, packet.key, ASKED, 0)).is_err() {
                *place = None;
            }
        }
    }
}

impl<'c> Program<'c> {
    /// Handles one request. After an error the program is dropped.
    fn serve(&mut self, client: &'c Client) -> zx::Result<()> {
        let (mut bytes, mut handles) = ([0; 8], [None, None]);
        let size = self.channel.read(&mut bytes, &mut handles).map_err(|(status, _)| status)?;
        if let [Some(vmo), Some(event)] = handles {
            let shared = client.share(&Vmo::from(vmo), 0, RING, true)?;
            self.shared = Some((shared, event.into()));
            return Ok(());
        }
        let wanted = u64::from_le_bytes(bytes);
        let Some((shared, event)) = self.shared.as_ref().filter(|_| size.bytes == 8) else {
            return Err(Status::INVALID_ARGS);
        };
        for _ in 0..wanted.min((RING / SAMPLE) as u64) {
            let place = self.samples as usize % (RING / SAMPLE) * SAMPLE;
            let [number, measured] = [self.samples, measure(self.samples)].map(u64::to_le_bytes);
            shared.write(place, &number)?;
            shared.write(place + 8, &measured)?;
            self.samples += 1;
        }
        event.signal(Signals::NONE, Signals::USER_0)?;
        self.channel.write(&self.samples.to_le_bytes(), [])
    }
}

/// Replaces a measurement with a value that the reader can check.
fn measure(number: u64) -> u64 {
    (number ^ number >> 7).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
