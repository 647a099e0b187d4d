//! Records the last calls in a page that the root task reads when the server has died ([`server_boot::record`]).

use core::ptr;

use server_boot::layout::RECORD;
use server_boot::record::{CALLS, encode};

/// Records a call: its number, and its thread.
#[inline(always)]
pub fn call(number: u32, thread: u32) {
    let count = ptr::with_exposed_provenance_mut::<u64>(RECORD as usize);
    // SAFETY: the root task mapped the page there for writing, the server has one thread, and the ring lies within it.
    unsafe {
        let calls = count.read();
        // Two halves, because combining them first would take longer.
        let [low, high] = encode(number, thread);
        let place = count.add(1 + (calls % CALLS) as usize).cast::<u32>();
        place.write(low);
        place.add(1).write(high);
        count.write(calls.wrapping_add(1));
    }
}
