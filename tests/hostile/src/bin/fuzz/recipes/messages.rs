//! Calls that carry messages, and calls that wait.

use abi::{Rights, ZX_OBJ_TYPE_NONE};

use super::{Any, BUFFER, Buffer, Bytes, Handle, Is, Partner, Recipe, To, Word, bytes, record};
use crate::grammar::NamedHandle;

const FIRST: u64 = 0;
const SECOND: u64 = 1;
const EVENT: u64 = 2;
const PORT: u64 = 3;
const REGION: u64 = 4;
/// A word of the partner that nothing changes.
const FUTEX: u64 = 60;
/// The partner's channel, whose messages it answers, and the end through which others send them.
pub const ANSWERED: u64 = 8;
/// The other end of that channel.
pub const ASKED: u64 = 9;
/// The slot for sizes.
const SIZES: u64 = 50;

/// Access rights of an IOBuffer's region: both ends may map and write.
const ACCESS: u64 = 0xbb;

/// Lays out the target call if it is one of these.
pub fn lay(recipe: &mut Recipe<'_>) -> bool {
    match recipe.target() {
        target @ ("channel_read" | "channel_read_etc") => {
            recipe.call("channel_create", &[Is(0), To(FIRST), To(SECOND)]);
            let (size, handles) = (recipe.below(200), recipe.below(2));
            recipe.call("event_create", &[Is(0), To(EVENT)]);
            let sent = Bytes(vec![0; 4], vec![(0, EVENT)]);
            recipe.call("channel_write", &[Handle(FIRST), Is(0), Buffer, Is(size), sent, Is(handles)]);
            recipe.call(target, &[Handle(SECOND), Is(0), Buffer, Buffer, Is(BUFFER), Is(8)]);
        }
        "channel_write_etc" => {
            recipe.call("channel_create", &[Is(0), To(FIRST), To(SECOND)]);
            recipe.call("event_create", &[Is(0), To(EVENT)]);
            let sent = disposition(recipe.below(2));
            recipe.call("channel_write_etc", &[Handle(FIRST), Is(0), Buffer, Is(16), sent, Is(1)]);
        }
        target @ ("channel_call" | "channel_call_etc") => {
            let (bytes, handles) = (recipe.buffer(), recipe.buffer());
            let fields = [
                ("wr_bytes", bytes),
                ("rd_bytes", bytes),
                ("rd_handles", handles),
                ("wr_num_bytes", 4 + recipe.below(100)),
                ("rd_num_bytes", BUFFER),
                ("rd_num_handles", 8),
            ];
            let arguments = super::bytes(&record(&format!("zx_{target}_args_t"), &fields));
            let deadline = recipe.late();
            recipe.call(target, &[Partner(ASKED), Is(0), deadline, arguments, To(SIZES), To(SIZES + 1)]);
        }
        "socket_read" => {
            let kind = Is(recipe.below(2));
            recipe.call("socket_create", &[kind, To(FIRST), To(SECOND)]);
            recipe.call("socket_write", &[Handle(FIRST), Is(0), Buffer, Is(100), Any]);
            recipe.call("socket_read", &[Handle(SECOND), Is(0), Buffer, Is(64)]);
        }
        "fifo_read" => {
            recipe.call("fifo_create", &[Is(8), Is(8), Is(0), To(FIRST), To(SECOND)]);
            recipe.call("fifo_write", &[Handle(FIRST), Is(8), Buffer, Is(4), Any]);
            recipe.call("fifo_read", &[Handle(SECOND), Is(8), Buffer, Is(3)]);
        }
        "port_wait" => {
            let packet = bytes(&record("zx_port_packet_t", &[("key", 7)]));
            recipe.call("port_queue", &[Word::NamedHandle(NamedHandle::Port), packet]);
            let deadline = recipe.soon();
            recipe.call("port_wait", &[Word::NamedHandle(NamedHandle::Port), deadline, Buffer]);
        }
        "port_cancel_key" => {
            recipe.call("port_create", &[Is(0), To(PORT)]);
            recipe.call("event_create", &[Is(0), To(EVENT)]);
            recipe.call("object_wait_async", &[Handle(EVENT), Handle(PORT), Is(7), Is(8), Is(0)]);
            recipe.call("port_cancel_key", &[Handle(PORT), Is(0), Is(7)]);
        }
        "port_cancel" => {
            recipe.call("port_create", &[Is(0), To(PORT)]);
            recipe.call("event_create", &[Is(0), To(EVENT)]);
            let bits = Is(1 << (24 + recipe.below(8)));
            recipe.call("object_wait_async", &[Handle(EVENT), Handle(PORT), Is(9), bits, Is(0)]);
            recipe.call("port_cancel", &[Handle(PORT), Handle(EVENT), Is(9)]);
        }
        "futex_wait" => {
            let deadline = recipe.late();
            let word = recipe.partners(FUTEX);
            recipe.call("futex_wait", &[word, Is(0), Is(0), deadline]);
        }
        target @ ("futex_requeue" | "futex_requeue_single_owner") => {
            let (from, to) = (recipe.partners(FUTEX), recipe.partners(FUTEX + 1));
            let counts = Is(recipe.below(3));
            if target == "futex_requeue" {
                recipe.call(target, &[from, Is(1), Is(0), to, counts, Is(0)]);
            } else {
                recipe.call(target, &[from, Is(0), to, counts, Is(0)]);
            }
        }
        "object_wait_one" => {
            recipe.call("event_create", &[Is(0), To(EVENT)]);
            recipe.call("object_signal", &[Handle(EVENT), Is(0), Is(1 << 24)]);
            let deadline = recipe.soon();
            recipe.call("object_wait_one", &[Handle(EVENT), Is(1 << 24), deadline]);
        }
        "object_wait_many" => {
            recipe.call("event_create", &[Is(0), To(EVENT)]);
            recipe.call("timer_create", &[Is(0), Is(0), To(FIRST)]);
            let due = recipe.soon();
            recipe.call("timer_set", &[Handle(FIRST), due, Is(0)]);
            let one = record("zx_wait_item_t", &[("waitfor", 8)]);
            let items = Bytes(one.repeat(2), vec![(0, EVENT), (one.len(), FIRST)]);
            let deadline = recipe.late();
            recipe.call("object_wait_many", &[items, Is(2), deadline]);
        }
        "iob_create" => {
            let discipline = recipe.below(2);
            recipe.iob(discipline);
        }
        "iob_allocate_id" => {
            recipe.iob(1);
            let size = Is(recipe.below(100));
            recipe.call("iob_allocate_id", &[Handle(FIRST), Is(0), Is(0), Buffer, size]);
        }
        "iob_writev" => {
            recipe.iob(2);
            let fields = [("buffer", recipe.buffer()), ("capacity", recipe.below(300))];
            let parts = bytes(&record("zx_iovec_t", &fields));
            recipe.call("iob_writev", &[Handle(FIRST), Is(0), Is(0), parts, Is(1)]);
        }
        "vmar_map_iob" => {
            recipe.iob(0);
            let options = Is(1 | recipe.below(2) << 1);
            let vmar = Word::NamedHandle(NamedHandle::Vmar);
            recipe.call("vmar_map_iob", &[vmar, options, Is(0), Handle(FIRST), Is(0), Is(0), Is(0x1000), To(PORT)]);
        }
        _ => return false,
    }
    true
}

