//! A key store: it makes a key when it starts, and signs messages with it. Nobody else can read the key: it lies in memory
//! of which no instance has a capability.
#![no_std]
#![no_main]

use component::{Own, log};
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

component::start!(main);

/// Request: sign the message in the words behind the first one, which holds its length in bytes. Answer: this label, and
/// HMAC-SHA-256 in four words.
const SIGN: u64 = 1;
/// Request: panic, for those who want to see what follows.
const PANIC: u64 = 2;
/// Answer to what is no request.
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

/// HMAC-SHA-256 of the first `len` bytes of the words, which hold that many.
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

/// A key out of the jitter of the processor's counter. An example's: a component that means it wants a better source.
#[cfg(not(feature = "known-key"))]
fn make_key(_life: u64) -> [u8; 32] {
    let mut hash = Sha256::new();
    for _ in 0..4096 {
        hash.update(component::counter().to_le_bytes());
    }
    hash.finalize().into()
}

/// A key that is no secret of the one who looks for it (`tests/hostile/src/bin/key`), another in each life.
#[cfg(feature = "known-key")]
fn make_key(life: u64) -> [u8; 32] {
    Sha256::new().chain_update(b"a key that is looked for").chain_update(life.to_le_bytes()).finalize().into()
}
