//! The IPC buffer: what a thread of the same process writes there before, during and after a call.

use abi::nr;
use conformance::check::{Case, Outcome, ensure, equal};
use hostile::Dice;
use hostile::hand::{Hands, Message, Move, MoveResult};
use hostile::neighbour::Neighbour;
use zx::Status;

pub fn cases() -> Vec<Case> {
    vec![
        crate::case("tamper.buffer.odd_contents", odd_contents),
        crate::case("tamper.buffer.another_threads", another_threads),
        crate::case("tamper.buffer.rewritten_while_waiting", rewritten_while_waiting),
        crate::case("tamper.buffer.is_not_memory", is_not_memory),
    ]
}

/// The address at which the buffers of a process's threads begin.
pub const BUFFERS: u64 = 0x7ff0_0000_0000;
/// Words in a buffer.
const WORDS: u64 = 128;
/// Message word of the fifth argument, counted from the buffer's start.
const FIFTH: u64 = 5;

/// Words that the server is most likely to misinterpret.
fn word(dice: &mut Dice, memory: u64) -> u64 {
    match dice.below(5) {
        0 => dice.pick(&[0, 1, 4095, 4096, 1 << 31, 1 << 47, 1 << 63, u64::MAX, 0xffff_8000_0000_0000]),
        1 => BUFFERS + dice.below(8192),
        2 => dice.word(),
        _ => memory + dice.below(4096),
    }
}

/// Calls of more than four arguments, with any values in the buffer.
fn odd_contents(_: &mut Neighbour) -> Outcome {
    let (hands, mut hand) = Hands::new()?;
    let (_vmo, memory) = hands.memory(2)?;
    let mut dice = Dice::new(4);
    for round in 0..20 {
        for at in 0..WORDS {
            // The whole buffer now and then, otherwise the words that the server reads.
            if round == 0 || (FIFTH..FIFTH + 4).contains(&at) {
                hand.store_buffer(at, word(&mut dice, memory))?;
            }
        }
        for number in [nr::OBJECT_GET_INFO, nr::CHANNEL_READ, nr::SOCKET_WRITE, nr::CHANNEL_CALL, nr::VMAR_MAP] {
            let words = [0, word(&mut dice, memory), word(&mut dice, memory), word(&mut dice, memory)];
            let status = hand.call(number, words)?;
            ensure(status != Status::OK, "a call without a handle succeeded")?;
        }
    }
    hand.is_well()?;
    hands.end()
}

/// A thread can write another thread's buffer: both belong to one process.
fn another_threads(_: &mut Neighbour) -> Outcome {
    let (hands, mut hand) = Hands::new()?;
    let mut other = hands.another()?;
    let (mut dice, mut reached) = (Dice::new(5), 0);
    for page in 0..4 {
        for at in (0..WORDS).step_by(3) {
            let address = BUFFERS + page * 4096 + at * 8;
            let value = word(&mut dice, address);
            let happened = other.make(Move::Store, |r| (r.rdi, r.rax) = (address, value))?;
            match happened {
                MoveResult::Done(_) => reached += 1,
                // At an address without a buffer nothing can be accessed, and the thread stays where it was.
                _ => other.fetch()?,
            }
            hand.is_well()?;
        }
    }
    ensure(reached > 0, "no buffer is where they are said to be")?;
    hands.end()
}

