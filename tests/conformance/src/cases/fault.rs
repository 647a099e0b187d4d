//! Page faults: which pages a thread gets when it accesses memory, and which not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use abi::{Status, ZX_EXCP_FATAL_PAGE_FAULT};
use zx::{AsHandleRef, MonotonicInstant, Signals, Vmo};

use super::vmar::{PAGE, READ, READ_WRITE, region, vmo};
use super::{cases, late, soon};
use crate::caught_exception::{catch_type, quiet};
use crate::census::Counter;
use crate::check::{Outcome, ensure, equal};
use crate::prober::Prober;
use crate::test_process::{KILLED, TestProcess};

cases! {
    "fault.around.stays_in_the_mapping" => around_stays_in_the_mapping,
    "fault.around.permissions" => around_permissions,
    "fault.around.present_and_absent_pages" => around_present_and_absent_pages,
    "fault.read.commits_nothing" => read_commits_nothing,
    "fault.write.after_read" => write_after_read,
    "fault.shrunk.is_an_exception" => shrunk_is_an_exception,
    "fault.shrunk.continues_when_grown" => shrunk_continues_when_grown,
    "fault.content.beyond_is_an_exception" => content_beyond,
    "fault.content.follows_the_content" => content_follows,
    "fault.guard.ends_a_stack" => guard_ends_a_stack,
    "fault.suspended.is_served_later" => suspended_is_served_later,
    "fault.dying.ends" => dying_ends,
    "fault.threads.one_page" => threads_one_page,
    "fault.tables.given_back" => tables_given_back,
}

const SPECIFIC: u32 = abi::ZX_VM_SPECIFIC;

/// Fault-around maps the neighbouring pages of the VMO, but only inside the mapping.
fn around_stays_in_the_mapping() -> Outcome {
    let prober = Prober::new()?;
    let (vmar, base) = prober.region(64)?;
    let vmo = vmo(64)?;
    vmo.write(&vec![1; 64 * PAGE], 0)?;
    vmar.map(READ_WRITE | SPECIFIC, 30 * PAGE, &vmo, 30 * PAGE as u64, 3 * PAGE)?;
    prober.finds(base + 31 * PAGE, 1)?;
    for page in [28, 29, 33, 34] {
        prober.finds_nothing(base + page * PAGE)?;
    }
    for page in 30..33 {
        prober.finds(base + page * PAGE, 1)?;
    }
    Ok(())
}

/// Neighbouring pages with other permissions keep them.
fn around_permissions() -> Outcome {
    let prober = Prober::new()?;
    let (vmar, base) = prober.region(16)?;
    let vmo = vmo(16)?;
    vmo.write(&vec![1; 16 * PAGE], 0)?;
    vmar.map(READ_WRITE | SPECIFIC, 0, &vmo, 0, 16 * PAGE)?;
    vmar.protect(READ, base + 4 * PAGE, 4 * PAGE)?;
    vmar.protect(0, base + 8 * PAGE, 4 * PAGE)?;
    for first in [0, 4, 12] {
        prober.finds(base + first * PAGE, 1)?;
    }
    for page in 0..16 {
        let at = base + page * PAGE;
        match page / 4 {
            1 => prober.finds_read_only(at, 1)?,
            2 => equal(prober.load(at)?, Err(Status::ACCESS_DENIED))?,
            _ => prober.stores(at, 1)?,
        }
    }
    Ok(())
}

/// Present and absent pages next to each other.
fn around_present_and_absent_pages() -> Outcome {
    let prober = Prober::new()?;
    let (vmar, base) = prober.region(48)?;
    let vmo = vmo(48)?;
    for page in (0..48).step_by(3) {
        vmo.write(&[page as u8 + 1], (page * PAGE) as u64)?;
    }
    vmar.map(READ_WRITE | SPECIFIC, 0, &vmo, 0, 48 * PAGE)?;
    for page in 0..48 {
        prober.finds(base + page * PAGE, if page % 3 == 0 { page as u8 + 1 } else { 0 })?;
    }
    for page in 0..48 {
        prober.stores(base + page * PAGE, 100 + page as u8)?;
    }
    for page in 0..48 {
        let mut byte = [0];
        vmo.read(&mut byte, (page * PAGE) as u64)?;
        equal(byte, [100 + page as u8])?;
    }
    Ok(())
}

fn read_commits_nothing() -> Outcome {
    let prober = Prober::new()?;
    let (vmar, base) = prober.region(16)?;
    let vmo = vmo(16)?;
    vmar.map(READ_WRITE | SPECIFIC, 0, &vmo, 0, 16 * PAGE)?;
    for page in 0..16 {
        prober.finds(base + page * PAGE, 0)?;
    }
    equal(vmo.info()?.committed_bytes, 0)
}

