//! Topics about jobs, processes and threads.

use core::mem::offset_of;

use abi::{
    Rights, Status, ZX_INFO_INVALID_CPU, ZX_INFO_PROCESS_FLAG_DEBUGGER_ATTACHED, ZX_INFO_PROCESS_FLAG_EXITED,
    ZX_INFO_PROCESS_FLAG_STARTED, hafnon_info_job_usage_t, zx_exception_report_t, zx_info_job_t, zx_info_process_t,
    zx_info_task_runtime_t, zx_info_thread_stats_t, zx_info_thread_t,
};
use objects::containers::list::{Chain, List};
use objects::core::account::CountKind;
use objects::core::continuation;
use objects::core::handle::HandleValue;
use objects::core::object::Object;
use objects::machine::Machine;
use objects::task::exception::Task;
use objects::task::job::Job;
use objects::task::process::{Process, ProcessState};
use objects::task::thread::{Thread, ThreadState};
use objects::{Kernel, ObjectId};

use super::sink::{ListPosition, ReportedList, Sink, Step};
use crate::cx::Cx;

pub fn job<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    let id = cx.get::<Job>(value, Rights::INSPECT)?;
    let job = cx.kernel.objects.get(id)?;
    let record = zx_info_job_t {
        return_code: job.return_code,
        exited: u8::from(job.dead),
        debugger_attached: u8::from(cx.kernel.debugger_attached(Task::Job(id))),
        kill_on_oom: u8::from(job.kill_on_oom),
        ..Default::default()
    };
    sink.one(cx, record)
}

pub fn job_usage<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    let id = cx.get::<Job>(value, Rights::INSPECT)?;
    let (memory, memory_limit) = cx.kernel.job_memory(id)?;
    let of = |what| cx.kernel.job_count(id, what);
    let (processes, threads) = (of(CountKind::Processes)?, of(CountKind::Threads)?);
    let (jobs, handles) = (of(CountKind::Jobs)?, of(CountKind::Handles)?);
    let (messages, queued_bytes) = (of(CountKind::Messages)?, of(CountKind::QueuedBytes)?);
    let record = hafnon_info_job_usage_t {
        memory,
        memory_limit,
        processes: processes.used,
        process_limit: processes.limit,
        threads: threads.used,
        thread_limit: threads.limit,
        jobs: jobs.used,
        job_limit: jobs.limit,
        handles: handles.used,
        handle_limit: handles.limit,
        messages: messages.used,
        message_limit: messages.limit,
        queued_bytes: queued_bytes.used,
        queued_bytes_limit: queued_bytes.limit,
        kernel_time: cx.kernel.job_kernel_time(id).unwrap_or(u64::MAX),
    };
    sink.one(cx, record)
}

/// The koids of a task's children in one of its lists. A place is the koid of the last child found. The list is sorted
/// by koid, so the place is valid even when that child is gone.
struct Koids<C> {
    task: ObjectId,
    list: List<C>,
}

/// The progress of such a list.
struct Last {
    /// The koid of the last child.
    koid: u64,
    /// Its object, as long as nothing has changed.
    at: Option<ObjectId>,
}

impl ListPosition for Last {
    fn of(words: &continuation::ContinuationState) -> Self {
        Last { koid: words[0], at: None }
    }

    fn words(&self) -> continuation::ContinuationState {
        [self.koid, 0, 0, 0, 0, 0, 0]
    }
}

impl<M: Machine, C: Chain<Entry = Object>> ReportedList<M> for Koids<C> {
    type Position = Last;
    type Record = u64;
    const WORK: u32 = 1;

    fn next(&self, kernel: &Kernel<M>, Last { koid, at }: &mut Last) -> Result<Step<u64>, Status> {
        let objects = &kernel.objects;
        let last = at.or_else(|| objects.task(*koid).filter(|&last| objects.is_listed::<C>(last)));
        if *koid == 0 || last.is_some() {
            let Some(next) = objects.after(self.list, last) else { return Ok(Step::End) };
            (*koid, *at) = (kernel.koid(next), Some(next));
        } else {
            let Some((number, task)) = objects.task_after(*koid) else { return Ok(Step::End) };
            *koid = number;
            if !objects.is_listed::<C>(task) || !kernel.is_child(task, self.task) {
                return Ok(Step::Nothing);
            }
            *at = Some(task);
        }
        // A thread is listed only after it has been started.
        let told = at.is_some_and(|task| kernel.is_child(task, self.task));
        Ok(if told { Step::Record(*koid) } else { Step::Nothing })
    }

