//! Reads, writes, and other operations on descriptors.

use alloc::sync::Arc;
use core::ffi::{c_int, c_void};

use abi::{ZX_SOCKET_DATAGRAM, ZX_SOCKET_STREAM};
use zx::{MonotonicInstant, Socket};

use crate::c::{
    self, CHANGEABLE, EBADF, EFAULT, EINVAL, ENOTTY, F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_GETFL, F_GETLK, F_SETFD,
    F_SETFL, F_SETLK, F_SETLKW, FD_CLOEXEC, FIOCLEX, FIONBIO, FIONCLEX, FIONREAD, IoVec, NOT_CHANGEABLE, O_CLOEXEC,
    O_NONBLOCK, O_RDONLY, O_WRONLY, Result,
};
use crate::description::Description;
use crate::lock;
use crate::net::{gather, scatter};
use crate::object::Object;
use crate::path::Device;
use crate::table;

/// Limit on the buffers of one scatter/gather call.
const IOV_MAX: c_int = 1024;

/// A buffer to read into.
///
/// # Safety
/// `buffer` has `len` bytes that nothing else accesses, as POSIX demands.
pub unsafe fn to_fill<'a>(buffer: *mut c_void, len: usize) -> &'a mut [u8] {
    if len == 0 || buffer.is_null() {
        return &mut [];
    }
    // SAFETY: as the caller says; the length is cut to Rust's limit.
    unsafe { core::slice::from_raw_parts_mut(buffer.cast(), len.min(isize::MAX as usize)) }
}

