//! Tasks: stopped threads, pending exceptions, code in restricted mode and on virtual processors.

use super::memory::{ADDRESS, PAGE, VMO};
use super::{Buffer, Bytes, Handle, Is, Long, Recipe, Record, To, Word, bytes, record};
use crate::grammar::NamedHandle;

const THREAD: u64 = 22;
const TOKEN: u64 = 23;
const PROCESS: u64 = 24;
const VMAR: u64 = 25;
const JOB: u64 = 26;
const EVENT: u64 = 27;
const PROFILE: u64 = 28;
const EXCEPTION: u64 = 29;
const STATE: u64 = 30;
const VPROC: u64 = 31;
const SLOT: u64 = 32;
const PORT: u64 = 33;
const CHANNEL: u64 = 34;

/// Flags of code: those that programs have, and one that it may choose.
const FLAGS: u64 = 0x202;
const CARRY: u64 = 1;

/// Info topics for each kind of object.
const TOPICS: [(NamedHandle, u32); 12] = [
    (NamedHandle::Process, abi::ZX_INFO_PROCESS),
    (NamedHandle::Process, abi::ZX_INFO_PROCESS_THREADS),
    (NamedHandle::Process, abi::ZX_INFO_PROCESS_MAPS),
    (NamedHandle::Process, abi::ZX_INFO_PROCESS_VMOS),
    (NamedHandle::Process, abi::ZX_INFO_PROCESS_HANDLE_STATS),
    (NamedHandle::Process, abi::ZX_INFO_HANDLE_TABLE),
    (NamedHandle::Process, abi::ZX_INFO_TASK_STATS),
    (NamedHandle::Thread, abi::ZX_INFO_THREAD),
    (NamedHandle::Job, abi::ZX_INFO_JOB_CHILDREN),
    (NamedHandle::Job, abi::ZX_INFO_JOB_PROCESSES),
    (NamedHandle::Vmar, abi::ZX_INFO_VMAR),
    (NamedHandle::Pager, abi::ZX_INFO_HANDLE_BASIC),
];

