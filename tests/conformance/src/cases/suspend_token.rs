//! Suspension: tasks do not run while a token exists.
//!
//! Most cases watch threads of another process that only count, so that their memory shows whether they run. Threads
//! that are in a call belong to this program.

use std::thread;

use abi::Status;
use zx::{AsHandleRef, Info, MonotonicInstant, Rights, Signals, Thread};

use super::asleep::{Caller, until};
use super::{cases, late, raw, soon, until_fast_enough, without};
use crate::check::{Failure, Outcome, ensure, equal, fails, gives};
use crate::test_process::{self, KILLED, SPIN, TestProcess};

cases! {
    "suspend_token.create.errors" => create_errors,
    "suspend_token.create.bad_address" => create_bad_address,
    "suspend_token.create.rights" => create_rights,
    "suspend_token.thread.stops" => thread_stops,
    "suspend_token.thread.resumes" => thread_resumes,
    "suspend_token.thread.resumes_in_a_call" => thread_resumes_in_a_call,
    "suspend_token.thread.many_tokens" => thread_many_tokens,
    "suspend_token.thread.self" => thread_self,
    "suspend_token.thread.many_times" => thread_many_times,
    "suspend_token.thread.before_start" => thread_before_start,
    "suspend_token.thread.before_start_and_resumed" => thread_before_start_and_resumed,
    "suspend_token.thread.killed" => thread_killed,
    "suspend_token.thread.dead" => thread_dead,
    "suspend_token.thread.token_outlives" => thread_token_outlives,
    "suspend_token.thread.sleeping" => thread_sleeping,
    "suspend_token.thread.sleep_over" => thread_sleep_over,
    "suspend_token.thread.channel_call" => thread_channel_call,
    "suspend_token.thread.port_wait" => thread_port_wait,
    "suspend_token.thread.futex_wait" => thread_futex_wait,
    "suspend_token.thread.wait_over" => thread_wait_over,
    "suspend_token.thread.wait_async" => thread_wait_async,
    "suspend_token.thread.wait_async_again" => thread_wait_async_again,
    "suspend_token.process.stops" => process_stops,
    "suspend_token.process.self" => process_self,
    "suspend_token.process.many_tokens" => process_many_tokens,
    "suspend_token.process.many_threads" => process_many_threads,
    "suspend_token.process.before_threads" => process_before_threads,
    "suspend_token.process.before_any_thread" => process_before_any_thread,
    "suspend_token.process.many_tokens_before_threads" => process_many_tokens_before_threads,
    "suspend_token.process.before_start" => process_before_start,
    "suspend_token.process.then_thread" => process_then_thread,
    "suspend_token.process.after_thread" => process_after_thread,
    "suspend_token.process.and_thread_before_start" => process_and_thread_before_start,
    "suspend_token.process.killed" => process_killed,
    "suspend_token.process.dead" => process_dead,
    "suspend_token.process.dying_thread" => process_dying_thread,
    "suspend_token.process.faulting_thread" => process_faulting_thread,
}

/// `inc qword [rsi]; jmp` back to it.
const COUNT: &[u8] = &[0x48, 0xff, 0x06, 0xeb, 0xfb];

/// A process whose threads count, each in its own word.
struct Counting {
    tiny: TestProcess,
    /// All threads except the first.
    threads: Vec<Thread>,
}

impl Counting {
    /// Creates the process without starting it.
    fn new() -> Result<Self, Failure> {
        Ok(Self { tiny: TestProcess::new(COUNT)?, threads: Vec::new() })
    }

    fn started() -> Result<Self, Failure> {
        let this = Self::new()?;
        this.start()?;
        this.runs(0)?;
        Ok(this)
    }

    fn start(&self) -> Outcome {
        self.tiny.start(None, self.word(0))
    }

    /// Creates one more thread.
    fn add(&mut self) -> Result<usize, Failure> {
        self.threads.push(self.tiny.process.create_thread("more")?);
        Ok(self.threads.len())
    }

    fn thread(&self, n: usize) -> &Thread {
        if n == 0 { &self.tiny.thread } else { &self.threads[n - 1] }
    }

