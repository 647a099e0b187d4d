//! QEMU's firmware configuration device, which holds the instances' boot files.
//!
//! The device writes to any physical address that a request names, so a program that can give it requests can reach all
//! memory. Only the root task can: requests are in a page that only it maps, and data goes to a large page of the
//! instance.

use core::ptr;

use sel4::{Caching, ObjectType, Page};
use server_boot::layout::CHUNK;

use crate::arch::ports::PORTS;
use crate::error::{Context, Error};
use crate::make::ObjectMaker;
use crate::memory::Memory;

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

/// Prefix of the files' names.
const FOLDER: &[u8] = b"opt/hafnon/";
/// Bytes of a directory entry: size, key, two unused bytes, name.
const ENTRY: usize = 64;
const ENTRY_NAME: usize = 8;

/// A read failed.
#[derive(Debug)]
pub struct ReadError;

/// The device.
pub struct FwCfg {
    request: u64,
    request_physical: u64,
}

/// A file on the device.
#[derive(Clone, Copy)]
pub struct File {
    key: u16,
    /// Its size in bytes.
    pub size: u64,
}

impl FwCfg {
    /// Looks for the device. It is no error if there is none.
    pub fn open(memory: &mut Memory) -> Result<Option<FwCfg>, Error> {
        select(KEY_SIGNATURE);
        let mut signature = [0; 4];
        signature.fill_with(next);
        select(KEY_FEATURES);
        if signature != *b"QEMU" || next() & FEATURE_DMA == 0 {
            return Ok(None);
        }
        let page = Page(memory.make(ObjectType::Page)?);
        let request = memory.map_own(page, 4096, Caching::WriteBack)?;
        Ok(Some(FwCfg { request, request_physical: page.address().context("a page's address")? }))
    }

    /// The boot file of an instance.
    pub fn boot_file(&self, instance: &str) -> Option<File> {
        self.file(&[instance, "/bootfs\0"])
    }

    /// The program of a component.
    pub fn program(&self, component: &str) -> Option<File> {
        self.file(&[component, "/program\0"])
    }

    /// The mark that the host tool expects on a host link when a new life begins. No program knows it.
    pub fn mark(&self) -> Option<[u8; 16]> {
        let file = self.file(&["mark\0"])?;
        select(file.key);
        let mut mark = [0; 16];
        mark.fill_with(next);
        (file.size == mark.len() as u64).then_some(mark)
    }

    /// The file whose name consists of these parts.
    fn file(&self, name: &[&str]) -> Option<File> {
        select(KEY_DIRECTORY);
        let mut count = [0; 4];
        count.fill_with(next);
        for _ in 0..u32::from_be_bytes(count).min(4096) {
            let mut entry = [0; ENTRY];
            entry.fill_with(next);
            let parts = [FOLDER].into_iter().chain(name.iter().map(|part| part.as_bytes()));
            let mut rest = Some(&entry[ENTRY_NAME..]);
            parts.for_each(|part| rest = rest.and_then(|rest| rest.strip_prefix(part)));
            if rest.is_some() {
                let size = u32::from_be_bytes([entry[0], entry[1], entry[2], entry[3]]);
                return Some(File { key: u16::from_be_bytes([entry[4], entry[5]]), size: size.into() });
            }
        }
        None
    }

    /// Reads a part of a file to the start of a large page; `to` is the page's physical address.
    pub fn read(&mut self, file: File, offset: u64, len: u64, to: u64) -> Result<(), ReadError> {
        if len > CHUNK || offset.checked_add(len).is_none_or(|end| end > file.size) {
            return Err(ReadError);
        }
        let (offset, len) = (u32::try_from(offset).map_err(|_| ReadError)?, len as u32);
        self.run(u32::from(file.key) << 16 | CONTROL_SELECT | CONTROL_SKIP, offset, 0)?;
        self.run(CONTROL_READ, len, to)
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
        // QEMU has finished when the write returns; the bound is for other implementations.
        for _ in 0..1_000_000 {
            // SAFETY: as above; the device writes the word when it has finished.
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
