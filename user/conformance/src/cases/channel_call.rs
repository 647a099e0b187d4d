//! `zx_channel_call`: a message and the wait for its answer.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use abi::Status;
use zx::{AsHandleRef, Channel, Event, HandleRef, MessageSize, MonotonicInstant, Signals};

use super::{cases, late, soon};
use crate::check::{Failure, Outcome, ensure, equal, fails};

cases! {
    "channel.call.answered" => answered,
    "channel.call.handles_both_ways" => handles_both_ways,
    "channel.call.own_answers" => own_answers,
    "channel.call.other_messages_stay" => other_messages_stay,
    "channel.call.short_message" => short_message,
    "channel.call.times_out" => times_out,
    "channel.call.peer_closed_while_waiting" => peer_closed_while_waiting,
    "channel.call.answer_too_long" => answer_too_long,
    "channel.call.consumes_on_error" => consumes_on_error,
    "channel.call.transaction_numbers" => transaction_numbers,
}

/// Answers `count` messages in a thread with what `answer` makes of their bytes.
fn server(
    channel: Channel,
    count: usize,
    answer: impl Fn(&[u8]) -> Vec<u8> + Send + 'static,
) -> JoinHandle<zx::Result<Channel>> {
    thread::spawn(move || {
        for _ in 0..count {
            let mut bytes = [0; 256];
            let mut handles = [None];
            let size = channel.read_wait(&mut bytes, &mut handles, late())?;
            channel.write_handles(&answer(&bytes[..size.bytes]), handles.into_iter().flatten())?;
        }
        Ok(channel)
    })
}

fn join(server: JoinHandle<zx::Result<Channel>>) -> Result<Channel, Failure> {
    Ok(server.join().map_err(|_| "the server panicked")??)
}

fn backwards(bytes: &[u8]) -> Vec<u8> {
    let (transaction, text) = bytes.split_at(4);
    transaction.iter().chain(text.iter().rev()).copied().collect()
}

fn answered() -> Outcome {
    let (client, end) = Channel::create()?;
    let server = server(end, 1, backwards);
    let mut bytes = [0; 16];
    let size = client.call(late(), b"\0\0\0\0abc", [], &mut bytes, &mut [])?;
    join(server)?;
    equal(size, MessageSize { bytes: 7, handles: 0 })?;
    equal(&bytes[4..7], b"cba")
}

fn handles_both_ways() -> Outcome {
    let (client, end) = Channel::create()?;
    let server = server(end, 1, backwards);
    let event = Event::create()?;
    let koid = zx::Info::koid(&event)?;
    let mut handles = [None];
    let size = client.call(late(), b"\0\0\0\0", [event.into_handle()], &mut [0; 4], &mut handles)?;
    join(server)?;
    equal(size.handles, 1)?;
    equal(zx::Info::koid(&handles[0].take().ok_or("there is no handle")?)?, koid)
}

fn own_answers() -> Outcome {
    // The server collects all questions before it answers, and answers in the wrong order.
    let (client, end) = Channel::create()?;
    let server = thread::spawn(move || {
        let mut questions = Vec::new();
        for _ in 0..4 {
            let mut bytes = [0; 5];
            end.read_wait(&mut bytes, &mut [], late())?;
            questions.push(bytes);
        }
        for question in questions.iter().rev() {
            end.write(question, [])?;
        }
        Ok(end)
    });
    let client = Arc::new(client);
    let ask = |number: u8| {
        let client = Arc::clone(&client);
        thread::spawn(move || {
            let mut bytes = [0; 5];
            client.call(late(), &[0, 0, 0, 0, number], [], &mut bytes, &mut [])?;
            Ok::<_, Status>((number, bytes[4]))
        })
    };
    let callers: Vec<_> = (0..4_u8).map(ask).collect();
    for caller in callers {
        let (asked, answered) = caller.join().map_err(|_| "a caller panicked")??;
        equal(answered, asked)?;
    }
    join(server)?;
    Ok(())
}

fn other_messages_stay() -> Outcome {
    let (client, end) = Channel::create()?;
    end.write(b"\xff\xff\xff\xffnews", [])?;
    let server = server(end, 1, <[u8]>::to_vec);
    client.call(late(), b"\0\0\0\0ask", [], &mut [0; 16], &mut [])?;
    join(server)?;
    let mut bytes = [0; 16];
    let size = client.read(&mut bytes, &mut []).map_err(|(status, _)| status)?;
    equal(&bytes[4..size.bytes], b"news")
}

fn short_message() -> Outcome {
    let (client, _end) = Channel::create()?;
    fails(client.call(soon(10), b"abc", [], &mut [0; 4], &mut []), Status::INVALID_ARGS)
}

fn times_out() -> Outcome {
    let (client, end) = Channel::create()?;
    fails(client.call(soon(20), b"\0\0\0\0", [], &mut [0; 4], &mut []), Status::TIMED_OUT)?;
    // The question arrived, and a late answer is an ordinary message.
    let mut bytes = [0; 4];
    end.read(&mut bytes, &mut []).map_err(|(status, _)| status)?;
    end.write(&bytes, [])?;
    ensure(client.signals()?.contains(Signals::READABLE), "the late answer is lost")
}

fn peer_closed_while_waiting() -> Outcome {
    let (client, end) = Channel::create()?;
    let closer = thread::spawn(move || {
        let _ = end.wait_one(Signals::READABLE, late());
        drop(end);
    });
    let result = client.call(late(), b"\0\0\0\0", [], &mut [0; 4], &mut []);
    closer.join().map_err(|_| "the closer panicked")?;
    fails(result, Status::PEER_CLOSED)
}

fn answer_too_long() -> Outcome {
    let (client, end) = Channel::create()?;
    let server = server(end, 1, |bytes| [bytes, b"and much more"].concat());
    let result = client.call(late(), b"\0\0\0\0", [], &mut [0; 4], &mut []);
    join(server)?;
    fails(result, Status::BUFFER_TOO_SMALL)
}

fn consumes_on_error() -> Outcome {
    let (client, end) = Channel::create()?;
    drop(end);
    let event = Event::create()?.into_handle();
    let raw = event.raw_handle();
    fails(client.call(MonotonicInstant::INFINITE, b"\0\0\0\0", [event], &mut [0; 4], &mut []), Status::PEER_CLOSED)?;
    fails(HandleRef::from_raw(raw).check_valid(), Status::BAD_HANDLE)
}

fn transaction_numbers() -> Outcome {
    let (client, end) = Channel::create()?;
    let mut numbers = Vec::new();
    for _ in 0..8 {
        fails(client.call(MonotonicInstant::ZERO, b"\0\0\0\0", [], &mut [0; 4], &mut []), Status::TIMED_OUT)?;
        let mut bytes = [0; 4];
        end.read(&mut bytes, &mut []).map_err(|(status, _)| status)?;
        numbers.push(u32::from_le_bytes(bytes));
    }
    // The numbers of the system have the top bit; those below it are for programs' own use.
    ensure(numbers.iter().all(|number| number >> 31 == 1), "a number lies in the programs' half")?;
    let count = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    equal(numbers.len(), count)
}
