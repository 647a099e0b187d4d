//! The kernel trace: the calls of threads, with their arguments and results, as records in Fuchsia's format ([`fxt`])
//! for `zx_ktrace_read`.
//!
//! 1. `KTRACE_ACTION_START` turns it on, for all processes or those of one job and the jobs below. From then on the
//!    machine reports before each call that there is work ([`Memory::force_slow_path`](crate::machine::Memory::force_slow_path)), by the comparison that every
//!    call makes anyway. So without tracing there is no cost.
//! 2. At the start of a call ([`Kernel::trace_enter`]), its arguments are recorded, with the first bytes of the memory
//!    that they point to and the objects of its handles. Names and objects are described once: names as string records,
//!    objects as kernel object records.
//! 3. At its end ([`Kernel::trace_leave`]), its outputs and result are added: one record.
//! 4. A call that blocks becomes two records: a begin record, and an end record when the thread is woken
//!    ([`Kernel::trace_woken`]) or has ended.
//! 5. Records wait in a ring of fixed size until they are read. Records that do not fit are dropped and counted; the
//!    number is reported when there is room again.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use abi::{ArgInfo, Dir, Status};
use fxt::Phase;
use fxt::write::{self, Event, Text, Value};
use zerocopy::IntoBytes;

use crate::containers::slab::Key;
use crate::core::noun::Variant;
use crate::core::object::{Id, ObjectId};
use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::memory::vmo::Vmo;
use crate::task::job::Job;
use crate::task::process::Process;
use crate::task::thread::{Thread, TracedCall};

/// Size of the ring in bytes.
const RING: u64 = 4 << 20;
/// Number of bytes recorded of a buffer.
const BUFFER: u64 = 32;
/// Number of bytes recorded of structures and arrays.
const STRUCTURE: u64 = 64;
/// Number of described objects that are remembered, indexed by the low bits of the koid.
const DESCRIBED: usize = 512;

/// Trace category of calls, as in Zircon.
const CALLS: &str = "kernel:syscall";
/// Trace category of task events.
const TASKS: &str = "kernel:task";

/// See the module's description.
#[derive(Default)]
pub(crate) struct Trace {
    on: bool,
    /// The koid of the traced job; none for all processes.
    job: Option<u64>,
    /// When it was turned on last, in nanoseconds.
    since: u64,
    ring: Option<Id<Vmo>>,
    /// Total bytes read and written so far.
    read: u64,
    written: u64,
    lost: u64,
    /// Names that have string records.
    names: BTreeMap<&'static str, u16>,
    last_name: u16,
    described: Vec<u64>,
    /// The record being built, after the records that must precede it.
    record: Vec<u64>,
    /// Its arguments so far.
    args: Vec<u64>,
    arg_count: usize,
    /// The current call, and its thread.
    current: Option<(TracedCall, ObjectId)>,
    /// The thread of the current call was woken already, with this result.
    woken: Option<i64>,
}

impl Trace {
    /// The reference to a name; writes a string record if necessary.
    fn name(&mut self, name: &'static str) -> Text<'static> {
        if let Some(&index) = self.names.get(name) {
            return Text::Index(index);
        }
        // Indexes are not reused soon: the record being built may refer to an older name.
        self.last_name = self.last_name % 0x7fff + 1;
        self.names.insert(name, self.last_name);
        write::string(&mut self.record, self.last_name, name);
        Text::Index(self.last_name)
    }

    fn arg(&mut self, name: &'static str, value: Value<'_>) {
        let name = self.name(name);
        // One is reserved for the result.
        if self.arg_count + 1 < fxt::MAX_ARGS {
            write::argument(&mut self.args, name, value);
            self.arg_count += 1;
        }
    }

    /// Whether an object was described; marks it as described.
    fn is_described(&mut self, koid: u64) -> bool {
        if self.described.is_empty() {
            self.described.resize(DESCRIBED, 0);
        }
        let slot = self.described.get_mut((koid % DESCRIBED as u64) as usize);
        slot.is_none_or(|slot| core::mem::replace(slot, koid) == koid)
    }

    /// Forgets all descriptions, because a record that contained some was lost.
    fn forget(&mut self) {
        self.names.clear();
        self.described.clear();
    }

    fn event(&mut self, call: &TracedCall, time: u64, result: Option<i64>, phase: Phase) {
        let (category, name) = (self.name(CALLS), self.name(call.info.name));
        let result = result.filter(|_| call.info.returns != "void").map(|result| (self.name("result"), result));
        let mut event = Event::new(&mut self.record, time, (call.process, call.thread), category, name);
        event.made_args(&self.args, self.arg_count);
        if let Some((name, result)) = result {
            event.arg(name, Value::I64(result));
        }
        event.finish(phase);
    }
}

impl<M: Machine> Kernel<M> {
    /// Whether calls are to be reported (step 1).
    #[inline]
    pub fn trace_is_on(&self) -> bool {
        self.trace.on
    }

