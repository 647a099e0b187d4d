//! Futexes on the host, which wake exactly as many threads as they are told, so that a lost wake-up shows.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::{Futex, Slept};

/// A thread that waits longer has lost a wake-up.
const LOST: Duration = Duration::from_secs(60);

type Sleepers = HashMap<usize, VecDeque<Arc<Sleeper>>>;

#[derive(Default)]
struct Sleeper {
    is_woken: Mutex<bool>,
    changed: Condvar,
}

static SLEEPERS: LazyLock<Mutex<Sleepers>> = LazyLock::new(Mutex::default);
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

pub fn now() -> i64 {
    START.elapsed().as_nanos().try_into().unwrap()
}

pub struct Host;

fn key(word: &AtomicU32) -> usize {
    std::ptr::from_ref(word).addr()
}

impl Futex for Host {
    fn sleep(word: &AtomicU32, value: u32, deadline: i64) -> Slept {
        let me = Arc::new(Sleeper::default());
        {
            let mut all = SLEEPERS.lock().unwrap_or_else(PoisonError::into_inner);
            if word.load(Ordering::SeqCst) != value {
                return Slept::Woken;
            }
            all.entry(key(word)).or_default().push_back(me.clone());
        }
        let left = u64::try_from(deadline.saturating_sub(now())).unwrap_or(0);
        let has_deadline = deadline != Host::FOREVER;
        let limit = if has_deadline { Duration::from_nanos(left) } else { LOST };
        let woken = me.is_woken.lock().unwrap();
        let (woken, _) = me.changed.wait_timeout_while(woken, limit, |woken| !*woken).unwrap();
        let is_woken = *woken;
        drop(woken);
        if is_woken {
            return Slept::Woken;
        }
        let mut all = SLEEPERS.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = all.entry(key(word)).or_default();
        let before = queue.len();
        queue.retain(|other| !Arc::ptr_eq(other, &me));
        // A thread that takes it out of the queue has woken it.
        if queue.len() == before {
            return Slept::Woken;
        }
        assert!(has_deadline, "a wake-up is lost");
        Slept::TimedOut
    }

    fn wake(word: &AtomicU32, count: u32) {
        let mut all = SLEEPERS.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(queue) = all.get_mut(&key(word)) else { return };
        for _ in 0..count {
            let Some(sleeper) = queue.pop_front() else { return };
            *sleeper.is_woken.lock().unwrap() = true;
            sleeper.changed.notify_one();
        }
    }
}
