//! `zx_object_get_info`: checks that are the same for every topic.
//!
//! A [`Topic`] describes a topic with an object that has information. Each topic gives the same cases: the type and
//! rights of the handle, null and invalid addresses, and buffers that are too small.

use std::sync::Once;

use abi::Rights;
use zx::{AsHandleRef, Channel, Event, Handle, Port, Socket, Status, Stream, Timer, Vmo};

use super::{raw, root_resource, without};
use crate::check::{Case, Failure, Outcome, ensure, equal, gives};
use crate::test_process::{SPIN, TestProcess};

/// An object to query, and the objects that must live as long.
struct Subject {
    handle: Handle,
    _others: Vec<Handle>,
}

type Make = fn() -> Result<Subject, Failure>;

/// How many records a topic has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Records {
    /// Always one record, which must fit.
    One,
    /// An array; the subject has at least this many records.
    Many(usize),
}
use Records::{Many, One};

struct Topic {
    name: &'static str,
    topic: u32,
    /// Size of a record in bytes.
    size: usize,
    records: Records,
    /// The rights that the handle must have.
    rights: Rights,
    /// The types of objects that the topic supports; the cases use others as wrong types. Empty for all types.
    kinds: &'static [&'static str],
    subject: Make,
    /// An object that belongs to the caller itself, where the topic allows one.
    own: Option<Make>,
}

