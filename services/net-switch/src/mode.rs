//! How the switch accesses memory, and how much it does at a time. All but the last mode are for measurements: they are the
//! steps by which such a switch becomes fast (`./hafnon bench switch`).

/// How a guest's memory is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Pages are mapped and unmapped at each access.
    Remap,
    /// By `zx_vmo_read` and `zx_vmo_write`.
    Call,
    /// It is mapped once.
    Mapped,
}

/// A mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// How memory is accessed.
    pub access: Access,
    /// Frames are copied word by word.
    pub words: bool,
    /// Frames of a turn.
    pub batch: u32,
    /// The feature `VIRTIO_RING_F_EVENT_IDX` is offered.
    pub event_index: bool,
    /// Checksums and large segments are left to the receiver.
    pub offload: bool,
}

impl Mode {
    /// What is used outside of measurements.
    pub const BEST: Mode = Mode { access: Access::Mapped, words: false, batch: 64, event_index: true, offload: true };

    /// The mode with this name.
    pub fn named(name: &str) -> Option<Mode> {
        let plain = Mode { offload: false, ..Mode::BEST };
        let single = Mode { batch: 1, event_index: false, ..plain };
        match name {
            "remap" => Some(Mode { access: Access::Remap, words: true, ..single }),
            "call" => Some(Mode { access: Access::Call, words: true, ..single }),
            "mapped" => Some(Mode { words: true, ..single }),
            "copy" => Some(single),
            "batch" => Some(Mode { event_index: false, ..plain }),
            "event-idx" => Some(plain),
            "offload" => Some(Mode::BEST),
            _ => None,
        }
    }
}
