//! Hostile programs, on the host: threads of several processes make random calls with random arguments and fault
//! anywhere, memory requests sometimes fail by plan, and time passes. The arguments are chosen by the types in the
//! definitions, so that many calls pass the first checks. The server must always answer, nothing may panic or overflow,
//! and once everything is killed nothing may be left.

use std::path::Path;

use abi::{
    Rights, ZX_TIME_INFINITE, ZX_VM_ALLOW_FAULTS, ZX_VM_FAULT_BEYOND_STREAM_SIZE, ZX_VM_MAP_RANGE, ZX_VM_PERM_READ,
    ZX_VM_PERM_WRITE, ZX_VM_SPECIFIC, ZX_VM_SPECIFIC_OVERWRITE, ZX_VMO_CHILD_NO_WRITE, ZX_VMO_CHILD_REFERENCE,
    ZX_VMO_CHILD_RESIZABLE, ZX_VMO_CHILD_SLICE, ZX_VMO_CHILD_SNAPSHOT, ZX_VMO_CHILD_SNAPSHOT_AT_LEAST_ON_WRITE,
    ZX_VMO_CHILD_SNAPSHOT_MODIFIED, ZX_VMO_DISCARDABLE, ZX_VMO_RESIZABLE, ZX_VMO_UNBOUNDED,
};
use abi_gen::{Arg, Support, Syscall, Via};
use objects::containers::failure_injection::Plan;
use objects::containers::name::Name;
use objects::core::handle::Handle;
use objects::core::object::ObjectId;
use objects::fake::FakeMachine;
use objects::machine::{Fault, PAGE, Perm, Registers, ThreadKey, USER_BASE, USER_TOP};
use objects::memory::vmar::{MapRequest, Place};
use objects::task::job::Job;
use objects::task::process::Process;
use objects::{Id, Kernel};
use server::{Answer, Server};

const WORDS: u64 = 16;
/// Pages that every process has at [`USER_BASE`], and read-only pages behind them.
const PAGES: u64 = 8;
const READ_ONLY: u64 = 2;
/// Pages behind those, which the process's own pager may supply.
const PAGED: u64 = 3;
/// Frames of the machine: few, so that memory runs out sometimes.
const FRAMES: usize = 3000;
/// Maximum number of handles of a process before some are closed.
const HANDLES: usize = 400;

/// Small pseudo-random numbers with a long period (xorshift64*), reproducible by the seed.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 8
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

/// Numbers that checks are most likely to get wrong.
const ODD: [u64; 22] = [
    0,
    1,
    2,
    3,
    4,
    8,
    12,
    64,
    65,
    0xfff,
    PAGE,
    PAGE + 1,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 32,
    1 << 47,
    i64::MAX as u64,
    1 << 63,
    u64::MAX - 0xfff,
    u64::MAX,
];

/// Options of memory calls. Those that get further occur more often.
const PERMS: [u32; 4] = [0, ZX_VM_PERM_READ, ZX_VM_PERM_READ | ZX_VM_PERM_WRITE, ZX_VM_PERM_READ | ZX_VM_PERM_WRITE];
const PLACES: [u32; 2] = [ZX_VM_SPECIFIC, ZX_VM_SPECIFIC_OVERWRITE];
const KINDS: [u32; 6] = [0, 0, ZX_VMO_RESIZABLE, ZX_VMO_RESIZABLE, ZX_VMO_DISCARDABLE, ZX_VMO_UNBOUNDED];
const CHILDREN: [u32; 6] = [
    ZX_VMO_CHILD_SNAPSHOT,
    ZX_VMO_CHILD_SNAPSHOT,
    ZX_VMO_CHILD_SLICE,
    ZX_VMO_CHILD_SNAPSHOT_AT_LEAST_ON_WRITE,
    ZX_VMO_CHILD_REFERENCE,
    ZX_VMO_CHILD_SNAPSHOT_MODIFIED,
];

/// `ZX_INFO_*`, `ZX_PROP_*` and similar constants are small numbers, with a version in the upper half.
fn number(dice: &mut Dice) -> u64 {
    match dice.below(6) {
        0 => dice.pick(&ODD),
        1 => 1 << dice.below(16) | dice.below(2) << dice.below(64),
        2 => dice.below(64) | dice.below(4) << 28,
        3 => dice.below(0x40),
        _ => dice.below(8),
    }
}

