//! Handles, owned and borrowed, and the calls that work on all objects.

use core::fmt;
use core::marker::PhantomData;
use core::mem::{self, ManuallyDrop};
use core::num::NonZeroU32;
use core::ops::Deref;

use abi::{Rights, Signals, Status};

use crate::{MonotonicInstant, Port, Result, check, sys};

/// An owned handle: closed when dropped.
#[derive(PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Handle(NonZeroU32);

impl Handle {
    /// Takes ownership of a handle value; `None` for zero. The previous owner must not use it any more. A value that
    /// this process does not own makes calls fail or affect another object of this process, as with a raw file
    /// descriptor.
    pub fn from_raw(raw: sys::zx_handle_t) -> Option<Handle> {
        NonZeroU32::new(raw).map(Handle)
    }

    /// Wraps a handle that a successful call returned.
    pub(crate) fn from_call(raw: sys::zx_handle_t) -> Result<Handle> {
        Handle::from_raw(raw).ok_or(Status::INTERNAL)
    }

    /// Releases ownership and returns the handle's value.
    pub fn into_raw(self) -> sys::zx_handle_t {
        let raw = self.0.get();
        mem::forget(self);
        raw
    }

    /// Exchanges the handle for one with fewer rights. Consumes the handle, even on failure.
    ///
    /// # Errors
    /// [`Status::INVALID_ARGS`]: the handle does not have these rights.
    pub fn replace(self, rights: Rights) -> Result<Handle> {
        let mut out = 0;
        // SAFETY: `out` has room for one handle.
        check(unsafe { sys::zx_handle_replace(self.into_raw(), rights.bits(), &mut out) })?;
        Handle::from_call(out)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: no memory involved; the handle is owned here, and nothing can use it after this.
        unsafe { sys::zx_handle_close(self.0.get()) };
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({:#x})", self.0)
    }
}

/// A borrowed handle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HandleRef<'a>(sys::zx_handle_t, PhantomData<&'a Handle>);

impl HandleRef<'_> {
    /// Borrows a handle that is valid until the process ends, such as the process's own.
    pub fn from_raw(raw: sys::zx_handle_t) -> HandleRef<'static> {
        HandleRef(raw, PhantomData)
    }

    /// The handle's value.
    pub fn raw(&self) -> sys::zx_handle_t {
        self.0
    }
}

/// A typed object whose handle has another owner.
pub struct Unowned<'a, T>(ManuallyDrop<T>, PhantomData<&'a T>);

impl<T: From<Handle>> Unowned<'_, T> {
    /// Borrows a handle that is valid until the process ends. `None` for zero.
    pub fn from_raw(raw: sys::zx_handle_t) -> Option<Unowned<'static, T>> {
        Handle::from_raw(raw).map(|handle| Unowned(ManuallyDrop::new(T::from(handle)), PhantomData))
    }
}

impl<T> Deref for Unowned<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// The calls that work on all objects.
pub trait AsHandleRef {
    /// Borrows the handle.
    fn as_handle_ref(&self) -> HandleRef<'_>;

    /// The handle's value. Ownership does not change.
    fn raw_handle(&self) -> sys::zx_handle_t {
        self.as_handle_ref().raw()
    }

    /// Makes a second handle to the object. [`Rights::SAME_RIGHTS`] keeps the rights.
    ///
    /// # Errors
    /// [`Status::ACCESS_DENIED`]: the handle lacks the right to duplicate. [`Status::INVALID_ARGS`]: it lacks `rights`.
    fn duplicate_handle(&self, rights: Rights) -> Result<Handle> {
        let mut out = 0;
        // SAFETY: `out` has room for one handle.
        check(unsafe { sys::zx_handle_duplicate(self.raw_handle(), rights.bits(), &mut out) })?;
        Handle::from_call(out)
    }

