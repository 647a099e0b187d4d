//! I/O ports.

use core::arch::asm;

use crate::{Resource, Result, Rights, Status, check, sys};

/// A range of I/O ports that this process may use. Ports are numbered from the first of the range. Two ranges should
/// not overlap: dropping the first one removes the right to the ports that they share.
#[derive(Debug)]
pub struct IoPorts {
    resource: Resource,
    first: u16,
    count: u32,
}

macro_rules! accesses {
    ($($number:ty, $read:ident, $write:ident, $read_all:ident, $write_all:ident, $register:tt, $width:tt;)*) => {
        $(
            #[doc = concat!("Reads a `", stringify!($number), "`.")]
            ///
            /// # Panics
            /// If the port is beyond the range.
            #[inline]
            pub fn $read(&self, offset: u16) -> $number {
                let port = self.port(offset, size_of::<$number>());
                let value: $number;
                // SAFETY: accesses only the port, which the process may use.
                unsafe {
                    asm!(concat!("in ", $register, ", dx"), in("dx") port, out($register) value,
                        options(nomem, nostack, preserves_flags));
                }
                value
            }

            #[doc = concat!("Writes a `", stringify!($number), "`.")]
            ///
            /// # Panics
            /// If the port is beyond the range.
            #[inline]
            pub fn $write(&self, offset: u16, value: $number) {
                let port = self.port(offset, size_of::<$number>());
                // SAFETY: as above.
                unsafe {
                    asm!(concat!("out dx, ", $register), in("dx") port, in($register) value,
                        options(nomem, nostack, preserves_flags));
                }
            }

            #[doc = concat!("Reads many `", stringify!($number), "`s from one port, one after the other.")]
            ///
            /// # Panics
            /// If the port is beyond the range.
            pub fn $read_all(&self, offset: u16, values: &mut [$number]) {
                let port = self.port(offset, size_of::<$number>());
                // SAFETY: writes only to the slice.
                unsafe {
                    asm!(concat!("rep ins", $width), in("dx") port, inout("rdi") values.as_mut_ptr() => _,
                        inout("rcx") values.len() => _, options(nostack, preserves_flags));
                }
            }

            #[doc = concat!("Writes many `", stringify!($number), "`s to one port, one after the other.")]
            ///
            /// # Panics
            /// If the port is beyond the range.
            pub fn $write_all(&self, offset: u16, values: &[$number]) {
                let port = self.port(offset, size_of::<$number>());
                // SAFETY: reads only from the slice.
                unsafe {
                    asm!(concat!("rep outs", $width), in("dx") port, inout("rsi") values.as_ptr() => _,
                        inout("rcx") values.len() => _, options(nostack, preserves_flags, readonly));
                }
            }
        )*
    };
}

impl IoPorts {
    /// Requests access to `count` ports from `first` on.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`: the resource does not cover them. `ACCESS_DENIED`: the kernel uses one of them. `INVALID_ARGS`.
    pub fn request(resource: &Resource, first: u16, count: u32) -> Result<IoPorts> {
        let resource = resource.duplicate(Rights::SAME_RIGHTS)?;
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_ioports_request(crate::AsHandleRef::raw_handle(&resource), first, count) })?;
        Ok(IoPorts { resource, first, count })
    }

    /// Requests access to all ports of a resource.
    ///
    /// # Errors
    /// As [`IoPorts::request`].
    pub fn of(resource: &Resource) -> Result<IoPorts> {
        let info: abi::zx_info_resource_t = crate::Info::info_record(resource, abi::ZX_INFO_RESOURCE)?;
        let first = u16::try_from(info.base).map_err(|_| Status::WRONG_TYPE)?;
        Self::request(resource, first, u32::try_from(info.size).map_err(|_| Status::WRONG_TYPE)?)
    }

    /// Number of ports.
    pub fn count(&self) -> u32 {
        self.count
    }

    #[inline]
    fn port(&self, offset: u16, width: usize) -> u16 {
        assert!(u32::from(offset) + width as u32 <= self.count, "port {offset} is beyond the range");
        self.first + offset
    }

    accesses! {
        u8, read8, write8, read8_all, write8_all, "al", "b";
        u16, read16, write16, read16_all, write16_all, "ax", "w";
        u32, read32, write32, read32_all, write32_all, "eax", "d";
    }
}

impl Drop for IoPorts {
    fn drop(&mut self) {
        // SAFETY: no memory involved.
        unsafe {
            sys::zx_ioports_release(crate::AsHandleRef::raw_handle(&self.resource), self.first, self.count);
        }
    }
}