fn topics() -> Vec<Topic> {
    let row = |name, topic, size, records, rights, kinds, subject, own| Topic {
        name,
        topic,
        size,
        records,
        rights,
        kinds,
        subject,
        own,
    };
    let inspect = Rights::INSPECT;
    let enumerate = Rights::ENUMERATE;
    let table = Rights::INSPECT | Rights::MANAGE_PROCESS | Rights::MANAGE_THREAD;
    const JOB: &[&str] = &["job"];
    const PROCESS: &[&str] = &["process"];
    const THREAD: &[&str] = &["thread"];
    const TASK: &[&str] = &["job", "process", "thread"];
    const VMAR: &[&str] = &["vmar"];
    const VMO: &[&str] = &["vmo"];
    const RESOURCE: &[&str] = &["resource"];
    vec![
        row("handle_basic_of_job", abi::ZX_INFO_HANDLE_BASIC, 32, One, Rights::NONE, &[], job, Some(own_job)),
        row("handle_basic_of_process", abi::ZX_INFO_HANDLE_BASIC, 32, One, Rights::NONE, &[], process, Some(own)),
        row("handle_basic_of_thread", abi::ZX_INFO_HANDLE_BASIC, 32, One, Rights::NONE, &[], thread, Some(own_thread)),
        row("handle_basic_of_vmar", abi::ZX_INFO_HANDLE_BASIC, 32, One, Rights::NONE, &[], vmar, Some(own_vmar)),
        row("handle_count", abi::ZX_INFO_HANDLE_COUNT, 4, One, inspect, &[], thread, Some(own_thread)),
        row("job", abi::ZX_INFO_JOB, 16, One, inspect, JOB, job, Some(own_job)),
        row("job_children", abi::ZX_INFO_JOB_CHILDREN, 8, Many(3), enumerate, JOB, job, Some(own_job)),
        row("job_processes", abi::ZX_INFO_JOB_PROCESSES, 8, Many(3), enumerate, JOB, job, Some(own_job)),
        row("thread_stats", abi::ZX_INFO_THREAD_STATS, 16, One, inspect, THREAD, thread, Some(own_thread)),
        row("task_runtime_of_job", abi::ZX_INFO_TASK_RUNTIME, 32, One, inspect, TASK, job, Some(own_job)),
        row("task_runtime_of_process", abi::ZX_INFO_TASK_RUNTIME, 32, One, inspect, TASK, process, Some(own)),
        row("task_runtime_of_thread", abi::ZX_INFO_TASK_RUNTIME, 32, One, inspect, TASK, thread, Some(own_thread)),
        row("task_runtime_v1", abi::ZX_INFO_TASK_RUNTIME_V1, 16, One, inspect, TASK, thread, Some(own_thread)),
        row("process", abi::ZX_INFO_PROCESS, 24, One, inspect, PROCESS, process, Some(own)),
        row("process_threads", abi::ZX_INFO_PROCESS_THREADS, 8, Many(3), enumerate, PROCESS, own, Some(own)),
        row("process_maps", abi::ZX_INFO_PROCESS_MAPS, 152, Many(4), inspect, PROCESS, process, Some(own)),
        row("process_maps_v1", abi::ZX_INFO_PROCESS_MAPS_V1, 96, Many(4), inspect, PROCESS, process, Some(own)),
        row("process_maps_v2", abi::ZX_INFO_PROCESS_MAPS_V2, 104, Many(4), inspect, PROCESS, process, Some(own)),
        row("process_vmos", abi::ZX_INFO_PROCESS_VMOS, 176, Many(2), inspect, PROCESS, process, Some(own)),
        row("process_vmos_v1", abi::ZX_INFO_PROCESS_VMOS_V1, 104, Many(2), inspect, PROCESS, process, Some(own)),
        row("process_vmos_v2", abi::ZX_INFO_PROCESS_VMOS_V2, 120, Many(2), inspect, PROCESS, process, Some(own)),
        row("process_vmos_v3", abi::ZX_INFO_PROCESS_VMOS_V3, 128, Many(2), inspect, PROCESS, process, Some(own)),
        row("handle_table", abi::ZX_INFO_HANDLE_TABLE, 40, Many(4), table, PROCESS, own, Some(own)),
        row("handle_stats", abi::ZX_INFO_PROCESS_HANDLE_STATS, 256, One, inspect, PROCESS, process, Some(own)),
        row("task_stats", abi::ZX_INFO_TASK_STATS, 40, One, inspect, PROCESS, process, Some(own)),
        row("task_stats_v1", abi::ZX_INFO_TASK_STATS_V1, 32, One, inspect, PROCESS, process, Some(own)),
        row("thread", abi::ZX_INFO_THREAD, 72, One, inspect, THREAD, thread, Some(own_thread)),
        row("vmar", abi::ZX_INFO_VMAR, 16, One, inspect, VMAR, vmar, Some(own_vmar)),
        row("vmar_maps", abi::ZX_INFO_VMAR_MAPS, 152, Many(3), inspect, VMAR, vmar, Some(own_vmar)),
        row("vmo", abi::ZX_INFO_VMO, 176, One, Rights::NONE, VMO, vmo, None),
        row("vmo_v1", abi::ZX_INFO_VMO_V1, 104, One, Rights::NONE, VMO, vmo, None),
        row("vmo_v2", abi::ZX_INFO_VMO_V2, 120, One, Rights::NONE, VMO, vmo, None),
        row("vmo_v3", abi::ZX_INFO_VMO_V3, 128, One, Rights::NONE, VMO, vmo, None),
        row("socket", abi::ZX_INFO_SOCKET, 48, One, inspect, &["socket"], socket, None),
        row("resource", abi::ZX_INFO_RESOURCE, 56, One, inspect, RESOURCE, resource, None),
        row("kmem_stats", abi::ZX_INFO_KMEM_STATS, 152, One, Rights::NONE, RESOURCE, resource, None),
        row("kmem_stats_v1", abi::ZX_INFO_KMEM_STATS_V1, 72, One, Rights::NONE, RESOURCE, resource, None),
        row("kmem_extended", abi::ZX_INFO_KMEM_STATS_EXTENDED, 120, One, Rights::NONE, RESOURCE, resource, None),
        row("kmem_compression", abi::ZX_INFO_KMEM_STATS_COMPRESSION, 168, One, Rights::NONE, RESOURCE, resource, None),
        row("cpu_stats", abi::ZX_INFO_CPU_STATS, 144, Many(1), Rights::NONE, RESOURCE, resource, None),
        row("memory_stall", abi::ZX_INFO_MEMORY_STALL, 16, One, Rights::NONE, RESOURCE, resource, None),
        row("stream", abi::ZX_INFO_STREAM, 24, One, inspect, &["stream"], stream, None),
        row("timer", abi::ZX_INFO_TIMER, 24, One, inspect, &["timer"], timer, None),
    ]
}

