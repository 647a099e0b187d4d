//! Lets the key store sign messages.
//!
//! `sign TEXT` signs once. `sign TEXT COUNT` signs that many times. If the store ends and is restarted with another
//! key, it continues; it prints how often that happened.

#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use abi::{HAFNON_ENDPOINT_CALL, Status};
use zx::{Endpoint, Resource, Slot, Words};

/// The store's request to sign: the length in bytes, then the bytes.
const SIGN: u64 = 1;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.as_slice() {
        [text] => run(text, 1),
        [text, count] => count.parse().map_err(|_| format!("{count} is no number")).and_then(|count| run(text, count)),
        _ => Err("usage: sign TEXT [COUNT]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("sign: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(text: &str, count: u64) -> Result<(), String> {
    // The system description gives this handle to the programs that it names.
    let resource = zx::startup::take(0xf0, 2).map(Resource::from).ok_or("the description does not name this program")?;
    let (mut keys, mut signed) = (0, 0);
    let mut last = None;
    while signed < count {
        let (_endpoint, store) = store(&resource)?;
        keys += 1;
        while signed < count {
            match sign(&store, text) {
                Ok(tag) => {
                    signed += 1;
                    last = Some(tag);
                }
                Err(Status::PEER_CLOSED) => break,
                Err(status) => return Err(format!("no signature: {status}")),
            }
        }
    }
    let tag: String = last.iter().flatten().flat_map(|word| word.to_le_bytes()).map(|b| format!("{b:02x}")).collect();
    println!("{tag}");
    if count > 1 {
        println!("{signed} signatures, {keys} keys");
    }
    Ok(())
}

/// Finds the store, and waits for it while it is being rebuilt.
fn store(resource: &Resource) -> Result<(Endpoint, Slot), String> {
    let this = zx::startup::thread_self();
    loop {
        let found = Endpoint::find(resource, "signatures")
            .and_then(|endpoint| endpoint.mint_here(&this, HAFNON_ENDPOINT_CALL, 7).map(|slot| (endpoint, slot)));
        match found {
            Ok(found) => return Ok(found),
            Err(Status::UNAVAILABLE | Status::PEER_CLOSED) => std::thread::sleep(Duration::from_millis(1)),
            Err(status) => return Err(format!("there is no key store: {status}")),
        }
    }
}

fn sign(store: &Slot, text: &str) -> Result<[u64; 4], Status> {
    let mut words = vec![text.len() as u64];
    words.extend(text.as_bytes().chunks(8).map(|part| {
        let mut bytes = [0; 8];
        bytes[..part.len()].copy_from_slice(part);
        u64::from_le_bytes(bytes)
    }));
    if words.len() > Words::MOST {
        return Err(Status::OUT_OF_RANGE);
    }
    let mut words = Words::new(&words);
    match (store.call(SIGN, &mut words)?, words.as_slice().try_into()) {
        (SIGN, Ok(tag)) => Ok(tag),
        _ => Err(Status::INVALID_ARGS),
    }
}
