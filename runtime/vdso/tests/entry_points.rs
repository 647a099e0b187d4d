//! Every entry point of the vDSO, run on the host with a tracer in the server's place.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod trace;

use std::ffi::{CStr, c_char};
use std::sync::{Mutex, MutexGuard};

use abi::{nr, syscall, vdso_constants, vdso_time_values};
use trace::{End, MARKS, Message, Reply, call};

core::arch::global_asm!(
    include_str!(concat!(env!("OUT_DIR"), "/offsets.s")),
    ".section .rodata.statuses, \"a\", @progbits",
    include_str!(concat!(env!("OUT_DIR"), "/statuses.s")),
    include_str!("../src/macros.s"),
    include_str!(concat!(env!("OUT_DIR"), "/stubs.s")),
    include_str!("../src/calls.s"),
    include_str!("../src/restricted.s"),
    ".globl DATA_CONSTANTS",
    ".globl DATA_TIME_VALUES",
    ".text",
    options(raw)
);

struct Entry {
    nr: u32,
    /// Whether it is made from the call's definition.
    stub: bool,
    function: unsafe extern "C" fn(),
    alias: unsafe extern "C" fn(),
}

include!(concat!(env!("OUT_DIR"), "/entries.rs"));

unsafe extern "C" {
    fn zx_status_get_string(status: i32) -> *const c_char;
    static mut DATA_CONSTANTS: vdso_constants;
    static mut DATA_TIME_VALUES: vdso_time_values;
}

const ARGS: [u64; 8] = [0x8000_0000_0000_0001, 2, 3, u64::MAX, 5, 6, 7, 8];

fn entry(number: u32) -> unsafe extern "C" fn() {
    ENTRIES.iter().find(|entry| entry.nr == number).expect("every call has an entry point").function
}

/// The tag of a message for a call.
fn tag(number: u32) -> u64 {
    u64::from(number) << 12 | 4
}

#[test]
fn both_names_are_the_same_entry_point() {
    assert_eq!(ENTRIES.len(), abi::SYSCALLS.len());
    for entry in ENTRIES {
        assert!(std::ptr::fn_addr_eq(entry.function, entry.alias), "call {}", entry.nr);
    }
}

#[test]
fn stubs_send_their_arguments_and_give_back_the_answer() {
    for entry in ENTRIES.iter().filter(|entry| entry.stub) {
        let info = syscall(entry.nr).expect("the table has every call");
        for others in [false, true] {
            let value = -1000 - i64::from(entry.nr);
            let server = |_: &Message| if others { Reply::AfterOthers(value) } else { Reply::Done(value) };
            let (end, messages) = call(entry.function, ARGS, server);
            let expected = if info.noreturn { End::Trapped } else { End::Returned(value, MARKS) };
            assert_eq!(end, expected, "{}", info.name);
            assert_eq!(messages.len(), if others { 2 } else { 1 }, "{}", info.name);
            assert_eq!((messages[0].operation, messages[0].tag), ((-1, 1), tag(entry.nr)), "{}", info.name);
            let count = info.args.len();
            assert_eq!(messages[0].words[..count], ARGS[..count], "{}", info.name);
            if others {
                assert_eq!(messages[1].operation.0, -7, "{}", info.name);
            }
        }
    }
}

#[test]
fn random_numbers_are_asked_for_in_pieces() {
    let draw = |bytes: u64, answer: i64| {
        let (end, messages) = call(entry(nr::CPRNG_DRAW), [0x5000, bytes, 0, 0, 0, 0, 0, 0], |_| Reply::Done(answer));
        assert!(messages.iter().all(|message| message.tag == tag(nr::CPRNG_DRAW)));
        (end, messages.iter().map(|message| (message.words[0], message.words[1])).collect::<Vec<_>>())
    };
    assert!(
        matches!(draw(700, 0), (End::Returned(_, MARKS), pieces) if pieces == [(0x5000, 256), (0x5100, 256), (0x5200, 188)])
    );
    assert!(matches!(draw(256, 0), (End::Returned(_, MARKS), pieces) if pieces == [(0x5000, 256)]));
    assert!(matches!(draw(0, 0), (End::Returned(_, MARKS), pieces) if pieces.is_empty()));
    // Whoever asked must not go on with a buffer that was not filled.
    assert_eq!(draw(700, -10), (End::Trapped, vec![(0x5000, 256)]));
}

