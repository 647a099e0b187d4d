//! The functions of the table with which Linux reaches its virtio devices
//! (`guests/linux/overlay/arch/um/os-Linux/virtio.h`).

use std::sync::OnceLock;

use zx::Port;

use super::backing;
use super::memory::Mapped;
use crate::virtio::queue::Queue;
use crate::virtio::{Device, Virtio};

/// The key of the packet that says that a device wants to interrupt.
const KEY_VIRTIO: u64 = 3;

/// See the C definition.
#[repr(C)]
#[derive(Clone, Copy)]
struct Rings {
    size: u64,
    descriptors: u64,
    available: u64,
    used: u64,
}

/// See the C definition.
#[repr(C)]
pub struct VirtioTable {
    count: u32,
    id: extern "C" fn(u32) -> u32,
    features: extern "C" fn(u32) -> u64,
    accept: extern "C" fn(u32, u64) -> bool,
    status: extern "C" fn(u32) -> u8,
    set_status: extern "C" fn(u32, u8),
    config: extern "C" fn(u32, u32) -> u8,
    queue_size: extern "C" fn(u32, u32) -> u32,
    queue_start: unsafe extern "C" fn(u32, u32, *const Rings) -> bool,
    kick: extern "C" fn(u32),
    interrupts: extern "C" fn() -> u32,
}

/// The devices, and Linux' memory.
static DEVICES: OnceLock<(Virtio, Mapped)> = OnceLock::new();

fn devices() -> Option<&'static Virtio> {
    DEVICES.get().map(|(virtio, _)| virtio)
}

/// Makes a block device of each of these places, and starts their threads. They interrupt by this port.
///
/// # Errors
/// One of them is not there; the text names it.
pub fn start(disks: &[String], memory: Mapped, port: Port) -> Result<VirtioTable, String> {
    let disks = disks.iter().map(|place| backing::open(place)).collect::<Result<Vec<Box<dyn Device>>, String>>()?;
    let packet = abi::zx_port_packet_t { key: KEY_VIRTIO, ..Default::default() };
    // The port has room: it has one packet of these at most, beside those of the timer and of the input.
    let virtio = Virtio::new(
        disks,
        Box::new(move || {
            // Nothing waits for it any more where this fails.
            let _ = port.queue(&packet);
        }),
    );
    let (virtio, _) = DEVICES.get_or_init(|| (virtio, memory));
    for device in 0..virtio.count() {
        std::thread::spawn(move || virtio.serve(device, &memory.slice()));
    }
    Ok(VirtioTable {
        count: virtio.count(),
        id,
        features,
        accept,
        status,
        set_status,
        config,
        queue_size,
        queue_start,
        kick,
        interrupts,
    })
}

extern "C" fn id(device: u32) -> u32 {
    devices().map_or(0, |virtio| virtio.id(device))
}

extern "C" fn features(device: u32) -> u64 {
    devices().map_or(0, |virtio| virtio.features(device))
}

extern "C" fn accept(device: u32, features: u64) -> bool {
    devices().is_some_and(|virtio| virtio.accept(device, features))
}

extern "C" fn status(device: u32) -> u8 {
    devices().map_or(0, |virtio| virtio.status(device))
}

extern "C" fn set_status(device: u32, status: u8) {
    if let Some(virtio) = devices() {
        virtio.set_status(device, status);
    }
}

extern "C" fn config(device: u32, offset: u32) -> u8 {
    devices().map_or(0, |virtio| virtio.config(device, offset))
}

extern "C" fn queue_size(device: u32, queue: u32) -> u32 {
    devices().map_or(0, |virtio| virtio.queue_size(device, queue))
}

/// # Safety
/// `rings` refers to the numbers.
unsafe extern "C" fn queue_start(device: u32, index: u32, rings: *const Rings) -> bool {
    let Some((virtio, memory)) = DEVICES.get() else { return false };
    // SAFETY: the caller's.
    let Rings { size, descriptors, available, used } = unsafe { rings.read() };
    virtio.queue_start(device, index, Queue::new(&memory.slice(), size, descriptors, available, used))
}

extern "C" fn kick(device: u32) {
    if let Some(virtio) = devices() {
        virtio.kick(device);
    }
}

extern "C" fn interrupts() -> u32 {
    devices().map_or(0, Virtio::interrupts)
}
