//! The system log, random numbers, memory barriers.

use abi::{Rights, Status};
use zx::{AsHandleRef, Debuglog, Event, Handle, Info, MonotonicInstant, Signals};

use super::{cases, late, raw, without};
use crate::check::{Failure, Outcome, ensure, equal, fails, gives};
use crate::test_process;

cases! {
    "debuglog.create.options" => create_options,
    "debuglog.create.rights" => create_rights,
    "debuglog.create.resource" => create_resource,
    "debuglog.create.reader_without_resource" => create_reader_without_resource,
    "debuglog.write.then_read" => write_then_read,
    "debuglog.write.long" => write_long,
    "debuglog.write.options" => write_options,
    "debuglog.write.rights" => write_rights,
    "debuglog.write.author_recorded" => write_author_recorded,
    "debuglog.report.names" => report_names,
    "debuglog.read.order" => read_order,
    "debuglog.read.small_buffer" => read_small_buffer,
    "debuglog.read.bad_buffer_keeps" => read_bad_buffer_keeps,
    "debuglog.read.each_reader_all" => read_each_reader_all,
    "debuglog.read.options" => read_options,
    "debuglog.signals.readable" => signals_readable,
    "cprng.draw.differs" => draw_differs,
    "cprng.draw.any_size" => draw_any_size,
    "cprng.add_entropy.limit" => add_entropy_limit,
    "cprng.add_entropy.bad_buffer" => add_entropy_bad_buffer,
    "membarrier.sync.returns" => membarrier_returns,
    "membarrier.sync.stores_seen" => membarrier_stores_seen,
}

/// The resource that reading requires.
fn resource() -> Result<zx::Unowned<'static, zx::Resource>, Status> {
    zx::startup::resource().ok_or(Status::NOT_FOUND)
}

/// Opens the log, with the resource if it is opened for reading.
fn open(options: u32) -> Result<Debuglog, Status> {
    let mut out = 0_u32;
    let resource = if options & abi::ZX_LOG_FLAG_READABLE == 0 { 0 } else { resource()?.raw_handle() };
    match raw!(zx_debuglog_create, resource, options, &raw mut out) {
        Status::OK => Ok(Debuglog::from(Handle::from_raw(out).ok_or(Status::INTERNAL)?)),
        status => Err(status),
    }
}

fn reader() -> Result<Debuglog, Status> {
    open(abi::ZX_LOG_FLAG_READABLE)
}

/// A record's layout in memory.
struct Record {
    sequence: u64,
    severity: u8,
    flags: u8,
    time: i64,
    process: u64,
    thread: u64,
    text: Vec<u8>,
}

const HEAD: usize = 40;

fn parse(bytes: &[u8]) -> Result<Record, Failure> {
    ensure(bytes.len() >= HEAD, "the record is short")?;
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    equal(usize::from(u16::from_le_bytes([bytes[12], bytes[13]])), bytes.len() - HEAD)?;
    Ok(Record {
        sequence: word(0),
        severity: bytes[14],
        flags: bytes[15],
        time: word(16) as i64,
        process: word(24),
        thread: word(32),
        text: bytes[HEAD..].to_vec(),
    })
}

fn next(log: &Debuglog) -> Result<Record, Failure> {
    let mut bytes = [0; abi::ZX_LOG_RECORD_MAX];
    let length = log.read(&mut bytes)?;
    parse(&bytes[..length])
}

/// Reads until a record has this text.
fn find(log: &Debuglog, text: &[u8]) -> Result<Record, Failure> {
    loop {
        let record = next(log)?;
        if record.text == text {
            return Ok(record);
        }
    }
}

/// A text that no other program writes.
fn unique(text: &str) -> Vec<u8> {
    format!("{text} {}", MonotonicInstant::now().0).into_bytes()
}

fn create_options() -> Outcome {
    for odd in [1, 0x8000_0000, abi::ZX_LOG_FLAG_READABLE | 1] {
        fails(open(odd), Status::INVALID_ARGS)?;
    }
    Ok(())
}

