//! Addresses of capabilities.

/// An address in the caller's CSpace. Address 0 never holds a capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(transparent)]
pub struct CPtr(pub u64);

impl CPtr {
    /// The address that never holds a capability: "none" where a capability is optional.
    pub const NULL: CPtr = CPtr(0);

    /// Returns itself, so that generated code treats all capabilities alike.
    #[inline]
    pub const fn cptr(self) -> CPtr {
        self
    }
}

/// The common interface of all typed capabilities.
pub trait Cap: Copy {
    /// Claims that the address holds a capability of this kind.
    fn from_cptr(cptr: CPtr) -> Self;
    /// The address.
    fn to_cptr(self) -> CPtr;
}

macro_rules! cap {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(transparent)]
        pub struct $name(pub $crate::CPtr);

        impl $name {
            /// Claims that the address holds a capability of this kind.
            #[inline]
            pub const fn new(cptr: u64) -> Self {
                Self($crate::CPtr(cptr))
            }

            /// The address.
            #[inline]
            pub const fn cptr(self) -> $crate::CPtr {
                self.0
            }
        }

        impl $crate::Cap for $name {
            #[inline]
            fn from_cptr(cptr: $crate::CPtr) -> Self {
                Self(cptr)
            }
            #[inline]
            fn to_cptr(self) -> $crate::CPtr {
                self.0
            }
        }

        impl From<$name> for $crate::CPtr {
            #[inline]
            fn from(cap: $name) -> Self {
                cap.0
            }
        }
    };
}
pub(crate) use cap;
