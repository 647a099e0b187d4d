//! Events wherever they fall, against a model.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

use abi::{
    ZX_PRIORITY_HIGHEST, ZX_PROFILE_INFO_FLAG_PRIORITY, ZX_VM_PERM_EXECUTE, ZX_VM_PERM_READ, ZX_VM_PERM_WRITE,
    hafnon_vproc_run_t, hafnon_vproc_state_t, zx_port_packet_t, zx_profile_info_t,
};
use conformance::check::{Outcome, ensure, equal};
use conformance::tiny::{OwnJob, code};
use vthread::{Condition, Mutex};
use zx::probe::upcalls::{enable, hold, with_upcalls};
use zx::{Events, Exit, MonotonicInstant, Port, Profile, Rights, VirtualProcessor, Vmo, map_runs};

const PAGE: u64 = 4096;
const CODE: u64 = 0x100_0000;
const DATA: u64 = 0x200_0000;
const READ_WRITE: u32 = ZX_VM_PERM_READ | ZX_VM_PERM_WRITE;
const READ_EXECUTE: u32 = ZX_VM_PERM_READ | ZX_VM_PERM_EXECUTE;

/// Steps of the owner's case, and what the threads of the other one hand on.
const STEPS: u64 = 60_000;
const ITEMS: u64 = 60_000;
/// Producers, and as many consumers.
const PAIRS: u64 = 3;

/// Numbers that look like none.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }
}

/// Has this thread come before all others, so that it wakes in the midst of what they do.
fn comes_first() -> zx::Result<()> {
    let resource = zx::startup::resource().ok_or(zx::Status::NOT_FOUND)?;
    let parameters = [ZX_PRIORITY_HIGHEST as u64, 0, 0];
    let info = zx_profile_info_t { flags: ZX_PROFILE_INFO_FLAG_PRIORITY, parameters, ..Default::default() };
    zx::startup::thread_self().set_profile(&Profile::create(&resource, 0, &info)?, 0)
}

/// Sleeps for fewer than so many nanoseconds.
fn sleep(dice: &mut Dice, most: u64) -> zx::Result<()> {
    zx::nanosleep(MonotonicInstant::after(zx::Duration::from_nanos(dice.roll(most) as i64)))
}

/// `L: inc rbx; syscall; inc r12; mov [rdi], rbx; inc r13; ud2; jmp L`
const LOOP: &[u8] =
    &[0x48, 0xff, 0xc3, 0x0f, 0x05, 0x49, 0xff, 0xc4, 0x48, 0x89, 0x1f, 0x49, 0xff, 0xc5, 0x0f, 0x0b, 0xeb, 0xee];
const BEHIND_SYSCALL: u64 = CODE + 5;
const STORE: u64 = CODE + 8;
const UNDEFINED: u64 = CODE + 14;

/// What the code stops at next; at the undefined instruction if it can store.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Next {
    Syscall,
    Store,
}