    fn len(&self, _: &Kernel<M>) -> Option<usize> {
        None
    }
}

pub fn job_children<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    let work = cx.sliced_call::<Job>(value, Rights::ENUMERATE)?;
    let list = cx.kernel.objects.get(work.object)?.jobs;
    let task = work.object.object();
    sink.many(cx, work, &Koids { task, list })
}

pub fn job_processes<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    let work = cx.sliced_call::<Job>(value, Rights::ENUMERATE)?;
    let list = cx.kernel.objects.get(work.object)?.processes;
    let task = work.object.object();
    sink.many(cx, work, &Koids { task, list })
}

pub fn process<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    let id = cx.get::<Process>(value, Rights::INSPECT)?;
    let process = cx.kernel.objects.get(id)?;
    let mut flags = 0;
    if process.state != ProcessState::Created {
        flags |= ZX_INFO_PROCESS_FLAG_STARTED;
    }
    if process.state == ProcessState::Dead {
        flags |= ZX_INFO_PROCESS_FLAG_EXITED;
    }
    if cx.kernel.debugger_attached(Task::Process(id)) {
        flags |= ZX_INFO_PROCESS_FLAG_DEBUGGER_ATTACHED;
    }
    let record = zx_info_process_t {
        return_code: process.return_code,
        start_time: process.start_time,
        flags,
        ..Default::default()
    };
    sink.one(cx, record)
}

/// Lists the threads that have been started.
pub fn process_threads<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    let work = cx.sliced_call::<Process>(value, Rights::ENUMERATE)?;
    let list = cx.kernel.objects.get(work.object)?.threads;
    let task = work.object.object();
    sink.many(cx, work, &Koids { task, list })
}

pub fn thread<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    let id = cx.get::<Thread>(value, Rights::INSPECT)?;
    let thread = cx.kernel.objects.get(id)?;
    let processors = thread.processors();
    let mut record = zx_info_thread_t {
        state: thread.info_state(),
        wait_exception_channel_type: cx.kernel.exception_channel_type(id),
        ..Default::default()
    };
    record.cpu_affinity_mask.mask[0] = processors;
    sink.one(cx, record)
}

/// Bytes of the first version of a thread's exception report: everything before the fields that the system adds to the
/// processor's.
pub const EXCEPTION_REPORT_V1: usize = offset_of!(zx_exception_report_t, context.synth_code);

pub fn exception_report<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    let id = cx.get::<Thread>(value, Rights::INSPECT)?;
    let mut record = cx.kernel.exception_report(id)?;
    if let Some(size) = sink.cut {
        record.header.size = size as u32;
    }
    sink.one(cx, record)
}

/// When and where a thread ran. Only for a thread that has not ended.
pub fn thread_stats<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    let id = cx.get::<Thread>(value, Rights::INSPECT)?;
    // There is one processor.
    let last_scheduled_cpu = match cx.kernel.objects.get(id)?.state {
        ThreadState::Initial => ZX_INFO_INVALID_CPU,
        ThreadState::Running => 0,
        ThreadState::Dead => return Err(Status::BAD_STATE),
    };
    let total_runtime = cx.kernel.thread_runtime(id)?;
    sink.one(cx, zx_info_thread_stats_t { total_runtime, last_scheduled_cpu, ..Default::default() })
}

/// Bytes of the first version of a task's run times: the times that the server knows.
pub const RUNTIME_V1: usize = offset_of!(zx_info_task_runtime_t, page_fault_time);

/// How long the threads of a task have run. The time in which they were ready but did not run is not counted.
pub fn runtime<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    let handle = cx.kernel.handle(cx.process, value)?;
    let task = cx.kernel.task(handle.object)?;
    if !handle.rights.contains(Rights::INSPECT) {
        return Err(Status::ACCESS_DENIED);
    }
    let cpu_time = match task {
        Task::Thread(id) => cx.kernel.thread_runtime(id)?,
        Task::Process(id) => cx.kernel.process_runtime(id)?,
        Task::Job(id) => cx.kernel.job_runtime(id)?,
    };
    sink.one(cx, zx_info_task_runtime_t { cpu_time, ..Default::default() })
}