    fn start_thread(&self, n: usize) -> Outcome {
        Ok(self.thread(n).start(self.tiny.entry, self.tiny.stack, 0, self.word(n))?)
    }

    fn word(&self, n: usize) -> usize {
        self.tiny.stack - 0x1000 + 8 * n
    }

    fn count(&self, n: usize) -> Result<u64, Failure> {
        let mut word = [0; 8];
        equal(self.tiny.process.read_memory(self.word(n), &mut word)?, 8)?;
        Ok(u64::from_le_bytes(word))
    }

    /// Thread `n` must continue to count.
    fn runs(&self, n: usize) -> Outcome {
        let before = self.count(n)?;
        for _ in 0..1000 {
            if self.count(n)? != before {
                let signals = self.thread(n).signals()?;
                equal(signals & (Signals::THREAD_RUNNING | Signals::THREAD_SUSPENDED), Signals::THREAD_RUNNING)?;
                return equal(self.thread(n).info()?.state, abi::ZX_THREAD_STATE_RUNNING);
            }
            thread::sleep(std::time::Duration::from_millis(2));
        }
        Err("the thread does not run".into())
    }

    /// Thread `n` must be suspended and must not count.
    fn stands(&self, n: usize) -> Outcome {
        self.thread(n).wait_one(Signals::THREAD_SUSPENDED, late())?;
        equal(self.thread(n).signals()? & Signals::THREAD_RUNNING, Signals::NONE)?;
        equal(self.thread(n).info()?.state, abi::ZX_THREAD_STATE_SUSPENDED)?;
        let before = self.count(n)?;
        thread::sleep(std::time::Duration::from_millis(20));
        equal(self.count(n)?, before)
    }

    fn end(&self) -> Outcome {
        self.tiny.process.kill()?;
        equal(self.tiny.end()?, KILLED)
    }
}

fn pause() {
    thread::sleep(std::time::Duration::from_millis(20));
}

// --- the call ---

fn create_errors() -> Outcome {
    let mut out = 0_u32;
    gives(raw!(zx_task_suspend, 0, &raw mut out), Status::BAD_HANDLE)?;
    let job = zx::startup::job_default().ok_or("there is no job")?;
    gives(raw!(zx_task_suspend, job.raw_handle(), &raw mut out), Status::WRONG_TYPE)?;
    let (channel, _peer) = zx::Channel::create()?;
    gives(raw!(zx_task_suspend, channel.raw_handle(), &raw mut out), Status::WRONG_TYPE)?;
    let counting = Counting::started()?;
    let weak = Thread::from(without(counting.thread(0), Rights::WRITE)?);
    fails(weak.suspend(), Status::ACCESS_DENIED)?;
    let weak = zx::Process::from(without(&counting.tiny.process, Rights::WRITE)?);
    fails(weak.suspend(), Status::ACCESS_DENIED)?;
    equal(out, 0)?;
    counting.runs(0)?;
    counting.end()
}

fn create_bad_address() -> Outcome {
    // A token that cannot be returned does not suspend anything.
    let counting = Counting::started()?;
    for handle in [counting.thread(0).raw_handle(), counting.tiny.process.raw_handle()] {
        for address in [0, 8, u64::MAX - 2, 0xffff_8000_0000_0000] {
            gives(raw!(zx_task_suspend, handle, address), Status::INVALID_ARGS)?;
            counting.runs(0)?;
        }
    }
    counting.end()
}

fn create_rights() -> Outcome {
    let counting = Counting::started()?;
    let token = counting.thread(0).suspend()?;
    let info = token.basic_info()?;
    equal(info.type_, abi::ZX_OBJ_TYPE_SUSPEND_TOKEN)?;
    equal(info.rights, (Rights::TRANSFER | Rights::INSPECT).bits())?;
    fails(token.duplicate(Rights::SAME_RIGHTS), Status::ACCESS_DENIED)?;
    // The token is effective wherever its handle is; it is released when its message is destroyed.
    let (ours, theirs) = zx::Channel::create()?;
    ours.write(b"", [token.into_handle()])?;
    counting.stands(0)?;
    drop(theirs);
    counting.runs(0)?;
    counting.end()
}

