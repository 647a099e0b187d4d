//! Memory that another program has given, and can take away: accesses to it fail instead of ending this process.
//!
//! A page of a VMO may be impossible to get when it is touched: its owner gave it back, and the owner's job is at its limit;
//! or nothing was ever mapped there. The thread then faults. So a [`Region`] is accessed by routines in assembly only, and a
//! thread of this crate receives the process's exceptions: one that comes from these routines lets the faulting thread
//! continue behind the access, which returns an error. All other exceptions go on to the next handler.

use std::sync::OnceLock;
use std::thread;

use abi::zx_thread_state_general_regs_t;

use crate::arch::tolerant;
use crate::{Channel, Exception, MonotonicInstant, Process, Result, Status, Vmar, Vmo};

/// The result of starting the thread that receives exceptions.
static RECEIVER: OnceLock<Result<()>> = OnceLock::new();

/// Starts the thread once.
fn start_receiver() -> Result<()> {
    *RECEIVER.get_or_init(|| {
        let channel = Process::self_handle().create_exception_channel(0)?;
        let receive = move || while receive(&channel) != Err(Status::PEER_CLOSED) {};
        thread::Builder::new().name("faults".into()).spawn(receive).map(drop).map_err(|_| Status::NO_RESOURCES)
    })
}

/// Receives an exception. If it is dropped unhandled, the next handler gets it.
fn receive(channel: &Channel) -> Result<()> {
    let (exception, info) = Exception::receive(channel, MonotonicInstant::INFINITE)?;
    if info.type_ != abi::ZX_EXCP_FATAL_PAGE_FAULT {
        return Ok(());
    }
    let thread = exception.thread()?;
    let mut registers = thread.registers::<zx_thread_state_general_regs_t>()?;
    let report = thread.exception_report()?;
    if !tolerant::return_after_fault(&mut registers, &report.context.arch) {
        return Ok(());
    }
    thread.set_registers(&registers)?;
    exception.set_state(abi::ZX_EXCEPTION_STATE_HANDLED)
}

/// Which side of a copy could not be accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyFault {
    /// The side that is read.
    From,
    /// The side that is written.
    To,
}

/// A range of addresses of this process, into which VMOs of other programs are mapped, and which nothing but this type
/// accesses. Dropping it takes all mappings away, by one call.
#[derive(Debug)]
pub struct Region {
    vmar: Vmar,
    address: usize,
    len: usize,
}

impl Region {
    /// A range of addresses in which nothing is mapped.
    ///
    /// # Errors
    /// `NO_RESOURCES`: there is none, or the thread for exceptions does not start. `ALREADY_BOUND`: another part of this
    /// process receives its exceptions. `INVALID_ARGS`: the length is not of whole pages.
    pub fn new(len: usize) -> Result<Region> {
        start_receiver()?;
        let options = abi::ZX_VM_CAN_MAP_READ | abi::ZX_VM_CAN_MAP_WRITE | abi::ZX_VM_CAN_MAP_SPECIFIC;
        let (vmar, address) = crate::startup::vmar_root_self().allocate(options, 0, len)?;
        Ok(Region { vmar, address, len })
    }

    /// Maps part of a VMO at this offset, to be read and written.
    ///
    /// # Errors
    /// As [`Vmar::map`].
    pub fn map(&self, offset: usize, vmo: &Vmo, vmo_offset: u64, len: usize) -> Result<()> {
        let options = abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE | abi::ZX_VM_SPECIFIC;
        self.vmar.map(options, offset, vmo, vmo_offset, len).map(drop)
    }

    /// Takes away what is mapped in a range.
    ///
    /// # Errors
    /// As [`Vmar::unmap`]; `OUT_OF_RANGE`.
    pub fn unmap(&self, offset: usize, len: usize) -> Result<()> {
        self.place(offset, len)?;
        self.vmar.unmap(self.address + offset, len)
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Always false: there is at least one page.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn place(&self, offset: usize, len: usize) -> Result<*mut u8> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok(core::ptr::with_exposed_provenance_mut(self.address + offset)),
            _ => Err(Status::OUT_OF_RANGE),
        }
    }

    /// Copies bytes from the region.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`: beyond its end. `BAD_STATE`: a page is not there.
    #[inline]
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        let from = self.place(offset, bytes.len())?;
        // SAFETY: the range is in this region, which only these functions access; the slice is exclusive.
        unsafe { tolerant::copy(bytes.as_mut_ptr(), from, bytes.len()) }.map_err(|_| Status::BAD_STATE)
    }

    /// Copies bytes to the region.
    ///
    /// # Errors
    /// As [`Region::read`].
    #[inline]
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        let to = self.place(offset, bytes.len())?;
        // SAFETY: the range is in this region, which only these functions access; nobody writes to the slice.
        unsafe { tolerant::copy(to, bytes.as_ptr(), bytes.len()) }.map_err(|_| Status::BAD_STATE)
    }

    /// Reads a number at once; accesses to memory that come later in the program are not moved before it.
    ///
    /// # Errors
    /// As [`Region::read`]; `INVALID_ARGS`: the offset is odd.
    #[inline]
    pub fn load(&self, offset: usize) -> Result<u16> {
        let from = self.place(offset, 2)?;
        if !from.addr().is_multiple_of(2) {
            return Err(Status::INVALID_ARGS);
        }
        // SAFETY: the two bytes are in this region, which only these functions access. x86 does not move later accesses
        // before a load.
        unsafe { tolerant::load(from.cast()) }.ok_or(Status::BAD_STATE)
    }

    /// Writes a number at once; accesses to memory that come earlier in the program are not moved behind it.
    ///
    /// # Errors
    /// As [`Region::load`].
    #[inline]
    pub fn store(&self, offset: usize, value: u16) -> Result<()> {
        let to = self.place(offset, 2)?;
        if !to.addr().is_multiple_of(2) {
            return Err(Status::INVALID_ARGS);
        }
        // SAFETY: the two bytes are in this region, which only these functions access. x86 does not move earlier accesses
        // behind a store.
        if unsafe { tolerant::store(to.cast(), value) } { Ok(()) } else { Err(Status::BAD_STATE) }
    }

    /// Copies bytes from this region to another one (or to another place of it). `words`: by a simple loop, for
    /// measurements.
    ///
    /// # Errors
    /// Which side is not there, or is out of range. Part of the bytes may have been copied.
    #[inline]
    pub fn copy(
        &self,
        offset: usize,
        to: &Region,
        to_offset: usize,
        len: usize,
        words: bool,
    ) -> core::result::Result<(), CopyFault> {
        let from = self.place(offset, len).map_err(|_| CopyFault::From)?;
        let target = to.place(to_offset, len).map_err(|_| CopyFault::To)?;
        // SAFETY: both ranges are in regions that only these functions access. They may overlap, or two programs may have
        // given the same pages: then bytes are copied that were written before, and nothing else.
        unsafe { if words { tolerant::copy_words(target, from, len) } else { tolerant::copy(target, from, len) } }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let _ = self.vmar.destroy();
    }
}
