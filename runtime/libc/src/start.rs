//! From the first instruction to `main`.
//!
//! The process starts at [`_dl_start`](crate::arch::_dl_start) with the bootstrap channel and the vDSO's base in the
//! first two argument registers. The channel
//! holds two messages. The first is for the dynamic linker: the program's file, and the handles for loading it. After
//! the linker has bound the program, it jumps to the program's `_start`, which calls [`__libc_start_main`]. That reads
//! the second message, which holds everything for the program itself.

use crate::arch::run_on;
use crate::fatal::{self, cannot_start};
use crate::loader::elf::{Dynamic, Header, Image, Layout};
use crate::loader::{self, BootResolver, Mapped, Present, reloc};
use crate::sys::{self, Handle};
use crate::{env, exit, system, thread};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int};
use core::ptr::null_mut;
use processargs::{
    HandleInfo, MAX_BYTES, MAX_HANDLES, Message, PA_LDSVC_LOADER, PA_THREAD_SELF, PA_VMAR_LOADED, PA_VMO_EXECUTABLE,
};

/// Applies this image's packed relative relocations. Before it returns, no address in static data is valid: this
/// function must not use any, nor call functions that do.
pub unsafe extern "C" fn relocate_self(_bootstrap: usize, _vdso: usize, base: usize, dynamic: *const [usize; 2]) {
    const DT_RELRSZ: usize = 35;
    const DT_RELR: usize = 36;
    // SAFETY: the linker made these tables for this image, which the process's creator mapped at `base`.
    unsafe {
        let (mut table, mut size) = (0, 0);
        let mut entry = dynamic;
        while (*entry)[0] != 0 {
            let [tag, value] = *entry;
            if tag == DT_RELR {
                table = base + value;
            } else if tag == DT_RELRSZ {
                size = value;
            }
            entry = entry.add(1);
        }
        let mut at = table as *const usize;
        let end = (table + size) as *const usize;
        let mut place = null_mut::<usize>();
        while at < end {
            let word = at.read();
            if word & 1 == 0 {
                place = (base + word) as *mut usize;
                *place += base;
                place = place.add(1);
            } else {
                let mut bits = word >> 1;
                let mut index = 0;
                while bits != 0 {
                    if bits & 1 != 0 {
                        *place.add(index) += base;
                    }
                    bits >>= 1;
                    index += 1;
                }
                place = place.add(63);
            }
            at = at.add(1);
        }
    }
}

/// An image that is already mapped, described by the headers at its start.
#[inline(never)]
unsafe fn present(base: usize) -> Result<(Mapped, Dynamic), &'static str> {
    // SAFETY: an image starts there, as the caller guarantees, so its first page is mapped.
    let page = unsafe { core::slice::from_raw_parts(base as *const u8, sys::PAGE_SIZE) };
    let header = Header::parse(page)?;
    let layout = Layout::plan(header.program_headers(page)?)?;
    // SAFETY: as the caller guarantees.
    let image = unsafe { Image::new(base, &layout) };
    let (vaddr, size) = layout.dynamic.ok_or("dynamic section is missing")?;
    let dynamic = Dynamic::parse(&image, vaddr, size)?;
    let headers = (base + header.phoff, header.phnum);
    let entry = base + header.entry as usize;
    Ok((Mapped { image, layout, base, entry, headers, region: sys::HANDLE_INVALID }, dynamic))
}