    /// Turns the trace on, for processes below a job or for all.
    ///
    /// # Errors
    /// `BAD_STATE`: it is on already. `NO_MEMORY`.
    pub fn trace_start(&mut self, job: Option<Id<Job>>) -> Result<(), Status> {
        if self.trace.on {
            return Err(Status::BAD_STATE);
        }
        if self.trace.ring.is_none() {
            let ring = self.vmo_create(RING, false)?;
            self.add_ref(ring.object());
            self.trace = Trace { ring: Some(ring), ..Trace::default() };
            write::magic(&mut self.trace.record);
            write::ticks_per_second(&mut self.trace.record, 1_000_000_000);
            self.trace_commit();
        }
        self.trace.job = job.map(|job| self.koid(job.object()));
        self.trace.since = self.machine.now() as u64;
        self.trace.on = true;
        self.update_slow_path();
        Ok(())
    }

    /// Turns the trace off; recorded data can still be read.
    pub fn trace_stop(&mut self) {
        self.trace.on = false;
        self.trace.current = None;
        self.update_slow_path();
    }

    /// Drops unread records. Frees the ring if the trace is off.
    pub fn trace_rewind(&mut self) {
        self.trace.read = self.trace.written;
        if self.trace.on {
            // Descriptions in those records must be repeated.
            self.trace.forget();
        } else if let Some(ring) = core::mem::take(&mut self.trace).ring {
            self.drop_ref(ring.object());
        }
    }

    /// Number of unread bytes.
    pub fn trace_waiting(&self) -> u64 {
        self.trace.written - self.trace.read
    }

    /// Reads the oldest bytes; returns how many.
    ///
    /// # Errors
    /// Those of [`Kernel::vmo_read`].
    pub fn trace_read(&mut self, out: &mut [u8]) -> Result<usize, Status> {
        let Some(ring) = self.trace.ring else { return Ok(0) };
        let mut done = 0;
        while let Some(rest) = out.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let at = self.trace.read % RING;
            let count = (rest.len() as u64).min(self.trace_waiting()).min(RING - at) as usize;
            if count == 0 {
                break;
            }
            self.vmo_read(ring, at, rest.get_mut(..count).unwrap_or_default())?;
            self.trace.read += count as u64;
            done += count;
        }
        Ok(done)
    }

    /// Whether a process is traced: it is in the job, or in one below it.
    fn trace_wants(&self, process: Id<Process>) -> bool {
        let Some(wanted) = self.trace.job else { return true };
        let mut job = self.objects.get(process).ok().map(|p| p.job);
        while let Some(id) = job {
            if self.koid(id.object()) == wanted {
                return true;
            }
            job = self.objects.get(id).ok().and_then(|job| job.parent);
        }
        false
    }

    /// A thread makes a call (step 2). Says whether it is traced, so that [`Kernel::trace_leave`] must be called.
    pub fn trace_enter(&mut self, thread: Id<Thread>, number: u32, words: [u64; 8]) -> bool {
        let (Some(info), Ok(process)) = (abi::syscall(number), self.objects.get(thread).map(|t| t.process)) else {
            return false;
        };
        if !self.trace_wants(process) {
            return false;
        }
        self.trace_begin();
        self.trace_describe(process.object());
        self.trace_describe(thread.object());
        let (process_koid, thread_koid) = (self.koid(process.object()), self.koid(thread.object()));
        let start = self.machine.now() as u64;
        let call = TracedCall { info, words, process: process_koid, thread: thread_koid, start };
        self.trace.current = Some((call, thread.object()));
        self.trace.woken = None;
        self.trace_args(process, &call, |arg| arg.dir != Some(Dir::Out));
        true
    }

