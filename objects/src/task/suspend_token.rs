//! Suspend tokens: a task is suspended as long as it has one.
//!
//! A thread runs only while neither it nor its process has a token. Each task counts its tokens, and
//! [`Kernel::thread_settle`] stops or resumes the machine's thread according to the counts. A task can be suspended
//! before it is started, and a process's tokens also hold threads that it creates later.

use alloc::boxed::Box;

use abi::{Signals, Status};

use crate::core::noun::{Noun, ObjectOps};
use crate::core::object::{Id, ObjectId};
use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::task::process::{Process, ProcessState};
use crate::task::thread::Thread;

/// The task that a token suspends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SuspendedTask {
    /// One thread.
    Thread(Id<Thread>),
    /// All threads of a process, now and later.
    Process(Id<Process>),
}

impl SuspendedTask {
    fn object(self) -> ObjectId {
        match self {
            SuspendedTask::Thread(id) => id.object(),
            SuspendedTask::Process(id) => id.object(),
        }
    }
}

/// A token.
pub struct SuspendToken {
    task: SuspendedTask,
}

impl Noun for SuspendToken {
    const TYPE: u32 = abi::ZX_OBJ_TYPE_SUSPEND_TOKEN;
}

impl ObjectOps for SuspendToken {
    #[inline(always)]
    fn destroyed<M: Machine>(self: Box<Self>, kernel: &mut Kernel<M>, _: Id<Self>) {
        // Only existing tasks are counted, and the token kept its task alive.
        let _ = kernel.suspend_count(self.task, -1);
        kernel.drop_ref(self.task.object());
    }
}

impl<M: Machine> Kernel<M> {
    /// `task_suspend`. The caller has checked that the thread suspends neither itself nor its own process.
    ///
    /// # Errors
    /// `BAD_STATE`: the task has ended. `NO_MEMORY`.
    pub fn task_suspend(&mut self, task: SuspendedTask) -> Result<Id<SuspendToken>, Status> {
        let dead = match task {
            SuspendedTask::Thread(thread) => self.objects.get(thread)?.has_ended(),
            SuspendedTask::Process(process) => self.objects.get(process)?.state == ProcessState::Dead,
        };
        if dead {
            return Err(Status::BAD_STATE);
        }
        match task {
            SuspendedTask::Thread(thread) => self.no_component_thread(thread)?,
            SuspendedTask::Process(process) => self.no_component(process)?,
        }
        let token = self.create(Signals::NONE, Box::new(SuspendToken { task }))?;
        self.add_ref(task.object());
        self.suspend_count(task, 1)?;
        Ok(token)
    }

    /// Adds a token to a task's count or removes one, and stops or resumes its threads accordingly.
    fn suspend_count(&mut self, task: SuspendedTask, change: i32) -> Result<(), Status> {
        match task {
            SuspendedTask::Thread(id) => {
                let thread = self.objects.get_mut(id)?;
                thread.suspends = thread.suspends.saturating_add_signed(change);
                self.thread_settle(id);
            }
            SuspendedTask::Process(id) => {
                let process = self.objects.get_mut(id)?;
                let before = process.suspends;
                process.suspends = before.saturating_add_signed(change);
                // Only the first and the last token change the threads' state.
                if (before == 0) != (process.suspends == 0) {
                    self.process_settle(id);
                }
            }
        }
        Ok(())
    }

