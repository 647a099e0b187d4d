//! Zircon's libsync.

// The crate `sync` defines the functions by their C names.
use sync as _;

use crate::room;

room! {
    sync_mutex_t: u32;
    sync_completion_t: u32;
    sync_condition_t: [u64; 3];
    zx_futex_t: u32;
}

unsafe extern "C" {
    pub safe fn sync_mutex_lock(mutex: &sync_mutex_t);
    pub safe fn sync_mutex_lock_with_waiter(mutex: &sync_mutex_t);
    pub safe fn sync_mutex_timedlock(mutex: &sync_mutex_t, deadline: i64) -> i32;
    pub safe fn sync_mutex_trylock(mutex: &sync_mutex_t) -> i32;
    pub safe fn sync_mutex_unlock(mutex: &sync_mutex_t);
    pub safe fn sync_mutex_assert_held(mutex: &sync_mutex_t);

    pub safe fn sync_condition_wait(condition: &sync_condition_t, mutex: &sync_mutex_t);
    pub safe fn sync_condition_timedwait(condition: &sync_condition_t, mutex: &sync_mutex_t, deadline: i64) -> i32;
    pub safe fn sync_condition_signal(condition: &sync_condition_t);
    pub safe fn sync_condition_broadcast(condition: &sync_condition_t);

    pub safe fn sync_completion_wait(completion: &sync_completion_t, timeout: i64) -> i32;
    pub safe fn sync_completion_wait_deadline(completion: &sync_completion_t, deadline: i64) -> i32;
    pub safe fn sync_completion_signal(completion: &sync_completion_t);
    pub safe fn sync_completion_signal_requeue(completion: &sync_completion_t, target: &zx_futex_t, owner: u32);
    pub safe fn sync_completion_reset(completion: &sync_completion_t);
    pub safe fn sync_completion_signaled(completion: &sync_completion_t) -> bool;

    safe fn zx_futex_wake(futex: *const u32, count: u32) -> i32;
}

/// Address of a completion's word, on which its waiters sleep.
pub fn address(completion: &sync_completion_t) -> usize {
    std::ptr::from_ref(completion).expose_provenance()
}

/// `zx_futex_wake` on a word on which other functions sleep.
pub fn wake(address: usize, count: u32) -> i32 {
    zx_futex_wake(std::ptr::with_exposed_provenance(address), count)
}

impl zx_futex_t {
    /// Address of the word.
    pub fn address(&self) -> usize {
        std::ptr::from_ref(self).expose_provenance()
    }
}
