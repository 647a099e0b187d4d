//! Threads on a virtual processor, preempted at any moment.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

use conformance::check::{Outcome, ensure, equal};
use vthread::{Condition, Mutex};
use zx::probe::upcalls::hold;
use zx::{Rights, VirtualProcessor};

use super::plan::{Plan, comes_first, sleep};

/// The number of producers, and of consumers.
const PAIRS: u64 = 3;

/// Threads pass numbers through a queue that is often full and often empty. A timer of random length preempts them at
/// any moment, while other threads kick. Each number must arrive once, those of each producer in order, and registers
/// must be preserved.
pub fn threads(plan: Plan) -> Outcome {
    let each = plan.steps / PAIRS;
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
            let mut dice = plan.dice(1);
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
                    for n in 1..=each {
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
                    let mut dice = plan.dice(2 + producer);
                    for _ in 1..=each {
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
            while shared.lock(threads).count < each * PAIRS {
                threads.yield_now();
            }
            threads.preemptions()
        })?;
        over.store(true, SeqCst);
        kicker.join().map_err(|_| "the kicker panicked")??;
        let Shared { sum, count, .. } = shared.into_inner();
        equal((count, sum, wrong.load(SeqCst)), (each * PAIRS, PAIRS * each * (each + 1) / 2, 0))?;
        eprintln!("random threads: {count} numbers, {preemptions} preemptions");
        ensure(preemptions > count / 1_000, "hardly anything was preempted")
    })
}
