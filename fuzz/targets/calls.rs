//! System calls: two processes make arbitrary calls with arbitrary words, on the machine with plain memory. Nothing may
//! panic or overflow, memory must stay consistent, and when everything is killed, nothing may remain.
//!
//! An input is the memory of the processes (512 bytes), followed by calls of [`CALL`] bytes: the thread, the number of
//! the call, and for each word its kind and a number.
#![no_main]

use abi::Rights;
use objects::containers::name::Name;
use objects::core::handle::Handle;
use objects::core::object::ObjectId;
use objects::fake::FakeMachine;
use objects::machine::{Fault, PAGE, Perm, Registers, ThreadKey, USER_BASE};
use objects::memory::vmar::{MapRequest, Place};
use objects::task::process::Process;
use objects::{Id, Kernel};
use server::Server;

/// Bytes with which a process's memory begins.
const MEMORY: usize = 512;
/// Size of a call in bytes: thread, number, eight words of three bytes.
const CALL: usize = 26;
/// Maximum number of calls in one input.
const MOST: usize = 64;
const FRAMES: usize = 600;

/// Words that checks are most likely to handle wrongly.
const ODD: [u64; 12] = [
    0,
    1,
    PAGE,
    PAGE + 1,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 32,
    1 << 47,
    i64::MAX as u64,
    1 << 63,
    u64::MAX - 0xfff,
    u64::MAX,
];

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let memory = &bytes[..bytes.len().min(MEMORY)];
    let mut kernel = Kernel::new(FakeMachine::new(FRAMES)).unwrap();
    kernel.machine.serial_room = 100;
    let job = kernel.root_job().unwrap();
    kernel.reap();
    let (empty, frames) = (kernel.census(), kernel.machine.frames_in_use());
    let held: Vec<(Id<Process>, Handle)> = (0..2).map(|_| process(&mut kernel, memory)).collect();
    let mut server = Server { kernel };
    for call in bytes.get(MEMORY..).unwrap_or_default().chunks_exact(CALL).take(MOST) {
        make(&mut server, &held, call);
    }
    let mut kernel = server.kernel;
    kernel.check_memory();
    kernel.job_kill(job, 0);
    held.into_iter().for_each(|(_, handle)| kernel.close(handle));
    kernel.trace_stop();
    kernel.trace_rewind();
    kernel.reap();
    assert_eq!(kernel.census(), empty, "objects, observers, address spaces");
    assert_eq!(kernel.machine.frames_in_use(), frames + kernel.frames_kept(), "frames");
});

/// A process with memory, two threads and handles to objects of most kinds.
fn process(kernel: &mut Kernel<FakeMachine>, memory: &[u8]) -> (Id<Process>, Handle) {
    let perm = Perm { read: true, write: true, execute: false };
    let root_job = kernel.root_job().unwrap();
    let job = kernel.job_create(root_job).unwrap();
    let (process, root) = kernel.process_create(job, Name::new(b"fuzz")).unwrap();
    let vmo = kernel.vmo_create(4 * PAGE, true).unwrap();
    let request = MapRequest { vmo, offset: 0, len: 4 * PAGE, perm, max: perm, fixed: false };
    kernel.vmar_map(root, Place::At(0), request).unwrap();
    kernel.process_begin(process, None).unwrap();
    let aspace = kernel.objects.get(process).unwrap().aspace.unwrap();
    kernel.copy_out(aspace, USER_BASE, memory).unwrap();
    let mut objects: Vec<ObjectId> = vec![job.object(), process.object(), root.object()];
    for name in [b"a", b"b"] {
        let thread = kernel.thread_create(process, Name::new(name)).unwrap();
        kernel.thread_start(thread, &Registers::default()).unwrap();
        objects.push(thread.object());
    }
    let (port, pager) = (kernel.port_create(false).unwrap(), kernel.pager_create().unwrap());
    objects.extend([port.object(), pager.object()]);
    objects.push(kernel.pager_create_vmo(pager, (port, 1), 2 * PAGE, true, true).unwrap().object());
    objects.push(kernel.vmo_create(8 * PAGE, true).unwrap().object());
    objects.push(kernel.resource_root().unwrap().object());
    let (a, b) = kernel.channel_create().unwrap();
    objects.extend([a.object(), b.object()]);
    for object in objects {
        kernel.give(process, object, Rights::all()).unwrap();
    }
    kernel.reap();
    let held = kernel.dup_handle(Handle { object: process.object(), rights: Rights::all() });
    (process, held)
}

fn make(server: &mut Server<FakeMachine>, held: &[(Id<Process>, Handle)], call: &[u8]) {
    let (process, _) = held[usize::from(call[0] & 1)];
    let kernel = &mut server.kernel;
    if kernel.process_is_dead(process) {
        return;
    }
    let started = kernel.machine.threads.values().filter_map(|thread| kernel.thread_at(thread.key));
    let own: Vec<_> = started.filter(|&thread| kernel.objects.get(thread).unwrap().process == process).collect();
    let Some(&thread) = own.get(usize::from(call[0] >> 1 & 3) % own.len().max(1)) else { return };
    let key = ThreadKey(thread.object().index());
    let handles: Vec<u32> = kernel.objects.get(process).unwrap().handles.iter().map(|(value, _)| value).collect();
    let mut words = [0; 8];
    for (word, bytes) in words.iter_mut().zip(call[2..].chunks_exact(3)) {
        let number = u64::from(u16::from_le_bytes([bytes[1], bytes[2]]));
        *word = match bytes[0] % 8 {
            0 => number,
            1 | 2 => handles.get(number as usize % handles.len().max(1)).copied().unwrap_or_default().into(),
            3 => USER_BASE + number % (4 * PAGE + 64),
            4 => number * PAGE,
            5 => ODD[number as usize % ODD.len()],
            6 => kernel.machine.time as u64 + number,
            _ => 1 << (number % 64),
        };
    }
    match call[1] {
        255 => {
            kernel.machine.time += words[0] as i64 & 0xffff;
            server.timer();
        }
        254 => {
            let (address, write) = (words[0], words[1] & 1 != 0);
            server.fault(key, Fault::Page { address, ip: USER_BASE, write, execute: false });
        }
        number => {
            if let Some(machine) = kernel.machine.threads.values_mut().find(|thread| thread.key == key.0) {
                machine.extra = [words[4], words[5], words[6], words[7]];
            }
            server.call(key, u32::from(number), &[words[0], words[1], words[2], words[3]]);
            server.settle();
        }
    }
}