fn address(dice: &mut Dice) -> u64 {
    let inside = USER_BASE + dice.below(PAGES * PAGE / 8) * 8;
    match dice.below(24) {
        0 => dice.pick(&ODD),
        1 => USER_TOP - dice.below(32),
        2 => inside + dice.below(8),
        // Across the end of the writable, and of the readable memory.
        3 => USER_BASE + PAGES * PAGE - dice.below(16),
        4 => USER_BASE + (PAGES + READ_ONLY) * PAGE - dice.below(64),
        5 => 0,
        6 => USER_BASE + (PAGES + READ_ONLY) * PAGE + dice.below(PAGED * PAGE / 8) * 8,
        _ => inside,
    }
}

/// Calls that reach the server and are supported.
fn wanted(call: &Syscall) -> bool {
    call.via == Via::Server && !matches!(call.support, Support::Unsupported(_))
}

/// The object types that a definition's word for an object stands for; none for any type.
fn types_of(object: &str) -> Vec<u32> {
    let constant = |name: &str| {
        let name = format!("ZX_OBJ_TYPE_{}", name.to_uppercase());
        abi::CONSTANTS.iter().copied().flatten().find(|entry| entry.name == name).map(|entry| entry.value as u32)
    };
    match object {
        "task" => ["job", "process", "thread"].into_iter().filter_map(constant).collect(),
        _ => constant(object).into_iter().collect(),
    }
}

/// Sizes of memory, usually a few pages; some are huge, some are not whole pages.
fn extent(dice: &mut Dice) -> u64 {
    match dice.below(16) {
        0 => number(dice),
        1 => PAGE << dice.below(50),
        2 => dice.below(200) * PAGE,
        3 => dice.below(8) * PAGE + dice.below(PAGE),
        4 => 0,
        _ => dice.below(3 * PAGES) * PAGE,
    }
}

struct World {
    server: Server<FakeMachine>,
    calls: Vec<Syscall>,
    /// Indices of the memory calls.
    of_memory: Vec<usize>,
    /// How often each call succeeded.
    succeeded: Vec<u32>,
    dice: Dice,
    job: Id<Job>,
    processes: Vec<Id<Process>>,
    /// A handle to each process that keeps it alive.
    held: Vec<Handle>,
    /// The counts before the first process.
    empty: (usize, usize, usize),
    frames: usize,
}

impl World {
    fn new(seed: u64) -> World {
        let mut machine = FakeMachine::new(FRAMES);
        machine.serial_room = 100;
        let mut kernel = Kernel::new(machine).unwrap();
        let job = kernel.root_job().unwrap();
        kernel.reap();
        let (empty, frames) = (kernel.census(), kernel.machine.frames_in_use());
        let definitions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../abi/syscalls");
        let calls: Vec<_> = abi_gen::load(definitions).unwrap().into_iter().filter(wanted).collect();
        let succeeded = vec![0; calls.len()];
        let memory =
            |call: &Syscall| ["vmo", "vmar", "stream", "iob", "pager"].iter().any(|n| call.name.starts_with(n));
        let of_memory = (0..calls.len()).filter(|&n| memory(&calls[n]) && calls[n].name != "vmar_destroy").collect();
        let server = Server { kernel };
        let dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        World { server, calls, of_memory, succeeded, dice, job, processes: Vec::new(), held: Vec::new(), empty, frames }
    }