/// A page that was read while it was absent can be written like any other, and only that page changes.
fn write_after_read() -> Outcome {
    let prober = Prober::new()?;
    let (vmar, base) = prober.region(4)?;
    let (one, two) = (vmo(2)?, vmo(2)?);
    vmar.map(READ_WRITE | SPECIFIC, 0, &one, 0, 2 * PAGE)?;
    vmar.map(READ_WRITE | SPECIFIC, 2 * PAGE, &two, 0, 2 * PAGE)?;
    for page in 0..4 {
        prober.finds(base + page * PAGE, 0)?;
    }
    prober.stores(base + PAGE, 5)?;
    for (page, value) in [(0, 0), (1, 5), (2, 0), (3, 0)] {
        prober.finds(base + page * PAGE, value)?;
    }
    equal((one.info()?.committed_bytes, two.info()?.committed_bytes), (PAGE as u64, 0))
}

fn resizable(pages: usize) -> zx::Result<Vmo> {
    Vmo::create((pages * PAGE) as u64, abi::ZX_VMO_RESIZABLE)
}

/// Pages beyond the new end fault, also those that were mapped; the pages before it do not change.
fn shrunk_is_an_exception() -> Outcome {
    let prober = Prober::new()?;
    let (vmar, base) = prober.region(8)?;
    let vmo = resizable(8)?;
    vmar.map(READ_WRITE | SPECIFIC, 0, &vmo, 0, 8 * PAGE)?;
    for page in 0..6 {
        prober.stores(base + page * PAGE, 3)?;
    }
    vmo.set_size(2 * PAGE as u64)?;
    prober.finds(base + PAGE, 3)?;
    for page in 2..8 {
        equal(prober.load(base + page * PAGE)?, Err(Status::OUT_OF_RANGE))?;
        equal(prober.store(base + page * PAGE, 1)?, Err(Status::OUT_OF_RANGE))?;
    }
    vmo.set_size(4 * PAGE as u64)?;
    prober.finds(base + 3 * PAGE, 0)?;
    equal(prober.load(base + 4 * PAGE)?, Err(Status::OUT_OF_RANGE))
}

/// A thread that has faulted beyond the end continues at the same instruction when the VMO has grown.
fn shrunk_continues_when_grown() -> Outcome {
    // mov [rsi], al; ud2
    let tiny = TestProcess::new(&[0x88, 0x06, 0x0f, 0x0b])?;
    let channel = tiny.process.create_exception_channel(0)?;
    let vmo = resizable(1)?;
    let offset = 0x300_0000;
    tiny.vmar.map(READ_WRITE | SPECIFIC, offset, &vmo, 0, 2 * PAGE)?;
    tiny.start(None, tiny.vmar.info()?.base + offset + PAGE)?;
    let caught = catch_type(&channel, ZX_EXCP_FATAL_PAGE_FAULT)?;
    vmo.set_size(2 * PAGE as u64)?;
    caught.handled()?;
    catch_type(&channel, abi::ZX_EXCP_UNDEFINED_INSTRUCTION)?.passed();
    equal(vmo.info()?.committed_bytes, PAGE as u64)?;
    tiny.end().map(drop)
}

/// With `ZX_VM_FAULT_BEYOND_STREAM_SIZE`, the last page of the content can be used to its end; accesses beyond it
/// fault.
fn content_beyond() -> Outcome {
    let prober = Prober::new()?;
    let (vmar, base) = prober.region(8)?;
    let vmo = vmo(8)?;
    vmo.set_stream_size(PAGE as u64 + 1)?;
    let options = READ_WRITE | SPECIFIC | abi::ZX_VM_ALLOW_FAULTS;
    vmar.map(options | abi::ZX_VM_FAULT_BEYOND_STREAM_SIZE, 0, &vmo, 0, 4 * PAGE)?;
    vmar.map(options, 4 * PAGE, &vmo, 0, 4 * PAGE)?;
    prober.stores(base, 1)?;
    prober.stores(base + 2 * PAGE - 1, 2)?;
    equal(prober.load(base + 2 * PAGE)?, Err(Status::OUT_OF_RANGE))?;
    equal(prober.store(base + 3 * PAGE, 1)?, Err(Status::OUT_OF_RANGE))?;
    // Other mappings reach to the end of the VMO.
    prober.stores(base + 6 * PAGE, 7)?;
    equal(prober.load(base + 2 * PAGE)?, Err(Status::OUT_OF_RANGE))?;
    // The server observes the limit as well when it accesses memory for a program.
    let (own, at) = region(4)?;
    own.map(options | abi::ZX_VM_FAULT_BEYOND_STREAM_SIZE, 0, &vmo, 0, 4 * PAGE)?;
    let scratch = super::vmar::vmo(1)?;
    for (page, expected) in [(1, Status::OK), (2, Status::INVALID_ARGS)] {
        let status = super::raw!(zx_vmo_write, scratch.raw_handle(), at + page * PAGE, 0, 8);
        crate::check::gives(status, expected)?;
        let status = super::raw!(zx_vmo_read, scratch.raw_handle(), at + page * PAGE, 0, 8);
        crate::check::gives(status, expected)?;
    }
    own.op_range(abi::ZX_VMAR_OP_COMMIT, at, 2 * PAGE)?;
    crate::check::fails(own.op_range(abi::ZX_VMAR_OP_COMMIT, at, 4 * PAGE), Status::OUT_OF_RANGE)
}