    /// Calls [`Kernel::thread_settle`] for all threads of a process.
    fn process_settle(&mut self, process: Id<Process>) {
        let Ok(threads) = self.objects.get(process).map(|p| p.threads) else { return };
        let mut next = self.objects.after(threads, None);
        while let Some(thread) = next {
            self.thread_settle(Id::new(thread));
            next = self.objects.after(threads, next);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use abi::{Rights, ZX_TIME_INFINITE};
    use proptest::prelude::*;

    use super::*;
    use crate::containers::name::Name;
    use crate::core::event::Event;
    use crate::core::handle::HandleValue;
    use crate::core::wait::{Observed, WaitItem, Waiting};
    use crate::fake::FakeMachine;
    use crate::machine::Registers;
    use crate::task::thread::ThreadState;

    /// What a thread waits for in the model.
    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Wait {
        None,
        Sleep(i64),
        Event,
    }

    /// The model of a thread.
    #[derive(Debug)]
    struct Model {
        state: ThreadState,
        tokens: u32,
        wait: Wait,
        woken: usize,
    }

    #[derive(Clone, Debug)]
    enum Op {
        Create,
        Start(usize),
        SuspendThread(usize),
        SuspendProcess,
        Resume(usize),
        Sleep(usize, i64),
        Wait(usize),
        Signal,
        Pass(i64),
        Exit(usize),
        Send(usize),
        Kill,
    }

    fn op() -> impl Strategy<Value = Op> {
        let n = || 0_usize..8;
        prop_oneof![
            3 => Just(Op::Create),
            4 => n().prop_map(Op::Start),
            5 => n().prop_map(Op::SuspendThread),
            2 => Just(Op::SuspendProcess),
            8 => n().prop_map(Op::Resume),
            3 => (n(), 1_i64..30).prop_map(|(n, time)| Op::Sleep(n, time)),
            3 => n().prop_map(Op::Wait),
            2 => Just(Op::Signal),
            3 => (1_i64..20).prop_map(Op::Pass),
            1 => n().prop_map(Op::Exit),
            2 => n().prop_map(Op::Send),
            // Rare, so that runs get long before the end.
            1 => Just(Op::Pass(1)),
            1 => any::<bool>().prop_map(|kill| if kill { Op::Kill } else { Op::Signal }),
        ]
    }

    struct World {
        kernel: Kernel<FakeMachine>,
        /// Holds all handles, and takes no part in the operations.
        holder: Id<Process>,
        process: Id<Process>,
        event: (Id<Event>, HandleValue),
        threads: Vec<(Id<Thread>, Model)>,
        tokens: Vec<(HandleValue, SuspendedTask)>,
        process_tokens: u32,
        dead: bool,
    }

    impl World {
        fn new() -> World {
            let mut kernel = Kernel::new(FakeMachine::new(100)).unwrap();
            let job = kernel.root_job().unwrap();
            let (holder, _) = kernel.process_create(job, Name::new(b"holder")).unwrap();
            let (process, _) = kernel.process_create(job, Name::new(b"process")).unwrap();
            kernel.give(holder, process.object(), Rights::all()).unwrap();
            let event = kernel.event_create().unwrap();
            let value = kernel.give(holder, event.object(), Rights::all()).unwrap();
            kernel.process_begin(process, None).unwrap();
            let mut world = World {
                kernel,
                holder,
                process,
                event: (event, value),
                threads: Vec::new(),
                tokens: Vec::new(),
                process_tokens: 0,
                dead: false,
            };
            // A thread that runs and never ends, so that the process does not end by itself.
            world.play(Op::Create);
            world.play(Op::Start(0));
            world
        }

        fn suspended(&self, n: usize) -> bool {
            let model = &self.threads[n].1;
            model.state == ThreadState::Running && (model.tokens > 0 || self.process_tokens > 0)
        }

        /// Whether a thread can make a call: it runs and is in no call.
        fn calls(&self, n: usize) -> bool {
            let model = &self.threads[n].1;
            model.state == ThreadState::Running && !self.suspended(n) && model.wait == Wait::None
        }

        fn suspend(&mut self, task: SuspendedTask, dead: bool) {
            match self.kernel.task_suspend(task) {
                Ok(token) => {
                    assert!(!dead);
                    let value = self.kernel.give_new(self.holder, token, Rights::all()).unwrap();
                    self.tokens.push((value, task));
                    match task {
                        SuspendedTask::Process(_) => self.process_tokens += 1,
                        SuspendedTask::Thread(id) => {
                            let model = self.threads.iter_mut().find(|(thread, _)| *thread == id).unwrap();
                            model.1.tokens += 1;
                        }
                    }
                }
                Err(status) => assert!(dead && status == Status::BAD_STATE),
            }
        }

        fn die(&mut self, n: usize) {
            let model = &mut self.threads[n].1;
            model.state = ThreadState::Dead;
            model.wait = Wait::None;
        }

        #[allow(clippy::too_many_lines)]
        fn play(&mut self, op: Op) {
            let count = self.threads.len();
            let at = |n: usize| n % count.max(1);
            match op {
                Op::Create => {
                    let made = self.kernel.thread_create(self.process, Name::default());
                    assert_eq!(made.is_err(), self.dead);
                    if let Ok(thread) = made {
                        self.kernel.give_new(self.holder, thread, Rights::all()).unwrap();
                        let state = ThreadState::Initial;
                        self.threads.push((thread, Model { state, tokens: 0, wait: Wait::None, woken: 0 }));
                    }
                }
                Op::Start(n) => {
                    let (thread, model) = &mut self.threads[at(n)];
                    let started = self.kernel.thread_start(*thread, &Registers { rip: 4096, ..Registers::default() });
                    assert_eq!(started.is_ok(), model.state == ThreadState::Initial && !self.dead);
                    if started.is_ok() {
                        model.state = ThreadState::Running;
                    }
                }
                Op::SuspendThread(n) => {
                    let (thread, model) = &self.threads[at(n)];
                    let dead = model.state == ThreadState::Dead;
                    self.suspend(SuspendedTask::Thread(*thread), dead);
                }
                Op::SuspendProcess => self.suspend(SuspendedTask::Process(self.process), self.dead),
                Op::Resume(n) => {
                    if self.tokens.is_empty() {
                        return;
                    }
                    let (value, task) = self.tokens.swap_remove(n % self.tokens.len());
                    let handle = self.kernel.take(self.holder, value).unwrap();
                    self.kernel.close(handle);
                    match task {
                        SuspendedTask::Process(_) => self.process_tokens -= 1,
                        SuspendedTask::Thread(id) => {
                            let model = self.threads.iter_mut().find(|(thread, _)| *thread == id).unwrap();
                            model.1.tokens -= 1;
                        }
                    }
                }
                Op::Sleep(n, time) => {
                    if self.calls(at(n)) {
                        let deadline = self.kernel.machine.time + time;
                        let (thread, model) = &mut self.threads[at(n)];
                        assert_eq!(self.kernel.sleep(*thread, deadline), Ok(Waiting::Blocked));
                        model.wait = Wait::Sleep(deadline);
                    }
                }
                Op::Wait(n) => {
                    if self.calls(at(n)) {
                        let item = WaitItem {
                            object: self.event.0.object(),
                            handle: self.event.1,
                            signals: Signals::EVENT_SIGNALED,
                        };
                        let (thread, model) = &mut self.threads[at(n)];
                        let waiting = self.kernel.wait(*thread, &[item], ZX_TIME_INFINITE, Observed::Nowhere);
                        assert_eq!(waiting, Ok(Waiting::Blocked));
                        model.wait = Wait::Event;
                    }
                }
                Op::Signal => {
                    let event = self.event.0.object();
                    self.kernel.signal(event, Signals::NONE, Signals::EVENT_SIGNALED);
                    self.kernel.signal(event, Signals::EVENT_SIGNALED, Signals::NONE);
                    for (_, model) in self.threads.iter_mut().filter(|(_, model)| model.wait == Wait::Event) {
                        model.wait = Wait::None;
                        model.woken += 1;
                    }
                }
                Op::Pass(time) => {
                    self.kernel.machine.time += time;
                    self.kernel.expire();
                    let now = self.kernel.machine.time;
                    for (_, model) in &mut self.threads {
                        if matches!(model.wait, Wait::Sleep(deadline) if deadline <= now) {
                            model.wait = Wait::None;
                            model.woken += 1;
                        }
                    }
                }
                Op::Exit(n) => {
                    if at(n) != 0 && self.threads[at(n)].1.state == ThreadState::Running {
                        self.kernel.thread_kill(self.threads[at(n)].0);
                        self.die(at(n));
                    }
                }
                Op::Send(n) => {
                    let suspended = self.suspended(at(n));
                    let (thread, model) = &mut self.threads[at(n)];
                    let registers = self.kernel.thread_registers(*thread);
                    assert_eq!(registers.is_ok(), suspended);
                    if let Ok(mut registers) = registers {
                        registers.rip += 8;
                        self.kernel.thread_set_registers(*thread, &registers).unwrap();
                        assert_eq!(self.kernel.thread_registers(*thread), Ok(registers));
                        model.wait = Wait::None;
                    }
                }
                Op::Kill => {
                    self.kernel.process_kill(self.process, 7);
                    self.dead = true;
                    (0..count).for_each(|n| self.die(n));
                }
            }
            self.kernel.reap();
            (0..self.threads.len()).for_each(|n| self.check(n));
        }

        fn check(&self, n: usize) {
            let (id, model) = &self.threads[n];
            let suspended = self.suspended(n);
            let thread = self.kernel.objects.get(*id).unwrap();
            let (state, signals) = match (model.state, suspended, model.wait) {
                (ThreadState::Initial, ..) => (abi::ZX_THREAD_STATE_NEW, Signals::NONE),
                (ThreadState::Dead, ..) => (abi::ZX_THREAD_STATE_DEAD, Signals::THREAD_TERMINATED),
                (_, true, _) => (abi::ZX_THREAD_STATE_SUSPENDED, Signals::THREAD_SUSPENDED),
                (_, _, Wait::None) => (abi::ZX_THREAD_STATE_RUNNING, Signals::THREAD_RUNNING),
                (_, _, Wait::Sleep(_)) => (abi::ZX_THREAD_STATE_BLOCKED_SLEEPING, Signals::THREAD_RUNNING),
                (_, _, Wait::Event) => (abi::ZX_THREAD_STATE_BLOCKED_WAIT_ONE, Signals::THREAD_RUNNING),
            };
            assert_eq!(thread.state, model.state);
            assert_eq!(thread.info_state(), state);
            assert_eq!(self.kernel.signals(id.object()), signals);
            assert_eq!(thread.machine().is_some(), model.state == ThreadState::Running);
            if let Some(machine) = thread.machine() {
                let fake = &self.kernel.machine.threads[&machine.0];
                assert_eq!(fake.stopped, suspended);
                assert_eq!(fake.woken.len(), model.woken);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn threads_run_exactly_when_nothing_holds_them(ops in proptest::collection::vec(op(), 0..60)) {
            let mut world = World::new();
            ops.into_iter().for_each(|op| world.play(op));
            while !world.tokens.is_empty() {
                world.play(Op::Resume(0));
            }
            world.play(Op::Kill);
            // Closing the handles destroys everything but the root job: no token has leaked.
            world.kernel.process_kill(world.holder, 0);
            world.kernel.reaper_enqueue(world.holder.object());
            world.kernel.reap();
            prop_assert_eq!(world.kernel.census(), (1, 0, 0));
        }
    }
}