fn subject(handle: impl Into<Handle>, others: Vec<Handle>) -> Result<Subject, Failure> {
    Ok(Subject { handle: handle.into(), _others: others })
}

fn stream() -> Result<Subject, Failure> {
    subject(Stream::create(0, &Vmo::create(4096, 0)?, 0)?, Vec::new())
}

fn default_job() -> Result<zx::Job, Failure> {
    let job = zx::startup::job_default().ok_or("there is no default job")?;
    Ok(job.duplicate(Rights::SAME_RIGHTS)?)
}

/// Puts three jobs and three processes into a job.
fn populate(job: &zx::Job) -> Result<Vec<Handle>, Failure> {
    let mut children: Vec<Handle> = Vec::new();
    for _ in 0..3 {
        children.push(job.create_child()?.into());
        let (process, vmar) = job.create_process("subject")?;
        children.extend([process.into(), vmar.into()]);
    }
    Ok(children)
}

/// A job with children.
fn job() -> Result<Subject, Failure> {
    let job = default_job()?.create_child()?;
    let children = populate(&job)?;
    subject(job, children)
}

/// A process with two mappings that has not been started.
fn process() -> Result<Subject, Failure> {
    let TestProcess { process, vmar, thread, .. } = TestProcess::new(SPIN)?;
    subject(process, vec![vmar.into(), thread.into()])
}

fn thread() -> Result<Subject, Failure> {
    let TestProcess { process, vmar, thread, .. } = TestProcess::new(SPIN)?;
    subject(thread, vec![vmar.into(), process.into()])
}

/// The root VMAR of such a process.
fn vmar() -> Result<Subject, Failure> {
    let TestProcess { process, vmar, thread, .. } = TestProcess::new(SPIN)?;
    subject(vmar, vec![thread.into(), process.into()])
}

fn vmo() -> Result<Subject, Failure> {
    subject(Vmo::create(8192, 0)?, Vec::new())
}

fn socket() -> Result<Subject, Failure> {
    let (a, b) = Socket::create(0)?;
    subject(a, vec![b.into()])
}

/// The root resource.
fn resource() -> Result<Subject, Failure> {
    subject(root_resource()?.duplicate(Rights::SAME_RIGHTS)?, Vec::new())
}

fn timer() -> Result<Subject, Failure> {
    subject(Timer::create(0)?, Vec::new())
}

/// The default job, with enough children for the topic.
fn own_job() -> Result<Subject, Failure> {
    let job = default_job()?;
    let children = populate(&job)?;
    subject(job, children)
}

/// This process, with at least three threads.
fn own() -> Result<Subject, Failure> {
    static THREADS: Once = Once::new();
    THREADS.call_once(|| {
        for _ in 0..2 {
            std::thread::spawn(|| {
                loop {
                    std::thread::park();
                }
            });
        }
    });
    subject(zx::startup::process_self().duplicate(Rights::SAME_RIGHTS)?, Vec::new())
}

fn own_thread() -> Result<Subject, Failure> {
    subject(zx::startup::thread_self().duplicate(Rights::SAME_RIGHTS)?, Vec::new())
}

fn own_vmar() -> Result<Subject, Failure> {
    subject(zx::startup::vmar_root_self().duplicate(Rights::SAME_RIGHTS)?, Vec::new())
}

