//! The table of functions that Linux gets (`guests/linux/overlay/arch/um/os-Linux/table.h`), and its start.

use std::collections::VecDeque;
use std::ffi::{CString, c_char};
use std::io::{Read, Write};
use std::sync::{Condvar, LazyLock, Mutex, PoisonError};

use abi::{hafnon_vproc_page_t, hafnon_vproc_run_t};
use zx::{AsHandleRef, MonotonicInstant, Port, Timer, VirtualProcessor, sys};

use super::memory::Memory;
use super::vhost::{self, VhostTable};
use super::virtio::{self, VirtioTable};

type Raw = u32;

/// The key of the packet that says that there is input.
const KEY_INPUT: u64 = 2;

#[repr(C)]
struct Table {
    initrd: *const u8,
    initrd_len: u64,
    boot_time: i64,
    page: *mut hafnon_vproc_page_t,
    vproc: Raw,
    physmem: Raw,
    port: Raw,
    timer: Raw,
    job: Raw,
    vmar: Raw,
    write: unsafe extern "C" fn(u32, *const u8, u64),
    input: unsafe extern "C" fn(*mut u8, u64) -> i64,
    exit: extern "C" fn(i64) -> !,
    vproc_enter: unsafe extern "C" fn(Raw, Raw, *mut hafnon_vproc_page_t) -> i32,
    vproc_resume: unsafe extern "C" fn(Raw, *mut hafnon_vproc_page_t) -> i32,
    vproc_state: unsafe extern "C" fn(Raw, *mut hafnon_vproc_page_t) -> i32,
    vproc_wait: unsafe extern "C" fn(*const hafnon_vproc_page_t) -> i32,
    vproc_map: unsafe extern "C" fn(Raw, Raw, *const hafnon_vproc_run_t, usize) -> i32,
    process_create: unsafe extern "C" fn(Raw, *const std::ffi::c_void, usize, u32, *mut Raw, *mut Raw) -> i32,
    task_kill: unsafe extern "C" fn(Raw) -> i32,
    handle_close: unsafe extern "C" fn(Raw) -> i32,
    vmar_map: unsafe extern "C" fn(Raw, u32, usize, Raw, u64, usize, *mut usize) -> i32,
    vmar_unmap: unsafe extern "C" fn(Raw, usize, usize) -> i32,
    vmar_protect: unsafe extern "C" fn(Raw, u32, usize, usize) -> i32,
    timer_set: unsafe extern "C" fn(Raw, i64, i64) -> i32,
    timer_cancel: unsafe extern "C" fn(Raw) -> i32,
    wait_async: unsafe extern "C" fn(Raw, Raw, u64, u32, u32) -> i32,
    packet: extern "C" fn(Raw) -> u64,
    now: extern "C" fn() -> i64,
    random: extern "C" fn(*mut u8, u64),
    virtio: *const VirtioTable,
    vhost: *const VhostTable,
}

/// # Safety
/// `bytes` refers to `len` bytes of Linux'.
unsafe extern "C" fn write(fd: u32, bytes: *const u8, len: u64) {
    // SAFETY: the caller's.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, len as usize) };
    let mut out: Box<dyn Write> = if fd == 1 { Box::new(std::io::stdout()) } else { Box::new(std::io::stderr()) };
    // Nobody reads it any more where this fails.
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}

/// Standard input that Linux has not taken yet.
#[derive(Default)]
struct Input {
    bytes: VecDeque<u8>,
    ended: bool,
}

static INPUT: LazyLock<Mutex<Input>> = LazyLock::new(Mutex::default);
/// The reader waits while there is more.
const INPUT_MAX: usize = 64 << 10;
static INPUT_TAKEN: Condvar = Condvar::new();

/// # Safety
/// `bytes` refers to `len` bytes that Linux may write.
unsafe extern "C" fn input(bytes: *mut u8, len: u64) -> i64 {
    let mut input = INPUT.lock().unwrap_or_else(PoisonError::into_inner);
    if input.bytes.is_empty() && input.ended {
        return -1;
    }
    let count = input.bytes.len().min(len as usize);
    // SAFETY: the caller's.
    let out = unsafe { std::slice::from_raw_parts_mut(bytes, count) };
    out.iter_mut().zip(input.bytes.drain(..count)).for_each(|(out, byte)| *out = byte);
    INPUT_TAKEN.notify_one();
    count as i64
}