    /// A process with memory, two threads, and handles to itself, its job and the root resource.
    fn process(&mut self) {
        let kernel = &mut self.server.kernel;
        let perm = |write| Perm { read: true, write, execute: false };
        let job = kernel.job_create(self.job).unwrap();
        let (process, root) = kernel.process_create(job, Name::new(b"hostile")).unwrap();
        for (offset, pages, write) in [(0, PAGES, true), (PAGES, READ_ONLY, false)] {
            let vmo = kernel.vmo_create(pages * PAGE, false).unwrap();
            let request =
                MapRequest { vmo, offset: 0, len: pages * PAGE, perm: perm(write), max: perm(write), fixed: false };
            kernel.vmar_map(root, Place::At(offset * PAGE), request).unwrap();
        }
        let (pager, port) = (kernel.pager_create().unwrap(), kernel.port_create(false).unwrap());
        let paged = kernel.pager_create_vmo(pager, (port, 1), PAGED * PAGE, true, self.dice.one_in(2)).unwrap();
        let (vmo, len) = (paged, PAGED * PAGE);
        let request = MapRequest { vmo, offset: 0, len, perm: perm(true), max: perm(true), fixed: false };
        kernel.vmar_map(root, Place::At((PAGES + READ_ONLY) * PAGE), request).unwrap();
        kernel.process_begin(process, None).unwrap();
        let mut objects: Vec<ObjectId> = vec![job.object(), process.object(), root.object()];
        objects.extend([pager.object(), port.object(), paged.object()]);
        for name in [b"a", b"b"] {
            let thread = kernel.thread_create(process, Name::new(name)).unwrap();
            kernel.thread_start(thread, &Registers::default()).unwrap();
            objects.push(thread.object());
        }
        objects.push(kernel.resource_root().unwrap().object());
        // Objects that most memory calls need.
        for (pages, resizable) in [(PAGES, false), (3 * PAGES, true)] {
            objects.push(kernel.vmo_create(pages * PAGE, resizable).unwrap().object());
        }
        let (port, pager) = (kernel.port_create(false).unwrap(), kernel.pager_create().unwrap());
        objects.extend([port.object(), pager.object()]);
        objects
            .push(kernel.pager_create_vmo(pager, (port, 1), PAGES * PAGE, true, self.dice.one_in(2)).unwrap().object());
        for object in objects {
            kernel.give(process, object, Rights::all()).unwrap();
        }
        // Each process has handles to the others, so it can kill them and read and write their memory.
        for other in self.processes.clone() {
            let handle = kernel.dup_handle(Handle { object: other.object(), rights: Rights::all() });
            let _ = kernel.put(process, handle);
        }
        kernel.reap();
        self.processes.push(process);
        // An object keeps its number while there is a reference to it.
        self.held.push(kernel.dup_handle(Handle { object: process.object(), rights: Rights::all() }));
    }

    /// The handles of a process, each with its object's type.
    fn handles(&self, process: Id<Process>) -> Vec<(u32, u32)> {
        let objects = &self.server.kernel.objects;
        let handles = objects.get(process).unwrap().handles.iter();
        handles.map(|(value, handle)| (value, objects.any(handle.object).unwrap().body.object_type())).collect()
    }

    /// A handle, usually to an object of a type that the call takes.
    fn handle(&mut self, handles: &[(u32, u32)], types: &[u32]) -> u64 {
        if handles.is_empty() || self.dice.one_in(30) {
            return number(&mut self.dice) & 0xffff_ffff;
        }
        let mut found = self.dice.pick(handles);
        let fitting: Vec<_> = handles.iter().copied().filter(|(_, kind)| types.contains(kind)).collect();
        if !fitting.is_empty() && !self.dice.one_in(10) {
            found = self.dice.pick(&fitting);
        }
        u64::from(found.0)
    }

    fn argument(&mut self, call: &Syscall, arg: &Arg, handles: &[(u32, u32)]) -> u64 {
        if arg.is_pointer() {
            return address(&mut self.dice);
        }
        let counts = call.args.iter().any(|other| other.len.as_ref() == Some(&arg.name));
        match arg.ty.as_str() {
            "handle" => {
                let rights = call.rights.iter().filter(|right| right.arg == arg.name);
                let types: Vec<u32> = rights.flat_map(|right| types_of(&right.object)).collect();
                self.handle(handles, &types)
            }
            "rights" if self.dice.one_in(2) => u64::from(Rights::SAME_RIGHTS.bits()),
            "time" | "duration" => match self.dice.below(6) {
                0 => ZX_TIME_INFINITE as u64,
                1 => number(&mut self.dice),
                _ => self.server.kernel.machine.time as u64 + self.dice.below(1000),
            },
            _ if arg.name.contains("options") => match self.dice.below(5) {
                0 => number(&mut self.dice),
                1 => self.dice.below(256),
                2 => 1 << self.dice.below(8),
                _ => 0,
            },
            _ if counts && !self.dice.one_in(8) => self.dice.below(2) * self.dice.below(40),
            _ if arg.name.contains("addr") || arg.name.contains("offset") => match self.dice.below(3) {
                0 => number(&mut self.dice),
                1 => self.dice.below(PAGES) * PAGE,
                _ => address(&mut self.dice),
            },
            "usize" | "u64" if self.dice.one_in(2) => self.dice.below(PAGES) * PAGE,
            _ => number(&mut self.dice),
        }
    }

