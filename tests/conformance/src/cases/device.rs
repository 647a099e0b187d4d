//! Real devices, as an ordinary driver uses them: registers in memory, interrupts by line and by message, and DMA.
//!
//! The device is QEMU's educational device (`edu`) on the PCI bus of the machine that runs these cases. In addition
//! there are two that every PC has: the timer, which the system uses itself and which programs can read, and the PCI
//! bus.

use core::sync::atomic::Ordering::Relaxed;
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::Duration;

use abi::{
    Status, ZX_BTI_CONTIGUOUS, ZX_BTI_PERM_READ, ZX_BTI_PERM_WRITE, ZX_CACHE_POLICY_UNCACHED_DEVICE,
    ZX_INTERRUPT_MODE_LEVEL_LOW, ZX_VM_PERM_READ, ZX_VM_PERM_WRITE, ZX_VM_SPECIFIC,
};
use zx::{AsHandleRef, Bti, Interrupt, IoPorts, Iommu, Mapping, MonotonicInstant, Msi, Port, Unowned, Vmar, Vmo};

use super::{cases, late, raw, root_resource};
use crate::check::{Failure, Outcome, ensure, equal, gives};
use crate::prober::Prober;

cases! {
    "device.timer.can_be_read" => timer_can_be_read,
    "device.timer.cannot_be_written" => timer_cannot_be_written,
    "device.pci.memory_and_ports_agree" => pci_memory_and_ports_agree,
    "device.registers" => registers,
    "device.line" => line,
    "device.line_at_a_port" => line_at_a_port,
    "device.message" => message,
    "device.message_after_the_end" => message_after_the_end,
    "device.copies" => copies,
    "device.copies_large" => copies_large,
}

const PAGE: usize = 4096;
const READ_WRITE: u32 = ZX_VM_PERM_READ | ZX_VM_PERM_WRITE;

const TIMER: usize = 0xfed0_0000;
const TIMER_COUNT: usize = 0xf0;

/// Where the PCI configuration space is mapped: a page for each function.
const CONFIGURATION: usize = 0xb000_0000;

const IDENTITY: u32 = 0x11e8_1234;
const TURNED_ROUND: usize = 0x04;
const RAISED: usize = 0x24;
const RAISE: usize = 0x60;
const SERVED: usize = 0x64;
const COPY_FROM: usize = 0x80;
const COPY_TO: usize = 0x88;
const COPY_COUNT: usize = 0x90;
const COPY: usize = 0x98;
const COPY_START: u32 = 1;
const COPY_TO_MEMORY: u32 = 2;
/// Address of the device's own memory, as the device sees it.
const BUFFER: u64 = 0x4_0000;

fn physical(address: usize, size: usize) -> Result<Vmo, Failure> {
    let vmo = Vmo::create_physical(&*root_resource()?, address, size)?;
    gives(raw!(zx_vmo_set_cache_policy, vmo.raw_handle(), ZX_CACHE_POLICY_UNCACHED_DEVICE), Status::OK)?;
    Ok(vmo)
}

fn map(vmo: &Vmo, options: u32) -> Result<Mapping<'static>, Failure> {
    static ROOT: OnceLock<Unowned<'static, Vmar>> = OnceLock::new();
    Ok(ROOT.get_or_init(zx::startup::vmar_root_self).map_here(options, vmo, 0, PAGE)?)
}

fn read(registers: &Mapping<'_>, at: usize) -> u32 {
    registers.word(at).map_or(0, |word| word.load(Relaxed))
}

fn write(registers: &Mapping<'_>, at: usize, value: u32) {
    if let Some(word) = registers.word(at) {
        word.store(value, Relaxed);
    }
}

/// The device, ready to be used.
struct Device {
    slot: usize,
    configuration: Vmo,
    configured: Mapping<'static>,
    registers: Mapping<'static>,
}

impl Device {
    fn find() -> Result<Device, Failure> {
        for slot in 0..32 {
            let configuration = physical(CONFIGURATION + (slot << 15), PAGE)?;
            let configured = map(&configuration, READ_WRITE)?;
            if read(&configured, 0) != IDENTITY {
                continue;
            }
            // Enables its registers and its DMA.
            write(&configured, 4, read(&configured, 4) & 0xffff | 6);
            let registers = physical((read(&configured, 0x10) & !0xf) as usize, PAGE)?;
            let device = Device { slot, configuration, configured, registers: map(&registers, READ_WRITE)? };
            write(&device.registers, SERVED, u32::MAX);
            return Ok(device);
        }
        Err("this machine has no device for lessons; `./hafnon test conformance` gives it one".into())
    }