fn create_rights() -> Outcome {
    let rights = |log: Debuglog| Ok::<_, Status>(Rights::from_bits_retain(log.basic_info()?.rights));
    ensure(rights(reader()?)?.contains(Rights::READ | Rights::WRITE), "a reader may not read")?;
    let write_only = open(0)?;
    fails(write_only.read(&mut [0; 256]), Status::ACCESS_DENIED)?;
    ensure(!rights(write_only)?.contains(Rights::READ), "a writer may read")
}

fn create_resource() -> Outcome {
    let (mut out, event) = (0_u32, Event::create()?);
    gives(raw!(zx_debuglog_create, event.raw_handle(), 0, &raw mut out), Status::WRONG_TYPE)?;
    gives(raw!(zx_debuglog_create, 0xffff_fffb_u32, 0, &raw mut out), Status::BAD_HANDLE)?;
    equal(out, 0)
}

/// The log has records of all programs, so reading needs a resource.
fn create_reader_without_resource() -> Outcome {
    let mut out = 0_u32;
    gives(raw!(zx_debuglog_create, 0, abi::ZX_LOG_FLAG_READABLE, &raw mut out), Status::BAD_HANDLE)?;
    let event = Event::create()?;
    gives(raw!(zx_debuglog_create, event.raw_handle(), abi::ZX_LOG_FLAG_READABLE, &raw mut out), Status::WRONG_TYPE)?;
    let system = |base| resource()?.create_child(abi::ZX_RSRC_KIND_SYSTEM, base, 1, "log");
    let other = system(abi::ZX_RSRC_SYSTEM_VMEX_BASE)?;
    gives(raw!(zx_debuglog_create, other.raw_handle(), abi::ZX_LOG_FLAG_READABLE, &raw mut out), Status::OUT_OF_RANGE)?;
    equal(out, 0)?;
    let right = system(abi::ZX_RSRC_SYSTEM_DEBUGLOG_BASE)?;
    gives(raw!(zx_debuglog_create, right.raw_handle(), abi::ZX_LOG_FLAG_READABLE, &raw mut out), Status::OK)?;
    let reader = Debuglog::from(Handle::from_raw(out).ok_or(Status::INTERNAL)?);
    let text = unique("read with the log's own resource");
    open(0)?.write(&text)?;
    find(&reader, &text)?;
    // A handle that may only write cannot be duplicated with more rights.
    let writer = open(0)?;
    fails(writer.duplicate(Rights::READ | Rights::WRITE), Status::INVALID_ARGS)?;
    fails(writer.read(&mut [0; 256]), Status::ACCESS_DENIED)
}

fn write_then_read() -> Outcome {
    let (log, text) = (reader()?, unique("written, then read"));
    let before = MonotonicInstant::now().0;
    log.write(&text)?;
    let after = MonotonicInstant::now().0;
    let record = find(&log, &text)?;
    ensure(before <= record.time && record.time <= after, "the time is not that of the writing")?;
    equal(record.process, zx::startup::process_self().koid()?)?;
    equal(record.thread, zx::startup::thread_self().koid()?)?;
    equal((record.severity, record.flags), (abi::DEBUGLOG_INFO, 0))
}

fn write_long() -> Outcome {
    // Text beyond the limit is cut off.
    let log = reader()?;
    let mut text = unique("long");
    text.resize(1000, b'.');
    log.write(&text)?;
    text.truncate(abi::ZX_LOG_RECORD_DATA_MAX);
    find(&log, &text)?;
    // The text can contain any byte, or be empty.
    let odd = [unique("odd"), b"\0\xff\n".to_vec()].concat();
    log.write(&odd)?;
    log.write(b"")?;
    find(&log, &odd)?;
    find(&log, b"").map(drop)
}

fn write_options() -> Outcome {
    let log = open(0)?;
    for odd in [1_u32, 0x8000_0000] {
        gives(raw!(zx_debuglog_write, log.raw_handle(), odd, b"x".as_ptr(), 1), Status::INVALID_ARGS)?;
    }
    for bad in [0_u64, 0x1000, 0xffff_8000_0000_0000] {
        gives(raw!(zx_debuglog_write, log.raw_handle(), 0, bad, 1), Status::INVALID_ARGS)?;
    }
    Ok(())
}

