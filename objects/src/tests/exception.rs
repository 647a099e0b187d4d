//! Exceptions on the fake machine: single scenarios, and random ones against a small model.

use abi::{
    Rights, Status, ZX_EXCEPTION_CHANNEL_TYPE_JOB, ZX_EXCEPTION_STATE_HANDLED, ZX_EXCEPTION_STATE_THREAD_EXIT,
    ZX_EXCEPTION_STRATEGY_SECOND_CHANCE, ZX_EXCP_POLICY_ERROR, ZX_EXCP_THREAD_EXITING, ZX_EXCP_UNDEFINED_INSTRUCTION,
    ZX_TASK_RETCODE_EXCEPTION_KILL,
};
use alloc::vec::Vec;
use proptest::prelude::*;

use crate::containers::name::Name;
use crate::core::handle::Handle;
use crate::fake::FakeMachine;
use crate::ipc::channel::Channel;
use crate::machine::Registers;
use crate::task::exception::{Exception, Task, synthetic};
use crate::task::job::Job;
use crate::task::process::{Process, ProcessState};
use crate::task::thread::{Thread, ThreadState};
use crate::{Id, Kernel};

/// A process two jobs below the root, with threads, and a process that holds all handles.
struct World {
    kernel: Kernel<FakeMachine>,
    jobs: [Id<Job>; 2],
    process: Id<Process>,
    threads: Vec<Id<Thread>>,
}

/// Indexes of handlers in [`World::task`], in the order in which they are asked; the debugger's second chance has none.
const DEBUGGER: usize = 0;
const THREAD: usize = 1;
const PROCESS: usize = 2;
const HANDLERS: usize = 5;

impl World {
    fn new(threads: usize) -> World {
        let mut kernel = Kernel::new(FakeMachine::new(1000)).unwrap();
        let root = kernel.root_job().unwrap();
        let outer = kernel.job_create(root).unwrap();
        let inner = kernel.job_create(outer).unwrap();
        let (process, _) = kernel.process_create(inner, Name::new(b"test")).unwrap();
        for object in [outer.object(), inner.object(), process.object()] {
            kernel.add_handle(object);
        }
        kernel.process_begin(process, None).unwrap();
        let mut world = World { kernel, jobs: [inner, outer], process, threads: Vec::new() };
        for _ in 0..threads {
            let thread = world.kernel.thread_create(process, Name::new(b"thread")).unwrap();
            world.kernel.add_handle(thread.object());
            world.kernel.thread_start(thread, &Registers::default()).unwrap();
            world.threads.push(thread);
        }
        world
    }

    fn task(&self, handler: usize) -> (Task, bool) {
        match handler {
            DEBUGGER => (Task::Process(self.process), true),
            THREAD => (Task::Thread(self.threads[0]), false),
            PROCESS => (Task::Process(self.process), false),
            n => (Task::Job(self.jobs[n - 3]), false),
        }
    }

    fn listen(&mut self, handler: usize) -> Result<Id<Channel>, Status> {
        let (task, debugger) = self.task(handler);
        let end = self.kernel.exception_channel_create(task, debugger, Rights::all())?;
        self.kernel.add_handle(end.object());
        Ok(end)
    }

    fn close(&mut self, handle: Handle) {
        self.kernel.close(handle);
        self.kernel.reap();
    }

    fn hang_up(&mut self, end: Id<Channel>) {
        self.close(Handle { object: end.object(), rights: Rights::NONE });
    }

    fn fault(&mut self, thread: usize) {
        let report = synthetic(ZX_EXCP_UNDEFINED_INSTRUCTION, 0, 0);
        self.kernel.exception_fault(self.threads[thread], report);
        self.kernel.reap();
    }

    /// The next exception of a channel.
    fn receive(&mut self, end: Id<Channel>) -> Option<Handle> {
        let message = self.kernel.channel_read(end).ok()?;
        assert_eq!((message.data.len(), message.handles.len()), (24, 1));
        message.handles.first().copied()
    }

    fn exception(&self, handle: Handle) -> Id<Exception> {
        self.kernel.objects.typed(handle.object).unwrap()
    }

    fn decide(&mut self, handle: Handle, state: u32) {
        let exception = self.exception(handle);
        self.kernel.exception_set_state(exception, state).unwrap();
        self.close(handle);
    }

    fn runs(&self, thread: usize) -> bool {
        let t = self.kernel.objects.get(self.threads[thread]).unwrap();
        t.machine().is_some_and(|machine| !self.kernel.machine.threads[&machine.0].stopped)
    }

    fn ended(&self) -> Option<i64> {
        let process = self.kernel.objects.get(self.process).unwrap();
        (process.state == ProcessState::Dead).then_some(process.return_code)
    }
}

