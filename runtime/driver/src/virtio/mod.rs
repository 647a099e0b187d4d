//! Virtio devices on a PCI bus: a [`Disk`] and a network [`Card`].
//!
//! The crate `virtio-drivers` implements the registers, and the disk. It allocates memory through a trait without a
//! receiver ([`Hal`]), so the state behind that trait is global: a process can drive one device.

mod blk;
mod net;
mod ring;

use core::ptr::NonNull;
use std::string::{String, ToString};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::vec::Vec;

use virtio_drivers::transport::pci::PciTransport;
use virtio_drivers::transport::pci::bus::{ConfigurationAccess, DeviceFunction, PciRoot};
use virtio_drivers::transport::{DeviceStatus, DeviceType, InterruptStatus, Transport};
use virtio_drivers::{BufferDirection, Hal, PhysAddr};
use zerocopy::{FromBytes, Immutable, IntoBytes};
use zx::{Bti, Rights};

use crate::config::Config;
use crate::dma::{Dma, PAGE, Window};

pub use blk::{BLOCK, Disk, MOST_REQUESTS, Token};
pub use net::Card;

/// Bytes of a slot for a header or a status byte.
const PLACE: usize = 64;

/// This process's resources, as the crate's trait uses them.
struct Process {
    bti: Bti,
    windows: Vec<Window>,
    /// All memory that the crate made accessible to the device.
    memory: Mutex<Vec<Dma>>,
    /// For each data buffer: address in this process, length, address for the device.
    buffers: Mutex<Vec<(usize, usize, u64)>>,
    places: Mutex<Places>,
}

/// Slots for headers and status bytes, in a page that the device can access.
struct Places {
    page: Dma,
    free: Vec<usize>,
}

impl Places {
    fn new(bti: &Bti) -> zx::Result<Places> {
        let page = Dma::new(bti, PAGE)?;
        Ok(Places { free: (0..page.len() / PLACE).collect(), page })
    }

    fn at(&self, place: usize) -> NonNull<u8> {
        // SAFETY: `place` is below the number of slots in the page.
        unsafe { self.page.mapped().add(place * PLACE) }
    }

    /// Copies `bytes` to a free slot and returns the slot's address for the device.
    ///
    /// # Safety
    /// `bytes` is readable.
    unsafe fn take(&mut self, bytes: NonNull<[u8]>) -> Option<u64> {
        if bytes.len() > PLACE {
            return None;
        }
        let place = self.free.pop()?;
        // SAFETY: the slot is free and long enough; the caller guarantees that `bytes` is readable.
        unsafe { self.at(place).copy_from_nonoverlapping(bytes.cast(), bytes.len()) };
        Some(self.page.address() + (place * PLACE) as u64)
    }

    /// Frees the slot at this address for the device, if the address is a slot's. If `back`, the device may have
    /// written to the slot, and its contents are copied back to `bytes` first.
    ///
    /// # Safety
    /// `bytes` is writable if `back`.
    unsafe fn give_back(&mut self, address: u64, bytes: NonNull<[u8]>, back: bool) {
        let Some(offset) = address.checked_sub(self.page.address()).filter(|offset| *offset < PAGE as u64) else {
            return;
        };
        let place = offset as usize / PLACE;
        if back && bytes.len() <= PLACE {
            // SAFETY: the device no longer uses the slot; the caller guarantees that `bytes` is writable.
            unsafe { bytes.cast().copy_from_nonoverlapping(self.at(place), bytes.len()) };
        }
        self.free.push(place);
    }
}

static PROCESS: OnceLock<Process> = OnceLock::new();

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Implements the crate's trait.
#[derive(Debug)]
struct Memory;

// SAFETY: allocated memory is mapped, zeroed, page-aligned, and exclusive until it is freed; windows stay mapped until
// the process ends, and only the transport gets them.
unsafe impl Hal for Memory {
    fn dma_alloc(pages: usize, _: BufferDirection) -> (PhysAddr, NonNull<u8>) {
        let taken = PROCESS.get().and_then(|process| {
            let dma = Dma::new(&process.bti, pages.checked_mul(PAGE)?).ok()?;
            let (address, mapped) = (dma.address(), dma.mapped());
            locked(&process.memory).push(dma);
            Some((address, mapped))
        });
        // Address zero means that there is no memory.
        taken.unwrap_or((0, NonNull::dangling()))
    }