    /// The call has ended with a result, or without one because its thread has ended (step 3), or it blocks (step 4).
    pub fn trace_leave(&mut self, thread: Id<Thread>, blocked: bool, result: Option<i64>) {
        let Some((call, _)) = self.trace.current.take() else { return };
        let time = self.machine.now() as u64;
        let result = if blocked { self.trace.woken } else { result };
        if blocked && result.is_none() {
            self.trace.event(&call, call.start, None, Phase::Begin);
            if let Ok(thread) = self.objects.get_mut(thread) {
                thread.traced = Some(Box::new(call));
            }
        } else {
            self.trace_out(thread, &call, result);
            self.trace.event(&call, call.start, result, Phase::Complete(time));
        }
        self.trace_commit();
    }

    /// A thread's blocked call has ended (step 4); without a result, the thread has ended.
    pub(crate) fn trace_woken(&mut self, thread: Id<Thread>, result: Option<i64>) {
        if self.trace.current.as_ref().is_some_and(|(_, of)| *of == thread.object()) {
            self.trace.woken = result;
            return;
        }
        let Some(call) = self.objects.get_mut(thread).ok().and_then(|thread| thread.traced.take()) else { return };
        // A call of an earlier trace, which may have been one of another job, does not end in this one.
        if !self.trace.on || call.start <= self.trace.since {
            return;
        }
        // Another call may be in progress, whose arguments must not be lost.
        let kept =
            (core::mem::take(&mut self.trace.args), self.trace.arg_count, core::mem::take(&mut self.trace.record));
        self.trace_begin();
        self.trace_out(thread, &call, result);
        let time = self.machine.now() as u64;
        self.trace.event(&call, time, result, Phase::End);
        self.trace_commit_before(&kept.2);
        (self.trace.args, self.trace.arg_count, self.trace.record) = kept;
    }

    /// A process has ended.
    pub(crate) fn trace_ended(&mut self, process: Id<Process>, return_code: i64) {
        if !self.trace_wants(process) {
            return;
        }
        let kept =
            (core::mem::take(&mut self.trace.args), self.trace.arg_count, core::mem::take(&mut self.trace.record));
        self.trace_begin();
        self.trace_describe(process.object());
        let (category, name) = (self.trace.name(TASKS), self.trace.name("process ended"));
        let code = self.trace.name("return_code");
        let (time, koid) = (self.machine.now() as u64, self.koid(process.object()));
        let mut event = Event::new(&mut self.trace.record, time, (koid, 0), category, name);
        event.arg(code, Value::I64(return_code));
        event.finish(Phase::Instant);
        self.trace_commit_before(&kept.2);
        (self.trace.args, self.trace.arg_count, self.trace.record) = kept;
    }

    /// An object was renamed.
    pub(crate) fn trace_renamed(&mut self, object: ObjectId) {
        let koid = self.koid(object);
        self.trace.described.iter_mut().filter(|described| **described == koid).for_each(|described| *described = 0);
    }

    fn trace_begin(&mut self) {
        self.trace.record.clear();
        self.trace.args.clear();
        self.trace.arg_count = 0;
    }

    /// Describes an object's type and name, and a thread's process, unless that was done before.
    fn trace_describe(&mut self, object: ObjectId) {
        let koid = self.koid(object);
        let Ok(o) = self.objects.any(object) else { return };
        let (kind, name) = (o.body.object_type() as u8, o.body.name().unwrap_or_default());
        let of = Thread::of(&o.body).map(|thread| thread.process);
        if self.trace.is_described(koid) {
            return;
        }
        let of = of.map(|process| (self.trace.name("process"), self.koid(process.object())));
        write::kernel_object(&mut self.trace.record, koid, kind, Text::Inline(name.as_str()), of);
    }

    /// Records the outputs of a call.
    fn trace_out(&mut self, thread: Id<Thread>, call: &TracedCall, result: Option<i64>) {
        if result.is_none_or(|result| result < 0) {
            return;
        }
        if let Ok(process) = self.objects.get(thread).map(|thread| thread.process) {
            self.trace_args(process, call, |arg| arg.dir == Some(Dir::Out));
        }
    }

    /// Records the arguments that `wanted` selects.
    fn trace_args(&mut self, process: Id<Process>, call: &TracedCall, wanted: impl Fn(&ArgInfo) -> bool) {
        let Some(aspace) = self.objects.get(process).ok().and_then(|p| p.aspace) else { return };
        for (arg, &word) in call.info.args.iter().zip(&call.words).filter(|(arg, _)| wanted(arg)) {
            if arg.dir.is_none() {
                self.trace_scalar(process, arg, word);
                continue;
            }
            let counted = |len| call.info.args.iter().zip(&call.words).find(|(arg, _)| arg.name == len);
            let count = arg.len.map(|len| counted(len).map_or(0, |(_, &count)| count));
            self.trace_pointer(process, aspace, arg, word, count);
        }
        // Recording does not wait for pages.
        self.wanted = None;
    }