fn write_rights() -> Outcome {
    let mute = Debuglog::from(without(&open(0)?, Rights::WRITE)?);
    fails(mute.write(b"x"), Status::ACCESS_DENIED)
}

fn write_author_recorded() -> Outcome {
    // A record has the koids of its writer; the writer's name does not change the record, not even a forged one.
    let (log, text) = (open(0)?, unique("by whom"));
    let process = zx::startup::process_self();
    let name = process.get_name()?;
    process.set_name("a\n[1.0] E init")?;
    let written = log.write(&text);
    process.set_name(String::from_utf8_lossy(&name).trim_end_matches('\0'))?;
    written?;
    let record = find(&reader()?, &text)?;
    equal((record.process, record.severity), (process.koid()?, abi::DEBUGLOG_INFO))
}

fn report_names() -> Outcome {
    // The server's report about a crashed process is a record of its own, and a single line, whatever the names
    // contain. ud2
    let tiny = test_process::TestProcess::new(&[0x0f, 0x0b])?;
    tiny.process.set_name("forged\n\x1b[2J[1.0] E init")?;
    tiny.start(None, 0)?;
    equal(tiny.end()?, test_process::EXCEPTION)?;
    let (log, koid) = (reader()?, format!("({})", tiny.process.koid()?));
    loop {
        let record = next(&log)?;
        let text = String::from_utf8_lossy(&record.text).into_owned();
        if text.contains("undefined instruction") && text.contains(&koid) {
            equal((record.process, record.thread), (0, 0))?;
            ensure(text.contains("forged\\n\\u{1b}[2J"), "the name is not shown as what it is")?;
            return ensure(!text.contains(char::is_control), "the name acts");
        }
    }
}

fn read_order() -> Outcome {
    let log = reader()?;
    let texts: Vec<_> = (0..50).map(|number| unique(&format!("number {number}"))).collect();
    for text in &texts {
        log.write(text)?;
    }
    let mut last = find(&log, &texts[0])?;
    for text in &texts[1..] {
        let record = find(&log, text)?;
        ensure(record.sequence > last.sequence && record.time >= last.time, "records out of order")?;
        last = record;
    }
    Ok(())
}

fn read_small_buffer() -> Outcome {
    // The rest of a record that does not fit is lost, and nothing is written behind the reported length.
    let (log, text) = (reader()?, unique("too long for a small buffer"));
    for size in [HEAD + 8, HEAD, 3, 1] {
        while next(&log).is_ok() {}
        log.write(&text)?;
        log.write(b"after it")?;
        let mut bytes = [0xee_u8; 256];
        equal(log.read(&mut bytes[..size])?, size)?;
        ensure(bytes[size..].iter().all(|&byte| byte == 0xee), "it wrote more than there is room for")?;
        if size > HEAD {
            equal(&bytes[HEAD..size], &text[..8])?;
        }
        find(&log, b"after it")?;
    }
    Ok(())
}

fn read_bad_buffer_keeps() -> Outcome {
    let (log, text) = (reader()?, unique("still there"));
    while next(&log).is_ok() {}
    log.write(&text)?;
    for bad in [0_u64, 0x1000, 0xffff_8000_0000_0000] {
        gives(raw!(zx_debuglog_read, log.raw_handle(), 0, bad, 256), Status::INVALID_ARGS)?;
    }
    find(&log, &text).map(drop)
}

fn read_each_reader_all() -> Outcome {
    let (writer, text) = (open(0)?, unique("for all"));
    let readers = (0..5).map(|_| reader()).collect::<Result<Vec<_>, _>>()?;
    writer.write(&text)?;
    let late_reader = reader()?;
    for log in readers.iter().chain([&late_reader]) {
        find(log, &text)?;
    }
    Ok(())
}

fn read_options() -> Outcome {
    let log = reader()?;
    let mut bytes = [0_u8; 256];
    for odd in [1_u32, 0x4000_0000] {
        let status = raw!(zx_debuglog_read, log.raw_handle(), odd, bytes.as_mut_ptr(), 256);
        gives(status, Status::INVALID_ARGS)?;
    }
    Ok(())
}

