//! Handles, owned and borrowed, and the calls that work on every object.

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
    /// Takes over a handle value, nothing for zero. Whoever gives it away must not use it any more: a value that is
    /// not ours makes calls fail or hit another object of this process, as with a raw file descriptor.
    pub fn from_raw(raw: sys::zx_handle_t) -> Option<Handle> {
        NonZeroU32::new(raw).map(Handle)
    }

    /// A handle that a successful call gave out.
    pub(crate) fn from_call(raw: sys::zx_handle_t) -> Result<Handle> {
        Handle::from_raw(raw).ok_or(Status::INTERNAL)
    }

    /// Gives the handle away as a number.
    pub fn into_raw(self) -> sys::zx_handle_t {
        let raw = self.0.get();
        mem::forget(self);
        raw
    }

    /// Exchanges the handle for one with fewer rights. It is gone even when the call fails.
    ///
    /// # Errors
    /// [`Status::INVALID_ARGS`] for rights that it does not have.
    pub fn replace(self, rights: Rights) -> Result<Handle> {
        let mut out = 0;
        // SAFETY: `out` is one handle's place.
        check(unsafe { sys::zx_handle_replace(self.into_raw(), rights.bits(), &mut out) })?;
        Handle::from_call(out)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: no memory involved; the handle is ours and nobody can use it after this.
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
    /// Borrows a handle that lives as long as the process, such as the process's own.
    pub fn from_raw(raw: sys::zx_handle_t) -> HandleRef<'static> {
        HandleRef(raw, PhantomData)
    }

    /// The handle's value.
    pub fn raw(&self) -> sys::zx_handle_t {
        self.0
    }
}

/// An object of a kind that somebody else owns.
pub struct Unowned<'a, T>(ManuallyDrop<T>, PhantomData<&'a T>);

impl<T: From<Handle>> Unowned<'_, T> {
    /// Borrows a handle that lives as long as the process. Nothing for zero.
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

/// The calls that work on every object.
pub trait AsHandleRef {
    /// Borrows the handle.
    fn as_handle_ref(&self) -> HandleRef<'_>;

    /// The handle's value, still owned by its owner.
    fn raw_handle(&self) -> sys::zx_handle_t {
        self.as_handle_ref().raw()
    }

    /// Makes a second handle to the object. [`Rights::SAME_RIGHTS`] keeps them.
    ///
    /// # Errors
    /// [`Status::ACCESS_DENIED`] without the right to duplicate, [`Status::INVALID_ARGS`] for more rights.
    fn duplicate_handle(&self, rights: Rights) -> Result<Handle> {
        let mut out = 0;
        // SAFETY: `out` is one handle's place.
        check(unsafe { sys::zx_handle_duplicate(self.raw_handle(), rights.bits(), &mut out) })?;
        Handle::from_call(out)
    }

    /// Waits until one of `signals` is asserted or the deadline has passed. Gives the signals seen.
    ///
    /// # Errors
    /// [`Status::TIMED_OUT`], [`Status::CANCELED`] when the handle is closed meanwhile.
    fn wait_one(&self, signals: Signals, deadline: MonotonicInstant) -> Result<Signals> {
        let mut seen = 0;
        // SAFETY: `seen` is one signal set's place.
        check(unsafe { sys::zx_object_wait_one(self.raw_handle(), signals.bits(), deadline.0, &mut seen) })?;
        Ok(Signals::from_bits_retain(seen))
    }

    /// The signals asserted now: a wait that does not wait.
    ///
    /// # Errors
    /// [`Status::ACCESS_DENIED`] without the right to wait.
    fn signals(&self) -> Result<Signals> {
        let mut seen = 0;
        // SAFETY: `seen` is one signal set's place.
        match unsafe { sys::zx_object_wait_one(self.raw_handle(), 0, 0, &mut seen) } {
            0 => Ok(Signals::from_bits_retain(seen)),
            status if Status(status) == Status::TIMED_OUT => Ok(Signals::from_bits_retain(seen)),
            status => Err(Status(status)),
        }
    }