/// Lays out the target call if it is one of these.
pub fn lay(recipe: &mut Recipe<'_>) -> bool {
    let own = |gift| Word::NamedHandle(gift);
    match recipe.target() {
        "object_set_property" => {
            recipe.memory();
            recipe.call("object_set_property", &[Handle(VMO), Is(abi::ZX_PROP_NAME.into()), Buffer, Is(8)]);
        }
        "object_get_info" => {
            let (gift, topic) = TOPICS[recipe.below(TOPICS.len() as u64) as usize];
            recipe.call("object_get_info", &[own(gift), Is(topic.into()), Buffer, Is(4096)]);
        }
        "object_get_property" => {
            let of = [NamedHandle::Process, NamedHandle::Thread, NamedHandle::Job][recipe.below(3) as usize];
            recipe.call("object_get_property", &[own(of), Is(abi::ZX_PROP_NAME.into()), Buffer, Is(64)]);
        }
        "object_get_child" => {
            let child = Is(recipe.view.process);
            recipe.call("object_get_child", &[own(NamedHandle::Job), child, Is(1 << 31), To(PROCESS)]);
        }
        target @ ("object_set_profile" | "profile_create") => {
            // The priority does not exceed the caller's: a thread that never stops would starve the others.
            let priority = [("flags", 1), ("parameters", 1 + recipe.below(12))];
            let profile = bytes(&record("zx_profile_info_t", &priority));
            recipe.call("profile_create", &[own(NamedHandle::Profile), Is(0), profile, To(PROFILE)]);
            if target == "object_set_profile" {
                recipe.thread();
                recipe.call(target, &[Handle(THREAD), Handle(PROFILE), Is(0)]);
            }
        }
        target @ ("thread_start" | "thread_start_regs") => {
            recipe.thread();
            let (entry, stack) = (Is(recipe.view.code[0]), Is(recipe.buffer()));
            recipe.call(target, &[Handle(THREAD), entry, stack, Is(0), Is(0), Is(0)]);
        }
        "task_suspend" | "task_suspend_token" => {
            recipe.started();
            recipe.call(recipe.target(), &[Handle(THREAD), To(TOKEN)]);
        }
        "thread_read_state" => {
            recipe.standing();
            let kind = Is(recipe.below(3));
            recipe.call("thread_read_state", &[Handle(THREAD), kind, Buffer, Is(4096)]);
            recipe.call("handle_close", &[Handle(TOKEN)]);
        }
        "thread_write_state" => {
            recipe.standing();
            let entry = recipe.view.code[recipe.below(3) as usize];
            let registers =
                [("rip", entry), ("rsp", recipe.buffer()), ("rflags", FLAGS), ("rax", recipe.below(1 << 40))];
            let registers = record("zx_thread_state_general_regs_t", &registers);
            let size = Is(registers.len() as u64);
            recipe.call("thread_write_state", &[Handle(THREAD), Is(0), bytes(&registers), size]);
            recipe.call("handle_close", &[Handle(TOKEN)]);
        }
        "thread_raise_exception" => {
            let (target, kind) = (abi::ZX_EXCEPTION_TARGET_JOB_DEBUGGER.into(), abi::ZX_EXCP_USER.into());
            recipe.call("thread_raise_exception", &[Is(target), Is(kind), Buffer]);
        }
        "task_create_exception_channel" => {
            recipe.thread();
            recipe.call("task_create_exception_channel", &[Handle(THREAD), Is(0), To(CHANNEL)]);
        }
        target @ ("exception_get_thread" | "exception_get_process") => {
            // Takes the exception of an earlier recipe, and starts a thread that raises the next one.
            recipe.call(
                "channel_read",
                &[own(NamedHandle::Feed), Is(0), Buffer, To(EXCEPTION), Is(64), Is(1), Is(0), Is(0)],
            );
            recipe.call(target, &[Handle(EXCEPTION), To(PROCESS)]);
            recipe.started();
        }
        "process_start" => {
            recipe.process(0);
            recipe.call("thread_create", &[Handle(PROCESS), Buffer, Is(4), Is(0), To(THREAD)]);
            recipe.call("event_create", &[Is(0), To(EVENT)]);
            let (entry, stack) = (Is(recipe.view.code[0]), Is(recipe.buffer()));
            recipe.call("process_start", &[Handle(PROCESS), Handle(THREAD), entry, stack, Handle(EVENT), Is(1)]);
        }
        "process_create_shared" => {
            recipe.process(1);
            recipe.call("process_create_shared", &[Handle(PROCESS), Is(0), Buffer, Is(4), To(PROCESS), To(VMAR)]);
        }
        target @ ("process_read_memory" | "process_write_memory") => {
            let address = Is(recipe.buffer());
            recipe.call(target, &[own(NamedHandle::Process), address, Buffer, Is(64), To(SLOT + 20)]);
        }
        "task_kill" => {
            recipe.process(0);
            recipe.call("task_kill", &[Handle(PROCESS)]);
        }
        "job_set_policy" => {
            recipe.call("job_create", &[own(NamedHandle::Job), Is(0), To(JOB)]);
            let fields = [("condition", recipe.below(18)), ("action", recipe.below(5)), ("flags", recipe.below(2))];
            let policy = bytes(&record("zx_policy_basic_v2_t", &fields));
            let topic = Is(abi::ZX_JOB_POL_BASIC_V2.into());
            recipe.call("job_set_policy", &[Handle(JOB), Is(0), topic, policy, Is(1)]);
        }
        "restricted_enter" => {
            recipe.bound();
            recipe.call("restricted_enter", &[Is(0), Is(recipe.view.vector), Record]);
        }
        "restricted_stop" => {
            recipe.bound();
            let (kind, code) = (Is(recipe.below(3)), Is(recipe.below(32)));
            recipe.call("restricted_stop", &[kind, Is(recipe.view.vector), code]);
        }
        "vproc_start" => {
            recipe.vproc();
            recipe.enter();
        }
        "vproc_stop" => {
            recipe.vproc();
            recipe.enter();
            recipe.call("vproc_stop", &[Handle(VPROC)]);
        }
        "vproc_enter" => {
            recipe.enter_and_wait();
        }
        target @ ("vproc_resume" | "vproc_state") => {
            recipe.enter_and_wait();
            recipe.call(target, &[Handle(VPROC), Long(ADDRESS)]);
        }
        "vproc_wait" => {
            recipe.vproc_page();
            recipe.call("vproc_kick", &[Handle(VPROC)]);
            recipe.call("vproc_wait", &[Long(ADDRESS)]);
        }
        "vproc_set_upcall" => {
            recipe.vproc_page();
            let (top, function) = (Is(recipe.buffer()), Is(recipe.view.code[0]));
            recipe.call("vproc_set_upcall", &[Long(ADDRESS), top, function, Is(0)]);
        }
        "vproc_leave" => {
            recipe.vproc_page();
            recipe.call("vproc_leave", &[Long(ADDRESS)]);
        }
        "vproc_kick" => {
            recipe.vproc();
            recipe.call("vproc_kick", &[Handle(VPROC)]);
        }
        "vproc_bind" => {
            recipe.vproc();
            recipe.call("port_create", &[Is(0), To(PORT)]);
            recipe.call("vproc_bind", &[Handle(VPROC), Handle(PORT), Is(0)]);
        }
        _ => return false,
    }
    true
}