/// Answers messages, wakes waiters, and pauses in between.
pub fn partner(recipe: &mut Recipe<'_>, has_channel: bool) {
    if !has_channel {
        recipe.call("handle_close", &[Handle(ANSWERED)]);
        recipe.call("handle_close", &[Handle(ASKED)]);
        recipe.call("channel_create", &[Is(0), To(ANSWERED), To(ASKED)]);
    }
    for _ in 0..8 {
        let deadline = recipe.soon();
        // Readable, or the peer is closed.
        recipe.call("object_wait_one", &[Handle(ANSWERED), Is(1 | 4), deadline, Any]);
        let (bytes, handles) = (recipe.buffer(), recipe.buffer());
        recipe
            .call("channel_read", &[Handle(ANSWERED), Is(0), Is(bytes), Is(handles), Is(BUFFER), Is(8), Is(0), Is(0)]);
        let size = Is(4 + recipe.below(64));
        recipe.call("channel_write", &[Handle(ANSWERED), Is(0), Is(bytes), size, Is(0), Is(0)]);
        let word = recipe.partners(FUTEX);
        recipe.call("futex_wake", &[word, Is(8)]);
        let other = recipe.partners(FUTEX + 1);
        recipe.call("futex_wake", &[other, Is(8)]);
    }
}

/// A disposition of an event, which moves or duplicates it.
fn disposition(operation: u64) -> Word {
    let kind = u64::from(ZX_OBJ_TYPE_NONE);
    let fields = [("operation", operation), ("type_", kind), ("rights", Rights::SAME_RIGHTS.bits().into())];
    Bytes(record("zx_handle_disposition_t", &fields), vec![(4, EVENT)])
}

impl Recipe<'_> {
    /// Creates an IOBuffer with one region with a discipline; a ring is in memory that may be shared with others.
    fn iob(&mut self, discipline: u64) {
        let shared = u64::from(discipline == 2);
        if shared == 1 {
            self.call("iob_create_shared_region", &[Is(0), Is(0x3000), To(REGION)]);
        }
        let mut region = record("zx_iob_region_t", &[("type_", shared), ("access", ACCESS)]);
        if shared == 0 {
            region[8..16].copy_from_slice(&0x4000_u64.to_le_bytes());
        }
        region[16..24].copy_from_slice(&discipline.to_le_bytes());
        // The extension of a shared region: options, then the handle.
        let handles = if shared == 1 { vec![(16 + 72 + 4, REGION)] } else { Vec::new() };
        self.call("iob_create", &[Is(0), Bytes(region, handles), Is(1), To(FIRST), To(SECOND)]);
    }

    /// The address of a buffer.
    pub fn buffer(&mut self) -> u64 {
        self.view.arena.0 + 0x1000 + 64 * self.below(64)
    }

    /// The address of one of the partner's slots.
    fn partners(&mut self, slot: u64) -> Word {
        Is((self.places)(0).partner + 8 * slot)
    }

    /// A deadline that leaves a partner enough time.
    pub fn late(&mut self) -> Word {
        Is((self.view.now + 4_000_000 + self.below(4_000_000) as i64) as u64)
    }
}
