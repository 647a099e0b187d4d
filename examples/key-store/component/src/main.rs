//! A key store: it creates a key when it starts, and signs messages with it. No other program can read the key: it is
//! in memory to which no instance has a capability.
#![no_std]
#![no_main]

use component::{Own, log};
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

component::start!(main);

/// Request: sign the message in the words after the first one, which contains the message's length in bytes. Answer:
/// this label, and HMAC-SHA-256 in four words.
const SIGN: u64 = 1;
/// Request: panic, to show what follows.
const PANIC: u64 = 2;
/// Answer to an invalid request.
const REFUSED: u64 = 0;

fn main(own: Own) -> ! {
    let key = make_key(own.life);
    #[cfg(feature = "known-key")]
    own.memory.chunks_exact_mut(key.len()).for_each(|place| place.copy_from_slice(&key));
    log!("life {}: there is a key", own.life);
    let mut signed: u64 = 0;
    let mut request = own.endpoint.receive();
    loop {
        request = match (request.label(), request.words().split_first()) {
            (SIGN, Some((len, words))) if len.div_ceil(8) == words.len() as u64 => {
                signed += 1;
                let tag = sign(&key, *len as usize, words);
                request.answer(SIGN, &tag)
            }
            (PANIC, _) => panic!("asked to by {:?}, after {signed} signatures", request.from()),
            _ => request.answer(REFUSED, &[]),
        };
    }
}

/// HMAC-SHA-256 of the first `len` bytes of the words, which contain at least that many.
fn sign(key: &[u8; 32], len: usize, words: &[u64]) -> [u64; 4] {
    let mut mac = <Hmac<Sha256>>::new_from_slice(key).expect("keys of any length will do");
    let mut left = len;
    for word in words {
        mac.update(&word.to_le_bytes()[..left.min(8)]);
        left = left.saturating_sub(8);
    }
    let tag = mac.finalize().into_bytes();
    let (words, _) = tag.as_chunks();
    core::array::from_fn(|i| u64::from_le_bytes(words[i]))
}

/// A key from the jitter of the processor's counter. This is an example only: a real component needs a better source.
#[cfg(not(feature = "known-key"))]
fn make_key(_life: u64) -> [u8; 32] {
    let mut hash = Sha256::new();
    for _ in 0..4096 {
        hash.update(component::counter().to_le_bytes());
    }
    hash.finalize().into()
}

/// A key that the test which searches for it knows (`tests/hostile/src/bin/key`), different in each life.
#[cfg(feature = "known-key")]
fn make_key(life: u64) -> [u8; 32] {
    Sha256::new().chain_update(b"a key that is looked for").chain_update(life.to_le_bytes()).finalize().into()
}
