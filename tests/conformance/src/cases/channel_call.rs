//! `zx_channel_call`: sends a message and waits for its answer.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use abi::{Rights, Status, zx_channel_call_args_t, zx_handle_disposition_t, zx_handle_info_t};
use zx::{AsHandleRef, Channel, Event, Handle, HandleRef, MessageSize, MonotonicInstant, Signals};

use super::asleep::until;
use super::{cases, late, raw, soon};
use crate::caught_exception::against_policy;
use crate::check::{Failure, Outcome, ensure, equal, fails, gives};
use crate::test_process::{self, TestProcess};

cases! {
    "channel.call.answered" => answered,
    "channel.call.handles_both_ways" => handles_both_ways,
    "channel.call.handles_fit" => handles_fit,
    "channel.call.bytes_and_handles_fit" => bytes_and_handles_fit,
    "channel.call.own_answers" => own_answers,
    "channel.call.other_messages_stay" => other_messages_stay,
    "channel.call.short_message" => short_message,
    "channel.call.times_out" => times_out,
    "channel.call.peer_closed_while_waiting" => peer_closed_while_waiting,
    "channel.call.answer_too_long" => answer_too_long,
    "channel.call.consumes_on_error" => consumes_on_error,
    "channel.call.transaction_numbers" => transaction_numbers,
    "channel.call.pending_numbers_differ" => pending_numbers_differ,
    "channel.call.consumes_handles" => consumes_handles,
    "channel.call.null_actual_bytes" => null_actual_bytes,
    "channel.call.null_actual_handles" => null_actual_handles,
    "channel.call.answer_too_many_handles" => answer_too_many_handles,
    "channel.call.bad_answer_buffer" => bad_answer_buffer,
    "channel.call.bad_arguments" => bad_arguments,
    "channel.call.rights" => rights,
    "channel.call.many_callers" => many_callers,
    "channel.call.answer_when_full" => answer_when_full,
    "channel.call.killed_caller" => killed_caller,
    "channel.call.closed_while_waiting" => closed_while_waiting,
    "channel.call.transferred_while_waiting" => transferred_while_waiting,
    "channel.call.unasked_answer_stays" => unasked_answer_stays,
    "channel.call_etc.both_ways" => etc_both_ways,
    "channel.call_etc.results_reported" => etc_results_reported,
}

/// Answers `count` messages in a thread; `answer` turns a message's bytes into those of its answer.
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

/// A call whose arguments can all be made wrong.
struct Call {
    bytes: Vec<u8>,
    handles: Vec<u32>,
    reply: Vec<u8>,
    reply_handles: Vec<u32>,
    actual_bytes: u32,
    actual_handles: u32,
    options: u32,
}

impl Call {
    fn new(bytes: &[u8], room: usize, handle_room: usize) -> Self {
        let (reply, reply_handles) = (vec![0; room], vec![0; handle_room]);
        let (bytes, handles) = (bytes.to_vec(), Vec::new());
        Self { bytes, handles, reply, reply_handles, actual_bytes: 0, actual_handles: 0, options: 0 }
    }

    fn args(&mut self) -> zx_channel_call_args_t {
        zx_channel_call_args_t {
            wr_bytes: self.bytes.as_ptr() as usize,
            wr_handles: self.handles.as_ptr() as usize,
            rd_bytes: self.reply.as_mut_ptr() as usize,
            rd_handles: self.reply_handles.as_mut_ptr() as usize,
            wr_num_bytes: self.bytes.len() as u32,
            wr_num_handles: self.handles.len() as u32,
            rd_num_bytes: self.reply.len() as u32,
            rd_num_handles: self.reply_handles.len() as u32,
        }
    }