// --- a thread ---

fn thread_stops() -> Outcome {
    let counting = Counting::started()?;
    let token = counting.thread(0).suspend()?;
    counting.stands(0)?;
    drop(token);
    counting.runs(0)?;
    counting.end()
}

fn thread_resumes() -> Outcome {
    let counting = Counting::started()?;
    let token = counting.thread(0).suspend()?;
    counting.stands(0)?;
    drop(token);
    counting.thread(0).wait_one(Signals::THREAD_RUNNING, late())?;
    counting.runs(0)?;
    // One token suspends once, and a later token has the same effect.
    drop(counting.thread(0).suspend()?);
    counting.runs(0)?;
    counting.end()
}

fn thread_resumes_in_a_call() -> Outcome {
    let event = zx::Event::create()?;
    let twin = event.duplicate(Rights::SAME_RIGHTS)?;
    let wait = move || {
        let observed = twin.wait_one(Signals::USER_0, late())?;
        twin.signal(Signals::NONE, Signals::USER_1)?;
        Ok::<_, Status>(observed)
    };
    const BLOCKED: u32 = abi::ZX_THREAD_STATE_BLOCKED_WAIT_ONE;
    let caller = Caller::new(BLOCKED, wait)?;
    let port = zx::Port::create()?;
    let told = |signals: Signals| -> Outcome {
        caller.handle.wait_async(&port, 1, signals, 0)?;
        equal(observed(&port)? & STATES, signals)
    };
    told(Signals::THREAD_RUNNING)?;
    // The thread continues its wait, whether or not anyone has seen it suspended.
    drop(caller.handle.suspend()?);
    until(caller.handle.raw_handle(), &[BLOCKED])?;
    let token = caller.suspend()?;
    told(Signals::THREAD_SUSPENDED)?;
    equal(caller.handle.info()?.wait_exception_channel_type, abi::ZX_EXCEPTION_CHANNEL_TYPE_NONE)?;
    drop(token);
    told(Signals::THREAD_RUNNING)?;
    until(caller.handle.raw_handle(), &[BLOCKED])?;
    // The awaited signal is set during the suspension and reaches the thread when it resumes.
    let token = caller.suspend()?;
    event.signal(Signals::NONE, Signals::USER_0)?;
    fails(event.wait_one(Signals::USER_1, soon(20)), Status::TIMED_OUT)?;
    drop(token);
    event.wait_one(Signals::USER_1, late())?;
    caller.handle.wait_one(Signals::THREAD_TERMINATED, late())?;
    equal(caller.join()?? & Signals::USER_0, Signals::USER_0)
}

fn thread_many_tokens() -> Outcome {
    let counting = Counting::started()?;
    let first = counting.thread(0).suspend()?;
    let second = counting.thread(0).suspend()?;
    let third = counting.thread(0).suspend()?;
    drop(second);
    counting.stands(0)?;
    drop(first);
    counting.stands(0)?;
    drop(third);
    counting.runs(0)?;
    counting.end()
}

fn thread_self() -> Outcome {
    let mut out = 0_u32;
    let current = zx::startup::thread_self().raw_handle();
    gives(raw!(zx_task_suspend, current, &raw mut out), Status::NOT_SUPPORTED)?;
    gives(raw!(zx_task_suspend_token, current, &raw mut out), Status::NOT_SUPPORTED)?;
    equal(out, 0)
}