/// A buffer to write from.
///
/// # Safety
/// `buffer` has `len` bytes, as POSIX demands.
pub unsafe fn to_take<'a>(buffer: *const c_void, len: usize) -> &'a [u8] {
    if len == 0 || buffer.is_null() {
        return &[];
    }
    // SAFETY: as the caller says; the length is cut to Rust's limit.
    unsafe { core::slice::from_raw_parts(buffer.cast(), len.min(isize::MAX as usize)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn read(fd: c_int, buffer: *mut c_void, len: usize) -> isize {
    c::cancellation_point();
    // SAFETY: the caller's buffer.
    c::number(table::get(fd).and_then(|description| description.read(unsafe { to_fill(buffer, len) })))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, buffer: *const c_void, len: usize) -> isize {
    c::cancellation_point();
    // SAFETY: the caller's buffer.
    c::number(table::get(fd).and_then(|description| description.write(unsafe { to_take(buffer, len) })))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pread(fd: c_int, buffer: *mut c_void, len: usize, offset: i64) -> isize {
    c::cancellation_point();
    c::number(position(offset).and_then(|at| {
        // SAFETY: the caller's buffer.
        table::get(fd)?.read_at(at, unsafe { to_fill(buffer, len) })
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite(fd: c_int, buffer: *const c_void, len: usize, offset: i64) -> isize {
    c::cancellation_point();
    c::number(position(offset).and_then(|at| {
        // SAFETY: the caller's buffer.
        table::get(fd)?.write_at(at, unsafe { to_take(buffer, len) })
    }))
}

fn position(offset: i64) -> Result<u64> {
    u64::try_from(offset).map_err(|_| EINVAL)
}

/// Whether each write to the object sends one datagram.
pub fn is_datagram(description: &Description) -> bool {
    match &description.object {
        Object::Network(network) => network.is_datagram(),
        Object::Unix(socket) => socket.is_datagram(),
        Object::Socket { socket, is_socket: true } => {
            socket.info().is_ok_and(|info| info.options & ZX_SOCKET_DATAGRAM != 0)
        }
        _ => false,
    }
}

/// The buffers of a call.
///
/// # Safety
/// `vectors` has `count` elements.
pub unsafe fn slice<'a>(vectors: *const IoVec, count: c_int) -> Result<&'a [IoVec]> {
    match count {
        0 => Ok(&[]),
        // SAFETY: as the caller says.
        1..=IOV_MAX => Ok(unsafe { core::slice::from_raw_parts(vectors, count as usize) }),
        _ => Err(EINVAL),
    }
}

/// Calls `act` for each buffer, until one is not completely filled (or emptied).
///
/// # Safety
/// `vectors` has `count` elements with valid buffers.
unsafe fn each(
    vectors: *const IoVec,
    count: c_int,
    mut call: impl FnMut(&IoVec, usize) -> Result<usize>,
) -> Result<usize> {
    if !(0..=IOV_MAX).contains(&count) {
        return Err(EINVAL);
    }
    let mut done = 0;
    for index in 0..count as usize {
        // SAFETY: as the caller says.
        let vector = unsafe { &*vectors.add(index) };
        if vector.len == 0 {
            continue;
        }
        match call(vector, done) {
            Ok(len) => {
                done += len;
                if len < vector.len {
                    break;
                }
            }
            Err(_) if done > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn readv(fd: c_int, vectors: *const IoVec, count: c_int) -> isize {
    c::cancellation_point();
    c::number(table::get(fd).and_then(|description| {
        if is_datagram(&description) {
            // SAFETY: the caller's buffers.
            let vectors = unsafe { slice(vectors, count) }?;
            let mut bytes = alloc::vec![0; vectors.iter().map(|vector| vector.len).sum()];
            let len = description.read(&mut bytes)?;
            // SAFETY: the caller's buffers.
            unsafe { scatter(&bytes[..len], vectors) };
            return Ok(len);
        }
        // SAFETY: the caller's buffers. Reads into the second and later buffers do not block.
        unsafe {
            each(vectors, count, |vector, done| {
                let buffer = to_fill(vector.base, vector.len);
                match &description.object {
                    Object::Socket { .. } | Object::Network(_) | Object::Unix(_) if done > 0 => {
                        description.object.read(buffer, 0, MonotonicInstant::ZERO)
                    }
                    _ => description.read(buffer),
                }
            })
        }
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn writev(fd: c_int, vectors: *const IoVec, count: c_int) -> isize {
    c::cancellation_point();
    c::number(table::get(fd).and_then(|description| {
        if is_datagram(&description) {
            // SAFETY: the caller's buffers.
            return description.write(&unsafe { gather(slice(vectors, count)?) });
        }
        // SAFETY: the caller's buffers.
        unsafe { each(vectors, count, |vector, _| description.write(to_take(vector.base, vector.len))) }
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn preadv(fd: c_int, vectors: *const IoVec, count: c_int, offset: i64) -> isize {
    c::cancellation_point();
    c::number(position(offset).and_then(|at| {
        let description = table::get(fd)?;
        // SAFETY: the caller's buffers.
        unsafe {
            each(vectors, count, |vector, done| {
                let at = at.checked_add(done as u64).ok_or(EINVAL)?;
                description.read_at(at, to_fill(vector.base, vector.len))
            })
        }
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwritev(fd: c_int, vectors: *const IoVec, count: c_int, offset: i64) -> isize {
    c::cancellation_point();
    c::number(position(offset).and_then(|at| {
        let description = table::get(fd)?;
        // SAFETY: the caller's buffers.
        unsafe {
            each(vectors, count, |vector, done| {
                let at = at.checked_add(done as u64).ok_or(EINVAL)?;
                description.write_at(at, to_take(vector.base, vector.len))
            })
        }
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn lseek(fd: c_int, offset: i64, whence: c_int) -> i64 {
    let moved = table::get(fd).and_then(|description| description.seek(offset, whence));
    c::number(moved.map(|position| position as usize)) as i64
}

#[unsafe(no_mangle)]
pub extern "C" fn close(fd: c_int) -> c_int {
    c::cancellation_point();
    c::done(table::close(fd))
}

#[unsafe(no_mangle)]
pub extern "C" fn dup(fd: c_int) -> c_int {
    c::int(table::get(fd).and_then(|description| table::add(description, 0, false)))
}

#[unsafe(no_mangle)]
pub extern "C" fn dup2(fd: c_int, to: c_int) -> c_int {
    if fd == to {
        return c::int(table::get(fd).map(|_| to as usize));
    }
    c::int(table::get(fd).and_then(|description| table::put(description, to, false)))
}

#[unsafe(no_mangle)]
pub extern "C" fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    if fd == to || flags & !O_CLOEXEC != 0 {
        return c::done(Err(EINVAL));
    }
    c::int(table::get(fd).and_then(|description| table::put(description, to, flags & O_CLOEXEC != 0)))
}

/// `fcntl`. It is variadic in C; the third argument arrives in the same register.
#[unsafe(no_mangle)]
pub extern "C" fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    if command == F_SETLKW {
        c::cancellation_point();
    }
    if command == F_GETFD {
        return c::int(table::close_on_exec(fd).map(|set| if set { FD_CLOEXEC as usize } else { 0 }));
    }
    c::int(table::get(fd).and_then(|description| {
        let value = argument as c_int;
        match command {
            F_DUPFD | F_DUPFD_CLOEXEC => table::add(description, value, command == F_DUPFD_CLOEXEC),
            F_SETFD => table::set_close_on_exec(fd, value & FD_CLOEXEC != 0).map(|()| 0),
            F_GETFL => Ok(description.flags() as usize),
            F_SETFL if value & NOT_CHANGEABLE != 0 => Err(EINVAL),
            F_SETFL => description.set_flags(value).map(|()| 0),
            F_GETLK | F_SETLK | F_SETLKW => {
                let range = core::ptr::with_exposed_provenance_mut::<lock::Range>(argument);
                // SAFETY: the argument of these commands is the address of a `struct flock`, or null.
                let range = unsafe { range.as_mut() }.ok_or(EFAULT)?;
                lock::record(&description, command, range).map(|()| 0)
            }
            _ => Err(EINVAL),
        }
    }))
}

/// `ioctl`. It is variadic in C; the third argument arrives in the same register.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_int, argument: *mut c_int) -> c_int {
    c::done(table::get(fd).and_then(|description| match request {
        FIONBIO => {
            // SAFETY: the argument of this request is the address of an `int`.
            let wanted = if unsafe { *argument } != 0 { O_NONBLOCK } else { 0 };
            description.set_flags(description.flags() & CHANGEABLE & !O_NONBLOCK | wanted)
        }
        FIONREAD => {
            let waiting = match &description.object {
                Object::Socket { socket, .. } => socket.info()?.rx_buf_available,
                Object::Network(network) => network.waiting()?,
                Object::Unix(socket) => socket.waiting()?,
                Object::Device(Device::Null) => 0,
                _ => return Err(ENOTTY),
            };
            // SAFETY: the argument of this request is the address of an `int`.
            unsafe { *argument = c_int::try_from(waiting).unwrap_or(c_int::MAX) };
            Ok(())
        }
        FIOCLEX => table::set_close_on_exec(fd, true),
        FIONCLEX => table::set_close_on_exec(fd, false),
        _ => Err(ENOTTY),
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn isatty(fd: c_int) -> c_int {
    // There is no terminal device: what a program takes for its terminal is a pipe.
    let error = if table::in_use(fd) { ENOTTY } else { EBADF };
    c::set_errno(error);
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pipe(fds: *mut c_int) -> c_int {
    // SAFETY: the caller's array of two.
    unsafe { pipe2(fds, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pipe2(fds: *mut c_int, flags: c_int) -> c_int {
    let made = (|| {
        if flags & !(O_CLOEXEC | O_NONBLOCK) != 0 {
            return Err(EINVAL);
        }
        let (reader, writer) = Socket::create(ZX_SOCKET_STREAM)?;
        let open = |socket, mode| Arc::new(Description::new(Object::Socket { socket, is_socket: false }, mode | flags));
        add_two(open(reader, O_RDONLY), open(writer, O_WRONLY), flags & O_CLOEXEC != 0)
    })();
    // SAFETY: the caller's array of two.
    c::done(made.map(|pair| unsafe { fds.cast::<[c_int; 2]>().write(pair) }))
}

/// Adds both descriptions to the table, or neither.
pub fn add_two(a: Arc<Description>, b: Arc<Description>, close_on_exec: bool) -> Result<[c_int; 2]> {
    let first = table::add(a, 0, close_on_exec)? as c_int;
    match table::add(b, 0, close_on_exec) {
        Ok(second) => Ok([first, second as c_int]),
        Err(error) => {
            let _ = table::close(first);
            Err(error)
        }
    }
}