/// Reads standard input until its end. Interrupts Linux where there was nothing to take, and at the end: Linux takes all
/// that there is.
fn read_input(port: &Port) {
    let packet = abi::zx_port_packet_t { key: KEY_INPUT, ..Default::default() };
    let mut bytes = [0; 4096];
    loop {
        let len = std::io::stdin().read(&mut bytes).unwrap_or(0);
        let mut input = INPUT.lock().unwrap_or_else(PoisonError::into_inner);
        while input.bytes.len() > INPUT_MAX {
            input = INPUT_TAKEN.wait(input).unwrap_or_else(PoisonError::into_inner);
        }
        let none = input.bytes.is_empty();
        input.bytes.extend(&bytes[..len]);
        input.ended = len == 0;
        drop(input);
        // The port has room: at most the timer's packet and two of these are in it.
        let lost = (none || len == 0) && port.queue(&packet).is_err();
        if lost || len == 0 {
            break;
        }
    }
}

extern "C" fn exit(code: i64) -> ! {
    std::process::exit(code as i32)
}

extern "C" fn packet(port: Raw) -> u64 {
    let mut packet = abi::zx_port_packet_t::default();
    // SAFETY: a place for a packet.
    match unsafe { sys::zx_port_wait(port, 0, &mut packet) } {
        0 => packet.key,
        _ => 0,
    }
}

extern "C" fn now() -> i64 {
    MonotonicInstant::now().0
}

extern "C" fn random(buffer: *mut u8, len: u64) {
    // SAFETY: Linux passes a buffer of its own memory.
    unsafe { sys::zx_cprng_draw(buffer.cast(), len as usize) };
}

/// What Linux has of the system.
pub struct Devices {
    /// Services and files.
    pub disks: Vec<String>,
    /// Ports of the switch.
    pub ports: Vec<String>,
}

/// Calls the kernel; returns its exit code.
pub fn start(memory: &Memory, initrd: &[u8], devices: &Devices, words: &[String]) -> Result<i64, String> {
    let status = |what: &'static str| move |status: zx::Status| format!("{what}: {status}");
    let root = zx::startup::vmar_root_self();
    let processor = VirtualProcessor::create_with_options(&root, abi::HAFNON_VPROC_SHARED_VECTORS)
        .map_err(status("no virtual processor"))?;
    let port = Port::create().map_err(status("no port"))?;
    let timer = Timer::create(0).map_err(status("no timer"))?;
    processor.handle().bind(&port).map_err(status("no interrupts"))?;
    let another = || port.duplicate(zx::Rights::SAME_RIGHTS).map_err(status("no port"));
    let virtio = virtio::start(&devices.disks, memory.mapped, another()?)?;
    let rights = zx::Rights::READ | zx::Rights::WRITE | zx::Rights::MAP | zx::Rights::TRANSFER | zx::Rights::DUPLICATE;
    let for_switch = memory.physmem.duplicate(rights).map_err(status("no memory for the switch"))?;
    let vhost = vhost::start(&devices.ports, for_switch, another()?)?;
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let table = Table {
        initrd: initrd.as_ptr(),
        initrd_len: initrd.len() as u64,
        boot_time: since as i64 - now(),
        page: std::ptr::from_ref(processor.page()).cast_mut(),
        vproc: processor.handle().raw_handle(),
        physmem: memory.physmem.raw_handle(),
        port: port.raw_handle(),
        timer: timer.raw_handle(),
        job: zx::startup::job_default().ok_or("there is no job")?.raw_handle(),
        vmar: memory.vmar.raw_handle(),
        write,
        input,
        exit,
        vproc_enter: sys::zx_vproc_enter,
        vproc_resume: sys::zx_vproc_resume,
        vproc_state: sys::zx_vproc_state,
        vproc_wait: sys::zx_vproc_wait,
        vproc_map: sys::zx_vproc_map,
        process_create: sys::zx_process_create,
        task_kill: sys::zx_task_kill,
        handle_close: sys::zx_handle_close,
        vmar_map: sys::zx_vmar_map,
        vmar_unmap: sys::zx_vmar_unmap,
        vmar_protect: sys::zx_vmar_protect,
        timer_set: sys::zx_timer_set,
        timer_cancel: sys::zx_timer_cancel,
        wait_async: sys::zx_object_wait_async,
        packet,
        now,
        random,
        virtio: &virtio,
        vhost: &vhost,
    };
    let for_input = another()?;
    std::thread::spawn(move || read_input(&for_input));
    let words: Vec<CString> = words.iter().filter_map(|word| CString::new(word.as_str()).ok()).collect();
    let mut pointers: Vec<*const c_char> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    type Start = extern "C" fn(*const Table, i32, *const *const c_char) -> i64;
    // SAFETY: the entry of the kernel is `_start`, whose type this is.
    let start: Start = unsafe { std::mem::transmute(memory.start as usize) };
    Ok(start(&table, words.len() as i32, pointers.as_ptr()))
}