    /// Waits until one of `signals` is asserted or the deadline has passed. Returns the asserted signals.
    ///
    /// # Errors
    /// [`Status::TIMED_OUT`]. [`Status::CANCELED`]: the handle was closed during the wait.
    fn wait_one(&self, signals: Signals, deadline: MonotonicInstant) -> Result<Signals> {
        let mut seen = 0;
        // SAFETY: `seen` has room for one signal set.
        check(unsafe { sys::zx_object_wait_one(self.raw_handle(), signals.bits(), deadline.0, &mut seen) })?;
        Ok(Signals::from_bits_retain(seen))
    }

    /// The signals asserted now, without waiting.
    ///
    /// # Errors
    /// [`Status::ACCESS_DENIED`]: the handle lacks the right to wait.
    fn signals(&self) -> Result<Signals> {
        let mut seen = 0;
        // SAFETY: `seen` has room for one signal set.
        match unsafe { sys::zx_object_wait_one(self.raw_handle(), 0, 0, &mut seen) } {
            0 => Ok(Signals::from_bits_retain(seen)),
            status if Status(status) == Status::TIMED_OUT => Ok(Signals::from_bits_retain(seen)),
            status => Err(Status(status)),
        }
    }

    /// Queues a packet with `key` on `port` when one of `signals` is asserted.
    ///
    /// # Errors
    /// [`Status::ACCESS_DENIED`]. [`Status::INVALID_ARGS`]: an option is unknown.
    fn wait_async(&self, port: &Port, key: u64, signals: Signals, options: u32) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_object_wait_async(self.raw_handle(), port.raw_handle(), key, signals.bits(), options) })
    }

    /// Clears, then sets user signals.
    ///
    /// # Errors
    /// [`Status::INVALID_ARGS`]: programs cannot change these signals.
    fn signal(&self, clear: Signals, set: Signals) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_object_signal(self.raw_handle(), clear.bits(), set.bits()) })
    }

    /// Clears, then sets user signals of the object's peer.
    ///
    /// # Errors
    /// [`Status::PEER_CLOSED`]. [`Status::NOT_SUPPORTED`]: the object has no peer.
    fn signal_peer(&self, clear: Signals, set: Signals) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_object_signal_peer(self.raw_handle(), clear.bits(), set.bits()) })
    }

    /// Reads a property into `value`.
    ///
    /// # Errors
    /// [`Status::WRONG_TYPE`], [`Status::BUFFER_TOO_SMALL`].
    fn get_property(&self, property: u32, value: &mut [u8]) -> Result<()> {
        // SAFETY: the buffer is valid for its length.
        check(unsafe {
            sys::zx_object_get_property(self.raw_handle(), property, value.as_mut_ptr().cast(), value.len())
        })
    }

    /// Sets a property.
    ///
    /// # Errors
    /// [`Status::WRONG_TYPE`], [`Status::INVALID_ARGS`].
    fn set_property(&self, property: u32, value: &[u8]) -> Result<()> {
        // SAFETY: the buffer is valid for its length.
        check(unsafe { sys::zx_object_set_property(self.raw_handle(), property, value.as_ptr().cast(), value.len()) })
    }

    /// Reads a property that is a 64-bit number.
    ///
    /// # Errors
    /// See [`AsHandleRef::get_property`].
    fn get_property_u64(&self, property: u32) -> Result<u64> {
        let mut value = [0; 8];
        self.get_property(property, &mut value)?;
        Ok(u64::from_ne_bytes(value))
    }

    /// The object's name: bytes up to the first zero.
    ///
    /// # Errors
    /// [`Status::WRONG_TYPE`]: the object has no name.
    fn get_name(&self) -> Result<[u8; 32]> {
        let mut name = [0; 32];
        self.get_property(abi::ZX_PROP_NAME, &mut name)?;
        Ok(name)
    }

    /// Sets the object's name; a name of more than 31 bytes is cut off.
    ///
    /// # Errors
    /// [`Status::WRONG_TYPE`]: the object has no name.
    fn set_name(&self, name: &str) -> Result<()> {
        self.set_property(abi::ZX_PROP_NAME, name.as_bytes())
    }

    /// The child task with this koid.
    ///
    /// # Errors
    /// [`Status::NOT_FOUND`], [`Status::WRONG_TYPE`].
    fn get_child(&self, koid: u64, rights: Rights) -> Result<Handle> {
        let mut out = 0;
        // SAFETY: `out` has room for one handle.
        check(unsafe { sys::zx_object_get_child(self.raw_handle(), koid, rights.bits(), &mut out) })?;
        Handle::from_call(out)
    }

    /// Checks whether the value is a valid handle of this process.
    ///
    /// # Errors
    /// [`Status::BAD_HANDLE`]: it is not.
    fn check_valid(&self) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_handle_check_valid(self.raw_handle()) })
    }
}