impl Recipe<'_> {
    /// Creates a thread of this process.
    fn thread(&mut self) {
        self.call("thread_create", &[Word::NamedHandle(NamedHandle::Process), Buffer, Is(4), Is(0), To(THREAD)]);
    }

    /// Starts a thread: its first instruction raises an exception.
    fn started(&mut self) {
        self.thread();
        let (entry, stack) = (Is(self.view.code[0]), Is(self.buffer()));
        self.call("thread_start", &[Handle(THREAD), entry, stack, Is(0), Is(0)]);
    }

    /// Stops a thread.
    fn standing(&mut self) {
        self.started();
        self.call("task_suspend_token", &[Handle(THREAD), To(TOKEN)]);
        let item = record("zx_wait_item_t", &[("waitfor", abi::Signals::THREAD_SUSPENDED.bits().into())]);
        let deadline = self.soon();
        self.call("object_wait_many", &[Bytes(item, vec![(0, THREAD)]), Is(1), deadline]);
    }

    /// Creates an empty process.
    fn process(&mut self, options: u64) {
        let words = [Word::NamedHandle(NamedHandle::Job), Buffer, Is(4), Is(options), To(PROCESS), To(VMAR)];
        self.call("process_create", &words);
    }

    /// Binds a state for restricted mode, with code that makes system calls. A thread has either this or a virtual
    /// processor.
    fn bound(&mut self) {
        self.call("handle_close", &[Handle(VPROC)]);
        self.call("restricted_bind_state", &[Is(0), To(STATE), Is(0)]);
        let ip = if self.one_in(4) { self.view.code[0] } else { self.view.restricted };
        let fields = [("ip", ip), ("flags", CARRY), ("rax", self.below(1 << 40)), ("rsp", self.below(1 << 47))];
        let state = record("zx_restricted_state_t", &fields);
        let size = Is(state.len() as u64);
        self.call("vmo_write", &[Handle(STATE), bytes(&state), Is(0), size]);
    }

    /// Creates this thread's virtual processor, which may exist already.
    fn vproc(&mut self) {
        self.call("restricted_unbind_state", &[Is(0)]);
        let options = Is(self.below(2));
        self.call("vproc_create", &[options, To(VPROC), To(STATE)]);
    }

    /// Its page, mapped.
    fn vproc_page(&mut self) {
        self.vproc();
        let options = Is((abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE).into());
        self.call(
            "vmar_map",
            &[Word::NamedHandle(NamedHandle::Vmar), options, Is(0), Handle(STATE), Is(0), Is(PAGE), To(ADDRESS)],
        );
    }

    /// Lets it run where there is nothing, and waits for its page fault.
    fn enter_and_wait(&mut self) {
        self.vproc_page();
        self.domain();
        self.call("vproc_enter", &[Handle(VPROC), Handle(PROCESS), Long(ADDRESS)]);
    }

    /// Enters it at an address where nothing is mapped.
    fn enter(&mut self) {
        self.domain();
        self.call("vproc_start", &[Handle(VPROC), Handle(PROCESS)]);
    }

    /// An address space, and a state to enter it with.
    fn domain(&mut self) {
        self.process(0);
        let state = record("hafnon_vproc_state_t", &[("ip", 0x100_0000 + self.below(1 << 30)), ("flags", FLAGS)]);
        let size = Is(state.len() as u64);
        self.call("vmo_write", &[Handle(STATE), bytes(&state), Is(abi::HAFNON_VPROC_STATE_OFFSET), size]);
    }
}
