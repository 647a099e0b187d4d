//! Addresses that programs hand in, typed by what is alleged to be there and by the direction of the copy.
//!
//! They can be used in no other way than through [`Cx`](crate::cx::Cx), which checks them.

use core::marker::PhantomData;

/// The address of one or more `T` that the kernel reads.
pub struct In<T>(pub u64, PhantomData<T>);

/// The address of one or more `T` that the kernel writes.
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
            /// The address as it was handed in.
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

/// The address of one or more `T` that the kernel reads and writes.
pub struct InOut<T>(pub u64, PhantomData<T>);
pointer!(InOut);

impl<T> InOut<T> {
    /// As something to read.
    pub fn input(self) -> In<T> {
        In::new(self.0)
    }

    /// As something to write.
    pub fn output(self) -> Out<T> {
        Out::new(self.0)
    }
}
