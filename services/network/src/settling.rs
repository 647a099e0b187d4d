//! The last request: `init` says that the machine ends, and waits until what is still to be sent has been, for a short time.

use zx::{Duration, MonotonicInstant};

/// How long a peer may take to acknowledge.
const LONGEST: Duration = Duration::from_seconds(2);
/// How long the card's driver may take for frames of which nobody says whether they were sent.
const DRIVER: Duration = Duration::from_millis(20);

/// Who waits.
pub struct Settling {
    /// The channel's number, and the request's.
    pub asked: (u64, u32),
    until: MonotonicInstant,
    /// Number of frames that were sent before.
    sent: u64,
    /// Everything was sent.
    is_sent: bool,
}

impl Settling {
    /// The machine ends. The card has sent as many frames.
    pub fn new(asked: (u64, u32), sent: u64) -> Settling {
        Settling { asked, until: MonotonicInstant::after(LONGEST), sent, is_sent: false }
    }

    /// When there is an answer, unless something happens before.
    pub fn until(&self) -> MonotonicInstant {
        self.until
    }

    /// Whether it is time for the answer. `has_unsent`: something is still to be sent or acknowledged.
    pub fn is_over(&mut self, has_unsent: bool, sent: u64) -> bool {
        if !has_unsent && !self.is_sent {
            self.is_sent = true;
            let wait = if sent == self.sent { Duration::from_millis(0) } else { DRIVER };
            self.until = self.until.min(MonotonicInstant::after(wait));
        }
        self.until <= MonotonicInstant::now()
    }
}