fn content_follows() -> Outcome {
    let prober = Prober::new()?;
    let (vmar, base) = prober.region(4)?;
    let vmo = vmo(4)?;
    vmo.set_stream_size(0)?;
    let options = READ_WRITE | SPECIFIC | abi::ZX_VM_ALLOW_FAULTS | abi::ZX_VM_FAULT_BEYOND_STREAM_SIZE;
    vmar.map(options, 0, &vmo, 0, 4 * PAGE)?;
    for pages in [0, 3, 1, 4, 0, 2] {
        vmo.set_stream_size((pages * PAGE) as u64)?;
        for page in 0..4 {
            let result = prober.store(base + page * PAGE, 1)?;
            equal(result, if page < pages { Ok(()) } else { Err(Status::OUT_OF_RANGE) })?;
        }
    }
    Ok(())
}

/// A stack that overflows reaches an unmapped page.
fn guard_ends_a_stack() -> Outcome {
    // push rax; jmp to it
    let tiny = TestProcess::new(&[0x50, 0xeb, 0xfd])?;
    let channel = tiny.process.create_exception_channel(0)?;
    let bottom = tiny.stack + 8 - 0x4000;
    tiny.start(None, 0)?;
    let caught = catch_type(&channel, ZX_EXCP_FATAL_PAGE_FAULT)?;
    let report = caught.exception.thread()?.exception_report()?;
    equal(report.context.arch.cr2, bottom as u64 - 8)?;
    equal(Status(report.context.synth_code as i32), Status::NOT_FOUND)?;
    caught.passed();
    tiny.end().map(drop)
}

/// Code that writes to one page after the other from `rsi` on, forever.
const SWEEP: &[u8] = &[
    0x88, 0x06, // mov [rsi], al
    0x48, 0x81, 0xc6, 0x00, 0x10, 0x00, 0x00, // add rsi, 4096
    0xeb, 0xf5, // jmp to the start
];

/// A thread that faults all the time is suspended between two faults or in one, and continues at the same instruction.
fn suspended_is_served_later() -> Outcome {
    let tiny = TestProcess::new(SWEEP)?;
    let vmo = Vmo::create(1 << 30, 0)?;
    let offset = 0x1000_0000;
    tiny.vmar.map(READ_WRITE | SPECIFIC, offset, &vmo, 0, 1 << 30)?;
    tiny.start(None, tiny.vmar.info()?.base + offset)?;
    let mut last = 0;
    for _ in 0..20 {
        let token = tiny.thread.suspend()?;
        tiny.thread.wait_one(Signals::THREAD_SUSPENDED, late())?;
        let there = vmo.info()?.committed_bytes;
        zx::nanosleep(soon(1))?;
        equal(vmo.info()?.committed_bytes, there)?;
        // No page is skipped, wherever the thread was suspended.
        let registers: abi::zx_thread_state_general_regs_t = tiny.thread.registers()?;
        let reached = registers.rsi - (tiny.vmar.info()?.base + offset) as u64;
        ensure(reached / PAGE as u64 * PAGE as u64 <= there, "a page was passed over")?;
        drop(token);
        let limit = late();
        while vmo.info()?.committed_bytes == there {
            ensure(MonotonicInstant::now() < limit, "it does not go on")?;
            zx::nanosleep(soon(1))?;
        }
        ensure(there >= last, "pages have gone")?;
        last = there;
        vmo.op_range(abi::ZX_VMO_OP_DECOMMIT, 0, 0)?;
        if last > 256 << 20 {
            break;
        }
    }
    tiny.process.kill()?;
    equal(tiny.end()?, KILLED)
}

