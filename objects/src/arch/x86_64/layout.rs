//! Pages, and the layout of a program's address space.

/// Bytes in a page.
pub const PAGE_SIZE: usize = 4096;
/// [`PAGE_SIZE`] as the type of addresses and offsets.
pub const PAGE: u64 = PAGE_SIZE as u64;
/// Bytes in a large page.
pub const LARGE_PAGE: u64 = 2 << 20;
/// Pages in a large page.
pub const LARGE_PAGES: u64 = LARGE_PAGE / PAGE;

/// The lowest address that a program can map. It is Zircon's on x86-64, and below the usual load addresses of programs
/// that are linked at fixed addresses.
pub const USER_BASE: u64 = 0x20_0000;
/// The first address above the range that a program can map, as in Zircon. The last page below 2^47 stays unused.
pub const USER_TOP: u64 = (1 << 47) - PAGE;
/// Start of the range of each address space in which the machine keeps its own pages, up to [`KEPT_END`]. Programs'
/// mappings never lie in it, and no system call changes the mappings there.
pub const KEPT: u64 = 0x7ff0_0000_0000;
/// End of the range that starts at [`KEPT`].
pub const KEPT_END: u64 = KEPT + (1 << 30);
/// Start of the upper half, which shared processes have in common, as in Zircon.
pub const USER_HALF: u64 = 0x4000_0000_0000;
/// The lowest address that a native component can map as a client of this system. Addresses below belong to the
/// component itself.
pub const COMPONENT_BASE: u64 = 0x80_0000_0000;
