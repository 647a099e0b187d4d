//! Tests every entry point of the vDSO on the host. A tracer acts as the server.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod trace;

use std::ffi::{CStr, c_char};
use std::sync::{Mutex, MutexGuard};

use abi::{nr, syscall, vdso_constants, vdso_time_values};
use trace::{Data, End, MARKS, Message, Reply, WORDS, call, call_with};

core::arch::global_asm!(
    include_str!(concat!(env!("OUT_DIR"), "/offsets.s")),
    ".section .rodata.statuses, \"a\", @progbits",
    include_str!(concat!(env!("OUT_DIR"), "/statuses.s")),
    include_str!("../src/arch/x86_64/macros.s"),
    include_str!(concat!(env!("OUT_DIR"), "/stubs.s")),
    include_str!("../src/arch/x86_64/calls.s"),
    include_str!("../src/arch/x86_64/endpoint.s"),
    include_str!("../src/arch/x86_64/restricted.s"),
    include_str!("../src/arch/x86_64/vproc.s"),
    ".globl DATA_CONSTANTS",
    ".globl DATA_TIME_VALUES",
    ".text",
    options(raw)
);

struct Entry {
    nr: u32,
    /// Whether it is generated from the call's definition.
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

/// Makes a call whose result is a status, in 32 bits.
fn status_of(
    function: unsafe extern "C" fn(),
    data: &mut Data,
    args: impl FnOnce(u64) -> [u64; 8],
    reply: impl FnMut(&Message) -> Reply,
) -> (End, Vec<Message>) {
    match call_with(function, data, args, reply) {
        (End::Returned(status, marks), messages) => (End::Returned(i64::from(status as i32), marks), messages),
        other => other,
    }
}

/// A message to an endpoint: label, badge, number of words, words.
fn message(label: u64, count: u64, from: u64) -> Data {
    let mut data = [0; 512];
    (data[0], data[2]) = (label, count);
    (0..count as usize).for_each(|i| data[3 + i] = from + i as u64);
    data
}

/// Consecutive numbers as words.
fn words(from: u64) -> [u64; WORDS] {
    std::array::from_fn(|i| from + i as u64)
}

const PEER_CLOSED: i64 = -24;
const INVALID_ARGS: i64 = -10;
const BAD_STATE: i64 = -20;

#[test]
fn messages_to_endpoints_take_their_words_along() {
    let answers = u64::from(abi::HAFNON_ENDPOINT_ANSWERS);
    // Call, send, send without waiting, answer: the call's number, its arguments, seL4's operation and slot, and the
    // number that the vDSO adds to the label.
    let sends: [(u32, fn(u64) -> [u64; 8], (i64, u64), u64); 4] = [
        (nr::ENDPOINT_CALL, |at| [5, at, 0, 0, 0, 0, 0, 0], (-1, 5), 0),
        (nr::ENDPOINT_SEND, |at| [0xffff_0000_0000_0005, 0, at, 0, 0, 0, 0, 0], (-3, 5), 0),
        (nr::ENDPOINT_SEND, |at| [5, 1, at, 0, 0, 0, 0, 0], (-4, 5), 0),
        (nr::ENDPOINT_ANSWER, |at| [at, 0, 0, 0, 0, 0, 0, 0], (-6, 0), answers),
    ];
    for (number, args, operation, added) in sends {
        for count in [0, 1, 4, 5, 17] {
            let mut data = message(7, count, 100);
            let (end, messages) =
                status_of(entry(number), &mut data, args, |_| Reply::Message(0, (answers + 3) << 12 | 6, words(200)));
            assert_eq!(end, End::Returned(0, MARKS));
            assert_eq!(messages.len(), 1);
            assert_eq!((messages[0].operation, messages[0].tag), (operation, (7 + added) << 12 | count));
            assert_eq!(messages[0].words[..count as usize], words(100)[..count as usize]);
            if number == nr::ENDPOINT_CALL {
                assert_eq!((data[0], data[2], &data[3..9]), (3, 6, &words(200)[..6]));
            }
        }
    }
}

#[test]
fn messages_from_endpoints_come_with_their_words() {
    let answers = u64::from(abi::HAFNON_ENDPOINT_ANSWERS);
    for (number, operation, tag) in
        [(nr::ENDPOINT_RECEIVE, (-5, 4), 0), (nr::ENDPOINT_ANSWER_RECEIVE, (-2, 4), (answers + 9) << 12 | 2)]
    {
        for count in [0, 3, 18] {
            let mut data = message(9, 2, 100);
            let args = |at| [4, at, 0, 0, 0, 0, 0, 0];
            let reply = Reply::Message(77, 5 << 12 | count, words(300));
            let mut reply = Some(reply);
            let (end, messages) =
                status_of(entry(number), &mut data, args, |_| reply.take().expect("there is one message"));
            assert_eq!(end, End::Returned(0, MARKS));
            assert_eq!((messages.len(), messages[0].operation, messages[0].tag), (1, operation, tag));
            assert_eq!((data[0], data[1], data[2]), (5, 77, count));
            assert_eq!(data[3..3 + count as usize], words(300)[..count as usize]);
        }
    }
}

#[test]
fn the_kernels_own_error_says_that_the_endpoint_is_gone() {
    let mut data = message(7, 2, 100);
    let args = |at| [3, at, 0, 0, 0, 0, 0, 0];
    let (end, _) = status_of(entry(nr::ENDPOINT_CALL), &mut data, args, |_| Reply::Message(0, 1 << 12 | 1, words(1)));
    assert_eq!(end, End::Returned(PEER_CLOSED, MARKS));
    assert_eq!((data[0], data[2]), (0, 0));
}

#[test]
fn invalid_messages_do_not_reach_the_kernel() {
    let refused = |number, mut data: Data, args: fn(u64) -> [u64; 8]| {
        let (end, messages) = status_of(entry(number), &mut data, args, |_| Reply::Done(0));
        assert!(matches!(end, End::Returned(INVALID_ARGS, MARKS)), "{number}: {end:?}");
        assert!(messages.is_empty(), "{number}");
    };
    let long = abi::HAFNON_ENDPOINT_WORDS as u64 + 1;
    for data in [message(abi::HAFNON_ENDPOINT_LABELS, 0, 0), message(0, long, 0)] {
        refused(nr::ENDPOINT_CALL, data, |at| [3, at, 0, 0, 0, 0, 0, 0]);
        refused(nr::ENDPOINT_SEND, data, |at| [3, 0, at, 0, 0, 0, 0, 0]);
        refused(nr::ENDPOINT_ANSWER, data, |at| [at, 0, 0, 0, 0, 0, 0, 0]);
        refused(nr::ENDPOINT_ANSWER_RECEIVE, data, |at| [3, at, 0, 0, 0, 0, 0, 0]);
    }
    refused(nr::ENDPOINT_SEND, message(0, 0, 0), |at| [3, 2, at, 0, 0, 0, 0, 0]);
    for number in [nr::ENDPOINT_CALL, nr::ENDPOINT_RECEIVE, nr::ENDPOINT_ANSWER_RECEIVE] {
        for args in [
            (|at| [0, at, 0, 0, 0, 0, 0, 0]) as fn(u64) -> [u64; 8],
            |at| [1, at, 0, 0, 0, 0, 0, 0],
            |at| [2, at, 0, 0, 0, 0, 0, 0],
            |at| [16, at, 0, 0, 0, 0, 0, 0],
            |at| [u64::from(u32::MAX), at, 0, 0, 0, 0, 0, 0],
        ] {
            refused(number, message(0, 0, 0), args);
        }
    }
}

/// Indices of words in a virtual processor's page.
mod page {
    pub const REASON: usize = 0;
    pub const VECTOR: usize = 1;
    pub const CODE: usize = 2;
    pub const ADDRESS: usize = 3;
    pub const IP: usize = 4;
    pub const SLOT: usize = 5;
    pub const STATE: usize = abi::HAFNON_VPROC_STATE_OFFSET as usize / 8;
    pub const PENDING: usize = abi::HAFNON_VPROC_EVENTS_OFFSET as usize / 8 + 1;
}

/// The slot that the page names.
const SLOT: u64 = 9;

/// The page of a virtual processor whose code stopped for this reason. The words of its state count up from `from`.
fn stopped(reason: u64, from: u64) -> Data {
    let mut data = [0; 512];
    (data[page::REASON], data[page::SLOT]) = (reason, SLOT);
    data[page::STATE..page::STATE + WORDS].copy_from_slice(&words(from));
    data
}

/// Resumes the code; the tracer gives these replies, one per message.
fn resumes(data: &mut Data, replies: impl IntoIterator<Item = Reply>) -> (End, Vec<Message>) {
    let mut replies = replies.into_iter();
    let args = |at| [0x1234, at, 0, 0, 0, 0, 0, 0];
    status_of(entry(nr::VPROC_RESUME), data, args, |_| replies.next().expect("nothing else is asked for"))
}

#[test]
fn a_system_call_takes_all_registers_there_and_back() {
    let mut data = stopped(abi::HAFNON_VPROC_REASON_SYSCALL, 100);
    let (end, messages) = resumes(&mut data, [Reply::Message(0, 2 << 12 | 18, words(500))]);
    assert_eq!(end, End::Returned(0, MARKS));
    assert_eq!((messages.len(), messages[0].operation, messages[0].tag), (1, (-2, SLOT), 18));
    assert_eq!(messages[0].words[..18], words(100)[..18]);
    assert_eq!(data[page::REASON], abi::HAFNON_VPROC_REASON_SYSCALL);
    // rcx and r11 are as after a `syscall` instruction, and ip is behind its two bytes.
    let mut expected = words(500);
    expected[15] += 2;
    (expected[2], expected[10]) = (expected[15], expected[17]);
    // The FS base and the GS base do not change.
    (expected[18], expected[19]) = (118, 119);
    assert_eq!(data[page::STATE..page::STATE + WORDS], expected);
}

#[test]
fn faults_and_exceptions_are_reported_and_answered() {
    let mut data = stopped(abi::HAFNON_VPROC_REASON_SYSCALL, 100);
    let (end, _) = resumes(&mut data, [Reply::Message(0, 5 << 12 | 4, words(500))]);
    assert_eq!(end, End::Returned(0, MARKS));
    assert_eq!(data[page::REASON], abi::HAFNON_VPROC_REASON_PAGE_FAULT);
    assert_eq!((data[page::IP], data[page::ADDRESS], data[page::CODE]), (500, 501, 503));
    assert_eq!(data[page::STATE..page::STATE + WORDS], words(100));

    let (end, messages) = resumes(&mut data, [Reply::Message(0, 3 << 12 | 5, words(600))]);
    assert_eq!((end, messages[0].operation, messages[0].tag), (End::Returned(0, MARKS), (-2, SLOT), 0));
    assert_eq!(data[page::REASON], abi::HAFNON_VPROC_REASON_EXCEPTION);
    assert_eq!((data[page::IP], data[page::VECTOR], data[page::CODE]), (600, 603, 604));
    assert_eq!(data[page::STATE + 15..page::STATE + 18], words(600)[..3]);

    let (_, messages) = resumes(&mut data, [Reply::Message(0, 1 << 12 | 1, words(700))]);
    assert_eq!((messages[0].tag, &messages[0].words[..3]), (3, &words(600)[..3]));
    assert_eq!((data[page::REASON], data[page::IP]), (abi::HAFNON_VPROC_REASON_FOREIGN_CALL, 700));

    let (end, messages) = resumes(&mut data, []);
    assert_eq!((end, messages.len()), (End::Returned(BAD_STATE, MARKS), 0));
}

#[test]
fn a_bell_is_an_event_if_one_is_pending() {
    let bell = || Reply::Message(1, 0, words(0));
    let mut data = stopped(abi::HAFNON_VPROC_REASON_PAGE_FAULT, 100);
    let rung = [bell(), Reply::Changes(page::PENDING, 1, Box::new(bell())), Reply::Done(0)];
    let (end, messages) = resumes(&mut data, rung);
    assert_eq!(end, End::Returned(0, MARKS));
    let operations: Vec<_> = messages.iter().map(|message| message.operation).collect();
    assert_eq!(operations, [(-2, SLOT), (-5, SLOT), (-1, 1)]);
    assert_eq!((messages[2].tag, messages[2].words[0]), (tag(nr::VPROC_STOP), 0x1234));
    assert_eq!((data[page::REASON], data[page::PENDING]), (abi::HAFNON_VPROC_REASON_KICK, 0));

    let mut data = stopped(abi::HAFNON_VPROC_REASON_PAGE_FAULT, 100);
    data[page::PENDING] = 1;
    let (end, _) = resumes(&mut data, [bell(), Reply::Done(BAD_STATE)]);
    assert_eq!(end, End::Returned(BAD_STATE, MARKS));
    assert_eq!(data[page::REASON], abi::HAFNON_VPROC_REASON_NONE);
}

#[test]
fn a_virtual_processor_is_entered_by_the_server() {
    let enter = |data: &mut Data, replies: Vec<Reply>| {
        let mut replies = replies.into_iter();
        let args = |at| [0x1234, 0x77, at, 0, 0, 0, 0, 0];
        status_of(entry(nr::VPROC_ENTER), data, args, |_| replies.next().expect("nothing else is asked for"))
    };
    let mut data = stopped(abi::HAFNON_VPROC_REASON_SYSCALL, 100);
    let (end, messages) = enter(&mut data, vec![Reply::AfterOthers(0), Reply::Message(0, 2 << 12 | 18, words(500))]);
    assert_eq!(end, End::Returned(0, MARKS));
    assert_eq!((messages[0].tag, &messages[0].words[..2]), (tag(nr::VPROC_START), &[0x1234, 0x77][..]));
    assert_eq!((messages[1].operation.0, messages[2].operation), (-7, (-5, SLOT)));
    assert_eq!((data[page::REASON], data[page::STATE]), (abi::HAFNON_VPROC_REASON_SYSCALL, 500));

    let (end, messages) = enter(&mut data, vec![Reply::Done(BAD_STATE)]);
    assert_eq!((end, messages.len()), (End::Returned(BAD_STATE, MARKS), 1));
    assert_eq!(data[page::REASON], abi::HAFNON_VPROC_REASON_NONE);
}

#[test]
fn the_state_and_the_wait_of_a_virtual_processor() {
    let mut data = stopped(abi::HAFNON_VPROC_REASON_SYSCALL, 100);
    for (answer, reason) in [(BAD_STATE, abi::HAFNON_VPROC_REASON_SYSCALL), (0, abi::HAFNON_VPROC_REASON_NONE)] {
        let args = |at| [0x1234, at, 0, 0, 0, 0, 0, 0];
        let (end, messages) = status_of(entry(nr::VPROC_STATE), &mut data, args, |_| Reply::Done(answer));
        assert_eq!((end, messages[0].tag), (End::Returned(answer, MARKS), tag(nr::VPROC_STOP)));
        assert_eq!((messages.len(), data[page::REASON]), (1, reason));
    }
    let args = |at| [at, 0, 0, 0, 0, 0, 0, 0];
    let bell = || Reply::Message(1, 0, words(0));
    let mut rung = [bell(), Reply::Changes(page::PENDING, 1, Box::new(bell()))].into_iter();
    let (end, messages) =
        status_of(entry(nr::VPROC_WAIT), &mut data, args, |_| rung.next().expect("nothing else is asked for"));
    assert_eq!((end, messages.len(), messages[1].operation), (End::Returned(0, MARKS), 2, (-5, SLOT)));
    let (end, messages) = status_of(entry(nr::VPROC_WAIT), &mut data, args, |_| Reply::Done(0));
    assert_eq!((end, messages.len(), data[page::PENDING]), (End::Returned(0, MARKS), 0, 1));
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
    // The caller must not continue with a buffer that was not filled, so the vDSO traps.
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
fn a_thread_that_unmaps_its_stack_returns_only_on_failure() {
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
    // The store changes only the child's copy of this variable, so this process cannot see it. The test only checks
    // that the address is passed on.
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
            // SAFETY: the pages hold read-only data of this program; making them writable does not change the data.
            let done = unsafe { libc::mprotect(page as *mut _, 2 * 4096, libc::PROT_READ | libc::PROT_WRITE) };
            assert_eq!(done, 0);
        }
        // SAFETY: the lock excludes other tests, and entry points read the blobs only when they are called.
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
    // SAFETY: the blob holds the string until it is overwritten, and `_blobs` prevents that.
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
