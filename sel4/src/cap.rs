//! Addresses of capabilities.

/// An address in the caller's CSpace. 0 never holds a capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(transparent)]
pub struct CPtr(pub u64);

impl CPtr {
    /// The address that never holds a capability: "none" where the kernel takes an optional one.
    pub const NULL: CPtr = CPtr(0);

    /// Itself; so that generated code treats all capabilities alike.
    #[inline]
    pub const fn cptr(self) -> CPtr {
        self
    }
}

/// What all typed capabilities have in common.
pub trait Cap: Copy {
    /// Claims that a capability of this kind lies at the address.
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
            /// Claims that a capability of this kind lies at the address.
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
