//! The key store, as its clients see it, and its key.

use abi::HAFNON_ENDPOINT_CALL;
use conformance::check::Failure;
use sha2::{Digest, Sha256};
use zx::{Endpoint, MonotonicInstant, Resource, Slot, Status, Unowned, Words};

/// The request to sign: the length in bytes, then the bytes.
pub const SIGN: u64 = 1;
/// The request to end by a panic.
pub const PANIC: u64 = 2;
/// More lives than the system description gives it.
const LIVES: u64 = 40;
/// The text that is signed to identify the key.
const TEXT: [u8; 8] = *b"whose is";

/// The root resource, which this program gets in the machine that is booted for tests.
pub fn root() -> Result<Unowned<'static, Resource>, Failure> {
    zx::startup::resource().ok_or_else(|| "this program was not given the root resource".into())
}

/// The key of a life, as `examples/key-store/component` has it with the feature `known-key`.
fn key(life: u64) -> [u8; 32] {
    Sha256::new().chain_update(b"a key that is looked for").chain_update(life.to_le_bytes()).finalize().into()
}

/// HMAC-SHA-256.
fn hmac(key: &[u8; 32], text: &[u8]) -> [u8; 32] {
    let padded = |pad: u8| {
        let mut block = [pad; 64];
        block.iter_mut().zip(key).for_each(|(place, byte)| *place ^= byte);
        block
    };
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().into()
}

/// The store in one of its lives.
pub struct Store {
    /// Its endpoint.
    pub endpoint: Endpoint,
    /// The number of its life.
    pub life: u64,
    slot: Slot,
}

impl Store {
    /// Finds the store, and waits while it is being started again. The key that it signs with must be a known one.
    pub fn find() -> Result<Store, Failure> {
        let limit = MonotonicInstant::after(zx::Duration::from_seconds(20));
        loop {
            match Store::now() {
                Err(Status::UNAVAILABLE | Status::PEER_CLOSED) if MonotonicInstant::now() < limit => {
                    zx::nanosleep(MonotonicInstant::after(zx::Duration::from_millis(1)))?;
                }
                found => return Ok(found?.ok_or("the store signs with a key that is not the one looked for")?),
            }
        }
    }

    fn now() -> zx::Result<Option<Store>> {
        let root = root().map_err(|_| Status::ACCESS_DENIED)?;
        let endpoint = Endpoint::find(&root, "signatures")?;
        let slot = endpoint.mint_here(&zx::startup::thread_self(), HAFNON_ENDPOINT_CALL, 7)?;
        let mut words = Words::new(&[TEXT.len() as u64, u64::from_le_bytes(TEXT)]);
        if slot.call(SIGN, &mut words)? != SIGN {
            return Ok(None);
        }
        let tag: Vec<u8> = words.as_slice().iter().flat_map(|word| word.to_le_bytes()).collect();
        let life = (1..LIVES).find(|life| hmac(&key(*life), &TEXT)[..] == tag[..]);
        Ok(life.map(|life| Store { endpoint, life, slot }))
    }

    /// Its key.
    pub fn key(&self) -> [u8; 32] {
        key(self.life)
    }

    /// Ends the store; returns its next life.
    pub fn end(&self) -> Result<Store, Failure> {
        match self.slot.call(PANIC, &mut Words::new(&[])) {
            Err(Status::PEER_CLOSED) => {}
            other => return Err(format!("the store was to end: {other:?}").into()),
        }
        let next = Store::find()?;
        if next.life == self.life + 1 {
            Ok(next)
        } else {
            Err(format!("life {} after {}", next.life, self.life).into())
        }
    }
}