    unsafe fn dma_dealloc(address: PhysAddr, _: NonNull<u8>, _: usize) -> i32 {
        if let Some(process) = PROCESS.get() {
            locked(&process.memory).retain(|dma| dma.address() != address);
        }
        0
    }

    unsafe fn mmio_phys_to_virt(address: PhysAddr, size: usize) -> NonNull<u8> {
        let windows = PROCESS.get().map(|process| &process.windows);
        let found = windows.and_then(|windows| windows.iter().find_map(|window| window.find(address, size)));
        found.expect("the device's registers lie in a window that the bus driver did not give")
    }

    unsafe fn share(buffer: NonNull<[u8]>, _: BufferDirection) -> PhysAddr {
        let (start, len) = (buffer.cast::<u8>().addr().get(), buffer.len());
        let process = PROCESS.get().expect("set before the first request");
        let found = locked(&process.buffers).iter().find_map(|(at, size, address)| {
            let offset = start.checked_sub(*at)?;
            (offset.checked_add(len)? <= *size).then_some(address + offset as u64)
        });
        // SAFETY: the buffer is the crate's own, and readable.
        let found = found.or_else(|| unsafe { locked(&process.places).take(buffer) });
        found.expect("there are places for all requests that the queue takes")
    }

    unsafe fn unshare(address: PhysAddr, buffer: NonNull<[u8]>, direction: BufferDirection) {
        if let Some(process) = PROCESS.get() {
            let back = direction != BufferDirection::DriverToDevice;
            // SAFETY: the buffer is the crate's own, and writable unless only the device reads it.
            unsafe { locked(&process.places).give_back(address, buffer, back) };
        }
    }
}

/// Configuration registers for the crate. The crate finds the sizes of windows by writing to their BARs, which a driver
/// has no right to do; so this type emulates the BARs.
struct Registers<C> {
    config: C,
    /// The value last written to each BAR, if any.
    written: [Option<u32>; 6],
}

/// Offsets of the BARs in configuration space.
const WINDOWS: core::ops::RangeInclusive<u8> = 0x10..=0x27;

impl<C: Config> ConfigurationAccess for Registers<C> {
    fn read_word(&self, _: DeviceFunction, offset: u8) -> u32 {
        if WINDOWS.contains(&offset) {
            let index = (offset - 0x10) / 4;
            let is_upper = index > 0 && self.config.read(offset - 4) & 0b111 == 0b100;
            let size = self.config.window(if is_upper { index - 1 } else { index }).map_or(0, |(_, len)| len);
            if self.written[usize::from(index)] == Some(u32::MAX) {
                let mask = if size == 0 { 0 } else { !(size - 1) };
                let flags = if is_upper { 0 } else { self.config.read(offset) & 0xf };
                return if is_upper { (mask >> 32) as u32 } else { mask as u32 | flags };
            }
        }
        self.config.read(offset)
    }

    fn write_word(&mut self, _: DeviceFunction, offset: u8, value: u32) {
        if WINDOWS.contains(&offset) {
            self.written[usize::from((offset - 0x10) / 4)] = Some(value);
        } else {
            self.config.write(offset, value);
        }
    }

    unsafe fn unsafe_clone(&self) -> Self {
        Registers { config: self.config.clone(), written: self.written }
    }
}

/// The crate's transport, extended to enable an MSI-X interrupt for the queue, which the crate does not do itself.
struct Interrupting {
    inner: PciTransport,
    /// The common configuration structure of the virtio specification.
    common: NonNull<u8>,
    /// The message for changes of the device's configuration.
    config_vector: u16,
}

/// No message.
const NO_VECTOR: u16 = 0xffff;

/// How often the driver looks whether a device has stopped.
const RESET_LOOKS: u32 = 10_000_000;

/// Offsets in the common configuration structure.
const MSIX_CONFIG: usize = 0x10;
const QUEUE_SELECT: usize = 0x16;
const QUEUE_MSIX_VECTOR: usize = 0x1a;

impl Interrupting {
    /// Resets the device and waits until it has stopped.
    fn reset(&mut self) -> Result<(), String> {
        self.set_status(DeviceStatus::empty());
        for _ in 0..RESET_LOOKS {
            if self.get_status().is_empty() {
                return Ok(());
            }
            core::hint::spin_loop();
        }
        Err("the device does not stop".to_string())
    }

    fn write(&self, offset: usize, value: u16) {
        // SAFETY: `common` is the mapped common configuration, of 56 bytes or more, aligned to four.
        unsafe { self.common.add(offset).cast::<u16>().write_volatile(value) };
    }
}

