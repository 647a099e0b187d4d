//! How a socket of datagrams learns of errors before it sends, without a call (step 11 in the crate
//! `network-protocol`).

use alloc::boxed::Box;
use core::sync::atomic::{AtomicU32, Ordering};

use abi::{Rights, Status, ZX_VM_PERM_READ};
use network_protocol::Request;
use sync::Lock;
use zx::{AsHandleRef, Channel, Mapping, Vmo};

use crate::network::call;
use crate::startup::vmar_root;

/// Bytes of a page.
const PAGE: usize = 4096;

/// Where the service counts the errors of this process's sockets.
struct Count {
    vmo: Vmo,
    mapping: &'static Mapping<'static>,
}

static COUNT: Lock<Option<Count>> = Lock::new(None);

impl Count {
    fn new() -> Result<Count, Status> {
        let root: &'static _ = Box::leak(Box::new(vmar_root().ok_or(Status::BAD_STATE)?));
        let vmo = Vmo::create(PAGE as u64, 0)?;
        let mapping = Box::leak(Box::new(root.map_here(ZX_VM_PERM_READ, &vmo, 0, PAGE)?));
        Ok(Count { vmo, mapping })
    }
}

/// What the service gets: it reads and writes the count, and looks at what it was given.
const RIGHTS: Rights = Rights::READ.union(Rights::WRITE).union(Rights::TRANSFER).union(Rights::INSPECT);

/// What a socket knows about its errors.
#[derive(Clone, Copy)]
enum Known {
    /// The service was not asked to count them.
    Unasked,
    /// What the signals say.
    Signals,
    /// The signals say nothing new while the count is this.
    Count(&'static AtomicU32, u32),
}

/// The errors of a socket.
pub struct Errors(Lock<Known>);

impl Errors {
    pub const fn new() -> Errors {
        Errors(Lock::new(Known::Unasked))
    }

    /// Whether the socket's signals may report an error that no call of this has announced.
    pub fn may_be_new(&self, control: &Channel) -> bool {
        let mut known = self.0.lock();
        match *known {
            Known::Count(count, seen) => {
                // The service sets the signal before it counts.
                let now = count.load(Ordering::Acquire);
                *known = Known::Count(count, now);
                now != seen
            }
            Known::Unasked => {
                *known = ask(control).unwrap_or(Known::Signals);
                true
            }
            Known::Signals => true,
        }
    }
}

/// Asks the service to count the errors of a socket. `None`: it does not, because another process has asked, or it has
/// ended.
fn ask(control: &Channel) -> Option<Known> {
    let (vmo, count) = {
        let mut shared = COUNT.lock();
        if shared.is_none() {
            *shared = Count::new().ok();
        }
        let shared = shared.as_ref()?;
        (shared.vmo.duplicate_handle(RIGHTS).ok()?, shared.mapping.word(0)?)
    };
    // Errors of before are not counted, and those from now on are.
    let before = count.load(Ordering::Acquire);
    let (reply, []) = call(control, Request::CountErrors, [vmo]).ok()?;
    reply.ok().map(|_| Known::Count(count, before))
}