/// An object of each type that the cases for wrong types use.
fn stranger(kind: &str) -> Result<Subject, Failure> {
    match kind {
        "job" => job(),
        "process" => process(),
        "thread" => thread(),
        "vmar" => vmar(),
        "vmo" => vmo(),
        "socket" => socket(),
        "timer" => timer(),
        "event" => subject(Event::create()?, Vec::new()),
        "channel" => {
            let (a, b) = Channel::create()?;
            subject(a, vec![b.into()])
        }
        _ => subject(Port::create()?, Vec::new()),
    }
}

const STRANGERS: [&str; 10] =
    ["job", "process", "thread", "vmar", "vmo", "socket", "timer", "event", "channel", "port"];

/// Addresses at which no program has memory.
const NOWHERE: [u64; 6] =
    [1, 0x1000, 0x7fff_ffff_f000, 0x0000_8000_0000_0000, 0xffff_8000_0000_0000, 0xffff_ffff_ffff_fff8];

/// Content of a buffer before the call.
const UNTOUCHED: u8 = 0xa5;

/// The results of a call.
struct Answer {
    status: Status,
    buffer: Vec<u8>,
    actual: usize,
    avail: usize,
}

/// Value of a count that the call has not written.
const UNTOLD: usize = usize::MAX;

impl Topic {
    fn make(&self) -> Result<Subject, Failure> {
        (self.subject)()
    }

    /// Calls with a buffer of `size` bytes and `told` as the length argument.
    fn ask_with(&self, handle: u32, size: usize, told: usize) -> Answer {
        let mut answer = Answer { status: Status::OK, buffer: vec![UNTOUCHED; size], actual: UNTOLD, avail: UNTOLD };
        let buffer = if size == 0 { std::ptr::null_mut() } else { answer.buffer.as_mut_ptr() };
        answer.status =
            raw!(zx_object_get_info, handle, self.topic, buffer, told, &raw mut answer.actual, &raw mut answer.avail);
        answer
    }

    fn ask(&self, handle: u32, size: usize) -> Answer {
        self.ask_with(handle, size, size)
    }

    /// Size of a buffer for more records than any subject here has.
    fn enough(&self) -> usize {
        match self.records {
            One => self.size,
            Many(_) => self.size * 4096,
        }
    }

    /// The least number of records.
    fn least(&self) -> usize {
        match self.records {
            One => 1,
            Many(least) => least,
        }
    }

    /// Checks that the answer is valid and complete.
    fn check_whole(&self, answer: &Answer) -> Outcome {
        gives(answer.status, Status::OK)?;
        equal(answer.actual, answer.avail)?;
        if self.records == One {
            equal(answer.actual, 1)?;
        }
        ensure(answer.actual >= self.least(), &format!("{} records are too few", answer.actual))?;
        self.check_extent(answer)
    }

    /// Checks that the records were written, and nothing behind them.
    fn check_extent(&self, answer: &Answer) -> Outcome {
        let (records, rest) = answer.buffer.split_at(answer.actual * self.size);
        ensure(rest.iter().all(|byte| *byte == UNTOUCHED), "bytes behind the records were written")?;
        for record in records.chunks(self.size) {
            // A record never consists of this value alone.
            ensure(record.iter().any(|byte| *byte != UNTOUCHED), "a record was not written")?;
        }
        Ok(())
    }

    fn succeeds(&self) -> Outcome {
        let subject = self.make()?;
        self.check_whole(&self.ask(subject.handle.raw_handle(), self.enough()))?;
        // A larger buffer gives the same result.
        self.check_whole(&self.ask(subject.handle.raw_handle(), self.enough() + self.size / 2))
    }

    fn on_self(&self) -> Outcome {
        let own = self.own.map(|own| own()).ok_or("there is nothing of its own")??;
        self.check_whole(&self.ask(own.handle.raw_handle(), self.enough()))
    }

    fn invalid_handle(&self) -> Outcome {
        let closed = self.make()?.handle.raw_handle();
        for value in [0, 1, 0x7fff_ffff, 0xffff_ffff, closed] {
            let answer = self.ask(value, self.enough());
            gives(answer.status, Status::BAD_HANDLE)?;
            ensure(answer.buffer.iter().all(|byte| *byte == UNTOUCHED), "something was told all the same")?;
            equal((answer.actual, answer.avail), (UNTOLD, UNTOLD))?;
        }
        Ok(())
    }