impl Transport for Interrupting {
    fn queue_set(&mut self, queue: u16, size: u32, table: PhysAddr, driver: PhysAddr, device: PhysAddr) {
        self.write(MSIX_CONFIG, self.config_vector);
        self.write(QUEUE_SELECT, queue);
        self.write(QUEUE_MSIX_VECTOR, 0);
        self.inner.queue_set(queue, size, table, driver, device);
    }
    fn device_type(&self) -> DeviceType {
        self.inner.device_type()
    }
    fn read_device_features(&mut self) -> u64 {
        self.inner.read_device_features()
    }
    fn write_driver_features(&mut self, features: u64) {
        self.inner.write_driver_features(features);
    }
    fn max_queue_size(&mut self, queue: u16) -> u32 {
        self.inner.max_queue_size(queue)
    }
    fn notify(&mut self, queue: u16) {
        self.inner.notify(queue);
    }
    fn get_status(&self) -> DeviceStatus {
        self.inner.get_status()
    }
    fn set_status(&mut self, status: DeviceStatus) {
        self.inner.set_status(status);
    }
    fn set_guest_page_size(&mut self, size: u32) {
        self.inner.set_guest_page_size(size);
    }
    fn requires_legacy_layout(&self) -> bool {
        self.inner.requires_legacy_layout()
    }
    fn queue_unset(&mut self, queue: u16) {
        self.inner.queue_unset(queue);
    }
    fn queue_used(&mut self, queue: u16) -> bool {
        self.inner.queue_used(queue)
    }
    fn ack_interrupt(&mut self) -> InterruptStatus {
        self.inner.ack_interrupt()
    }
    fn read_config_generation(&self) -> u32 {
        self.inner.read_config_generation()
    }
    fn read_config_space<T: FromBytes + IntoBytes>(&self, offset: usize) -> virtio_drivers::Result<T> {
        self.inner.read_config_space(offset)
    }
    fn write_config_space<T: IntoBytes + Immutable>(&mut self, offset: usize, value: T) -> virtio_drivers::Result<()> {
        self.inner.write_config_space(offset, value)
    }
}

/// Finds the device's registers, resets it, and waits for the reset. After that it accesses no memory of an earlier
/// driver, so that driver's quarantined memory is released then.
///
/// # Errors
/// A sentence for the log.
fn open(config: impl Config, windows: Vec<Window>, bti: &Bti) -> Result<Interrupting, String> {
    let step = |what: &'static str| move |error: zx::Status| std::format!("{what}: {error}");
    let process = Process {
        bti: bti.duplicate(Rights::SAME_RIGHTS).map_err(step("the BTI"))?,
        windows,
        memory: Mutex::default(),
        buffers: Mutex::default(),
        places: Mutex::new(Places::new(bti).map_err(step("a page for requests"))?),
    };
    PROCESS.set(process).map_err(|_| "a process drives one device".to_string())?;
    let function = DeviceFunction { bus: 0, device: 0, function: 0 };
    let common = common_config(&config).ok_or("it has no common configuration in a window")?;
    let mut root = PciRoot::new(Registers { config, written: [None; 6] });
    let inner = PciTransport::new::<Memory, _>(&mut root, function).map_err(|error| error.to_string())?;
    let mut transport = Interrupting { inner, common, config_vector: NO_VECTOR };
    transport.reset()?;
    bti.release_quarantine().map_err(step("the memory of an earlier driver"))?;
    Ok(transport)
}

/// Finds the common configuration structure: the vendor-specific capability of type 1 holds its BAR and offset.
fn common_config(config: &impl Config) -> Option<NonNull<u8>> {
    let mut at = (config.read(0x34) & 0xfc) as u8;
    // A list in 256 bytes has at most 48 entries; the limit also ends a cyclic list.
    for _ in 0..48 {
        if at < 0x40 {
            return None;
        }
        let head = config.read(at);
        if head & 0xff == 0x09 && head >> 24 == 1 {
            let index = config.read(at.checked_add(4)?) as u8;
            let offset = config.read(at.checked_add(8)?);
            let (address, _) = config.window(index)?;
            let windows = &PROCESS.get()?.windows;
            return windows.iter().find_map(|window| window.find(address + u64::from(offset), 56));
        }
        at = (head >> 8) as u8 & 0xfc;
    }
    None
}