/// Processes that are killed while they fault end at once and leave nothing behind.
fn dying_ends() -> Outcome {
    let offset = 0x1000_0000;
    for turn in 0..20 {
        let tiny = TestProcess::new(SWEEP)?;
        let vmo = Vmo::create(1 << 30, 0)?;
        tiny.vmar.map(READ_WRITE | SPECIFIC, offset, &vmo, 0, 1 << 30)?;
        tiny.start(None, tiny.vmar.info()?.base + offset)?;
        let limit = late();
        while vmo.info()?.committed_bytes < turn * PAGE as u64 {
            ensure(MonotonicInstant::now() < limit, "it does not start")?;
            zx::thread_legacy_yield()?;
        }
        tiny.process.kill()?;
        equal(tiny.end()?, KILLED)?;
    }
    // The same for a process with a fault that no handler has answered.
    let tiny = TestProcess::new(SWEEP)?;
    let channel = tiny.process.create_exception_channel(0)?;
    tiny.start(None, tiny.vmar.info()?.base + offset)?;
    let caught = catch_type(&channel, ZX_EXCP_FATAL_PAGE_FAULT)?;
    tiny.process.kill()?;
    equal(tiny.end()?, KILLED)?;
    caught.passed();
    quiet(&channel)
}

/// Threads that access a page at the same time all get the same frame.
fn threads_one_page() -> Outcome {
    const THREADS: u32 = 4;
    const TURNS: u32 = 100;
    let (vmar, base) = region(1)?;
    let vmo = vmo(1)?;
    let mapping = vmar.map(READ_WRITE | SPECIFIC, 0, &vmo, 0, PAGE)?;
    equal(mapping, base)?;
    let gate = Arc::new(AtomicU32::new(0));
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let gate = gate.clone();
            std::thread::spawn(move || {
                for turn in 1..=TURNS {
                    gate.fetch_add(1, Ordering::SeqCst);
                    while gate.load(Ordering::SeqCst) < (2 * turn - 1) * THREADS {
                        std::thread::yield_now();
                    }
                    zx::probe::write(base + 64 * number as usize, turn as u8);
                    gate.fetch_add(1, Ordering::SeqCst);
                    while gate.load(Ordering::SeqCst) < 2 * turn * THREADS {
                        std::thread::yield_now();
                    }
                }
            })
        })
        .collect();
    for turn in 1..=TURNS {
        // All threads have written; none begins the next turn before all have checked that.
        while gate.load(Ordering::SeqCst) < 2 * turn * THREADS - 1 {
            std::thread::yield_now();
        }
        if turn % 2 == 0 {
            vmo.op_range(abi::ZX_VMO_OP_DECOMMIT, 0, PAGE as u64)?;
        }
    }
    for thread in threads {
        thread.join().map_err(|_| "a thread panicked")?;
    }
    vmo.op_range(abi::ZX_VMO_OP_DECOMMIT, 0, PAGE as u64)?;
    equal(vmo.info()?.committed_bytes, 0)?;
    // All threads at once, on an absent page.
    let threads: Vec<_> = (0..THREADS as usize)
        .map(|number| std::thread::spawn(move || zx::probe::write(base + 64 * number, number as u8 + 1)))
        .collect();
    for thread in threads {
        thread.join().map_err(|_| "a thread panicked")?;
    }
    equal(vmo.info()?.committed_bytes, PAGE as u64)?;
    let mut bytes = [0; 256];
    vmo.read(&mut bytes, 0)?;
    equal([bytes[0], bytes[64], bytes[128], bytes[192]], [1, 2, 3, 4])
}

/// A program that maps, accesses and unmaps pages all over the address space leaves no page tables behind.
fn tables_given_back() -> Outcome {
    let counter = Counter::new().ok_or("the kernel does not tell its counts")?;
    let prober = Prober::new()?;
    let vmo = vmo(1)?;
    let info = prober.tiny.vmar.info()?;
    let places = |count: usize| {
        let step = info.len / (count + 1) / PAGE * PAGE;
        (1..=count).map(move |place| place * step)
    };
    let map = |offset: usize| -> Outcome {
        let at = prober.tiny.vmar.map(READ_WRITE | SPECIFIC, offset, &vmo, 0, PAGE)?;
        prober.stores(at, 1)
    };
    // Many at a time, each unmapped by one call, and a thousand one after the other.
    let round = || -> Outcome {
        places(100).try_for_each(map)?;
        for pair in places(100).collect::<Vec<_>>().windows(2) {
            prober.tiny.vmar.unmap(info.base + pair[0], pair[1] - pair[0])?;
        }
        prober.tiny.vmar.unmap(info.base + places(100).next_back().unwrap_or(0), PAGE)?;
        places(1000).try_for_each(|offset| {
            map(offset)?;
            Ok(prober.tiny.vmar.unmap(info.base + offset, PAGE)?)
        })
    };
    // The first run may take a little memory permanently; only growth in every run is a leak.
    let mut stays = String::new();
    for _ in 0..3 {
        let before = counter.take().ok_or("the kernel does not tell its counts")?;
        round()?;
        let growth = counter.take().ok_or("the kernel does not tell its counts")?.since(&before);
        if !growth.of_memory() {
            return Ok(());
        }
        stays = growth.to_string();
    }
    Err(format!("what was used stays: {stays}").into())
}