impl AsHandleRef for Handle {
    fn as_handle_ref(&self) -> HandleRef<'_> {
        HandleRef(self.0.get(), PhantomData)
    }
}

impl AsHandleRef for HandleRef<'_> {
    fn as_handle_ref(&self) -> HandleRef<'_> {
        *self
    }
}

impl<T: AsHandleRef> AsHandleRef for &T {
    fn as_handle_ref(&self) -> HandleRef<'_> {
        (*self).as_handle_ref()
    }
}

impl<T: AsHandleRef> AsHandleRef for Unowned<'_, T> {
    fn as_handle_ref(&self) -> HandleRef<'_> {
        self.0.as_handle_ref()
    }
}

/// Closes several handles with one call.
///
/// # Errors
/// [`Status::BAD_HANDLE`]: one of them was invalid; the others are closed.
pub fn close_many<const N: usize>(handles: [Handle; N]) -> Result<()> {
    let raw = handles.map(Handle::into_raw);
    // SAFETY: the array is valid for its length.
    check(unsafe { sys::zx_handle_close_many(raw.as_ptr(), raw.len()) })
}

/// Waits until one of the items' signals is asserted or the deadline has passed; stores the asserted signals in
/// `pending`.
///
/// # Errors
/// [`Status::TIMED_OUT`] (the items are filled in). [`Status::OUT_OF_RANGE`]: too many items. [`Status::CANCELED`].
pub fn wait_many(items: &mut [abi::zx_wait_item_t], deadline: MonotonicInstant) -> Result<()> {
    // SAFETY: the items are valid for their number.
    check(unsafe { sys::zx_object_wait_many(items.as_mut_ptr(), items.len(), deadline.0) })
}

/// Defines a type of object.
macro_rules! object {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, PartialEq, Eq, Hash)]
        #[repr(transparent)]
        pub struct $name($crate::Handle);

        impl $name {
            /// Makes a second handle to the object. [`Rights::SAME_RIGHTS`](crate::Rights::SAME_RIGHTS) keeps the
            /// rights.
            ///
            /// # Errors
            /// [`Status::ACCESS_DENIED`](crate::Status::ACCESS_DENIED): the handle lacks the right to duplicate.
            pub fn duplicate(&self, rights: $crate::Rights) -> $crate::Result<$name> {
                $crate::AsHandleRef::duplicate_handle(self, rights).map($name)
            }

            /// Exchanges the handle for one with fewer rights. Consumes the handle, even on failure.
            ///
            /// # Errors
            /// [`Status::INVALID_ARGS`](crate::Status::INVALID_ARGS): the handle does not have these rights.
            pub fn replace(self, rights: $crate::Rights) -> $crate::Result<$name> {
                self.0.replace(rights).map($name)
            }

            /// The handle without its type.
            pub fn into_handle(self) -> $crate::Handle {
                self.0
            }
        }

        impl From<$crate::Handle> for $name {
            /// Declares the type of a handle. With a wrong type, calls fail with `WRONG_TYPE`.
            fn from(handle: $crate::Handle) -> $name {
                $name(handle)
            }
        }

        impl From<$name> for $crate::Handle {
            fn from(object: $name) -> $crate::Handle {
                object.0
            }
        }

        impl $crate::AsHandleRef for $name {
            fn as_handle_ref(&self) -> $crate::HandleRef<'_> {
                self.0.as_handle_ref()
            }
        }
    };
}
pub(crate) use object;
