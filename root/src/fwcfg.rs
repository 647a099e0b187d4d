//! QEMU's firmware configuration device, which holds the boot file.
//!
//! The device reads into memory by itself, given a physical address, so whoever can give it requests can reach all
//! memory. Only the root task can: requests stand in a page that nobody else sees, data goes to one large page.

use core::ptr;

use sel4::{Caching, ObjectType, Page};
use server_boot::layout::CHUNK;

use crate::console::info;
use crate::error::{Context, Error};
use crate::memory::Memory;
use crate::start::PORTS;

const SELECTOR: u16 = 0x510;
const DATA: u16 = 0x511;
const DMA_HIGH: u16 = 0x514;
const DMA_LOW: u16 = 0x518;

const KEY_SIGNATURE: u16 = 0;
const KEY_FEATURES: u16 = 1;
const KEY_DIRECTORY: u16 = 0x19;
const FEATURE_DMA: u8 = 2;

const CONTROL_ERROR: u32 = 1;
const CONTROL_READ: u32 = 2;
const CONTROL_SKIP: u32 = 4;
const CONTROL_SELECT: u32 = 8;

/// The boot file's name.
const NAME: &[u8] = b"opt/hafnon/bootfs";
/// Bytes of a directory entry: size, key, two unused, name.
const ENTRY: usize = 64;
const ENTRY_NAME: usize = 8;

/// Why a read failed.
#[derive(Debug)]
pub struct ReadError;

/// The device, with the file in it.
pub struct FwCfg {
    key: u16,
    /// The file's bytes.
    pub size: u64,
    request: u64,
    request_physical: u64,
    /// The large page that data goes to.
    pub buffer: Page,
    buffer_physical: u64,
}

impl FwCfg {
    /// Looks for the device and the file. No device or no file is no error.
    pub fn open(memory: &mut Memory) -> Result<Option<FwCfg>, Error> {
        select(KEY_SIGNATURE);
        let mut signature = [0; 4];
        signature.fill_with(next);
        select(KEY_FEATURES);
        if signature != *b"QEMU" || next() & FEATURE_DMA == 0 {
            return Ok(None);
        }
        let Some((key, size)) = look_up() else { return Ok(None) };
        let page = Page(memory.make(ObjectType::Page)?);
        let request = memory.map_own(page, 4096, Caching::WriteBack)?;
        let buffer = Page(memory.make(ObjectType::LargePage)?);
        info!("boot file of {size} bytes");
        Ok(Some(FwCfg {
            key,
            size,
            request,
            request_physical: page.address().context("a page's address")?,
            buffer,
            buffer_physical: buffer.address().context("a page's address")?,
        }))
    }

    /// Reads a part of the file to the buffer's start. The part lies within the file and the buffer.
    pub fn read(&mut self, offset: u64, len: u64) -> Result<(), ReadError> {
        if len > CHUNK || offset.checked_add(len).is_none_or(|end| end > self.size) {
            return Err(ReadError);
        }
        let (offset, len) = (u32::try_from(offset).map_err(|_| ReadError)?, len as u32);
        self.run(u32::from(self.key) << 16 | CONTROL_SELECT | CONTROL_SKIP, offset, 0)?;
        self.run(CONTROL_READ, len, self.buffer_physical)
    }

    fn run(&mut self, control: u32, len: u32, address: u64) -> Result<(), ReadError> {
        let at = ptr::with_exposed_provenance_mut::<u8>(self.request as usize);
        // SAFETY: the page is mapped, belongs to this value alone, and the device is idle.
        unsafe {
            at.cast::<u32>().write_volatile(control.to_be());
            at.add(4).cast::<u32>().write_volatile(len.to_be());
            at.add(8).cast::<u64>().write_volatile(address.to_be());
        }
        let out = |port, word: u32| PORTS.out32(port, word.to_be()).map_err(|_| ReadError);
        out(DMA_HIGH, (self.request_physical >> 32) as u32)?;
        out(DMA_LOW, self.request_physical as u32)?;
        // QEMU has done it when the write returns; the bound is for other devices.
        for _ in 0..1_000_000 {
            // SAFETY: as above; the device writes the word when it is done.
            let state = u32::from_be(unsafe { at.cast::<u32>().read_volatile() });
            if state & CONTROL_ERROR != 0 {
                return Err(ReadError);
            }
            if state == 0 {
                return Ok(());
            }
        }
        Err(ReadError)
    }
}

fn select(key: u16) {
    let _ = PORTS.out16(SELECTOR, key);
}

fn next() -> u8 {
    PORTS.in8(DATA).unwrap_or(0)
}

/// Key and size of the boot file.
fn look_up() -> Option<(u16, u64)> {
    select(KEY_DIRECTORY);
    let mut count = [0; 4];
    count.fill_with(next);
    for _ in 0..u32::from_be_bytes(count).min(4096) {
        let mut entry = [0; ENTRY];
        entry.fill_with(next);
        let name = &entry[ENTRY_NAME..];
        if name.starts_with(NAME) && name[NAME.len()] == 0 {
            let size = u32::from_be_bytes([entry[0], entry[1], entry[2], entry[3]]);
            return Some((u16::from_be_bytes([entry[4], entry[5]]), size.into()));
        }
    }
    None
}
