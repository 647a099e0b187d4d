//! Suspended owners of virtual processors (`docs/virtual-processors.md`, "A suspended owner").

use std::thread;
use std::time::Duration;

use abi::{ZX_THREAD_STATE_SUSPENDED, hafnon_vproc_state_t, zx_thread_state_debug_regs_t};
use zx::{AsHandleRef, Exit, MonotonicInstant, Rights, Signals, Suspend, Thread, VirtualProcessor, Vmo, map_runs};

use super::cases;
use super::vproc::{CODE, DATA, Domain, PAGE, READ_WRITE, SYSCALLS, processor, run, state};
use crate::check::{Failure, Outcome, ensure, equal};

cases! {
    "vproc.suspend.breakpoints" => breakpoints,
    "vproc.suspend.stopped" => stopped,
    "vproc.suspend.registers" => registers,
    "vproc.suspend.kicked" => kicked,
    "vproc.suspend.domain_ends" => domain_ends,
    "vproc.suspend.between_stops" => between_stops,
}

/// `L: lock inc qword ptr [rdi]; jmp L`
const COUNTS: &[u8] = &[0xf0, 0x48, 0xff, 0x07, 0xeb, 0xfa];

fn this() -> Result<Thread, Failure> {
    Ok(zx::startup::thread_self().duplicate(Rights::SAME_RIGHTS)?)
}

fn suspend(thread: &Thread) -> zx::Result<Suspend> {
    let token = thread.suspend()?;
    thread.wait_one(Signals::THREAD_SUSPENDED, MonotonicInstant::INFINITE)?;
    Ok(token)
}

/// A sub-domain whose code counts in memory that the case can read.
pub(super) struct Counter {
    pub(super) domain: Domain,
    memory: Vmo,
}

impl Counter {
    pub(super) fn new() -> Result<Self, Failure> {
        let (domain, memory) = (Domain::new(COUNTS)?, Vmo::create(PAGE, 0)?);
        map_runs(&domain.vmar, &memory, &[run(DATA, 0, PAGE, READ_WRITE)])?;
        Ok(Self { domain, memory })
    }

    fn state() -> hafnon_vproc_state_t {
        hafnon_vproc_state_t { rdi: DATA, ..state(7) }
    }

    pub(super) fn enter(&self, processor: &mut VirtualProcessor<'_>) -> zx::Result<Exit> {
        *processor.state() = Self::state();
        processor.enter(&self.domain.process)
    }

    fn count(&self) -> zx::Result<u64> {
        let mut word = [0; 8];
        self.memory.read(&mut word, 0)?;
        Ok(u64::from_le_bytes(word))
    }

    /// Waits until the count has grown.
    pub(super) fn counts_on(&self) -> zx::Result<()> {
        let before = self.count()?;
        while self.count()? == before {
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn stands(&self) -> Outcome {
        let before = self.count()?;
        thread::sleep(Duration::from_millis(25));
        equal(self.count()?, before)
    }
}

/// Runs `other` in another thread while the owner runs the counting code; then kicks the owner.
fn beside(counter: &Counter, other: impl FnOnce(&Thread, &zx::Vproc) -> Outcome + Send) -> Outcome {
    let (mut processor, owner) = (processor()?, this()?);
    let vproc = processor.handle().duplicate(Rights::SAME_RIGHTS)?;
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let outcome = counter.counts_on().map_err(Failure::from).and_then(|()| other(&owner, &vproc));
            vproc.kick()?;
            outcome
        });
        let exit = counter.enter(&mut processor)?;
        other.join().unwrap_or(Err("it panicked".into()))?;
        equal(exit, Exit::Kick)?;
        let (seen, given) = (*processor.state(), Counter::state());
        ensure([CODE, CODE + 4].contains(&seen.ip), "it is somewhere else")?;
        // The flags are those of the last increment.
        equal(hafnon_vproc_state_t { ip: given.ip, flags: given.flags, ..seen }, given)
    })
}

/// The owner's breakpoints do not apply to the code that it runs, which has an address space of its own.
fn breakpoints() -> Outcome {
    let counter = Counter::new()?;
    beside(&counter, |owner, _| {
        let set = |registers: &zx_thread_state_debug_regs_t| {
            let token = suspend(owner)?;
            owner.set_registers(registers)?;
            drop(token);
            Ok::<_, Failure>(())
        };
        // One on the code's instruction, one for what it writes.
        set(&zx_thread_state_debug_regs_t { dr: [CODE, DATA, 0, 0], dr6: 0, dr7: 1 | 1 << 2 | 1 << 20 })?;
        (0..5).try_for_each(|_| counter.counts_on())?;
        set(&zx_thread_state_debug_regs_t::default())
    })
}

/// After the signal that the owner is suspended, none of its code runs until the last token is closed.
fn stopped() -> Outcome {
    let counter = Counter::new()?;
    beside(&counter, |owner, _| {
        for _ in 0..5 {
            let tokens = [suspend(owner)?, suspend(owner)?];
            equal(owner.info()?.state, ZX_THREAD_STATE_SUSPENDED)?;
            counter.stands()?;
            let [first, second] = tokens;
            drop(first);
            counter.stands()?;
            drop(second);
            counter.counts_on()?;
        }
        Ok(())
    })
}

/// The registers are preserved wherever it is suspended.
fn registers() -> Outcome {
    let counter = Counter::new()?;
    for _ in 0..20 {
        beside(&counter, |owner, _| {
            for _ in 0..20 {
                drop(suspend(owner)?);
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// A kick of a suspended owner is reported when the owner resumes, and not before.
fn kicked() -> Outcome {
    let counter = Counter::new()?;
    for _ in 0..5 {
        beside(&counter, |owner, vproc| {
            let token = suspend(owner)?;
            vproc.kick()?;
            counter.stands()?;
            drop(token);
            Ok(())
        })?;
    }
    Ok(())
}

/// The end of a sub-domain while the owner is suspended is reported in the same way as while its code runs: as a page
/// fault.
fn domain_ends() -> Outcome {
    let counter = Counter::new()?;
    let (mut processor, owner) = (processor()?, this()?);
    thread::scope(|scope| {
        let other = scope.spawn(|| -> Outcome {
            counter.counts_on()?;
            let token = suspend(&owner)?;
            counter.domain.process.kill()?;
            counter.stands()?;
            drop(token);
            Ok(())
        });
        let exit = counter.enter(&mut processor)?;
        other.join().unwrap_or(Err("it panicked".into()))?;
        ensure(matches!(exit, Exit::PageFault(_)), &format!("it was told {exit:?}"))
    })
}

/// No system call and no answer is lost or repeated, however often the owner is suspended in between.
fn between_stops() -> Outcome {
    const TIMES: u64 = 300;
    let (mut processor, owner) = (processor()?, this()?);
    let domain = Domain::new(SYSCALLS)?;
    thread::scope(|scope| {
        let other = scope.spawn(|| -> Outcome {
            for n in 0..TIMES {
                drop(suspend(&owner)?);
                thread::sleep(Duration::from_micros(n % 50));
            }
            Ok(())
        });
        let given = state(9);
        *processor.state() = given;
        equal(processor.enter(&domain.process)?, Exit::Syscall)?;
        let mut calls = 0;
        while !other.is_finished() {
            let state = processor.state();
            equal((state.rax, state.ip), (given.rax + calls, CODE + 2))?;
            calls += 1;
            state.rax += 1;
            equal(processor.resume()?, Exit::Syscall)?;
        }
        other.join().unwrap_or(Err("it panicked".into()))
    })
}
