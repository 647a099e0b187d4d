//! Constants and structures that are also available as tables.
//!
//! A C header, a reference page and a test of values all need the same data: every constant with its value, every
//! structure with its fields and their offsets. The two macros here define the items together with such a table, so no
//! program has to parse Rust source.

/// A constant of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constant {
    /// Its name in Zircon.
    pub name: &'static str,
    /// Its Rust type, as written.
    pub ty: &'static str,
    /// Its value.
    pub value: i128,
}

/// A field of a [`Struct`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name in Zircon (`type` is `type_`, because Rust reserves `type`).
    pub name: &'static str,
    /// Its Rust type, as written: an integer, a structure of this crate, or an array `[T; N]`.
    pub ty: &'static str,
    /// Offset in the structure, in bytes.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
}

/// A structure that programs and the system exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Struct {
    /// Its name in Zircon.
    pub name: &'static str,
    /// Its purpose, one line.
    pub doc: &'static str,
    /// Size in bytes, including trailing padding.
    pub size: usize,
    /// Its alignment in bytes.
    pub align: usize,
    /// All fields in order. They fill the whole structure: there is no implicit padding.
    pub fields: &'static [Field],
}

/// `consts! { TABLE; [type] NAME = value; ... }`: defines constants, and a table of them as `TABLE: &[Constant]`.
macro_rules! consts {
    ($table:ident; $([$ty:ty] $($(#[$attr:meta])* $name:ident = $value:expr;)+)+) => {
        $($($(#[$attr])* pub const $name: $ty = $value;)+)+
        pub(crate) const $table: &[$crate::Constant] = &[
            $($($crate::Constant { name: stringify!($name), ty: stringify!($ty), value: $name as i128 },)+)+
        ];
    };
}

/// `structs! { TABLE; /// doc struct name { field: type, ... } ... }`: defines C structures that are plain bytes, and a
/// table of them as `TABLE: &[Struct]`. A structure with implicit padding does not compile.
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