    /// An address in or near one of a process's mappings.
    fn mapped(&mut self, process: Id<Process>) -> u64 {
        let kernel = &self.server.kernel;
        let aspace = kernel.objects.get(process).unwrap().aspace;
        let mappings = || aspace.into_iter().flat_map(|aspace| kernel.mappings(aspace));
        let count = mappings().count() as u64;
        if count == 0 {
            return address(&mut self.dice);
        }
        let which = self.dice.below(count) as usize;
        let (base, pages) = mappings().nth(which).map(|m| (m.base, m.len / PAGE)).unwrap();
        if base < USER_BASE + (PAGES + READ_ONLY) * PAGE && !self.dice.one_in(20) {
            // Without the memory for its arguments, the process would not get far.
            return USER_BASE + (16 + self.dice.below(64)) * PAGE;
        }
        let page = if self.dice.one_in(3) { self.dice.below(pages) } else { self.dice.below(pages.min(PAGES)) };
        base + page * PAGE
    }

    /// Adjusts the arguments of a memory call so that they get further than random ones.
    fn of_memory(&mut self, process: Id<Process>, call: &Syscall, words: &mut [u64; 8]) {
        let is_vmar = call.name.starts_with("vmar");
        let names = [("vmo", "stream"), ("vmar", "iob"), ("pager", "bti")];
        if !names.iter().any(|(a, b)| call.name.starts_with(a) || call.name.starts_with(b)) || self.dice.one_in(8) {
            return;
        }
        let specific = self.dice.one_in(3);
        for (word, arg) in words.iter_mut().zip(&call.args) {
            let is_address = is_vmar && matches!(arg.name.as_str(), "addr" | "address");
            match arg.name.as_str() {
                "buffer" | "buffer_size" if call.name.ends_with("op_range") => *word = 0,
                _ if arg.is_pointer() || arg.ty == "handle" => {}
                _ if is_address && !self.dice.one_in(8) => *word = self.mapped(process),
                "options" if call.name == "vmar_map" => {
                    let how = if specific { self.dice.pick(&PLACES) } else { 0 };
                    let more = self.dice.pick(&[
                        0,
                        0,
                        0,
                        ZX_VM_MAP_RANGE,
                        ZX_VM_ALLOW_FAULTS | ZX_VM_FAULT_BEYOND_STREAM_SIZE,
                    ]);
                    *word = u64::from(self.dice.pick(&PERMS) | how | more);
                }
                "options" if call.name == "vmar_protect" => *word = u64::from(self.dice.pick(&PERMS)),
                "options" if call.name == "vmo_create" => *word = u64::from(self.dice.pick(&KINDS)),
                "options" if call.name == "vmo_create_child" => {
                    let more = self.dice.pick(&[0, 0, ZX_VMO_CHILD_RESIZABLE, ZX_VMO_CHILD_NO_WRITE]);
                    *word = u64::from(self.dice.pick(&CHILDREN) | more);
                }
                "vmar_offset" => *word = if specific { (16 + self.dice.below(64)) * PAGE } else { 0 },
                "options" => {}
                _ if matches!(arg.ty.as_str(), "u64" | "usize") && !arg.name.starts_with("num") => {
                    *word = extent(&mut self.dice);
                }
                _ => {}
            }
        }
    }

    /// Writes words as a program might have them to where a call's pointers point.
    fn scribble(&mut self, process: Id<Process>, handles: &[(u32, u32)]) {
        for _ in 0..WORDS {
            let word = match self.dice.below(5) {
                0 => address(&mut self.dice),
                1 => self.handle(handles, &[]) | self.handle(handles, &[]) << 32,
                2 => self.dice.next(),
                _ => number(&mut self.dice),
            };
            let at = USER_BASE + self.dice.below(PAGES * PAGE / 8) * 8;
            let Some(aspace) = self.server.kernel.objects.get(process).unwrap().aspace else { return };
            // The process may have unmapped the memory, or made it read-only.
            let _ = self.server.kernel.copy_out(aspace, at, &word.to_le_bytes());
        }
    }