#[test]
fn each_handler_in_turn_then_the_end() {
    let mut w = World::new(1);
    let ends: Vec<_> = (0..HANDLERS).map(|n| w.listen(n).unwrap()).collect();
    w.fault(0);
    for &end in &ends {
        assert!(!w.runs(0));
        let handle = w.receive(end).unwrap();
        assert!(ends.iter().all(|&end| w.receive(end).is_none()));
        w.close(handle);
    }
    assert_eq!(w.ended(), Some(ZX_TASK_RETCODE_EXCEPTION_KILL));
    assert!(w.kernel.machine.console.contains("undefined instruction"));
    // The debugger is notified of the end, and of nothing afterwards.
    let handle = w.receive(ends[DEBUGGER]).unwrap();
    let exception = w.exception(handle);
    assert_eq!(w.kernel.objects.get(exception).unwrap().report.header.type_, ZX_EXCP_THREAD_EXITING);
    w.close(handle);
    assert_eq!(w.kernel.channel_read(ends[DEBUGGER]).err(), Some(Status::PEER_CLOSED));
}

/// Every line of a report is the kernel's: a name cannot start a new one.
#[test]
fn names_make_no_lines_of_a_report() {
    let mut w = World::new(1);
    let forged = Name::new(b"a' (1)\n[1.0] E init: \x1b[2J");
    w.kernel.objects.get_mut(w.process).unwrap().name = forged;
    w.kernel.objects.get_mut(w.threads[0]).unwrap().name = forged;
    w.fault(0);
    let console = &w.kernel.machine.console;
    let head = console.lines().find(|line| line.contains("undefined instruction")).unwrap();
    assert!(head.contains("E exception: process 'a\\' (1)\\n[1.0] E init: \\u{1b}[2J' ("), "{head}");
    assert!(console.split("\r\n").all(|line| !line.contains(char::is_control)), "{console:?}");
    assert!(console.lines().all(|line| !line.starts_with("[1.0]")), "{console:?}");
}

#[test]
fn a_handler_lets_the_thread_go_on() {
    let mut w = World::new(1);
    let end = w.listen(PROCESS).unwrap();
    for _ in 0..3 {
        w.fault(0);
        assert!(!w.runs(0));
        let handle = w.receive(end).unwrap();
        w.decide(handle, ZX_EXCEPTION_STATE_HANDLED);
        assert!(w.runs(0));
    }
    assert_eq!(w.ended(), None);
}

#[test]
fn without_memory_for_messages_no_handler_is_asked() {
    let mut w = World::new(1);
    let end = w.listen(PROCESS).unwrap();
    w.kernel.machine.full = true;
    w.fault(0);
    assert_eq!(w.ended(), Some(ZX_TASK_RETCODE_EXCEPTION_KILL));
    assert!(w.receive(end).is_none());
}

#[test]
fn memory_that_runs_out_later_passes_over_the_rest() {
    let mut w = World::new(1);
    let (thread, process) = (w.listen(THREAD).unwrap(), w.listen(PROCESS).unwrap());
    w.fault(0);
    let handle = w.receive(thread).unwrap();
    w.kernel.machine.full = true;
    w.close(handle);
    assert!(w.receive(process).is_none());
    assert_eq!(w.ended(), Some(ZX_TASK_RETCODE_EXCEPTION_KILL));
}

#[test]
fn a_policy_exception_returns_the_calls_result() {
    let mut w = World::new(1);
    let end = w.listen(w.jobs.len() + 2).unwrap();
    w.kernel.exception_policy(w.threads[0], 6, 0, -30);
    assert_eq!(w.kernel.exception_channel_type(w.threads[0]), ZX_EXCEPTION_CHANNEL_TYPE_JOB);
    assert_eq!(w.kernel.exception_report(w.threads[0]).unwrap().header.type_, ZX_EXCP_POLICY_ERROR);
    // It is blocked in its call: the machine's thread is not stopped.
    assert!(w.runs(0));
    let handle = w.receive(end).unwrap();
    w.decide(handle, ZX_EXCEPTION_STATE_HANDLED);
    let machine = w.kernel.objects.get(w.threads[0]).unwrap().machine().unwrap();
    assert_eq!(w.kernel.machine.threads[&machine.0].woken, [-30]);
}