/// The code of a sub-domain makes system calls, stores to a page that comes and goes, and runs into undefined instructions, while kicks and
/// packets come; in between its owner has events enabled. Each stop is the one that the model has, with the registers that it
/// has, and each packet is seen once.
pub fn owner() -> Outcome {
    let root = zx::startup::vmar_root_self();
    let mut processor = VirtualProcessor::create(&root)?;
    let job = OwnJob::new()?;
    let (domain, vmar) = job.create_process("domain")?;
    let memory = Vmo::create(PAGE, 0)?;
    let run = |address, options| hafnon_vproc_run_t { address, offset: 0, len: PAGE, options, reserved: 0 };
    map_runs(&vmar, &code(LOOP)?, &[run(CODE, READ_EXECUTE)])?;
    let port = Port::create()?;
    processor.handle().bind(&port)?;
    let vproc = processor.handle().duplicate(Rights::SAME_RIGHTS)?;
    let (over, sent, taken) = (AtomicBool::new(false), AtomicU64::new(0), Cell::new((0_u64, 0_u64)));
    // Takes what is there; the packets' keys count up.
    let look = || {
        while let Ok(packet) = port.wait(MonotonicInstant::ZERO) {
            let (count, wrong) = taken.get();
            taken.set((count + 1, wrong + u64::from(packet.key != count)));
        }
    };
    let upcalls = Cell::new(0_u64);
    let event = |_: Events| {
        upcalls.set(upcalls.get() + 1);
        look();
    };
    thread::scope(|scope| {
        let sender = scope.spawn(|| {
            comes_first()?;
            let mut dice = Dice(77);
            while !over.load(SeqCst) {
                match dice.roll(4) {
                    0 | 1 => vproc.kick()?,
                    2 => {
                        port.queue(&zx_port_packet_t { key: sent.load(SeqCst), ..Default::default() })?;
                        sent.fetch_add(1, SeqCst);
                    }
                    _ => {}
                }
                sleep(&mut dice, 60_000)?;
            }
            zx::Result::Ok(())
        });
        let outcome = with_upcalls(processor.events(), &event, |events| {
            let mut dice = Dice(4711);
            let (mut next, mut turns, mut mapped, mut kicks) = (Next::Syscall, 0_u64, false, 0_u64);
            *processor.state() =
                hafnon_vproc_state_t { ip: CODE, rdi: DATA, flags: 0x202, r15: 5, ..Default::default() };
            let mut exit = processor.enter(&domain)?;
            for _ in 0..STEPS {
                let mut enters = dice.roll(8) == 0;
                match (exit, next) {
                    (Exit::Kick, _) => {
                        kicks += 1;
                        look();
                        enters = true;
                        is_where_it_can_be(processor.state(), turns, next)?;
                    }
                    (Exit::Syscall, Next::Syscall) => {
                        turns += 1;
                        let state = processor.state();
                        equal((state.rbx, state.r12, state.r13), (turns, turns - 1, turns - 1))?;
                        equal((state.ip, state.r15), (BEHIND_SYSCALL, turns + 4))?;
                        state.r15 += 1;
                        next = Next::Store;
                    }
                    (Exit::PageFault(DATA), Next::Store) => {
                        equal((mapped, processor.page().ip), (false, STORE))?;
                        map_runs(&vmar, &memory, &[run(DATA, READ_WRITE)])?;
                        mapped = true;
                        enters = false;
                    }
                    (Exit::Exception(6), Next::Store) => {
                        equal((mapped, processor.state().ip), (true, UNDEFINED))?;
                        processor.fill_state()?;
                        let state = processor.state();
                        equal((state.rbx, state.r12, state.r13, state.r15), (turns, turns, turns, turns + 5))?;
                        let mut stored = [0; 8];
                        memory.read(&mut stored, 0)?;
                        equal(u64::from_le_bytes(stored), turns)?;
                        state.ip = UNDEFINED + 2;
                        next = Next::Syscall;
                        enters = true;
                        if dice.roll(3) == 0 {
                            map_runs(&vmar, &memory, &[run(DATA, 0)])?;
                            mapped = false;
                        }
                    }
                    (exit, next) => return Err(format!("{exit:?}, but {next:?} was to come in turn {turns}").into()),
                }
                if dice.roll(4) == 0 {
                    enable(events, &event);
                    for _ in 0..dice.roll(300) {
                        std::hint::spin_loop();
                    }
                    events.disable();
                }
                exit = if enters { processor.enter(&domain)? } else { processor.resume()? };
            }
            eprintln!("{turns} turns, {kicks} stops by events, {} upcalls, {} packets", upcalls.get(), taken.get().0);
            ensure(kicks > 100 && upcalls.get() > 100, "there were too few events")
        });
        over.store(true, SeqCst);
        sender.join().map_err(|_| "the sender panicked")??;
        outcome?;
        look();
        equal(taken.get(), (sent.load(SeqCst), 0))
    })
}

