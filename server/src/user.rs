//! Addresses that programs pass in, typed by the alleged content and by the direction of the copy.
//!
//! Only [`Cx`](crate::cx::Cx), which checks them, can use them.

use core::marker::PhantomData;

/// The address of one or more `T` that the server reads.
pub struct In<T>(pub u64, PhantomData<T>);

/// The address of one or more `T` that the server writes.
pub struct Out<T>(pub u64, PhantomData<T>);

macro_rules! pointer {
    ($name:ident) => {
        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<T> Copy for $name<T> {}

        impl<T> $name<T> {
            /// Wraps an address from a call's arguments.
            pub fn new(address: u64) -> Self {
                $name(address, PhantomData)
            }

            /// Whether the program passed no address.
            pub fn is_null(self) -> bool {
                self.0 == 0
            }

            /// The address of the `n`th `T` from here.
            pub fn nth(self, n: usize) -> Self {
                Self::new(self.0.wrapping_add((n as u64).wrapping_mul(size_of::<T>() as u64)))
            }
        }
    };
}

pointer!(In);
pointer!(Out);

/// The address of one or more `T` that the server reads and writes.
pub struct InOut<T>(pub u64, PhantomData<T>);
pointer!(InOut);

impl<T> InOut<T> {
    /// The same address for reading.
    pub fn input(self) -> In<T> {
        In::new(self.0)
    }

    /// The same address for writing.
    pub fn output(self) -> Out<T> {
        Out::new(self.0)
    }
}
