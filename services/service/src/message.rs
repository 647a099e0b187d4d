//! The messages between `init` and a service on the service's first channel.
//!
//! A message is a header of 16 bytes and, with a client, the rule for its program and the words after the service's
//! name. The client's ends are the message's handles. The words are the client's; the rule is not.
//!
//! 1. `init` sends a client ([`ToService::Client`]); the service answers when it has taken it ([`ToInit::Taken`]). So
//!    `init` knows how many clients of a program the service has not taken yet, and limits their number.
//! 2. `init` sends the end of a program of which the service had clients ([`ToService::Ended`]).
//! 3. From time to time `init` asks for a sign of life ([`ToService::Ping`]), and the service answers
//!    ([`ToInit::Alive`]).

use crate::Program;

/// Size of a header in bytes.
pub const HEAD: usize = 16;
/// Maximum size of the words in bytes.
pub const WORDS: usize = 256;
/// Maximum size of a rule in bytes.
pub const RULE: usize = 2048;
/// Prefix of the names by which a service connects again to the services that it uses: `uses:0` is the first one.
pub const USES: &str = "uses:";

const CLIENT: u8 = 1;
const ENDED: u8 = 2;
const PING: u8 = 3;
const TAKEN: u8 = 4;
const ALIVE: u8 = 5;

/// From `init` to a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToService<'a> {
    /// A client; its ends are the message's handles.
    Client {
        /// The client's program.
        program: Program,
        /// The description's rule for the program. Empty: there is none.
        rule: &'a [u8],
        /// The words after the service's name.
        words: &'a [u8],
    },
    /// A program and all that it started has ended.
    Ended(Program),
    /// Asks for a sign of life.
    Ping,
}

/// From a service to `init`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToInit {
    /// A client of this program was taken.
    Taken(Program),
    /// The sign of life.
    Alive,
}

fn head(kind: u8, number: u64) -> [u8; HEAD] {
    head_with_rule(kind, number, 0)
}

fn head_with_rule(kind: u8, number: u64, rule: u16) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[0] = kind;
    head[2..4].copy_from_slice(&rule.to_le_bytes());
    head[8..].copy_from_slice(&number.to_le_bytes());
    head
}

/// Kind, number, the rule, and the bytes after it.
fn split(bytes: &[u8]) -> Option<(u8, u64, &[u8], &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<HEAD>()?;
    let (_, number) = head.split_last_chunk::<8>()?;
    let rule = usize::from(u16::from_le_bytes([head[2], head[3]]));
    let (rule, rest) = rest.split_at_checked(rule).filter(|_| rule <= RULE)?;
    Some((head[0], u64::from_le_bytes(*number), rule, rest))
}

impl<'a> ToService<'a> {
    /// Encodes it for the channel.
    pub fn to_bytes(self) -> Vec<u8> {
        match self {
            ToService::Client { program, rule, words } => {
                // A rule that is too long becomes a message that is not valid, at which the service ends, and not a client
                // without a rule. `init` has none: the description's parts are shorter.
                let len = u16::try_from(rule.len()).unwrap_or(u16::MAX);
                [&head_with_rule(CLIENT, program.0, len)[..], rule, words].concat()
            }
            ToService::Ended(program) => head(ENDED, program.0).to_vec(),
            ToService::Ping => head(PING, 0).to_vec(),
        }
    }

    /// Decodes a message; `None` if it is invalid.
    pub fn from_bytes(bytes: &'a [u8]) -> Option<ToService<'a>> {
        match split(bytes)? {
            (CLIENT, program, rule, words) => Some(ToService::Client { program: Program(program), rule, words }),
            (ENDED, program, [], []) => Some(ToService::Ended(Program(program))),
            (PING, _, [], []) => Some(ToService::Ping),
            _ => None,
        }
    }
}

impl ToInit {
    /// Encodes it for the channel.
    pub fn to_bytes(self) -> [u8; HEAD] {
        match self {
            ToInit::Taken(program) => head(TAKEN, program.0),
            ToInit::Alive => head(ALIVE, 0),
        }
    }

    /// Decodes a message; `None` if it is invalid.
    pub fn from_bytes(bytes: &[u8]) -> Option<ToInit> {
        match split(bytes)? {
            (TAKEN, program, [], []) => Some(ToInit::Taken(Program(program))),
            (ALIVE, _, [], []) => Some(ToInit::Alive),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn written_data_is_read(
            program in any::<u64>(),
            rule in proptest::collection::vec(any::<u8>(), 0..RULE),
            words in proptest::collection::vec(any::<u8>(), 0..WORDS),
        ) {
            let program = Program(program);
            let client = ToService::Client { program, rule: &rule, words: &words };
            for message in [client, ToService::Ended(program), ToService::Ping] {
                let bytes = message.to_bytes();
                prop_assert_eq!(ToService::from_bytes(&bytes), Some(message));
            }
            for message in [ToInit::Taken(program), ToInit::Alive] {
                prop_assert_eq!(ToInit::from_bytes(&message.to_bytes()), Some(message));
            }
        }

        #[test]
        fn a_rule_that_is_too_long_is_none(more in 1..70_000_usize) {
            let rule = vec![1; RULE + more];
            let message = ToService::Client { program: Program(1), rule: &rule, words: &[] }.to_bytes();
            prop_assert_eq!(ToService::from_bytes(&message), None);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = ToService::from_bytes(&bytes);
            let _ = ToInit::from_bytes(&bytes);
        }
    }
}