#[test]
fn everything_is_freed() {
    let mut w = World::new(2);
    let ends: Vec<_> = (0..HANDLERS).map(|n| w.listen(n).unwrap()).collect();
    w.fault(0);
    w.fault(1);
    let handle = w.receive(ends[DEBUGGER]).unwrap();
    w.kernel.job_kill(w.jobs[1], -1);
    w.kernel.reap();
    ends.iter().for_each(|&end| w.hang_up(end));
    // The exception keeps its thread alive, that its process, and that its jobs.
    let tasks =
        [w.threads[0].object(), w.threads[1].object(), w.process.object(), w.jobs[0].object(), w.jobs[1].object()];
    for object in tasks {
        w.close(Handle { object, rights: Rights::NONE });
    }
    assert_eq!(w.kernel.census().0, 6);
    w.close(handle);
    // Only the root job is left.
    assert_eq!(w.kernel.census().0, 1);
}

// --- random scenarios ---

/// Operations; numbers are taken modulo the number of candidates.
#[derive(Clone, Debug)]
enum Op {
    Listen(usize),
    HangUp(usize),
    Fault(usize),
    Receive(usize),
    SecondChance(usize),
    Decide(usize, u32),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (0..HANDLERS).prop_map(Op::Listen),
        1 => (0..HANDLERS).prop_map(Op::HangUp),
        3 => (0..3usize).prop_map(Op::Fault),
        3 => (0..HANDLERS).prop_map(Op::Receive),
        1 => any::<usize>().prop_map(Op::SecondChance),
        4 => (any::<usize>(), 0..3u32).prop_map(|(n, state)| Op::Decide(n, state)),
    ]
}

/// The model's state of a thread.
#[derive(Clone, Debug, PartialEq)]
enum Now {
    Runs,
    /// At a handler; `again`: the debugger wants a second chance; `second`: it has it now.
    At {
        handler: usize,
        again: bool,
        second: bool,
    },
    /// Exiting; the debugger may hold it first.
    Exiting,
    Gone,
}

/// The order of handlers, implemented once more: the next handler with a channel.
fn next(listening: &[bool], thread: usize, after: Option<usize>, again: bool, second: bool) -> Option<(usize, bool)> {
    let listens = |handler: usize| listening[handler] && (handler != THREAD || thread == 0);
    let start = match after {
        None => 0,
        Some(PROCESS) if again && listens(DEBUGGER) => return Some((DEBUGGER, true)),
        Some(DEBUGGER) if second => PROCESS + 1,
        Some(handler) => handler + 1,
    };
    for handler in start..HANDLERS {
        if handler == PROCESS + 1 && start <= PROCESS && again && listens(DEBUGGER) {
            return Some((DEBUGGER, true));
        }
        if listens(handler) {
            return Some((handler, second));
        }
    }
    None
}

struct Model {
    listening: [bool; HANDLERS],
    threads: [Now; 3],
    ended: Option<i64>,
}

impl Model {
    fn offer(&mut self, thread: usize, after: Option<usize>, again: bool, second: bool) {
        match next(&self.listening, thread, after, again, second) {
            Some((handler, second)) => self.threads[thread] = Now::At { handler, again, second },
            None => {
                self.ended = Some(ZX_TASK_RETCODE_EXCEPTION_KILL);
                self.threads.fill(Now::Gone);
                self.listening[..=PROCESS].fill(false);
            }
        }
    }

    fn exit(&mut self, thread: usize) {
        if self.listening[DEBUGGER] { self.threads[thread] = Now::Exiting } else { self.gone(thread) }
    }

    fn gone(&mut self, thread: usize) {
        self.threads[thread] = Now::Gone;
        if thread == 0 {
            self.listening[THREAD] = false;
        }
        if self.threads.iter().all(|thread| *thread == Now::Gone) && self.ended.is_none() {
            self.ended = Some(0);
            self.listening[..=PROCESS].fill(false);
        }
    }

    /// The handle to a thread's exception is closed.
    fn closed(&mut self, thread: usize, state: u32) {
        match self.threads[thread].clone() {
            Now::At { .. } if state == ZX_EXCEPTION_STATE_HANDLED => self.threads[thread] = Now::Runs,
            Now::At { .. } if state == ZX_EXCEPTION_STATE_THREAD_EXIT => self.exit(thread),
            Now::At { handler, again, second } => self.offer(thread, Some(handler), again, second),
            Now::Exiting => self.gone(thread),
            Now::Runs | Now::Gone => {}
        }
    }
}