    /// A thread of a process that can make calls. If all wait, starts one more; if many wait, ends one.
    fn thread(&mut self, process: Id<Process>) -> Option<ThreadKey> {
        let kernel = &mut self.server.kernel;
        let started = kernel.machine.threads.values().filter_map(|thread| kernel.thread_at(thread.key));
        let own = started.filter(|&thread| kernel.objects.get(thread).unwrap().process == process);
        let (waiting, ready): (Vec<_>, Vec<_>) = own.partition(|&t| kernel.objects.get(t).unwrap().is_waiting());
        if waiting.len() > 10 {
            let victim = self.dice.pick(&waiting);
            kernel.thread_kill(victim);
            kernel.reap();
        }
        let thread = match ready.is_empty() {
            false => self.dice.pick(&ready),
            true => {
                let thread = kernel.thread_create(process, Name::new(b"more")).ok()?;
                kernel.thread_start(thread, &Registers::default()).ok()?;
                thread
            }
        };
        Some(ThreadKey(thread.object().index()))
    }

    fn step(&mut self) {
        let which = self.dice.below(self.processes.len() as u64) as usize;
        let process = self.processes[which];
        if self.server.kernel.process_is_dead(process) {
            let held = self.held.swap_remove(which);
            self.processes.swap_remove(which);
            self.server.kernel.close(held);
            self.process();
            return;
        }
        let kernel = &mut self.server.kernel;
        let aspace = kernel.objects.get(process).unwrap().aspace;
        let memory = aspace.and_then(|aspace| kernel.mapping_at(aspace, USER_BASE));
        if memory.is_none_or(|memory| memory.len < PAGES * PAGE || !memory.perm.write) && self.dice.one_in(20) {
            // A process that has lost the memory for its calls does nothing useful any more.
            kernel.process_kill(process, 0);
            kernel.reap();
            return;
        }
        let handles = self.handles(process);
        if self.dice.one_in(8) {
            self.scribble(process, &handles);
        }
        let Some(key) = self.thread(process) else { return };
        if self.dice.one_in(30) {
            let time = self.dice.below(2000) as i64;
            self.server.kernel.machine.time += time;
            self.server.timer();
        }
        if self.dice.one_in(100) {
            self.server.kernel.machine.serial_room = 50;
            self.server.kernel.machine.received.extend([1, 2, 3]);
            self.server.serial();
        }
        if self.dice.one_in(8) {
            let address = self.mapped(process) + self.dice.below(PAGE);
            let fault = Fault::Page { address, ip: USER_BASE, write: self.dice.one_in(2), execute: false };
            let kernel = &self.server.kernel;
            let aspace = kernel.objects.get(process).unwrap().aspace;
            let mapping = aspace.and_then(|aspace| kernel.mapping_at(aspace, address));
            let is_served = mapping.is_some_and(|m| {
                let within = m.offset + (address - m.base) < kernel.vmo_size(m.vmo).unwrap();
                within && m.perm.read && m.perm.write && !m.content_only
            });
            // A fault that ends in an exception usually ends the process.
            if is_served || self.dice.one_in(50) {
                self.server.fault(key, fault);
            }
            return;
        }
        if self.dice.one_in(300) {
            let fault = match self.dice.below(4) {
                0 => Fault::Exception { vector: self.dice.below(40), code: number(&mut self.dice), ip: USER_BASE },
                1 => Fault::Syscall { ip: address(&mut self.dice) },
                _ => Fault::Page {
                    address: address(&mut self.dice),
                    ip: USER_BASE,
                    write: self.dice.one_in(2),
                    execute: self.dice.one_in(8),
                },
            };
            self.server.fault(key, fault);
            return;
        }
        if handles.len() > HANDLES {
            for _ in 0..HANDLES / 2 {
                let value = self.handle(&handles, &[]);
                self.server.call(key, abi::nr::HANDLE_CLOSE, &[value, 0, 0, 0]);
                self.server.settle();
            }
            return;
        }
        let number = match self.dice.one_in(3) {
            true => self.dice.pick(&self.of_memory),
            false => self.dice.below(self.calls.len() as u64) as usize,
        };
        let call = self.calls[number].clone();
        // Calls that end processes and threads are made rarely.
        let deadly = ["task_kill", "process_exit", "thread_exit", "vmar_destroy"].contains(&call.name.as_str());
        if deadly && !self.dice.one_in(10) {
            return;
        }
        let mut words = [0; 8];
        for (word, arg) in words.iter_mut().zip(&call.args) {
            *word = self.argument(&call, arg, &handles);
        }
        self.of_memory(process, &call, &mut words);
        let kernel = &mut self.server.kernel;
        if let Some(machine) = kernel.machine.threads.values_mut().find(|thread| thread.key == key.0) {
            machine.extra = [words[4], words[5], words[6], words[7]];
        }
        let plan = self.refusal();
        self.server.kernel.failure_plan_set(plan);
        let answer = self.server.call(key, call.number, &[words[0], words[1], words[2], words[3]]);
        self.server.settle();
        self.server.kernel.failure_plan_set(None);
        if matches!(answer, Answer::Done(0..) | Answer::Blocked | Answer::Yield) {
            self.succeeded[number] += 1;
        }
    }