    fn wrong_type(&self, kind: &str) -> Outcome {
        let stranger = stranger(kind)?;
        let answer = self.ask(stranger.handle.raw_handle(), self.enough());
        gives(answer.status, Status::WRONG_TYPE)?;
        ensure(answer.buffer.iter().all(|byte| *byte == UNTOUCHED), "something was told all the same")
    }

    /// The call fails without any one of the rights, and succeeds with exactly these.
    fn rights(&self) -> Outcome {
        let subject = self.make()?;
        for right in self.rights.iter() {
            let weak = without(&subject.handle, right)?;
            let answer = self.ask(weak.raw_handle(), self.enough());
            gives(answer.status, Status::ACCESS_DENIED)?;
            ensure(answer.buffer.iter().all(|byte| *byte == UNTOUCHED), "something was told all the same")?;
        }
        let just = subject.handle.duplicate_handle(self.rights)?;
        self.check_whole(&self.ask(just.raw_handle(), self.enough()))
    }

    fn bad_count(&self, which: usize) -> Outcome {
        let subject = self.make()?;
        let mut buffer = vec![0_u8; self.enough()];
        let mut other = 0_usize;
        for address in NOWHERE {
            let mut counts = [&raw mut other as u64; 2];
            counts[which] = address;
            let handle = subject.handle.raw_handle();
            let status =
                raw!(zx_object_get_info, handle, self.topic, buffer.as_mut_ptr(), buffer.len(), counts[0], counts[1]);
            if status != Status::INVALID_ARGS {
                return Err(format!("{address:#x} gave {status}, expected ZX_ERR_INVALID_ARGS").into());
            }
        }
        Ok(())
    }

    fn bad_buffer(&self) -> Outcome {
        let subject = self.make()?;
        let handle = subject.handle.raw_handle();
        for address in NOWHERE.into_iter().chain([0]) {
            let (mut actual, mut avail) = (0_usize, 0_usize);
            let size = self.enough();
            let status = raw!(zx_object_get_info, handle, self.topic, address, size, &raw mut actual, &raw mut avail);
            if status != Status::INVALID_ARGS {
                return Err(format!("{address:#x} gave {status}, expected ZX_ERR_INVALID_ARGS").into());
            }
        }
        Ok(())
    }

    fn null_counts(&self, null: [bool; 2]) -> Outcome {
        let subject = self.make()?;
        let expected = self.ask(subject.handle.raw_handle(), self.enough());
        let mut buffer = vec![UNTOUCHED; self.enough()];
        let mut counts = [UNTOLD; 2];
        let addresses = [0, 1].map(|n: usize| if null[n] { 0 } else { &raw mut counts[n] as u64 });
        let status = raw!(
            zx_object_get_info,
            subject.handle.raw_handle(),
            self.topic,
            buffer.as_mut_ptr(),
            buffer.len(),
            addresses[0],
            addresses[1]
        );
        gives(status, Status::OK)?;
        ensure(buffer[..self.size].iter().any(|byte| *byte != UNTOUCHED), "nothing was told")?;
        for (count, null) in counts.into_iter().zip(null) {
            equal(count, if null { UNTOLD } else { expected.actual })?;
        }
        Ok(())
    }

    fn zero_sized(&self) -> Outcome {
        let subject = self.make()?;
        // Without a buffer, and with a buffer of length 0.
        for size in [0, self.size] {
            let answer = self.ask_with(subject.handle.raw_handle(), size, 0);
            ensure(answer.buffer.iter().all(|byte| *byte == UNTOUCHED), "something was told all the same")?;
            match self.records {
                One => {
                    gives(answer.status, Status::BUFFER_TOO_SMALL)?;
                    equal((answer.actual, answer.avail), (0, 1))?;
                }
                Many(least) => {
                    gives(answer.status, Status::OK)?;
                    equal(answer.actual, 0)?;
                    ensure(answer.avail >= least, &format!("{} are too few", answer.avail))?;
                }
            }
        }
        Ok(())
    }