fn story(ops: &[Op]) {
    let mut w = World::new(3);
    let mut model = Model { listening: [false; HANDLERS], threads: [const { Now::Runs }; 3], ended: None };
    // The channels' ends, with the threads whose exceptions are in each, and the received handles.
    let mut ends: [Option<Id<Channel>>; HANDLERS] = [None; HANDLERS];
    let mut held: Vec<(Handle, usize)> = Vec::new();
    let thread_of = |w: &World, handle: Handle| {
        let thread = w.kernel.objects.get(w.exception(handle)).unwrap().thread;
        w.threads.iter().position(|&t| t == thread).unwrap()
    };
    for op in ops {
        match *op {
            Op::Listen(n) => {
                let gone = match n {
                    THREAD => model.threads[0] == Now::Gone,
                    DEBUGGER | PROCESS => model.ended.is_some(),
                    _ => false,
                };
                let expected = match (gone, model.listening[n]) {
                    (true, _) => Err(Status::BAD_STATE),
                    (_, true) => Err(Status::ALREADY_BOUND),
                    _ => Ok(()),
                };
                let result = w.listen(n);
                assert_eq!(result.map(|_| ()), expected);
                if let Ok(end) = result {
                    assert!(ends[n].replace(end).is_none());
                    model.listening[n] = true;
                }
            }
            Op::HangUp(n) => {
                let Some(end) = ends[n].take() else { continue };
                model.listening[n] = false;
                // Unread exceptions go to other handlers, in order of arrival.
                let unread: Vec<usize> = {
                    let mut unread = Vec::new();
                    let mut messages = Vec::new();
                    while let Ok(message) = w.kernel.channel_read(end) {
                        unread.push(thread_of(&w, message.handles[0]));
                        messages.push(message);
                    }
                    for message in messages.into_iter().rev() {
                        w.kernel.channel_unread(end, message);
                    }
                    unread
                };
                w.hang_up(end);
                // The last message's handle is closed first.
                let waits = |now: &Now| match now {
                    Now::At { handler, .. } => *handler == n,
                    Now::Exiting => n == DEBUGGER,
                    _ => false,
                };
                for thread in unread.into_iter().rev() {
                    if waits(&model.threads[thread]) {
                        model.closed(thread, 0);
                    }
                }
            }
            Op::Fault(n) => {
                if model.threads[n] != Now::Runs {
                    continue;
                }
                w.fault(n);
                model.offer(n, None, false, false);
            }
            Op::Receive(n) => {
                if let Some(handle) = ends[n].and_then(|end| w.receive(end)) {
                    let thread = thread_of(&w, handle);
                    held.push((handle, thread));
                }
            }
            Op::SecondChance(n) => {
                let Some(&(handle, thread)) = held.get(n % held.len().max(1)) else { continue };
                let exception = w.exception(handle);
                let result = w.kernel.exception_set_strategy(exception, ZX_EXCEPTION_STRATEGY_SECOND_CHANCE);
                let live = w.kernel.thread_exception(w.threads[thread]) == Some(exception);
                if let Now::At { handler, again, .. } = &mut model.threads[thread]
                    && live
                {
                    assert_eq!(result.is_ok(), *handler == DEBUGGER);
                    *again |= *handler == DEBUGGER;
                }
            }
            Op::Decide(n, state) => {
                if held.is_empty() {
                    continue;
                }
                let (handle, thread) = held.remove(n % held.len());
                let live = w.kernel.thread_exception(w.threads[thread]) == Some(w.exception(handle));
                w.decide(handle, state);
                if live {
                    model.closed(thread, state);
                }
            }
        }
        assert_eq!(w.ended(), model.ended, "after {op:?}");
        for (n, now) in model.threads.iter().enumerate() {
            let thread = w.threads[n];
            let dead = w.kernel.objects.get(thread).unwrap().state == ThreadState::Dead;
            assert_eq!(dead, *now == Now::Gone, "thread {n} after {op:?}");
            let kind = w.kernel.exception_report(thread).map(|report| report.header.type_);
            let expected = match now {
                Now::At { .. } => Ok(ZX_EXCP_UNDEFINED_INSTRUCTION),
                Now::Exiting => Ok(ZX_EXCP_THREAD_EXITING),
                _ => Err(Status::BAD_STATE),
            };
            assert_eq!(kind, expected, "thread {n} after {op:?}");
            assert_eq!(w.runs(n), *now == Now::Runs || *now == Now::Exiting && w.runs(n), "thread {n} after {op:?}");
        }
    }
    // Closes everything that is left.
    held.into_iter().for_each(|(handle, _)| w.close(handle));
    ends.into_iter().flatten().for_each(|end| w.hang_up(end));
    w.kernel.job_kill(w.jobs[1], -1);
    w.kernel.reap();
    let mut tasks: Vec<_> = w.threads.iter().map(|thread| thread.object()).collect();
    tasks.extend([w.process.object(), w.jobs[0].object(), w.jobs[1].object()]);
    for object in tasks {
        w.close(Handle { object, rights: Rights::NONE });
    }
    assert_eq!(w.kernel.census().0, 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn random_stories_end_as_the_model_says(ops in proptest::collection::vec(op(), 0..60)) {
        story(&ops);
    }
}