/// Loads and binds the program; returns its entry point.
pub unsafe extern "C" fn link(bootstrap: Handle, vdso: usize, own: usize) -> usize {
    // SAFETY: this image and the vDSO are mapped there, as the process's creator guarantees. If they are not valid
    // images, there is no way to report that: no system call works yet.
    let (own, vdso) = match unsafe { (present(own), present(vdso)) } {
        (Ok(own), Ok(vdso)) => (own, vdso),
        _ => exit::abort(),
    };
    let mut resolver = BootResolver { vdso: (&vdso.0.image, &vdso.1), own: (&own.0.image, &own.1), missing: None };
    if reloc::apply(&own.0.image, &own.1, &mut resolver).is_err() {
        exit::abort();
    }
    let missing = resolver.missing;
    let Some((bytes, handles)) = read_message(bootstrap) else { exit::abort() };
    fatal::set_pending(bootstrap);
    if let Some(call) = missing {
        let call = core::str::from_utf8(call).unwrap_or("?");
        cannot_start(format_args!("ld.so.1: the vDSO does not have {call}"));
    }
    let message = match Message::parse(bytes, handles.len()) {
        Ok(message) => message,
        Err(why) => cannot_start(format_args!("ld.so.1: the loader message cannot be read: {why}")),
    };
    let (mut program, mut loaded) = (0, 0);
    for (info, &handle) in message.handles().zip(handles) {
        match info.kind {
            PA_VMO_EXECUTABLE => program = handle,
            PA_VMAR_LOADED => loaded = handle,
            PA_LDSVC_LOADER => _ = loader::set_channel(handle),
            _ => _ = system::adopt(info, handle),
        }
    }
    if program == sys::HANDLE_INVALID {
        cannot_start(format_args!("ld.so.1: the loader message has no program"));
    }
    if system::root_vmar() == sys::HANDLE_INVALID {
        cannot_start(format_args!("ld.so.1: the loader message has no address space"));
    }
    // From here on, the heap works. Handles that this library does not use are kept for the program.
    for (info, &handle) in message.handles().zip(handles) {
        let used = [program, loaded].contains(&handle) || info.kind == PA_LDSVC_LOADER;
        if !used && (info.kind == PA_THREAD_SELF || !is_adopted(info)) {
            system::keep_unclaimed(info.to_word(), handle);
        }
    }
    let name = message.args().next().unwrap_or(b"program");
    let base_name = name.rsplit(|&byte| byte == b'/').next().unwrap_or(name).to_vec();
    loader::link_program(program, &base_name, Present { own: Box::new(own), vdso: Box::new(vdso) }, loaded)
}

/// Whether [`system::adopt`] keeps this handle.
fn is_adopted(info: HandleInfo) -> bool {
    use processargs::{PA_CLOCK_UTC, PA_JOB_DEFAULT, PA_PROC_SELF, PA_VMAR_ROOT};
    matches!(info.kind, PA_CLOCK_UTC | PA_JOB_DEFAULT | PA_PROC_SELF | PA_VMAR_ROOT)
}

/// A buffer for the largest message. Only one message is in use at a time, by the only thread.
struct Buffer(UnsafeCell<([u8; MAX_BYTES], [Handle; MAX_HANDLES])>);

// SAFETY: used only before other threads exist.
unsafe impl Sync for Buffer {}

static BUFFER: Buffer = Buffer(UnsafeCell::new(([0; MAX_BYTES], [0; MAX_HANDLES])));

/// Reads the next message from the bootstrap channel. The result is valid until the next call.
pub fn read_message(bootstrap: Handle) -> Option<(&'static [u8], &'static [Handle])> {
    let (mut bytes, mut handles) = (0, 0);
    // SAFETY: the buffers have the given lengths; there is one thread, and one message in use at a time.
    unsafe {
        let buffer = &mut *BUFFER.0.get();
        let (room, slots) = (buffer.0.len() as u32, buffer.1.len() as u32);
        let (into, taken) = (buffer.0.as_mut_ptr().cast(), buffer.1.as_mut_ptr());
        let status = sys::zx_channel_read(bootstrap, 0, into, taken, room, slots, &mut bytes, &mut handles);
        if status != sys::OK {
            return None;
        }
        Some((&buffer.0[..bytes as usize], &buffer.1[..handles as usize]))
    }
}

type Main = unsafe extern "C" fn(c_int, *mut *mut c_char, *mut *mut c_char) -> c_int;

/// What the main thread needs to continue on its own stack.
pub struct Program {
    main: Main,
    argc: usize,
    argv: *mut *mut c_char,
    handles: Vec<Handle>,
    infos: Vec<u32>,
    names: Vec<*mut c_char>,
}