    /// Sometimes makes one of a call's first memory requests fail.
    fn refusal(&mut self) -> Option<(u64, Plan)> {
        if !self.dice.one_in(10) {
            return None;
        }
        let (first, count, on) = (self.dice.below(8), 1 + self.dice.below(3), self.dice.one_in(2));
        Some((self.server.kernel.koid(self.job.object()), Plan { want: None, first, count, on }))
    }

    /// Kills everything; nothing may be left.
    fn end(mut self) {
        let kernel = &mut self.server.kernel;
        let job = self.job;
        kernel.job_kill(job, 0);
        self.held.into_iter().for_each(|handle| kernel.close(handle));
        // A process with the right to trace may have left a trace behind: its ring belongs to the server until the
        // trace is rewound.
        kernel.trace_stop();
        kernel.trace_rewind();
        kernel.reap();
        if kernel.census() != self.empty {
            for object in kernel.objects.iter() {
                let (koid, kind) = (object.koid, object.body.object_type());
                println!("left: {koid} of type {kind}, {} handles, {} references", object.handles, object.refs);
            }
        }
        assert_eq!(kernel.census(), self.empty, "objects, observers, address spaces");
        assert_eq!(kernel.machine.frames_in_use(), self.frames + kernel.frames_kept(), "frames");
        kernel.check_memory();
        assert!(kernel.machine.threads.is_empty(), "threads of the machine");
    }
}

/// Runs one world to its end; returns how often each call succeeded.
fn run(seed: u64, steps: usize) -> Vec<(String, u32)> {
    let mut world = World::new(seed);
    for _ in 0..3 {
        world.process();
    }
    for n in 0..steps {
        world.step();
        if n % 50 == 0 {
            world.server.kernel.check_memory();
        }
    }
    world.server.kernel.check_memory();
    let succeeded = world.calls.iter().map(|call| call.name.clone()).zip(world.succeeded.clone()).collect();
    world.end();
    succeeded
}

#[test]
fn any_call_with_any_arguments() {
    let seeds: u64 = std::env::var("HAFNON_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(100);
    let only: Option<u64> = std::env::var("HAFNON_SEED").ok().and_then(|n| n.parse().ok());
    let mut total = std::collections::BTreeMap::<String, u32>::new();
    for seed in only.map_or(1..seeds + 1, |seed| seed..seed + 1) {
        // Shown when the test fails; `HAFNON_SEED` repeats this one, `HAFNON_SEEDS` runs more.
        println!("seed {seed}");
        for (name, count) in run(seed, 3000) {
            *total.entry(name).or_default() += count;
        }
    }
    println!("{total:?}");
    // If every call were refused, the test would prove nothing.
    let reached = total.values().filter(|&&count| count > 0).count();
    assert!(only.is_some() || reached * 2 > total.len(), "only {reached} of {} calls ever succeed", total.len());
}