    fn make(&mut self, channel: &Channel, deadline: MonotonicInstant) -> Status {
        let args = self.args();
        let actual = (&raw mut self.actual_bytes, &raw mut self.actual_handles);
        raw!(zx_channel_call, channel.raw_handle(), self.options, deadline.0, &raw const args, actual.0, actual.1)
    }
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

/// A call with these bytes behind its number and `handles` handles. The answer has the bytes `answer` and `more`
/// handles.
fn fits(bytes: &[u8], handles: usize, answer: &'static [u8], more: usize) -> Outcome {
    let (client, end) = Channel::create()?;
    let server = thread::spawn(move || {
        let (mut bytes, mut handles) = ([0; 64], [const { None }; 8]);
        let size = end.read_wait(&mut bytes, &mut handles, late())?;
        let koids = handles.iter().flatten().map(zx::Info::koid).collect::<zx::Result<Vec<_>>>()?;
        let events = (0..more).map(|_| Event::create().map(Event::into_handle)).collect::<zx::Result<Vec<_>>>()?;
        let given = events.iter().map(zx::Info::koid).collect::<zx::Result<Vec<_>>>()?;
        end.write_handles(&[&bytes[..4], answer].concat(), events)?;
        Ok::<_, Status>((bytes[4..size.bytes].to_vec(), koids, given))
    });
    let events = (0..handles).map(|_| Event::create()).collect::<zx::Result<Vec<_>>>()?;
    let koids = events.iter().map(zx::Info::koid).collect::<zx::Result<Vec<_>>>()?;
    // The buffers have exactly the size of the answer.
    let mut call = Call::new(&[&[0; 4][..], bytes].concat(), 4 + answer.len(), more);
    call.handles = events.into_iter().map(|event| event.into_handle().into_raw()).collect();
    gives(call.make(&client, late()), Status::OK)?;
    let (asked, got, given) = server.join().map_err(|_| "the server panicked")??;
    equal((asked, got), (bytes.to_vec(), koids))?;
    equal((call.actual_bytes as usize, call.actual_handles as usize), (4 + answer.len(), more))?;
    equal(&call.reply[4..], answer)?;
    let back = call.reply_handles.iter().map(|&raw| Handle::from_raw(raw).ok_or("a handle is null"));
    let back = back.collect::<Result<Vec<_>, _>>()?;
    equal(back.iter().map(zx::Info::koid).collect::<zx::Result<Vec<_>>>()?, given)
}

fn handles_fit() -> Outcome {
    fits(b"", 1, b"", 2)?;
    fits(b"", 3, b"", 8)
}

fn bytes_and_handles_fit() -> Outcome {
    fits(b"ab", 1, b"cd", 2)?;
    fits(b"a", 2, b"and a longer answer", 1)
}

fn own_answers() -> Outcome {
    // The server collects all messages before it answers, and answers in a different order.
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
    // The message arrived, and a late answer is an ordinary message.
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
    let (local, remote) = Channel::create()?;
    let server = server(end, 1, |bytes| [bytes, b"and much more"].concat());
    let mut call = Call::new(b"\0\0\0\0", 4, 1);
    call.handles = vec![remote.into_handle().into_raw()];
    gives(call.make(&client, late()), Status::BUFFER_TOO_SMALL)?;
    // The caller learns the sizes. The answer is lost with its handle.
    equal((call.actual_bytes, call.actual_handles), (17, 1))?;
    join(server)?;
    ensure(local.signals()?.contains(Signals::PEER_CLOSED), "the answer's handle lives on")?;
    ensure(!client.signals()?.contains(Signals::READABLE), "the answer stayed")
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
    // Numbers of the system have the top bit set; programs may use the others.
    ensure(numbers.iter().all(|number| number >> 31 == 1), "a number lies in the programs' half")?;
    let count = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    equal(numbers.len(), count)
}

fn pending_numbers_differ() -> Outcome {
    const CALLERS: usize = 20;
    let (client, end) = Channel::create()?;
    let client = Arc::new(client);
    let call = |client: Arc<Channel>| move || client.call(late(), b"\0\0\0\0", [], &mut [0; 4], &mut []);
    let callers: Vec<_> = (0..CALLERS).map(|_| thread::spawn(call(Arc::clone(&client)))).collect();
    let mut numbers = Vec::new();
    for _ in 0..CALLERS {
        let mut bytes = [0; 4];
        end.read_wait(&mut bytes, &mut [], late())?;
        numbers.push(bytes);
    }
    let mut different = numbers.clone();
    different.sort_unstable();
    different.dedup();
    for number in &numbers {
        end.write(number, [])?;
    }
    for caller in callers {
        caller.join().map_err(|_| "a caller panicked")??;
    }
    equal(different.len(), CALLERS)
}

fn consumes_handles() -> Outcome {
    let (client, end) = Channel::create()?;
    let server = server(end, 1, <[u8]>::to_vec);
    let mut call = Call::new(b"\0\0\0\0", 4, 1);
    call.handles = vec![Event::create()?.into_handle().into_raw()];
    gives(call.make(&client, late()), Status::OK)?;
    join(server)?;
    fails(HandleRef::from_raw(call.handles[0]).check_valid(), Status::BAD_HANDLE)?;
    let back = Handle::from_raw(call.reply_handles[0]).ok_or("no handle came back")?;
    back.check_valid().map_err(Into::into)
}

/// A call with an invalid address for one of the sizes. The server notices it when the answer arrives, and the answer
/// is lost.
fn nowhere(bytes: bool, handles: bool) -> Outcome {
    for bad in [0_u64, 0x1000, 0xffff_8000_0000_0000] {
        let (client, end) = Channel::create()?;
        let (local, remote) = Channel::create()?;
        let server = server(end, 1, backwards);
        let mut call = Call::new(b"\0\0\0\0abc", 64, 1);
        call.handles = vec![remote.into_handle().into_raw()];
        let args = call.args();
        let (mut actual_bytes, mut actual_handles) = (0_u32, 0_u32);
        let to_bytes = if bytes { bad } else { &raw mut actual_bytes as u64 };
        let to_handles = if handles { bad } else { &raw mut actual_handles as u64 };
        let status = raw!(zx_channel_call, client.raw_handle(), 0, late().0, &raw const args, to_bytes, to_handles);
        gives(status, Status::INVALID_ARGS)?;
        fails(HandleRef::from_raw(call.handles[0]).check_valid(), Status::BAD_HANDLE)?;
        join(server)?;
        ensure(local.signals()?.contains(Signals::PEER_CLOSED), "the answer's handle lives on")?;
        ensure(!client.signals()?.contains(Signals::READABLE), "the answer stayed")?;
        equal((call.reply[0], call.reply_handles[0]), (0, 0))?;
    }
    Ok(())
}

fn null_actual_bytes() -> Outcome {
    nowhere(true, false)
}

fn null_actual_handles() -> Outcome {
    nowhere(false, true)
}

fn answer_too_many_handles() -> Outcome {
    let (client, end) = Channel::create()?;
    let server = server(end, 1, <[u8]>::to_vec);
    let mut call = Call::new(b"\0\0\0\0", 64, 0);
    call.handles = vec![Event::create()?.into_handle().into_raw()];
    gives(call.make(&client, late()), Status::BUFFER_TOO_SMALL)?;
    join(server)?;
    equal((call.actual_bytes, call.actual_handles), (4, 1))
}

fn bad_answer_buffer() -> Outcome {
    // The server notices the invalid buffer when the answer arrives; the answer is lost, like one that does not fit.
    for (bytes, handles) in [(true, false), (false, true)] {
        let (client, end) = Channel::create()?;
        let (local, remote) = Channel::create()?;
        let server = server(end, 1, <[u8]>::to_vec);
        let mut call = Call::new(b"\0\0\0\0", 64, 1);
        call.handles = vec![remote.into_handle().into_raw()];
        let mut args = call.args();
        if bytes {
            args.rd_bytes = 0x1000;
        }
        if handles {
            args.rd_handles = 0x1000;
        }
        let actual = (&raw mut call.actual_bytes, &raw mut call.actual_handles);
        let status = raw!(zx_channel_call, client.raw_handle(), 0, late().0, &raw const args, actual.0, actual.1);
        gives(status, Status::INVALID_ARGS)?;
        join(server)?;
        ensure(local.signals()?.contains(Signals::PEER_CLOSED), "the answer's handle lives on")?;
    }
    Ok(())
}

fn bad_arguments() -> Outcome {
    let (client, end) = Channel::create()?;
    let mut call = Call::new(b"\0\0\0\0", 4, 0);
    call.options = 1;
    gives(call.make(&client, late()), Status::INVALID_ARGS)?;
    let (mut bytes, mut handles) = (0_u32, 0_u32);
    for bad in [0_u64, 0x1000] {
        let status = raw!(zx_channel_call, client.raw_handle(), 0, 0, bad, &raw mut bytes, &raw mut handles);
        gives(status, Status::INVALID_ARGS)?;
    }
    gives(Call::new(&[0; 65537], 4, 0).make(&client, late()), Status::OUT_OF_RANGE)?;
    let mut call = Call::new(&[0; 4], 4, 0);
    call.handles = vec![client.raw_handle()];
    ensure(!end.signals()?.contains(Signals::READABLE), "a message was sent")?;
    gives(call.make(&client, late()), Status::NOT_SUPPORTED)?;
    // The failed call consumed the handle, as every failed call does.
    fails(HandleRef::from_raw(client.into_handle().into_raw()).check_valid(), Status::BAD_HANDLE)
}

fn rights() -> Outcome {
    for missing in [Rights::READ, Rights::WRITE] {
        let (client, end) = Channel::create()?;
        let client = client.replace(abi::ZX_DEFAULT_CHANNEL_RIGHTS & !missing)?;
        gives(Call::new(b"\0\0\0\0", 4, 0).make(&client, late()), Status::ACCESS_DENIED)?;
        ensure(!end.signals()?.contains(Signals::READABLE), "the message was sent")?;
    }
    Ok(())
}

fn many_callers() -> Outcome {
    const CALLERS: usize = 10;
    const ROUNDS: usize = 20;
    let (client, end) = Channel::create()?;
    let server = server(end, CALLERS * ROUNDS, backwards);
    let client = Arc::new(client);
    let caller = |number: u8, client: Arc<Channel>| {
        move || {
            for round in 0..ROUNDS as u8 {
                let mut reply = [0; 8];
                client.call(late(), &[0, 0, 0, 0, number, round], [], &mut reply, &mut [])?;
                if reply[4..6] != [round, number] {
                    return Err(Status::BAD_STATE);
                }
            }
            Ok(())
        }
    };
    let callers: Vec<_> = (0..CALLERS as u8).map(|number| thread::spawn(caller(number, Arc::clone(&client)))).collect();
    for caller in callers {
        caller.join().map_err(|_| "a caller panicked")??;
    }
    join(server)?;
    ensure(!client.signals()?.contains(Signals::READABLE), "an answer went astray")
}

fn answer_when_full() -> Outcome {
    // An answer goes directly to its caller, regardless of the number of unread messages.
    let (client, end) = Channel::create()?;
    let server = thread::spawn(move || {
        let mut bytes = [0; 4];
        end.read_wait(&mut bytes, &mut [], late())?;
        let full =
            against_policy(abi::ZX_EXCP_POLICY_CODE_CHANNEL_FULL_WRITE, || while end.write(b"\0\0\0\0", []).is_ok() {});
        full.map_err(|_| Status::INTERNAL)?;
        end.write(&bytes, [])?;
        Ok(end)
    });
    client.call(late(), b"\0\0\0\0", [], &mut [0; 4], &mut [])?;
    join(server).map(drop)
}

fn killed_caller() -> Outcome {
    // A process whose only thread makes a call through the handle that it starts with; its arguments lie below its
    // stack.
    let mut code = vec![0x49, 0x89, 0xfa]; // mov r10, rdi
    code.extend([0x45, 0x31, 0xc0]); // xor r8d, r8d
    code.extend([0x49, 0xb9]); // mov r9, never
    code.extend(i64::MAX.to_le_bytes());
    code.extend([0x4c, 0x8d, 0xbc, 0x24, 0x00, 0xff, 0xff, 0xff]); // lea r15, [rsp-0x100]
    code.extend([0x48, 0x8d, 0x84, 0x24, 0x00, 0xfe, 0xff, 0xff]); // lea rax, [rsp-0x200]
    code.extend([0x65, 0x48, 0x89, 0x04, 0x25, 0x28, 0x00, 0x00, 0x00]); // mov gs:[40], rax
    code.extend([0x65, 0x48, 0x89, 0x04, 0x25, 0x30, 0x00, 0x00, 0x00]); // mov gs:[48], rax
    code.extend(test_process::call(abi::nr::CHANNEL_CALL));
    let caller = TestProcess::new(&code)?;
    // A `zx_channel_call_args_t`: four bytes to write, room for 64.
    let buffer = caller.stack as u64 - 0x300;
    let args = [buffer, 0, buffer, 0, 4, 64].map(u64::to_le_bytes).concat();
    let (client, end) = Channel::create()?;
    caller.process.write_memory(caller.stack - 0x100, &args)?;
    caller.start(Some(client.into_handle()), 0)?;
    let mut bytes = [0; 4];
    end.read_wait(&mut bytes, &mut [], late())?;
    equal(caller.thread.info()?.state, abi::ZX_THREAD_STATE_BLOCKED_CHANNEL)?;
    caller.process.kill()?;
    equal(caller.end()?, test_process::KILLED)?;
    // The process's end of the channel was closed with the process. A late answer fails, and only the answer is lost.
    let (local, remote) = Channel::create()?;
    fails(end.write(&bytes, [remote.into_handle()]), Status::PEER_CLOSED)?;
    ensure(local.signals()?.contains(Signals::PEER_CLOSED), "the answer's handle lives on")
}

fn closed_while_waiting() -> Outcome {
    let (client, _end) = Channel::create()?;
    let raw = client.raw_handle();
    let caller = zx::startup::thread_self().raw_handle();
    let closer = thread::spawn(move || {
        let waits = until(caller, &[abi::ZX_THREAD_STATE_BLOCKED_CHANNEL]);
        drop(Handle::from_raw(raw));
        waits
    });
    let result = client.call(late(), b"\0\0\0\0", [], &mut [0; 4], &mut []);
    std::mem::forget(client);
    closer.join().map_err(|_| "the closer panicked")??;
    fails(result, Status::CANCELED)
}

fn transferred_while_waiting() -> Outcome {
    // Sending a channel away does not close it: a thread that made a call through it still gets the answer.
    let (client, end) = Channel::create()?;
    let (mail, letterbox) = Channel::create()?;
    let raw = client.raw_handle();
    let caller = thread::spawn(move || {
        let result = client.call(late(), b"\0\0\0\0", [], &mut [0; 8], &mut []);
        std::mem::forget(client);
        result
    });
    let mut bytes = [0; 4];
    end.read_wait(&mut bytes, &mut [], late())?;
    mail.write(b"", [Handle::from_raw(raw).ok_or("no handle")?])?;
    end.write(&[&bytes[..], b"late"].concat(), [])?;
    equal(caller.join().map_err(|_| "the caller panicked")??.bytes, 8)?;
    // The new owner finds no trace of the answer.
    let mut handles = [None];
    letterbox.read(&mut [], &mut handles).map_err(|(status, _)| status)?;
    let client = Channel::from(handles[0].take().ok_or("the channel did not arrive")?);
    equal(client.read(&mut [0; 8], &mut []).map_err(|(status, _)| status), Err(Status::SHOULD_WAIT))
}

fn unasked_answer_stays() -> Outcome {
    // A message that looks like an answer to a call that was never made is an ordinary message.
    let (client, end) = Channel::create()?;
    end.write(&0x8000_0001_u32.to_le_bytes(), [])?;
    equal(client.read(&mut [0; 4], &mut []).map_err(|(status, _)| status)?.bytes, 4)
}

fn etc_args(list: &mut [zx_handle_disposition_t], call: &mut Call, infos: &mut [zx_handle_info_t]) -> Status {
    let mut args = call.args();
    args.wr_handles = list.as_mut_ptr() as usize;
    args.wr_num_handles = list.len() as u32;
    args.rd_handles = infos.as_mut_ptr() as usize;
    args.rd_num_handles = infos.len() as u32;
    let actual = (&raw mut call.actual_bytes, &raw mut call.actual_handles);
    raw!(zx_channel_call_etc, call.options, 0, late().0, &raw mut args, actual.0, actual.1)
}

fn etc_both_ways() -> Outcome {
    let (client, end) = Channel::create()?;
    let server = server(end, 1, backwards);
    let event = Event::create()?;
    let rights = Rights::WAIT | Rights::TRANSFER | Rights::INSPECT;
    let mut list = [zx_handle_disposition_t {
        operation: abi::ZX_HANDLE_OP_DUPLICATE,
        handle: event.raw_handle(),
        type_: abi::ZX_OBJ_TYPE_EVENT,
        rights: rights.bits(),
        result: 0,
    }];
    let mut infos = [zx_handle_info_t { handle: 0, type_: 0, rights: 0, unused: 9 }];
    let mut call = Call::new(b"\0\0\0\0xyz", 16, 0);
    call.options = client.raw_handle();
    gives(etc_args(&mut list, &mut call, &mut infos), Status::OK)?;
    join(server)?;
    equal(&call.reply[4..call.actual_bytes as usize], b"zyx")?;
    equal((call.actual_handles, infos[0].type_, infos[0].rights), (1, abi::ZX_OBJ_TYPE_EVENT, rights.bits()))?;
    let back = Handle::from_raw(infos[0].handle).ok_or("no handle came back")?;
    equal(zx::Info::koid(&back)?, zx::Info::koid(&event)?)
}

fn etc_results_reported() -> Outcome {
    let (client, end) = Channel::create()?;
    let item = |handle| zx_handle_disposition_t {
        operation: abi::ZX_HANDLE_OP_MOVE,
        handle,
        type_: abi::ZX_OBJ_TYPE_PORT,
        rights: Rights::SAME_RIGHTS.bits(),
        result: 0,
    };
    let mut list = [item(Event::create()?.into_handle().into_raw()), item(0)];
    let mut call = Call::new(b"\0\0\0\0", 16, 0);
    call.options = client.raw_handle();
    gives(etc_args(&mut list, &mut call, &mut []), Status::WRONG_TYPE)?;
    equal(list.map(|item| Status(item.result)), [Status::WRONG_TYPE, Status::BAD_HANDLE])?;
    fails(HandleRef::from_raw(list[0].handle).check_valid(), Status::BAD_HANDLE)?;
    ensure(!end.signals()?.contains(Signals::READABLE), "the message was sent")
}
