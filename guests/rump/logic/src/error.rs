//! Error numbers of NetBSD, which the kernel and its programs use.

/// No such file.
pub const ENOENT: i32 = 2;
/// Input or output failed.
pub const EIO: i32 = 5;
/// There is no such device.
pub const ENXIO: i32 = 6;
/// The value does not fit.
pub const E2BIG: i32 = 7;
/// Not a descriptor.
pub const EBADF: i32 = 9;
/// There is no memory.
pub const ENOMEM: i32 = 12;
/// It is in use.
pub const EBUSY: i32 = 16;
/// An argument is wrong.
pub const EINVAL: i32 = 22;
/// There is no room on the medium.
pub const ENOSPC: i32 = 28;
/// There are no resources at present.
pub const EAGAIN: i32 = 35;
/// The time has passed.
pub const ETIMEDOUT: i32 = 60;
/// The name is too long.
pub const ENAMETOOLONG: i32 = 63;
/// There is no such function.
pub const ENOSYS: i32 = 78;

/// Numbers of the C library above 34, and NetBSD's; the first 34 are the same but for the one that both name `EAGAIN`.
const OTHERS: [(i32, i32); 52] = [
    (11, 35),
    (35, 11),
    (36, 63),
    (37, 77),
    (38, 78),
    (39, 66),
    (40, 62),
    (42, 83),
    (43, 82),
    (60, 91),
    (61, 89),
    (62, 92),
    (63, 90),
    (66, 71),
    (67, 95),
    (71, 96),
    (72, 94),
    (74, 88),
    (75, 84),
    (84, 85),
    (87, 68),
    (88, 38),
    (89, 39),
    (90, 40),
    (91, 41),
    (92, 42),
    (93, 43),
    (94, 44),
    (95, 45),
    (96, 46),
    (97, 47),
    (98, 48),
    (99, 49),
    (100, 50),
    (101, 51),
    (102, 52),
    (103, 53),
    (104, 54),
    (105, 55),
    (106, 56),
    (107, 57),
    (108, 58),
    (109, 59),
    (110, 60),
    (111, 61),
    (112, 64),
    (113, 65),
    (114, 37),
    (115, 36),
    (116, 70),
    (122, 69),
    (125, 87),
];

/// NetBSD's number for one of the C library. A number that NetBSD does not know becomes `EIO`.
pub fn from_libc(error: i32) -> i32 {
    match OTHERS.iter().find(|(here, _)| *here == error) {
        Some((_, there)) => *there,
        None if (0..=34).contains(&error) => error,
        None => EIO,
    }
}