fn thread_many_times() -> Outcome {
    // A thread that makes calls all the time is suspended at any point: before, in and after a call.
    let (sender, receiver) = std::sync::mpsc::channel();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let flag = std::sync::Arc::clone(&stop);
    let worker = thread::spawn(move || -> zx::Result<u64> {
        let event = zx::Event::create()?;
        let _ = sender.send(zx::startup::thread_self().duplicate_handle(Rights::SAME_RIGHTS));
        let mut rounds = 0;
        while !flag.load(std::sync::atomic::Ordering::Relaxed) {
            event.signal(Signals::NONE, Signals::USER_0)?;
            if event.wait_one(Signals::USER_0, late())? & Signals::USER_0 == Signals::NONE {
                return Err(Status::INTERNAL);
            }
            event.signal(Signals::USER_0, Signals::NONE)?;
            match event.wait_one(Signals::USER_0, zx::MonotonicInstant::after(zx::Duration::from_micros(20))) {
                Err(Status::TIMED_OUT) => {}
                _ => return Err(Status::INTERNAL),
            }
            rounds += 1;
        }
        Ok(rounds)
    });
    let handle = Thread::from(receiver.recv().map_err(|_| "the thread is gone")??);
    for n in 0..400_i64 {
        let token = handle.suspend()?;
        zx::nanosleep(zx::MonotonicInstant::after(zx::Duration::from_micros(n * 7 % 200)))?;
        drop(token);
        zx::nanosleep(zx::MonotonicInstant::after(zx::Duration::from_micros(n * 13 % 300)))?;
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let rounds = worker.join().map_err(|_| "the thread panicked")??;
    ensure(rounds > 0, "it did nothing")
}

fn thread_before_start() -> Outcome {
    let mut counting = Counting::started()?;
    let thread = counting.add()?;
    let token = counting.thread(thread).suspend()?;
    equal(counting.thread(thread).info()?.state, abi::ZX_THREAD_STATE_NEW)?;
    equal(counting.thread(thread).signals()?, Signals::NONE)?;
    counting.start_thread(thread)?;
    counting.stands(thread)?;
    equal(counting.count(thread)?, 0)?;
    drop(token);
    counting.runs(thread)?;
    counting.end()
}

fn thread_before_start_and_resumed() -> Outcome {
    let mut counting = Counting::started()?;
    let thread = counting.add()?;
    drop(counting.thread(thread).suspend()?);
    equal(counting.thread(thread).info()?.state, abi::ZX_THREAD_STATE_NEW)?;
    counting.start_thread(thread)?;
    counting.runs(thread)?;
    counting.end()
}

fn thread_killed() -> Outcome {
    let counting = Counting::started()?;
    let token = counting.thread(0).suspend()?;
    counting.stands(0)?;
    counting.end()?;
    let signals = counting.thread(0).signals()?;
    let all = Signals::THREAD_RUNNING | Signals::THREAD_SUSPENDED | Signals::THREAD_TERMINATED;
    equal(signals & all, Signals::THREAD_TERMINATED)?;
    equal(counting.thread(0).info()?.state, abi::ZX_THREAD_STATE_DEAD)?;
    drop(token);
    equal(counting.thread(0).info()?.state, abi::ZX_THREAD_STATE_DEAD)
}

fn thread_dead() -> Outcome {
    let counting = Counting::started()?;
    counting.end()?;
    let refused = |thread: &Thread| {
        fails(thread.suspend(), Status::BAD_STATE)?;
        let mut out = 0_u32;
        gives(raw!(zx_task_suspend, thread.raw_handle(), &raw mut out), Status::BAD_STATE)?;
        equal(out, 0)
    };
    refused(counting.thread(0))?;
    // A thread that has exited while its process continues.
    let event = zx::Event::create()?;
    let twin = event.duplicate(Rights::SAME_RIGHTS)?;
    let wait = move || twin.wait_one(Signals::USER_0, late()).map(drop);
    let caller = Caller::new(abi::ZX_THREAD_STATE_BLOCKED_WAIT_ONE, wait)?;
    event.signal(Signals::NONE, Signals::USER_0)?;
    caller.handle.wait_one(Signals::THREAD_TERMINATED, late())?;
    refused(&caller.handle)?;
    caller.join()?.map_err(Into::into)
}

fn thread_token_outlives() -> Outcome {
    // The token is effective for a thread to which no other handle exists.
    let mut counting = Counting::started()?;
    let thread = counting.add()?;
    counting.start_thread(thread)?;
    counting.runs(thread)?;
    let token = counting.threads[0].suspend()?;
    let word = counting.word(thread);
    counting.threads.clear();
    let read = |word| {
        let mut bytes = [0; 8];
        counting.tiny.process.read_memory(word, &mut bytes).map(|_| u64::from_le_bytes(bytes))
    };
    let limit = late();
    let before = loop {
        let count = read(word)?;
        pause();
        if read(word)? == count {
            break count;
        }
        ensure(MonotonicInstant::now() < limit, "it does not stand")?;
    };
    pause();
    equal(read(word)?, before)?;
    drop(token);
    let limit = late();
    while read(word)? == before {
        ensure(MonotonicInstant::now() < limit, "it does not go on")?;
        pause();
    }
    counting.end()
}

fn thread_sleeping() -> Outcome {
    // A sleep that is suspended and resumed before its deadline still ends at its deadline.
    until_fast_enough(|time| {
        let deadline = MonotonicInstant::after(time);
        let Some((sleeper, token)) = suspended_sleeper(deadline)? else { return Ok(false) };
        drop(token);
        sleeper.join()??;
        ensure(MonotonicInstant::now() >= deadline, "it came back early")?;
        Ok(true)
    })
}

/// A thread that sleeps, and the token that suspends it.
type Sleeper = (Caller<zx::Result<()>>, zx::Suspend);

/// `None` if the machine was too slow to suspend the thread before its deadline.
fn suspended_sleeper(deadline: MonotonicInstant) -> Result<Option<Sleeper>, Failure> {
    let suspended = || {
        let sleeper = Caller::new(abi::ZX_THREAD_STATE_BLOCKED_SLEEPING, move || zx::nanosleep(deadline))?;
        let token = sleeper.suspend()?;
        Ok((sleeper, token))
    };
    match suspended() {
        _ if MonotonicInstant::now() >= deadline => Ok(None),
        result => result.map(Some),
    }
}

fn thread_sleep_over() -> Outcome {
    until_fast_enough(|time| {
        let deadline = MonotonicInstant::after(time);
        let Some((sleeper, token)) = suspended_sleeper(deadline)? else { return Ok(false) };
        zx::nanosleep(deadline + zx::Duration::from_millis(40))?;
        equal(sleeper.handle.info()?.state, abi::ZX_THREAD_STATE_SUSPENDED)?;
        fails(sleeper.handle.wait_one(Signals::THREAD_TERMINATED, soon(10)), Status::TIMED_OUT)?;
        drop(token);
        sleeper.join()??;
        Ok(true)
    })
}

fn thread_channel_call() -> Outcome {
    let (client, server) = zx::Channel::create()?;
    let here = client.raw_handle();
    let call = move || {
        let mut bytes = [0; 16];
        let size = client.call(late(), b"\0\0\0\0question", [], &mut bytes, &mut [])?;
        Ok::<_, Status>(bytes[4..size.bytes].to_vec())
    };
    let caller = Caller::new(abi::ZX_THREAD_STATE_BLOCKED_CHANNEL, call)?;
    let token = caller.suspend()?;
    // The message exists once, and the answer goes to this call.
    let mut bytes = [0; 16];
    let size = server.read_wait(&mut bytes, &mut [], late())?;
    equal(&bytes[4..size.bytes], b"question")?;
    fails(server.read(&mut [0; 16], &mut []).map_err(|error| error.0), Status::SHOULD_WAIT)?;
    let mut answer = bytes[..4].to_vec();
    answer.extend(b"answer");
    server.write(&answer, [])?;
    pause();
    // The answer belongs to this call alone: no other read can get it, and no signal shows it.
    let mut other = [0_u8; 16];
    let read = raw!(zx_channel_read, here, 0, other.as_mut_ptr(), 0, other.len(), 0, 0, 0);
    gives(read, Status::SHOULD_WAIT)?;
    let readable = Signals::CHANNEL_READABLE.bits();
    gives(raw!(zx_object_wait_one, here, readable, 0, 0), Status::TIMED_OUT)?;
    drop(token);
    equal(caller.join()??, b"answer".to_vec())
}

fn thread_port_wait() -> Outcome {
    let port = zx::Port::create()?;
    let twin = port.duplicate(Rights::SAME_RIGHTS)?;
    let caller = Caller::new(abi::ZX_THREAD_STATE_BLOCKED_PORT, move || twin.wait(late()))?;
    let token = caller.suspend()?;
    pause();
    // The thread continues its wait, and gets the next packet.
    drop(token);
    until(caller.handle.raw_handle(), &[abi::ZX_THREAD_STATE_BLOCKED_PORT])?;
    let token = caller.suspend()?;
    port.queue(&super::user_packet(7, [1, 2, 3, 4]))?;
    port.queue(&super::user_packet(8, [1, 2, 3, 4]))?;
    pause();
    fails(caller.handle.wait_one(Signals::THREAD_TERMINATED, soon(10)), Status::TIMED_OUT)?;
    drop(token);
    equal(caller.join()??.key, 7)?;
    // It took one packet and left the other.
    equal(port.wait(late())?.key, 8)?;
    fails(port.wait(zx::MonotonicInstant(0)), Status::TIMED_OUT)
}

fn thread_futex_wait() -> Outcome {
    let word = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let twin = std::sync::Arc::clone(&word);
    let wait = move || zx::futex_wait(&twin, 0, None, late());
    let caller = Caller::new(abi::ZX_THREAD_STATE_BLOCKED_FUTEX, wait)?;
    drop(caller.suspend()?);
    until(caller.handle.raw_handle(), &[abi::ZX_THREAD_STATE_BLOCKED_FUTEX])?;
    let token = caller.suspend()?;
    zx::futex_wake(&word, 1)?;
    pause();
    equal(caller.handle.info()?.state, abi::ZX_THREAD_STATE_SUSPENDED)?;
    drop(token);
    caller.join()?.map_err(Into::into)
}

fn thread_wait_over() -> Outcome {
    // The wait's signal is set and cleared before the thread resumes: the thread still gets the signal that ended the
    // wait.
    let event = zx::Event::create()?;
    let twin = event.duplicate(Rights::SAME_RIGHTS)?;
    let wait = move || twin.wait_one(Signals::USER_0, late());
    let caller = Caller::new(abi::ZX_THREAD_STATE_BLOCKED_WAIT_ONE, wait)?;
    let token = caller.suspend()?;
    event.signal(Signals::NONE, Signals::USER_0)?;
    event.signal(Signals::USER_0, Signals::NONE)?;
    drop(token);
    equal(caller.join()?? & Signals::USER_0, Signals::USER_0)
}

fn observed(port: &zx::Port) -> Result<Signals, Failure> {
    let packet = port.wait(late())?;
    equal(packet.type_, abi::ZX_PKT_TYPE_SIGNAL_ONE)?;
    Ok(Signals::from_bits_retain((packet.payload[0] >> 32) as u32))
}

const STATES: Signals =
    Signals::from_bits_retain(abi::ZX_THREAD_RUNNING | abi::ZX_THREAD_SUSPENDED | abi::ZX_THREAD_TERMINATED);

fn thread_wait_async() -> Outcome {
    let counting = Counting::started()?;
    let port = zx::Port::create()?;
    let thread = counting.thread(0);
    // A state that is active already is reported at once.
    thread.wait_async(&port, 1, Signals::THREAD_RUNNING, 0)?;
    equal(observed(&port)? & STATES, Signals::THREAD_RUNNING)?;
    thread.wait_async(&port, 2, Signals::THREAD_SUSPENDED, 0)?;
    fails(port.wait(soon(5)), Status::TIMED_OUT)?;
    let token = thread.suspend()?;
    equal(observed(&port)? & STATES, Signals::THREAD_SUSPENDED)?;
    thread.wait_async(&port, 3, Signals::THREAD_RUNNING, 0)?;
    fails(port.wait(soon(5)), Status::TIMED_OUT)?;
    drop(token);
    equal(observed(&port)? & STATES, Signals::THREAD_RUNNING)?;
    thread.wait_async(&port, 4, Signals::THREAD_TERMINATED, 0)?;
    counting.end()?;
    equal(observed(&port)? & STATES, Signals::THREAD_TERMINATED)
}

fn thread_wait_async_again() -> Outcome {
    let counting = Counting::started()?;
    let port = zx::Port::create()?;
    let thread = counting.thread(0);
    for _ in 0..20 {
        thread.wait_async(&port, 1, Signals::THREAD_SUSPENDED, abi::ZX_WAIT_ASYNC_EDGE)?;
        let token = thread.suspend()?;
        equal(observed(&port)? & STATES, Signals::THREAD_SUSPENDED)?;
        thread.wait_async(&port, 2, STATES, abi::ZX_WAIT_ASYNC_EDGE)?;
        fails(port.wait(zx::MonotonicInstant(0)), Status::TIMED_OUT)?;
        drop(token);
        equal(observed(&port)? & STATES, Signals::THREAD_RUNNING)?;
    }
    counting.end()
}

// --- a process ---

fn process_stops() -> Outcome {
    let counting = Counting::started()?;
    let token = counting.tiny.process.suspend()?;
    counting.stands(0)?;
    drop(token);
    counting.runs(0)?;
    counting.end()
}

fn process_self() -> Outcome {
    let mut out = 0_u32;
    let current = zx::startup::process_self().raw_handle();
    gives(raw!(zx_task_suspend, current, &raw mut out), Status::NOT_SUPPORTED)?;
    equal(out, 0)
}

fn process_many_tokens() -> Outcome {
    let counting = Counting::started()?;
    let first = counting.tiny.process.suspend()?;
    let second = counting.tiny.process.suspend()?;
    counting.stands(0)?;
    drop(first);
    counting.stands(0)?;
    drop(second);
    counting.runs(0)?;
    counting.end()
}

fn process_many_threads() -> Outcome {
    let mut counting = Counting::started()?;
    for _ in 0..3 {
        let thread = counting.add()?;
        counting.start_thread(thread)?;
        counting.runs(thread)?;
    }
    let token = counting.tiny.process.suspend()?;
    (0..4).try_for_each(|thread| counting.stands(thread))?;
    drop(token);
    (0..4).try_for_each(|thread| counting.runs(thread))?;
    counting.end()
}

fn process_before_threads() -> Outcome {
    let mut counting = Counting::started()?;
    let token = counting.tiny.process.suspend()?;
    let thread = counting.add()?;
    counting.start_thread(thread)?;
    counting.stands(0)?;
    counting.stands(thread)?;
    equal(counting.count(thread)?, 0)?;
    drop(token);
    counting.runs(0)?;
    counting.runs(thread)?;
    counting.end()
}

fn process_many_tokens_before_threads() -> Outcome {
    let mut counting = Counting::started()?;
    let first = counting.tiny.process.suspend()?;
    let second = counting.tiny.process.suspend()?;
    let thread = counting.add()?;
    counting.start_thread(thread)?;
    counting.stands(thread)?;
    drop(second);
    counting.stands(thread)?;
    drop(first);
    counting.runs(0)?;
    counting.runs(thread)?;
    counting.end()
}

fn process_before_start() -> Outcome {
    // The thread exists, but nothing has been started.
    let counting = Counting::new()?;
    let token = counting.tiny.process.suspend()?;
    equal(counting.thread(0).info()?.state, abi::ZX_THREAD_STATE_NEW)?;
    counting.start()?;
    counting.stands(0)?;
    equal(counting.count(0)?, 0)?;
    drop(token);
    counting.runs(0)?;
    counting.end()
}

fn process_then_thread() -> Outcome {
    let counting = Counting::started()?;
    let process = counting.tiny.process.suspend()?;
    let thread = counting.thread(0).suspend()?;
    counting.stands(0)?;
    drop(process);
    counting.stands(0)?;
    drop(thread);
    counting.runs(0)?;
    counting.end()
}

fn process_after_thread() -> Outcome {
    let mut counting = Counting::started()?;
    let other = counting.add()?;
    counting.start_thread(other)?;
    let thread = counting.thread(0).suspend()?;
    let process = counting.tiny.process.suspend()?;
    counting.stands(0)?;
    counting.stands(other)?;
    drop(thread);
    counting.stands(0)?;
    drop(process);
    counting.runs(0)?;
    counting.runs(other)?;
    counting.end()
}

fn process_and_thread_before_start() -> Outcome {
    let counting = Counting::new()?;
    let process = counting.tiny.process.suspend()?;
    let thread = counting.thread(0).suspend()?;
    counting.start()?;
    counting.stands(0)?;
    drop(process);
    counting.stands(0)?;
    drop(thread);
    counting.runs(0)?;
    counting.end()
}

fn process_killed() -> Outcome {
    let counting = Counting::started()?;
    let _token = counting.tiny.process.suspend()?;
    counting.stands(0)?;
    counting.end()
}

fn process_dead() -> Outcome {
    let counting = Counting::started()?;
    counting.end()?;
    fails(counting.tiny.process.suspend(), Status::BAD_STATE)
}

fn process_dying_thread() -> Outcome {
    // One of three threads exits at an unpredictable time; the others are suspended and resumed.
    for round in 0..20 {
        let mut counting = Counting::started()?;
        // Its first instruction is the exit call.
        let slide = counting.tiny.map_vdso()? as usize;
        let exit = (zx::sys::zx_thread_exit as *const () as usize).wrapping_add(slide);
        let (dying, other) = (counting.add()?, counting.add()?);
        counting.start_thread(other)?;
        counting.runs(other)?;
        counting.thread(dying).start(exit, counting.tiny.stack - 0x2000, 0, 0)?;
        if round % 2 == 1 {
            zx::nanosleep(zx::MonotonicInstant::after(zx::Duration::from_micros(round * 20)))?;
        }
        let token = counting.tiny.process.suspend()?;
        for thread in [0, other] {
            counting.stands(thread)?;
        }
        drop(token);
        for thread in [0, other] {
            counting.runs(thread)?;
        }
        counting.thread(dying).wait_one(Signals::THREAD_TERMINATED, late())?;
        counting.end()?;
    }
    Ok(())
}

fn process_before_any_thread() -> Outcome {
    // The process has no thread yet when it is suspended, once or twice.
    let job = zx::startup::job_default().ok_or("there is no job")?;
    for tokens in 1..=2 {
        let mut held = Vec::new();
        let suspend = |process: &zx::Process| {
            for _ in 0..tokens {
                held.push(process.suspend()?);
            }
            Ok(())
        };
        let tiny = TestProcess::prepared(&job, COUNT, suspend)?;
        let counting = Counting { tiny, threads: Vec::new() };
        counting.start()?;
        while let Some(token) = held.pop() {
            counting.stands(0)?;
            equal(counting.count(0)?, 0)?;
            drop(token);
        }
        counting.runs(0)?;
        counting.end()?;
    }
    Ok(())
}

fn process_faulting_thread() -> Outcome {
    // A thread ends while its process is suspended and resumed again and again; nothing hangs.
    for _ in 0..20 {
        let mut counting = Counting::started()?;
        let thread = counting.add()?;
        // An undefined instruction ends the thread and its process.
        let code = test_process::code(&[0x0f, 0x0b])?;
        let perm = abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_EXECUTE;
        let entry = counting.tiny.vmar.map(perm, 0, &code, 0, 4096)?;
        counting.thread(thread).start(entry, counting.tiny.stack, 0, 0)?;
        match counting.tiny.process.suspend() {
            Ok(token) => {
                drop(token);
                counting.tiny.end()?;
            }
            Err(status) => equal(status, Status::BAD_STATE)?,
        }
        equal(counting.tiny.end()?, test_process::EXCEPTION)?;
    }
    // A process that is never started ends like any other.
    let tiny = TestProcess::new(SPIN)?;
    let _token = tiny.process.suspend()?;
    tiny.process.kill()?;
    equal(tiny.end()?, KILLED)
}