/// A call that waits completes with the arguments with which it was made.
fn rewritten_while_waiting(_: &mut Neighbour) -> Outcome {
    let (hands, mut hand) = Hands::new()?;
    let mut other = hands.another()?;
    let (vmo, memory) = hands.memory(2)?;
    // The process has no handles except those that it creates: it holds both ends of the channel.
    let word_at = |at: u64| {
        let mut bytes = [0; 4];
        vmo.read(&mut bytes, at).map(|()| u32::from_le_bytes(bytes))
    };
    for round in 0..6 {
        equal(hand.call(nr::CHANNEL_CREATE, [0, memory, memory + 4, 0])?, Status::OK)?;
        let (near, far) = (word_at(0)?, word_at(4)?);
        // A call: its message is four bytes at 0x80, the answer goes to 0x100, the sizes go to 0x180 and 0x184.
        let arguments = abi::zx_channel_call_args_t {
            wr_bytes: memory as usize + 0x80,
            rd_bytes: memory as usize + 0x100,
            wr_num_bytes: 4,
            rd_num_bytes: 16,
            ..Default::default()
        };
        vmo.write(&bytes_of(&arguments), 0x200)?;
        vmo.write(&[0; 0x180], 0x80)?;
        hand.store_buffer(FIFTH, memory + 0x180)?;
        hand.store_buffer(FIFTH + 1, memory + 0x184)?;
        let words = [near.into(), 0, i64::MAX as u64, memory + 0x200];
        hand.send_in(&Message::call(nr::CHANNEL_CALL, words))?;
        ensure(matches!(hand.finish()?, MoveResult::Kept), "a call has not waited for its answer")?;
        // The buffer of its thread is the first one.
        for at in 0..WORDS {
            let value = if round % 2 == 0 { 0 } else { memory + 0x1000 };
            other.make(Move::Store, |r| (r.rdi, r.rax) = (BUFFERS + at * 8, value))?;
        }
        // The answer: the transaction number that the call gave its message, then four bytes.
        let read = [far.into(), 0, memory + 0x300, 0];
        for (place, value) in [16, 0, 0, 0].into_iter().enumerate() {
            other.store_buffer(FIFTH + place as u64, value)?;
        }
        equal(other.call(nr::CHANNEL_READ, read)?, Status::OK)?;
        other.store_buffer(FIFTH, 0)?;
        other.store_buffer(FIFTH + 1, 0)?;
        equal(other.call(nr::CHANNEL_WRITE, [far.into(), 0, memory + 0x300, 8])?, Status::OK)?;
        let registers = hand.finish()?.done()?;
        equal(Status(registers.r10 as i32), Status::OK)?;
        equal((word_at(0x180)?, word_at(0x184)?), (8, 0))?;
        for handle in [near, far] {
            equal(hand.call(nr::HANDLE_CLOSE, [handle.into(), 0, 0, 0])?, Status::OK)?;
        }
    }
    hands.end()
}

/// A structure's bytes.
fn bytes_of(arguments: &abi::zx_channel_call_args_t) -> Vec<u8> {
    let a = arguments;
    let addresses = [a.wr_bytes, a.wr_handles, a.rd_bytes, a.rd_handles];
    let counts = [a.wr_num_bytes, a.wr_num_handles, a.rd_num_bytes, a.rd_num_handles];
    let addresses = addresses.into_iter().flat_map(usize::to_le_bytes);
    addresses.chain(counts.into_iter().flat_map(u32::to_le_bytes)).collect()
}

/// The buffers are no mapping of the program: no call reads, writes, moves or unmaps them.
fn is_not_memory(_: &mut Neighbour) -> Outcome {
    let (hands, mut hand) = Hands::new()?;
    let mut bytes = [0; 8];
    let process = &hands.tiny.process;
    ensure(process.read_memory(BUFFERS as usize, &mut bytes).is_err(), "a buffer can be read as memory")?;
    ensure(process.write_memory(BUFFERS as usize, &bytes).is_err(), "a buffer can be written as memory")?;
    for length in [4096, 1 << 20] {
        let root = &hands.tiny.vmar;
        // Nothing of the program is mapped there, so nothing is unmapped.
        hand.store_buffer(FIFTH, 77)?;
        root.unmap(BUFFERS as usize, length)?;
        equal(hand.load_buffer(FIFTH)?, 77)?;
        hand.is_well()?;
        ensure(root.protect(abi::ZX_VM_PERM_READ, BUFFERS as usize, length).is_err(), "a buffer can be protected")?;
    }
    equal(hand.call(nr::EVENT_CREATE, [0, BUFFERS, 0, 0])?, Status::INVALID_ARGS)?;
    hand.is_well()?;
    hands.end()
}