#[test]
fn threads_start_by_the_newer_call() {
    let (end, messages) = call(entry(nr::THREAD_START), ARGS, |_| Reply::Done(-20));
    assert_eq!(end, End::Returned(-20, MARKS));
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].tag, tag(nr::THREAD_START_REGS));
    assert_eq!(messages[0].words[..5], ARGS[..5]);
    assert_eq!(messages[0].words[5..7], [0, 0]);
}

#[test]
fn a_thread_that_unmaps_its_stack_comes_back_only_if_it_is_still_there() {
    let function = entry(nr::VMAR_UNMAP_HANDLE_CLOSE_THREAD_EXIT);
    let args = [0x13, 0x7000, 0x1000, 0x23, 0, 0, 0, 0];
    let (end, messages) = call(function, args, |_| Reply::Done(-10));
    assert_eq!((end, messages.len()), (End::Returned(-10, MARKS), 1));
    assert_eq!((messages[0].tag, &messages[0].words[..3]), (tag(nr::VMAR_UNMAP), &[0x13, 0x7000, 0x1000][..]));

    let (end, messages) = call(function, args, |_| Reply::Done(0));
    let tags: Vec<u64> = messages.iter().map(|message| message.tag).collect();
    assert_eq!(end, End::Trapped);
    assert_eq!(tags, [tag(nr::VMAR_UNMAP), tag(nr::HANDLE_CLOSE), tag(nr::THREAD_EXIT)]);
    assert_eq!(messages[1].words[0], 0x23);

    let (_, messages) = call(function, [0x13, 0x7000, 0x1000, 0, 0, 0, 0, 0], |_| Reply::Done(0));
    let tags: Vec<u64> = messages.iter().map(|message| message.tag).collect();
    assert_eq!(tags, [tag(nr::VMAR_UNMAP), tag(nr::THREAD_EXIT)]);
}

#[test]
fn a_thread_that_ends_with_a_wake_stores_the_value_first() {
    // The child's copy of this variable changes, so its memory shows nothing here; that the address is used does.
    let mut word = 0i32;
    let address = &raw mut word as u64;
    let function = entry(nr::FUTEX_WAKE_HANDLE_CLOSE_THREAD_EXIT);
    let (end, messages) = call(function, [address, 3, 42, 0x23, 0, 0, 0, 0], |_| Reply::Done(0));
    let tags: Vec<u64> = messages.iter().map(|message| message.tag).collect();
    assert_eq!(end, End::Trapped);
    assert_eq!(tags, [tag(nr::FUTEX_WAKE), tag(nr::HANDLE_CLOSE), tag(nr::THREAD_EXIT)]);
    assert_eq!((messages[0].words[..2].to_vec(), messages[1].words[0]), (vec![address, 3], 0x23));
}

