//! I/O ports.

use core::arch::asm;

use zx::{AsHandleRef, Resource, Result, Status};

/// A range of I/O ports that this process may use, as long as this lives.
///
/// Ports are named by their distance from the first. What lies beyond the range reads as ones and takes no bytes, as a
/// bus does where no device is.
#[derive(Debug)]
pub struct Ports {
    resource: Resource,
    first: u16,
    count: u16,
}

impl Ports {
    /// Asks for the ports that a resource stands for.
    ///
    /// # Errors
    /// `WRONG_TYPE`: the resource is for something else.
    pub fn request(resource: Resource) -> Result<Ports> {
        let info = resource.info()?;
        if info.kind != abi::ZX_RSRC_KIND_IOPORT {
            return Err(Status::WRONG_TYPE);
        }
        let first = u16::try_from(info.base).map_err(|_| Status::OUT_OF_RANGE)?;
        let count = u16::try_from(info.size).map_err(|_| Status::OUT_OF_RANGE)?;
        // SAFETY: no memory involved.
        let status = unsafe { zx::sys::zx_ioports_request(resource.raw_handle(), first, count.into()) };
        if status != 0 {
            return Err(Status(status));
        }
        Ok(Ports { resource, first, count })
    }

    /// Reads a byte.
    pub fn read(&self, port: u16) -> u8 {
        let mut value = 0xff;
        if let Some(port) = self.port(port, 1) {
            // SAFETY: the process was given this port: no memory of ours is behind it.
            unsafe { asm!("in al, dx", in("dx") port, out("al") value, options(nomem, nostack, preserves_flags)) };
        }
        value
    }

    /// Writes a byte.
    pub fn write(&self, port: u16, value: u8) {
        if let Some(port) = self.port(port, 1) {
            // SAFETY: as in `read`.
            unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nomem, nostack, preserves_flags)) };
        }
    }

    /// Reads four bytes.
    pub fn read_u32(&self, port: u16) -> u32 {
        let mut value = u32::MAX;
        if let Some(port) = self.port(port, 4) {
            // SAFETY: as in `read`.
            unsafe { asm!("in eax, dx", in("dx") port, out("eax") value, options(nomem, nostack, preserves_flags)) };
        }
        value
    }

    /// Writes four bytes.
    pub fn write_u32(&self, port: u16, value: u32) {
        if let Some(port) = self.port(port, 4) {
            // SAFETY: as in `read`.
            unsafe { asm!("out dx, eax", in("dx") port, in("eax") value, options(nomem, nostack, preserves_flags)) };
        }
    }

    /// Writes bytes one after the other to one port, in one instruction: each instruction of this kind is carried out by
    /// the kernel, so a burst costs as much as a byte.
    pub fn write_all(&self, port: u16, bytes: &[u8]) {
        if let Some(port) = self.port(port, 1) {
            // SAFETY: as in `read`; the instruction reads `bytes` and nothing else, upward, as the ABI has the flag.
            unsafe {
                asm!(
                    "rep outsb",
                    in("dx") port,
                    inout("rsi") bytes.as_ptr() => _,
                    inout("rcx") bytes.len() => _,
                    options(readonly, nostack, preserves_flags),
                );
            }
        }
    }

    /// The number of a port, if `size` bytes from it lie in the range.
    fn port(&self, port: u16, size: u16) -> Option<u16> {
        let end = port.checked_add(size)?;
        (end <= self.count).then_some(self.first.wrapping_add(port))
    }
}

impl Drop for Ports {
    fn drop(&mut self) {
        // SAFETY: no memory involved.
        unsafe { zx::sys::zx_ioports_release(self.resource.raw_handle(), self.first, self.count.into()) };
    }
}
