//! How often the card had no link, as a program sees it.

use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// How often the link was lost.
static LOST: AtomicUsize = AtomicUsize::new(0);

/// How often a look found no link where the one before had found one. The first call begins to look.
pub fn lost() -> usize {
    static LOOKS: Once = Once::new();
    LOOKS.call_once(|| {
        thread::spawn(look);
    });
    LOST.load(Ordering::Relaxed)
}

fn look() {
    let mut before = true;
    loop {
        let online = online().unwrap_or(true);
        if before && !online {
            LOST.fetch_add(1, Ordering::Relaxed);
        }
        before = online;
        thread::sleep(Duration::from_millis(10));
    }
}

/// Whether the card has a link, as the network service says.
#[cfg(target_os = "fuchsia")]
fn online() -> Option<bool> {
    use network_protocol::{LONGEST, Reply, Request, SERVICE};

    let service = zx::startup::connect(SERVICE).ok()?;
    let mut bytes = [0; LONGEST];
    let request = Request::Card.encode(0);
    let forever = zx::MonotonicInstant::INFINITE;
    let size = service.call(forever, request.as_bytes(), [], &mut bytes, &mut []).ok()?;
    match Reply::decode(&bytes[..size.bytes]) {
        Some(Ok(Reply::Card(state))) => Some(state.online),
        _ => None,
    }
}

#[cfg(not(target_os = "fuchsia"))]
fn online() -> Option<bool> {
    None
}