    /// An object for its line interrupt. Its pin is 20 to 23, depending on its slot; PCI devices share these four
    /// lines.
    fn by_line(&self) -> Result<Interrupt, Failure> {
        let pin = 20 + self.slot as u32 % 4;
        Ok(Interrupt::create(&*root_resource()?, pin, ZX_INTERRUPT_MODE_LEVEL_LOW)?)
    }

    /// Offset of the MSI capability in its configuration space.
    fn capability(&self) -> Result<usize, Failure> {
        let mut at = read(&self.configured, 0x34) as usize & 0xfc;
        for _ in 0..48 {
            let word = read(&self.configured, at);
            if word & 0xff == 5 {
                return Ok(at);
            }
            at = word as usize >> 8 & 0xfc;
        }
        Err("it has no messages".into())
    }

    /// Makes the device interrupt with the reasons `bits`.
    fn raise(&self, bits: u32) {
        write(&self.registers, RAISE, bits);
    }

    /// Acknowledges the interrupt in the device; returns the reasons.
    fn serve(&self) -> u32 {
        let reasons = read(&self.registers, RAISED);
        write(&self.registers, SERVED, reasons);
        reasons
    }

    /// Makes the device copy, and waits for the end.
    fn copy(&self, from: u64, to: u64, count: u32, how: u32) -> Outcome {
        for (at, value) in [(COPY_FROM, from), (COPY_TO, to), (COPY_COUNT, count.into())] {
            let low = u32::try_from(value).map_err(|_| "an address that four bytes cannot hold")?;
            write(&self.registers, at, low);
        }
        write(&self.registers, COPY, COPY_START | how);
        let patience = late();
        while read(&self.registers, COPY) & COPY_START != 0 {
            ensure(MonotonicInstant::now() < patience, "the device does not come to an end")?;
            sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

fn timer_can_be_read() -> Outcome {
    let vmo = physical(TIMER, PAGE)?;
    let timer = map(&vmo, ZX_VM_PERM_READ)?;
    let femtoseconds = read(&timer, 4);
    ensure((1..=100_000_000).contains(&femtoseconds), "it says how long a count is")?;
    // The two values are not read at the same moment.
    let read_between = || (MonotonicInstant::now(), read(&timer, TIMER_COUNT), MonotonicInstant::now());
    let before = read_between();
    sleep(Duration::from_millis(20));
    let after = read_between();
    let counted = u128::from(after.1.wrapping_sub(before.1)) * u128::from(femtoseconds) / 1_000_000;
    let (least, most) = ((after.0 - before.2).0 as u128, (after.2 - before.0).0 as u128);
    ensure(counted > least * 3 / 4 && counted < most * 4, "it counts as time passes")
}

fn timer_cannot_be_written() -> Outcome {
    let vmo = physical(TIMER, PAGE)?;
    let prober = Prober::new()?;
    let (vmar, base) = prober.region(1)?;
    vmar.map(READ_WRITE | ZX_VM_SPECIFIC, 0, &vmo, 0, PAGE)?;
    ensure(prober.load(base)?.is_ok(), "it can be read")?;
    ensure(prober.store(base + TIMER_COUNT, 1)?.is_err(), "it was written")
}

fn pci_memory_and_ports_agree() -> Outcome {
    let ports = IoPorts::request(&*root_resource()?, 0xcf8, 8)?;
    let mut found = 0;
    for slot in 0..32 {
        let page = physical(CONFIGURATION + (slot << 15), PAGE)?;
        let page = map(&page, ZX_VM_PERM_READ)?;
        for register in [0, 8, 0x2c] {
            ports.write32(0, 0x8000_0000 | (slot as u32) << 11 | register);
            equal((slot, register, read(&page, register as usize)), (slot, register, ports.read32(4)))?;
        }
        found += u32::from(read(&page, 0) != u32::MAX);
    }
    ensure(found >= 2, "there are devices")
}

fn registers() -> Outcome {
    let device = Device::find()?;
    for value in [0, 0x1234_5678, u32::MAX] {
        write(&device.registers, TURNED_ROUND, value);
        equal(read(&device.registers, TURNED_ROUND), !value)?;
    }
    Ok(())
}

fn line() -> Outcome {
    let device = Device::find()?;
    let interrupt = device.by_line()?;
    let mut last = MonotonicInstant::now();
    for bits in 1..20 {
        device.raise(bits);
        let time = interrupt.wait()?;
        ensure(time >= last && time <= MonotonicInstant::now(), "it came when it was raised")?;
        last = time;
        equal(device.serve(), bits)?;
    }
    Ok(())
}

/// A device that holds its line causes no further packet before the interrupt is acknowledged.
fn line_at_a_port() -> Outcome {
    let device = Device::find()?;
    let port = Port::create_for_interrupts()?;
    let interrupt = device.by_line()?;
    interrupt.bind(&port, 7)?;
    device.raise(1);
    equal(port.wait(late())?.key, 7)?;
    device.raise(2);
    let soon = || MonotonicInstant::after(zx::Duration::from_millis(20));
    equal(port.wait(soon()).err(), Some(Status::TIMED_OUT))?;
    // The device was not served, so the interrupt arrives again as soon as it is unmasked.
    interrupt.ack()?;
    equal(port.wait(late())?.key, 7)?;
    equal(device.serve(), 3)?;
    interrupt.ack()?;
    equal(port.wait(soon()).err(), Some(Status::TIMED_OUT))
}

/// An object for its message-signalled interrupt, with the device set up to send the message.
fn by_message(device: &Device) -> Result<(Msi, Interrupt), Failure> {
    let at = device.capability()?;
    let msi = Msi::allocate(&*root_resource()?, 1)?;
    let info = msi.info()?;
    let interrupt = msi.create(0, 0, &device.configuration, at)?;
    write(&device.configured, at + 4, info.target_addr as u32);
    let long = read(&device.configured, at) >> 16 & 0x80 != 0;
    if long {
        write(&device.configured, at + 8, (info.target_addr >> 32) as u32);
    }
    write(&device.configured, at + if long { 12 } else { 8 }, info.target_data);
    write(&device.configured, at, read(&device.configured, at) | 1 << 16);
    Ok((msi, interrupt))
}

fn no_messages(device: &Device) -> Outcome {
    let at = device.capability()?;
    write(&device.configured, at, read(&device.configured, at) & !(1 << 16));
    Ok(())
}

fn message() -> Outcome {
    let device = Device::find()?;
    let (_msi, interrupt) = by_message(&device)?;
    let mut last = MonotonicInstant::now();
    for bits in 1..20 {
        device.raise(bits);
        let time = interrupt.wait()?;
        ensure(time >= last && time <= MonotonicInstant::now(), "it came when it was raised")?;
        last = time;
        equal(device.serve(), bits)?;
    }
    no_messages(&device)
}

/// A device that still sends messages when no program listens does no harm, and its interrupt number can be reused.
fn message_after_the_end() -> Outcome {
    let device = Device::find()?;
    let (msi, interrupt) = by_message(&device)?;
    device.raise(1);
    drop((interrupt, msi));
    device.serve();
    device.raise(1);
    device.serve();
    let (_msi, interrupt) = by_message(&device)?;
    device.raise(4);
    interrupt.wait()?;
    equal(device.serve(), 4)?;
    no_messages(&device)
}

fn there_and_back(size: usize, align: u32, offsets: &[usize]) -> Outcome {
    let device = Device::find()?;
    let bti = Bti::create(&Iommu::create_stub(&*root_resource()?)?, 0)?;
    let vmo = Vmo::create_contiguous(&bti, size, align)?;
    let mut address = [0];
    let options = ZX_BTI_PERM_READ | ZX_BTI_PERM_WRITE | ZX_BTI_CONTIGUOUS;
    let pinned = bti.pin(options, &vmo, 0, size as u64, &mut address)?;
    equal(address[0] % (1 << align.max(12)), 0)?;
    for (number, &offset) in (1_u8..).zip(offsets) {
        let sent: Vec<u8> = (0..PAGE / 2).map(|i| (i as u8).wrapping_mul(number).wrapping_add(number)).collect();
        vmo.write(&sent, offset as u64)?;
        let place = address[0] + offset as u64;
        device.copy(place, BUFFER, sent.len() as u32, 0)?;
        device.copy(BUFFER, place + sent.len() as u64, sent.len() as u32, COPY_TO_MEMORY)?;
        let mut received = vec![0; sent.len()];
        vmo.read(&mut received, (offset + sent.len()) as u64)?;
        ensure(received == sent, "what came back is what was sent")?;
    }
    pinned.unpin()?;
    Ok(())
}

fn copies() -> Outcome {
    there_and_back(4 * PAGE, 0, &[0, 3 * PAGE])
}

fn copies_large() -> Outcome {
    there_and_back(16 << 20, 21, &[0, 5 << 20, (16 << 20) - PAGE])
}
