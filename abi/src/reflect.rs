//! Constants and structures that can be listed as well as used.
//!
//! A C header, a reference page and a test of values all want the same thing: every constant with its value, every
//! structure with its fields and where they lie. The two macros here define the items and write such a table beside
//! them, so that nothing has to read Rust source to find out.

/// A constant of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constant {
    /// Zircon's name for it.
    pub name: &'static str,
    /// Its Rust type, as written.
    pub ty: &'static str,
    /// Its value.
    pub value: i128,
}

/// A field of a [`Struct`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Zircon's name for it (`type` is `type_`, which Rust reserves).
    pub name: &'static str,
    /// Its Rust type, as written: an integer, a structure of this crate, or an array `[T; N]`.
    pub ty: &'static str,
    /// Bytes from the start of the structure.
    pub offset: usize,
    /// Bytes that it takes.
    pub size: usize,
}

/// A structure that travels between a program and the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Struct {
    /// Zircon's name for it.
    pub name: &'static str,
    /// What it is for, one line.
    pub doc: &'static str,
    /// Bytes that it takes, trailing padding included.
    pub size: usize,
    /// Its alignment in bytes.
    pub align: usize,
    /// All fields in order. Together they fill the structure: there is no implicit padding.
    pub fields: &'static [Field],
}

/// `consts! { TABLE; [type] NAME = value; ... }`: constants, and the same as `TABLE: &[Constant]`.
macro_rules! consts {
    ($table:ident; $([$ty:ty] $($(#[$attr:meta])* $name:ident = $value:expr;)+)+) => {
        $($($(#[$attr])* pub const $name: $ty = $value;)+)+
        pub(crate) const $table: &[$crate::Constant] = &[
            $($($crate::Constant { name: stringify!($name), ty: stringify!($ty), value: $name as i128 },)+)+
        ];
    };
}

/// `structs! { TABLE; /// doc struct name { field: type, ... } ... }`: C structures that are plain bytes, and the same
/// as `TABLE: &[Struct]`. A structure with implicit padding does not compile.
macro_rules! structs {
    ($table:ident; $(#[doc = $doc:literal] $(#[$attr:meta])* struct $name:ident {
        $($(#[$field_attr:meta])* $field:ident: $ty:ty,)+
    })+) => {
        $(
            #[doc = $doc]
            $(#[$attr])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            #[derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::KnownLayout, zerocopy::Immutable)]
            pub struct $name { $($(#[$field_attr])* pub $field: $ty,)+ }

            impl Default for $name {
                /// All fields zero.
                fn default() -> Self {
                    zerocopy::FromZeros::new_zeroed()
                }
            }
        )+
        pub(crate) const $table: &[$crate::Struct] = &[
            $($crate::Struct {
                name: stringify!($name),
                doc: $doc,
                size: size_of::<$name>(),
                align: align_of::<$name>(),
                fields: &[$($crate::Field {
                    name: stringify!($field),
                    ty: stringify!($ty),
                    offset: core::mem::offset_of!($name, $field),
                    size: size_of::<$ty>(),
                },)+],
            },)+
        ];
    };
}