/// Where an event may stop the code, by what is to come next: `turns` is what has been told of.
fn is_where_it_can_be(state: &hafnon_vproc_state_t, turns: u64, next: Next) -> Outcome {
    let at = state.ip - CODE;
    let counters = (state.rbx - turns, state.r12 + 1 - turns, state.r13 + 1 - turns);
    let places: &[(u64, (u64, u64, u64))] = match next {
        // In the jump, at the loop's begin, at the call.
        Next::Syscall => &[(16, (0, 1, 1)), (0, (0, 1, 1)), (3, (1, 1, 1))],
        // Behind the call, at the store, behind it, at the undefined instruction.
        Next::Store => &[(5, (0, 0, 0)), (8, (0, 1, 0)), (11, (0, 1, 0)), (14, (0, 1, 1))],
    };
    ensure(places.contains(&(at, counters)), &format!("it is at {at} with {counters:?}, and {next:?} is to come"))
}

/// Threads hand on numbers through a queue that is often full and often empty, preempted wherever a timer of random length falls, while
/// others kick. Each number comes once, those of each producer in order, and registers stay.
pub fn threads() -> Outcome {
    const ROOM: usize = 7;
    struct Shared {
        queue: VecDeque<(u64, u64)>,
        last: [u64; PAIRS as usize],
        sum: u64,
        count: u64,
    }
    let root = zx::startup::vmar_root_self();
    let processor = VirtualProcessor::create(&root)?;
    let vproc = processor.handle().duplicate(Rights::SAME_RIGHTS)?;
    let over = AtomicBool::new(false);
    let once = AtomicU64::new(1);
    let wrong = AtomicU64::new(0);
    let queue = VecDeque::with_capacity(ROOM);
    let shared = Mutex::new(Shared { queue, last: [0; PAIRS as usize], sum: 0, count: 0 });
    let (filled, emptied) = (Condition::new(), Condition::new());
    thread::scope(|scope| {
        let kicker = scope.spawn(|| {
            comes_first()?;
            let mut dice = Dice(99);
            while !over.load(SeqCst) {
                vproc.kick()?;
                sleep(&mut dice, 200_000)?;
            }
            zx::Result::Ok(())
        });
        let preemptions = vthread::probe::run(&processor, zx::Duration::from_nanos(70_011), |threads| {
            for producer in 0..PAIRS {
                let (shared, filled, emptied, wrong, once) = (&shared, &filled, &emptied, &wrong, &once);
                threads.spawn(move |threads| {
                    for n in 1..=ITEMS / PAIRS {
                        let mut held = shared.lock(threads);
                        while held.queue.len() == ROOM {
                            emptied.wait(&mut held);
                        }
                        held.queue.push_back((producer, n));
                        drop(held);
                        filled.notify_one(threads);
                        if n % 16 == producer && hold(once) != 0 {
                            wrong.fetch_add(1, SeqCst);
                        }
                    }
                });
                threads.spawn(move |threads| {
                    let mut dice = Dice(producer + 1);
                    for _ in 1..=ITEMS / PAIRS {
                        let mut held = shared.lock(threads);
                        let (from, n) = loop {
                            match held.queue.pop_front() {
                                Some(item) => break item,
                                None => filled.wait(&mut held),
                            }
                        };
                        let last = std::mem::replace(&mut held.last[from as usize], n);
                        wrong.fetch_add(u64::from(n != last + 1), SeqCst);
                        held.sum += n;
                        held.count += 1;
                        drop(held);
                        emptied.notify_one(threads);
                        if dice.roll(5) == 0 {
                            threads.yield_now();
                        }
                    }
                });
            }
            while shared.lock(threads).count < ITEMS {
                threads.yield_now();
            }
            threads.preemptions()
        })?;
        over.store(true, SeqCst);
        kicker.join().map_err(|_| "the kicker panicked")??;
        let Shared { sum, count, .. } = shared.into_inner();
        let each = ITEMS / PAIRS;
        equal((count, sum, wrong.load(SeqCst)), (ITEMS, PAIRS * each * (each + 1) / 2, 0))?;
        eprintln!("{preemptions} preemptions");
        ensure(preemptions > 100, "hardly anything was preempted")
    })
}
