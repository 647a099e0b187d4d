//! The devices of a machine that is to boot: they decide what is in its image.

use std::path::PathBuf;

use crate::system::components::Native;
use crate::system::instances::OtherInstance;

/// Devices that only some machines have.
#[derive(Clone, Debug, Default)]
pub struct Devices {
    /// A third serial port, for the user's terminal.
    pub terminal: bool,
    /// QEMU's educational PCI device: registers, an interrupt by line and by message, and DMA. The conformance cases
    /// `device.*` drive it.
    pub teaching: bool,
    /// A disk on the PCI bus whose contents are this file.
    pub disk: Option<PathBuf>,
    /// A file that records each write to that disk and each flush.
    pub disk_log: Option<PathBuf>,
    /// The sector of that disk, of 512 bytes, whose writes fail.
    pub bad_sector: Option<u64>,
    /// No file service serves that disk: its blocks are for the program that the system is booted for.
    pub raw: bool,
    /// That disk cannot be written.
    pub read_only: bool,
    /// A network card.
    pub network: Option<Network>,
    /// The switch between guests, a service.
    pub switch: bool,
    /// The additional instances, and the BOOTFS image of each.
    pub beside: Vec<(OtherInstance, Vec<u8>)>,
    /// The native components.
    pub components: Vec<Native>,
}

impl Devices {
    /// Whether the network card is of this model.
    pub fn has_card(&self, model: Model) -> bool {
        self.network.as_ref().is_some_and(|network| network.model == model)
    }
}

/// A network card, and what is behind it.
#[derive(Clone, Debug)]
pub struct Network {
    /// What is behind it, in QEMU's words (`-netdev`), without `id`.
    pub netdev: String,
    /// Which card it is.
    pub model: Model,
    /// Its hardware address, if it is not QEMU's usual one.
    pub mac: Option<String>,
    /// A file for all frames, in the format of tcpdump.
    pub capture: Option<PathBuf>,
    /// A socket at which QEMU listens for commands about it (QMP).
    pub monitor: Option<PathBuf>,
}

/// The models of network cards that have a driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Model {
    /// Virtio's card.
    #[default]
    VirtioNetPci,
    /// Intel's 82574L.
    E1000e,
}

impl Model {
    /// All of them.
    pub const ALL: [Model; 2] = [Model::VirtioNetPci, Model::E1000e];

    /// Its name in QEMU's words, and in `system.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Model::VirtioNetPci => "virtio-net-pci",
            Model::E1000e => "e1000e",
        }
    }
}