    /// Records a value; for a handle also its object.
    fn trace_scalar(&mut self, process: Id<Process>, arg: &'static ArgInfo, word: u64) {
        self.trace.arg(
            arg.name,
            match arg.ty {
                "i64" | "time" | "duration" | "ticks" => Value::I64(word as i64),
                "i8" | "i16" | "i32" | "status" | "futex" => Value::I64(i64::from(word as i32)),
                "u64" | "usize" | "koid" => Value::U64(word),
                _ => Value::U32(word as u32),
            },
        );
        if arg.ty == "handle"
            && let Ok(holder) = self.objects.get(process).map(|p| p.holder(process))
            && let Ok(handle) = self.handle(holder, word as u32)
        {
            self.trace_describe(handle.object);
            self.trace.arg(arg.name, Value::Koid(self.koid(handle.object)));
        }
    }

    /// Records the first bytes that an argument points to as hexadecimal digits, or a single value.
    fn trace_pointer(&mut self, process: Id<Process>, aspace: Key, arg: &'static ArgInfo, at: u64, count: Option<u64>) {
        let size = size_of_type(arg.ty);
        let most = if arg.ty == "void" { BUFFER } else { STRUCTURE };
        let wanted = count.unwrap_or(1).saturating_mul(size).min(most) as usize;
        let mut buffer = [0; STRUCTURE as usize];
        let bytes = buffer.get_mut(..wanted).unwrap_or_default();
        if at == 0 || self.copy_in(aspace, at, bytes).is_err() {
            return self.trace.arg(arg.name, Value::Pointer(at));
        }
        if count.is_none() && arg.ty != "void" && size <= 8 {
            let word = bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
            return self.trace_scalar(process, arg, word);
        }
        let mut text = String::new();
        for byte in bytes.iter() {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        self.trace.arg(arg.name, Value::Text(&text));
    }

    /// Commits a record while another one is being built; `other` is what that contains so far. Its descriptions come
    /// first.
    fn trace_commit_before(&mut self, other: &[u64]) {
        let mine = core::mem::replace(&mut self.trace.record, other.to_vec());
        self.trace.record.extend(mine);
        self.trace_commit();
    }

    /// Appends the record to the ring (step 5).
    fn trace_commit(&mut self) {
        let mut record = core::mem::take(&mut self.trace.record);
        if self.trace.lost > 0 {
            let mut note = Vec::new();
            let (category, name) = (Text::Inline("kernel:trace"), Text::Inline("records lost"));
            let mut event = Event::new(&mut note, self.machine.now() as u64, (0, 0), category, name);
            event.arg(Text::Inline("count"), Value::U64(self.trace.lost));
            event.finish(Phase::Instant);
            let room = RING - self.trace_waiting();
            if room >= (note.len() + record.len()) as u64 * 8 && self.trace_put(&note) {
                self.trace.lost = 0;
            }
        }
        if self.trace.lost > 0 || !self.trace_put(&record) {
            self.trace.lost += 1;
            self.trace.forget();
        }
        record.clear();
        self.trace.record = record;
    }

    fn trace_put(&mut self, words: &[u64]) -> bool {
        let (Some(ring), bytes) = (self.trace.ring, words.as_bytes()) else { return false };
        if self.trace_waiting() + bytes.len() as u64 > RING {
            return false;
        }
        let at = self.trace.written % RING;
        let (first, second) = bytes.split_at(bytes.len().min((RING - at) as usize));
        let put = self.vmo_write(ring, at, first).and_then(|()| self.vmo_write(ring, 0, second));
        self.trace.written += if put.is_ok() { bytes.len() as u64 } else { 0 };
        put.is_ok()
    }
}

/// Size in bytes of a type, by its name in the definitions.
fn size_of_type(ty: &str) -> u64 {
    match ty {
        "void" | "u8" | "i8" => 1,
        "u16" | "i16" => 2,
        "u32" | "i32" | "handle" | "status" | "signals" | "rights" | "futex" => 4,
        "u64" | "i64" | "usize" | "time" | "duration" | "ticks" | "koid" => 8,
        name => abi::STRUCTS.iter().copied().flatten().find(|s| s.name == name).map_or(0, |s| s.size as u64),
    }
}