/// The blobs, writable, for one test at a time.
struct Blobs(#[allow(dead_code, reason = "held")] MutexGuard<'static, ()>);

impl Blobs {
    fn new(constants: vdso_constants, times: vdso_time_values) -> Self {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let guard = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        for address in [&raw mut DATA_CONSTANTS as usize, &raw mut DATA_TIME_VALUES as usize] {
            let page = address & !4095;
            // SAFETY: the pages hold read-only data of this test; writable, they hold the same.
            let done = unsafe { libc::mprotect(page as *mut _, 2 * 4096, libc::PROT_READ | libc::PROT_WRITE) };
            assert_eq!(done, 0);
        }
        // SAFETY: the lock keeps other tests away, and entry points read the blobs only when called.
        unsafe {
            (&raw mut DATA_CONSTANTS).write_volatile(constants);
            (&raw mut DATA_TIME_VALUES).write_volatile(times);
            (&raw mut DATA_CONSTANTS).add(1).cast::<[u8; 6]>().write_volatile(*b"Hafnon");
        }
        Blobs(guard)
    }
}

/// Calls an entry point that needs no server, on this thread.
macro_rules! direct {
    ($nr:expr, fn($($ty:ty),*) -> $ret:ty, $($arg:expr),*) => {{
        // SAFETY: the entry point has this signature, and reads or writes only what its arguments point to.
        unsafe { std::mem::transmute::<unsafe extern "C" fn(), unsafe extern "C" fn($($ty),*) -> $ret>(entry($nr))($($arg),*) }
    }};
}

#[test]
fn clocks_follow_the_ticks() {
    let times = vdso_time_values {
        version: 1,
        ticks_per_second: 2_400_000_000,
        boot_ticks_offset: 2_400_000_000,
        mono_ticks_offset: 0,
        ticks_to_time_numerator: 5,
        ticks_to_time_denominator: 12,
        usermode_can_access_ticks: 1,
        ..vdso_time_values::default()
    };
    let _blobs = Blobs::new(vdso_constants::default(), times);
    let before = direct!(nr::TICKS_GET, fn() -> i64,);
    let time = direct!(nr::CLOCK_GET_MONOTONIC, fn() -> i64,);
    let after = direct!(nr::TICKS_GET, fn() -> i64,);
    let nanoseconds = |ticks: i64| i64::try_from(i128::from(ticks) * 5 / 12).expect("a machine of some age");
    assert!(nanoseconds(before) <= time && time <= nanoseconds(after));
    let boot = direct!(nr::CLOCK_GET_BOOT, fn() -> i64,);
    assert!(boot >= time + 1_000_000_000);
    assert!(direct!(nr::TICKS_GET_BOOT, fn() -> i64,) >= after + 2_400_000_000);
    assert_eq!(direct!(nr::TICKS_PER_SECOND, fn() -> i64,), 2_400_000_000);

    let deadline = |nanoseconds: i64| direct!(nr::DEADLINE_AFTER, fn(i64) -> i64, nanoseconds);
    assert!(deadline(1_000) >= time + 1_000);
    assert!(deadline(-1_000_000_000) < boot);
    assert_eq!(deadline(i64::MAX), i64::MAX);
    assert!(deadline(i64::MIN) < 0);
    assert!(deadline(0) > 0);
}

#[test]
fn constants_are_read_from_their_blob() {
    #[repr(C)]
    struct StringView(*const u8, usize);
    let constants = vdso_constants {
        max_num_cpus: 4,
        features: abi::vdso_features {
            cpu: 1,
            hw_breakpoint_count: 2,
            hw_watchpoint_count: 3,
            address_tagging: 4,
            vm: 5,
        },
        dcache_line_size: 64,
        icache_line_size: 32,
        page_size: 4096,
        padding: 0,
        physmem: 1 << 33,
        version_string_len: 6,
    };
    let _blobs = Blobs::new(constants, vdso_time_values::default());
    assert_eq!(direct!(nr::SYSTEM_GET_NUM_CPUS, fn() -> u32,), 4);
    assert_eq!(direct!(nr::SYSTEM_GET_DCACHE_LINE_SIZE, fn() -> u32,), 64);
    assert_eq!(direct!(nr::SYSTEM_GET_PAGE_SIZE, fn() -> u32,), 4096);
    assert_eq!(direct!(nr::SYSTEM_GET_PHYSMEM, fn() -> u64,), 1 << 33);
    let version = direct!(nr::SYSTEM_GET_VERSION_STRING, fn() -> StringView,);
    // SAFETY: the blob holds the string as long as it is not written anew.
    assert_eq!(unsafe { std::slice::from_raw_parts(version.0, version.1) }, b"Hafnon");
    for (kind, expected) in
        [(0, (0, 1)), (1, (0, 2)), (2, (0, 3)), (3, (0, 4)), (4, (0, 5)), (5, (-2, 9)), (u32::MAX, (-2, 9))]
    {
        let mut value = 9u32;
        let status = direct!(nr::SYSTEM_GET_FEATURES, fn(u32, *mut u32) -> i32, kind, &raw mut value);
        assert_eq!((status, value), expected, "kind {kind}");
    }
    for (options, expected) in
        [(0, -10), (1, 0), (2, 0), (3, 0), (4, -10), (5, -10), (6, 0), (7, 0), (8, -10), (10, -10)]
    {
        let data = [0u8; 300];
        let flush = direct!(nr::CACHE_FLUSH, fn(*const u8, usize, u32) -> i32, data[3..].as_ptr(), 200, options);
        assert_eq!(flush, expected, "options {options}");
    }
}

#[test]
fn statuses_have_strings() {
    for status in -80..=3 {
        // SAFETY: the string is NUL-terminated and lives forever.
        let string = unsafe { CStr::from_ptr(zx_status_get_string(status)) };
        let name = abi::Status(status).name().unwrap_or("(UNKNOWN)");
        assert_eq!(string.to_str(), Ok(name), "status {status}");
    }
    // SAFETY: as above.
    assert_eq!(unsafe { CStr::from_ptr(zx_status_get_string(i32::MIN)) }, c"(UNKNOWN)");
}

#[test]
fn a_mapped_clock_needs_a_place_for_its_time() {
    let clock = [0_u64; 64];
    assert_eq!(direct!(nr::CLOCK_READ_MAPPED, fn(usize, usize) -> i32, clock.as_ptr() as usize, 0), -10);
}