/// A null-terminated array of C strings, from strings without NUL. Array and strings are never freed.
fn c_strings<'a>(strings: impl Iterator<Item = &'a [u8]>) -> Vec<*mut c_char> {
    let mut list: Vec<*mut c_char> = strings
        .map(|string| {
            let mut owned = string.to_vec();
            owned.push(0);
            Box::leak(owned.into_boxed_slice()).as_mut_ptr().cast()
        })
        .collect();
    list.push(null_mut());
    list
}

/// The program's `_start` calls this function. It reads the main message, switches to the main thread's stack, and
/// calls `main`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __libc_start_main(bootstrap: Handle, main: Main) -> ! {
    fatal::set_pending(sys::HANDLE_INVALID);
    let Some((bytes, received)) = read_message(bootstrap) else {
        cannot_start(format_args!("libc.so: there is no start message"));
    };
    let message = match Message::parse(bytes, received.len()) {
        Ok(message) => message,
        Err(why) => cannot_start(format_args!("libc.so: the start message cannot be read: {why}")),
    };
    let (mut handles, mut infos) = (Vec::new(), Vec::new());
    let mut main_thread = system::zx_take_startup_handle(u32::from(PA_THREAD_SELF));
    for (info, &handle) in message.handles().zip(received) {
        match info.kind {
            PA_THREAD_SELF => main_thread = handle,
            PA_LDSVC_LOADER => _ = loader::set_channel(handle),
            _ if system::adopt(info, handle) => {}
            _ => {
                handles.push(handle);
                infos.push(info.to_word());
            }
        }
    }
    let argc = message.args().count();
    let argv = c_strings(message.args()).leak().as_mut_ptr();
    env::init(c_strings(message.environ()).leak().as_mut_ptr());
    let names = c_strings(message.names());
    // SAFETY: the channel belongs to this library, and all its messages have been read.
    unsafe { sys::zx_handle_close(bootstrap) };
    let stack = match thread::init_main(main_thread, loader::program_stack()) {
        Ok(stack) => stack,
        Err(status) => fatal::cannot_start_with(
            &message,
            received,
            format_args!("libc.so: the main thread cannot be set up (status {status})"),
        ),
    };
    fatal::set_threaded();
    let program = Box::leak(Box::new(Program { main, argc, argv, handles, infos, names }));
    // SAFETY: the new stack is empty and large enough; nothing on the old one is used again.
    unsafe { run_on(program, stack & !15) }
}

/// Function of libfdio that takes handles for descriptors and name-space entries; it clears those in the array.
type Extensions = unsafe extern "C" fn(u32, *mut Handle, *mut u32, u32, *mut *mut c_char);

pub unsafe extern "C" fn run(program: *mut Program) -> ! {
    // SAFETY: leaked for this function only.
    let program = unsafe { &mut *program };
    if let Some(hook) = loader::find_global(b"__libc_extensions_init") {
        // SAFETY: libfdio's function has this type; the arrays have the given lengths.
        unsafe {
            core::mem::transmute::<usize, Extensions>(hook)(
                program.handles.len() as u32,
                program.handles.as_mut_ptr(),
                program.infos.as_mut_ptr(),
                (program.names.len() - 1) as u32,
                program.names.as_mut_ptr(),
            );
        }
    }
    for (&handle, &info) in program.handles.iter().zip(&program.infos) {
        if handle != sys::HANDLE_INVALID {
            system::keep_unclaimed(info, handle);
        }
    }
    loader::initialise();
    // SAFETY: the program's own function.
    exit::exit(unsafe { (program.main)(program.argc as c_int, program.argv, current_environ()) })
}

fn current_environ() -> *mut *mut c_char {
    // SAFETY: a plain read of the variable; there is one thread, or threads that initialisers have created.
    unsafe { *loader::environ_cell().unwrap_or((&raw mut env::environ).cast::<*mut *mut c_char>()) }
}