    /// A buffer for a part of the record, or of the records.
    fn small_buffer(&self) -> Outcome {
        let subject = self.make()?;
        let handle = subject.handle.raw_handle();
        match self.records {
            One => {
                let answer = self.ask_with(handle, self.size, self.size - 1);
                gives(answer.status, Status::BUFFER_TOO_SMALL)?;
                equal((answer.actual, answer.avail), (0, 1))?;
                ensure(answer.buffer.iter().all(|byte| *byte == UNTOUCHED), "a part was written")
            }
            Many(least) => {
                // Room for one record less than there are, and half a record.
                let told = (least - 1) * self.size + self.size / 2;
                let answer = self.ask_with(handle, self.enough(), told);
                gives(answer.status, Status::OK)?;
                equal(answer.actual, least - 1)?;
                ensure(answer.avail >= least, &format!("{} are too few", answer.avail))?;
                self.check_extent(&answer)
            }
        }
    }

    /// A buffer whose end is unmapped, in the middle of the records or of the only record.
    fn partially_unmapped(&self) -> Outcome {
        let subject = self.make()?;
        let root = zx::startup::vmar_root_self();
        let options = abi::ZX_VM_CAN_MAP_READ | abi::ZX_VM_CAN_MAP_WRITE | abi::ZX_VM_CAN_MAP_SPECIFIC;
        let (region, base) = root.allocate(options, 0, 2 * 4096)?;
        let page = Vmo::create(4096, 0)?;
        let options = abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE | abi::ZX_VM_SPECIFIC;
        region.map(options, 0, &page, 0, 4096)?;
        let part = self.size / 2;
        let (mut actual, mut avail) = (0_usize, 0_usize);
        let status = raw!(
            zx_object_get_info,
            subject.handle.raw_handle(),
            self.topic,
            base + 4096 - part,
            self.size * self.least(),
            &raw mut actual,
            &raw mut avail
        );
        region.destroy()?;
        gives(status, Status::INVALID_ARGS)
    }

    fn cases(&'static self, cases: &mut Vec<Case>) {
        let mut add = |what: &str, run: Box<dyn Fn(&Topic) -> Outcome>| {
            cases.push(Case::new(&format!("object.get_info.{}.{what}", self.name), move || run(self)));
        };
        add("succeeds", Box::new(Topic::succeeds));
        add("invalid_handle", Box::new(Topic::invalid_handle));
        add("bad_actual", Box::new(|topic| topic.bad_count(0)));
        add("bad_avail", Box::new(|topic| topic.bad_count(1)));
        add("bad_buffer", Box::new(Topic::bad_buffer));
        add("null_actual", Box::new(|topic| topic.null_counts([true, false])));
        add("null_avail", Box::new(|topic| topic.null_counts([false, true])));
        add("null_both", Box::new(|topic| topic.null_counts([true, true])));
        add("zero_sized", Box::new(Topic::zero_sized));
        add("small_buffer", Box::new(Topic::small_buffer));
        add("partially_unmapped", Box::new(Topic::partially_unmapped));
        add("rights", Box::new(Topic::rights));
        if self.own.is_some() {
            add("on_self", Box::new(Topic::on_self));
        }
        for kind in STRANGERS {
            if !self.kinds.is_empty() && !self.kinds.contains(&kind) {
                add(&format!("wrong_type_{kind}"), Box::new(move |topic| topic.wrong_type(kind)));
            }
        }
    }
}

/// The cases of all topics.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    // The topics are leaked: they live as long as the cases, that is, as long as the process.
    for topic in Vec::leak(topics()) {
        topic.cases(&mut cases);
    }
    cases
}