fn signals_readable() -> Outcome {
    let log = reader()?;
    while next(&log).is_ok() {}
    fails(log.read(&mut [0; 256]), Status::SHOULD_WAIT)?;
    let waiter = std::thread::spawn(move || log.wait_one(Signals::LOG_READABLE, late()).map(|_| log));
    std::thread::sleep(std::time::Duration::from_millis(20));
    open(0)?.write(b"wake up")?;
    let log = waiter.join().map_err(|_| "the waiter panicked")??;
    find(&log, b"wake up").map(drop)
}

fn draw_differs() -> Outcome {
    let mut seen = std::collections::HashSet::new();
    for _ in 0..1000 {
        let mut bytes = [0; 16];
        zx::cprng_draw(&mut bytes);
        ensure(seen.insert(bytes), "the same bytes came twice")?;
    }
    Ok(())
}

fn draw_any_size() -> Outcome {
    for size in [0, 1, 7, 255, 256, 257, 1000, 70_000] {
        let mut bytes = vec![0; size + 2];
        zx::cprng_draw(&mut bytes[1..=size]);
        equal((bytes[0], bytes[size + 1]), (0, 0))?;
        if size >= 255 {
            // No value makes up a quarter of the bytes.
            let mut counts = [0; 256];
            bytes[1..=size].iter().for_each(|&byte| counts[usize::from(byte)] += 1);
            ensure(counts.iter().all(|&count| count < size / 4), "a value comes too often")?;
        }
    }
    Ok(())
}

fn add_entropy_limit() -> Outcome {
    let bytes = [7_u8; 300];
    for (size, status) in [(0, Status::OK), (1, Status::OK), (256, Status::OK), (257, Status::INVALID_ARGS)] {
        gives(raw!(zx_cprng_add_entropy, bytes.as_ptr(), size), status)?;
    }
    gives(raw!(zx_cprng_add_entropy, bytes.as_ptr(), usize::MAX), Status::INVALID_ARGS)
}

fn add_entropy_bad_buffer() -> Outcome {
    for bad in [0_u64, 0x1000, 0x7fff_ffff_f000, 0xffff_8000_0000_0000, u64::MAX] {
        gives(raw!(zx_cprng_add_entropy, bad, 16), Status::INVALID_ARGS)?;
    }
    Ok(())
}

fn membarrier_returns() -> Outcome {
    for _ in 0..100 {
        let _ = raw!(zx_membarrier_sync_process_data);
        let _ = raw!(zx_membarrier_sync_process_insn);
    }
    Ok(())
}

fn membarrier_stores_seen() -> Outcome {
    // Two threads store and then load. Only one of them has a fence, the system's barrier. At least one of them must
    // see the other's store.
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    const ROUNDS: u32 = 2000;
    let words = Arc::new([const { AtomicU32::new(0) }; 4]);
    let twin = Arc::clone(&words);
    let fast = std::thread::spawn(move || {
        let mut seen = Vec::new();
        for round in 1..=ROUNDS {
            twin[0].store(round, Ordering::Relaxed);
            std::sync::atomic::compiler_fence(Ordering::SeqCst);
            seen.push(twin[1].load(Ordering::Relaxed));
            std::thread::yield_now();
        }
        seen
    });
    let mut seen = Vec::new();
    for round in 1..=ROUNDS {
        words[1].store(round, Ordering::Relaxed);
        let _ = raw!(zx_membarrier_sync_process_data);
        seen.push(words[0].load(Ordering::Relaxed));
        std::thread::yield_now();
    }
    let fast = fast.join().map_err(|_| "the other thread panicked")?;
    for (slow_round, &saw) in (1..=ROUNDS).zip(&seen) {
        // This thread did not see the fast thread's store in the round after `saw`; so in that round the fast thread
        // must have seen this thread's store.
        if let Some(&other) = fast.get(saw as usize) {
            ensure(other >= slow_round, "both threads missed each other's store")?;
        }
    }
    Ok(())
}