    /// Queues a packet with `key` to `port` when one of `signals` is asserted.
    ///
    /// # Errors
    /// [`Status::ACCESS_DENIED`], [`Status::INVALID_ARGS`] for unknown options.
    fn wait_async(&self, port: &Port, key: u64, signals: Signals, options: u32) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_object_wait_async(self.raw_handle(), port.raw_handle(), key, signals.bits(), options) })
    }

    /// Clears, then sets user signals.
    ///
    /// # Errors
    /// [`Status::INVALID_ARGS`] for signals that users may not touch.
    fn signal(&self, clear: Signals, set: Signals) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_object_signal(self.raw_handle(), clear.bits(), set.bits()) })
    }

    /// Clears, then sets user signals of the object's peer.
    ///
    /// # Errors
    /// [`Status::PEER_CLOSED`], [`Status::NOT_SUPPORTED`] for an object without a peer.
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

    /// The object's name, as bytes up to the first zero.
    ///
    /// # Errors
    /// [`Status::WRONG_TYPE`] for an object without a name.
    fn get_name(&self) -> Result<[u8; 32]> {
        let mut name = [0; 32];
        self.get_property(abi::ZX_PROP_NAME, &mut name)?;
        Ok(name)
    }

    /// Names the object; what is over 31 bytes is cut off.
    ///
    /// # Errors
    /// [`Status::WRONG_TYPE`] for an object without a name.
    fn set_name(&self, name: &str) -> Result<()> {
        self.set_property(abi::ZX_PROP_NAME, name.as_bytes())
    }

    /// A child task by its koid.
    ///
    /// # Errors
    /// [`Status::NOT_FOUND`], [`Status::WRONG_TYPE`].
    fn get_child(&self, koid: u64, rights: Rights) -> Result<Handle> {
        let mut out = 0;
        // SAFETY: `out` is one handle's place.
        check(unsafe { sys::zx_object_get_child(self.raw_handle(), koid, rights.bits(), &mut out) })?;
        Handle::from_call(out)
    }

    /// Whether the value names a handle of this process.
    ///
    /// # Errors
    /// [`Status::BAD_HANDLE`] when it does not.
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

/// Closes handles with one call.
///
/// # Errors
/// [`Status::BAD_HANDLE`] when one of them was not ours; the others are closed.
pub fn close_many<const N: usize>(handles: [Handle; N]) -> Result<()> {
    let raw = handles.map(Handle::into_raw);
    // SAFETY: the array is valid for its length.
    check(unsafe { sys::zx_handle_close_many(raw.as_ptr(), raw.len()) })
}

/// Waits until one of the items' signals is asserted or the deadline has passed; `pending` tells what is.
///
/// # Errors
/// [`Status::TIMED_OUT`] (the items are filled in), [`Status::OUT_OF_RANGE`] for too many, [`Status::CANCELED`].
pub fn wait_many(items: &mut [abi::zx_wait_item_t], deadline: MonotonicInstant) -> Result<()> {
    // SAFETY: the items are valid for their number.
    check(unsafe { sys::zx_object_wait_many(items.as_mut_ptr(), items.len(), deadline.0) })
}

/// Defines the type of a kind of object.
macro_rules! object {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, PartialEq, Eq, Hash)]
        #[repr(transparent)]
        pub struct $name($crate::Handle);

        impl $name {
            /// Makes a second handle to the object. [`Rights::SAME_RIGHTS`](crate::Rights::SAME_RIGHTS) keeps them.
            ///
            /// # Errors
            /// [`Status::ACCESS_DENIED`](crate::Status::ACCESS_DENIED) without the right to duplicate.
            pub fn duplicate(&self, rights: $crate::Rights) -> $crate::Result<$name> {
                $crate::AsHandleRef::duplicate_handle(self, rights).map($name)
            }

            /// Exchanges the handle for one with fewer rights. It is gone even when the call fails.
            ///
            /// # Errors
            /// [`Status::INVALID_ARGS`](crate::Status::INVALID_ARGS) for rights that it does not have.
            pub fn replace(self, rights: $crate::Rights) -> $crate::Result<$name> {
                self.0.replace(rights).map($name)
            }

            /// The handle without its kind.
            pub fn into_handle(self) -> $crate::Handle {
                self.0
            }
        }

        impl From<$crate::Handle> for $name {
            /// States the kind of a handle; a wrong one shows as `WRONG_TYPE` in calls.
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
