//! Memory that a process receives contains no old data, neither of processes nor of the system.

use abi::{ZX_EXCP_SW_BREAKPOINT, ZX_EXCP_UNDEFINED_INSTRUCTION, ZX_INFO_KMEM_STATS, zx_info_kmem_stats_t};
use zx::{Channel, Duration, Event, Exception, Info, MonotonicInstant, Socket, Vmo};

use super::vmar::{PAGE, READ_WRITE};
use super::{cases, root_resource};
use crate::check::{Failure, Outcome, ensure, equal};
use crate::test_process::TestProcess;

cases! {
    "zeroed.pages.of_others" => pages_of_others,
    "zeroed.pages.given_back" => pages_given_back,
    "zeroed.pages.clones" => pages_clones,
}

const PATTERN: u64 = 0x6861_666e_6f6e_2121;
const AT: usize = 0x1000_0000;

fn pattern(len: usize) -> Vec<u8> {
    PATTERN.to_le_bytes().into_iter().cycle().take(len).collect()
}

/// Runs `code` in a process that has `len` bytes of `vmo` mapped, with their address in `rsi` and their number of words
/// in `rcx`. Returns the process and the exception type that it ends with.
fn run(vmo: &Vmo, len: usize, code: &[u8]) -> Result<(TestProcess, u32), Failure> {
    let mut all = vec![0x48, 0xb9]; // mov rcx, words
    all.extend((len as u64 / 8).to_le_bytes());
    all.extend([0x48, 0xb8]); // mov rax, PATTERN
    all.extend(PATTERN.to_le_bytes());
    all.extend([0x48, 0x89, 0xf7]); // mov rdi, rsi
    all.extend(code);
    let tiny = TestProcess::new(&all)?;
    tiny.vmar.map(READ_WRITE | abi::ZX_VM_SPECIFIC, AT, vmo, 0, len)?;
    let channel = tiny.process.create_exception_channel(0)?;
    tiny.start(None, tiny.vmar.info()?.base + AT)?;
    // Scanning all memory takes long.
    let deadline = MonotonicInstant::after(Duration::from_seconds(60));
    let (exception, info) = Exception::receive(&channel, deadline)?;
    drop(exception);
    let kind = info.type_;
    tiny.end()?;
    Ok((tiny, kind))
}

/// Writes the pattern to all words, fills the stack with it, and ends.
const FILL: &[u8] = &[
    0xf3, 0x48, 0xab, // rep stosq
    0xb9, 0x00, 0x07, 0x00, 0x00, // mov ecx, 0x700
    0x50, // push rax
    0xff, 0xc9, // dec ecx
    0x75, 0xfb, // jnz to the push
    0x0f, 0x0b, // ud2
];
/// Checks that all words are zero: `ud2` if they are, `int3` if not.
const SCAN: &[u8] = &[
    0x31, 0xc0, // xor eax, eax
    0xf3, 0x48, 0xaf, // repe scasq
    0x74, 0x01, // je over
    0xcc, // int3
    0x0f, 0x0b, // ud2
];

/// Leaves data in memory: contents and stacks of processes, messages, names, the system's own records.
fn leave_traces(bytes: usize) -> Outcome {
    let vmo = Vmo::create(bytes as u64, 0)?;
    equal(run(&vmo, bytes, FILL)?.1, ZX_EXCP_UNDEFINED_INSTRUCTION)?;
    drop(vmo);
    let message = pattern(60_000);
    let channels = (0..100).map(|_| Channel::create()).collect::<zx::Result<Vec<_>>>()?;
    for (near, _) in &channels {
        near.write(&message, []).map_err(Failure::from)?;
    }
    let sockets = (0..20).map(|_| Socket::create(0)).collect::<zx::Result<Vec<_>>>()?;
    for (near, _) in &sockets {
        near.write(&message)?;
    }
    let events = (0..2000).map(|_| Event::create()).collect::<zx::Result<Vec<_>>>()?;
    let vmos = (0..500).map(|_| Vmo::create(PAGE as u64, 0)).collect::<zx::Result<Vec<_>>>()?;
    for vmo in &vmos {
        zx::AsHandleRef::set_name(vmo, "!!nonfah!!nonfah")?;
        vmo.write(&message[..PAGE], 0)?;
    }
    drop((channels, sockets, events, vmos));
    Ok(())
}

/// Free memory in bytes, less a small reserve.
fn free() -> Result<usize, Failure> {
    let stats: zx_info_kmem_stats_t = root_resource()?.info_record(ZX_INFO_KMEM_STATS)?;
    Ok((stats.free_bytes as usize / 16 * 15) / PAGE * PAGE)
}

fn pages_of_others() -> Outcome {
    leave_traces(free()? / 4)?;
    // Nearly all free memory goes to another process.
    let len = free()?;
    ensure(len > 16 << 20, "there is little memory to look at")?;
    let vmo = Vmo::create(len as u64, 0)?;
    vmo.op_range(abi::ZX_VMO_OP_COMMIT, 0, len as u64)?;
    equal(vmo.info()?.committed_bytes, len as u64)?;
    let (_tiny, end) = run(&vmo, len, SCAN)?;
    ensure(end != ZX_EXCP_SW_BREAKPOINT, "there was something in it")?;
    equal(end, ZX_EXCP_UNDEFINED_INSTRUCTION)
}

/// Pages that a VMO frees in various ways and then commits again.
fn pages_given_back() -> Outcome {
    let len = 64 * PAGE;
    let vmo = Vmo::create(len as u64, abi::ZX_VMO_RESIZABLE)?;
    let zero = vec![0; len];
    let mut found = vec![1; len];
    let ways: [fn(&Vmo, u64) -> zx::Result<()>; 3] = [
        |vmo, len| vmo.op_range(abi::ZX_VMO_OP_DECOMMIT, 0, len),
        |vmo, len| vmo.op_range(abi::ZX_VMO_OP_ZERO, 0, len),
        |vmo, len| vmo.set_size(0).and_then(|()| vmo.set_size(len)),
    ];
    for way in ways {
        vmo.write(&pattern(len), 0)?;
        way(&vmo, len as u64)?;
        vmo.op_range(abi::ZX_VMO_OP_COMMIT, 0, len as u64)?;
        vmo.read(&mut found, 0)?;
        ensure(found == zero, "what was there came back")?;
    }
    // After a store to one byte of a page, the rest of the page is zero.
    vmo.write(&pattern(len), 0)?;
    vmo.op_range(abi::ZX_VMO_OP_DECOMMIT, 0, len as u64)?;
    for page in 0..64 {
        vmo.write(&[0xff], page * PAGE as u64)?;
    }
    vmo.read(&mut found, 0)?;
    ensure(found.iter().enumerate().all(|(at, byte)| at % PAGE == 0 || *byte == 0), "the rest is not zero")
}

/// Pages that a clone does not take from its parent.
fn pages_clones() -> Outcome {
    let len = 16 * PAGE;
    leave_traces(4 << 20)?;
    let parent = Vmo::create(8 * PAGE as u64, 0)?;
    let child = parent.create_child(abi::ZX_VMO_CHILD_SNAPSHOT, 4 * PAGE as u64, len as u64)?;
    for page in 0..16 {
        child.write(&[7], page * PAGE as u64 + 100)?;
    }
    let mut found = vec![1; len];
    child.read(&mut found, 0)?;
    let rest = found.iter().enumerate().all(|(at, byte)| *byte == if at % PAGE == 100 { 7 } else { 0 });
    ensure(rest, "the rest is not zero")
}
