//! Native components as clients: programs that the server did not create and that make its system calls
//! (`docs/native.md`).
//!
//! Such a component has a process with one thread, like any program. The address space is the component's own; its root
//! VMAR is the *window*, which contains only the component's mappings through this server. So the server only manages
//! mappings that it made, and no call reaches the rest of the address space.
//!
//! 1. The component asks to become a client: the state of an earlier life or an earlier connection is destroyed, then
//!    [`Kernel::component_joins`] creates process and thread.
//! 2. Channel ends that programs want to give to it ([`Kernel::component_connect`]) are sent on a channel whose other
//!    end is stored here.
//! 3. The component ends, or its process is killed: the process is destroyed like any other
//!    ([`Kernel::component_left`]). The server cannot end the component itself; its later calls fail.
//!
//! Holders of handles to its process and thread can query the server's state, and can do nothing to the component
//! except end this connection: it gets no further threads, cannot be suspended or debugged, and keeps its own priority.
//! The server does not emulate instructions for it: it has no I/O ports.

use alloc::vec::Vec;

use abi::{Status, ZX_DEFAULT_CHANNEL_RIGHTS};

use crate::containers::name::Name;
use crate::core::handle::Handle;
use crate::core::object::Id;
use crate::ipc::channel::Message;
use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::memory::vmar::Vmar;
use crate::task::endpoint::Endpoint;
use crate::task::job::Job;
use crate::task::process::{Kind, Process};
use crate::task::thread::Thread;

/// The name of the job of all components. `init` recognises it by this name and leaves it alone
/// (`services/init/src/tasks.rs`).
const COMPONENTS: &[u8] = b"components";

/// A component that is a client.
pub(crate) struct Component {
    process: Id<Process>,
    /// The server's end of the channel of step 2.
    clients: Option<Handle>,
}

/// The objects of a component that became a client.
pub struct ComponentClient {
    /// Its process.
    pub process: Id<Process>,
    /// Its thread, which is not started yet.
    pub thread: Id<Thread>,
    /// Its root VMAR, the window.
    pub window: Id<Vmar>,
}

impl<M: Machine> Kernel<M> {
    /// Step 1.
    ///
    /// # Errors
    /// `BAD_STATE`: it does not ask for this any more. `NO_MEMORY`, `NO_RESOURCES`; the component has been notified.
    pub fn component_joins(&mut self, component: u8) -> Result<ComponentClient, Status> {
        self.component_ends(component);
        let (aspace, name) = self.machine.component_take(component).map_err(|_| Status::BAD_STATE)?;
        let len = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        let name = Name::new(name.get(..len).unwrap_or_default());
        let job = self.components_job().inspect_err(|_| self.machine.aspace_destroy(aspace))?;
        let made = self.process_make(job, name, Kind::Component(component, aspace));
        let (process, window) = made.inspect_err(|_| self.reaper_enqueue(job.object()))?;
        self.components.insert(component, Component { process, clients: None });
        match self.thread_create(process, Name::new(b"main")) {
            Ok(thread) => Ok(ComponentClient { process, thread, window }),
            Err(status) => {
                self.process_kill(process, 0);
                Err(status)
            }
        }
    }

    /// The job of all component processes, a child of the root job. It exists as long as there is one.
    fn components_job(&mut self) -> Result<Id<Job>, Status> {
        if let Some(known) = self.components.values().next() {
            return Ok(self.objects.get(known.process)?.job);
        }
        let root = self.root_job()?;
        let job = self.job_create(root)?;
        self.set_name(job.object(), Name::new(COMPONENTS)).inspect_err(|_| self.reaper_enqueue(job.object()))?;
        Ok(job)
    }

    /// Creates the channel of step 2; gives the component its end.
    ///
    /// # Errors
    /// `NO_MEMORY`, `BAD_STATE`.
    pub fn component_opens(&mut self, component: u8) -> Result<u32, Status> {
        let process = self.components.get(&component).ok_or(Status::BAD_STATE)?.process;
        let (ours, theirs) = self.channel_create()?;
        let ours = self.dup_handle(Handle { object: ours.object(), rights: ZX_DEFAULT_CHANNEL_RIGHTS });
        let value = self.give_new(process, theirs, ZX_DEFAULT_CHANNEL_RIGHTS).inspect_err(|_| self.close(ours))?;
        match self.components.get_mut(&component) {
            Some(known) => known.clients = Some(ours),
            None => self.close(ours),
        }
        Ok(value)
    }

    /// Step 2: sends a handle to the component that offers an endpoint, with the offer's number as a message of four
    /// bytes. The handle is consumed in any case.
    ///
    /// # Errors
    /// `NOT_SUPPORTED`: the endpoint is not a component's. `PEER_CLOSED`: the component has ended. `UNAVAILABLE`: it is
    /// not a client now. As [`Kernel::channel_write`].
    pub fn component_connect(&mut self, endpoint: Id<Endpoint>, handle: Handle) -> Result<(), Status> {
        let clients = self.objects.get(endpoint).and_then(|endpoint| {
            let (component, offer) = endpoint.offered()?;
            let clients = self.components.get(&component).and_then(|known| known.clients.as_ref());
            Ok((clients.ok_or(Status::UNAVAILABLE)?.object, offer))
        });
        match clients {
            Ok((clients, offer)) => {
                let mut message = Message { data: Vec::new(), handles: Vec::new() };
                message.data.extend_from_slice(&u32::from(offer).to_le_bytes());
                message.handles.push(handle);
                self.channel_write(Id::new(clients), message)
            }
            Err(status) => {
                self.close(handle);
                Err(status)
            }
        }
    }

    /// A component has ended: step 3.
    pub(crate) fn component_ends(&mut self, component: u8) {
        if let Some(known) = self.components.get(&component) {
            self.process_kill(known.process, 0);
        }
    }

    /// The process of a component has ended.
    pub(crate) fn component_left(&mut self, component: u8, process: Id<Process>) {
        if self.components.get(&component).is_some_and(|known| known.process == process)
            && let Some(Component { clients: Some(clients), .. }) = self.components.remove(&component)
        {
            self.close(clients);
        }
    }

    /// Checks that a process is not a component's.
    ///
    /// # Errors
    /// `NOT_SUPPORTED`: it is a component's.
    pub(crate) fn no_component(&self, process: Id<Process>) -> Result<(), Status> {
        match self.objects.get(process)?.component {
            Some(_) => Err(Status::NOT_SUPPORTED),
            None => Ok(()),
        }
    }

    /// The same for the process of a thread.
    ///
    /// # Errors
    /// As [`Kernel::no_component`].
    pub(crate) fn no_component_thread(&self, thread: Id<Thread>) -> Result<(), Status> {
        self.no_component(self.objects.get(thread)?.process)
    }
}

#[cfg(test)]
mod tests {
    use abi::Rights;

    use super::*;
    use crate::fake::FakeMachine;
    use crate::machine::{COMPONENT_BASE, Memory, Registers};
    use crate::task::exception::Task;

    fn system() -> Kernel<FakeMachine> {
        let mut kernel = Kernel::new(FakeMachine::new(64)).unwrap();
        kernel.machine.endpoints.offered = alloc::vec![("keys", 1)];
        kernel
    }

    fn join(kernel: &mut Kernel<FakeMachine>) -> ComponentClient {
        kernel.machine.endpoints.waiting.insert(0);
        let joined = kernel.component_joins(0).unwrap();
        kernel.component_opens(0).unwrap();
        kernel.process_begin(joined.process, None).unwrap();
        kernel.thread_start(joined.thread, &Registers::default()).unwrap();
        joined
    }

    #[test]
    fn only_a_waiting_component_becomes_a_client() {
        let mut kernel = system();
        let before = kernel.census();
        assert_eq!(kernel.component_joins(0).err(), Some(Status::BAD_STATE));
        assert_eq!(kernel.census(), before);
    }

    #[test]
    fn creating_and_destroying_leaves_nothing() {
        let mut kernel = system();
        let before = (kernel.census(), kernel.machine.usage());
        for _ in 0..3 {
            let joined = join(&mut kernel);
            assert_eq!(kernel.objects.get(joined.window).unwrap().base, COMPONENT_BASE);
            kernel.components_ended(1);
            kernel.reap();
            assert_eq!((kernel.census(), kernel.machine.usage()), before);
        }
        // A new connection ends the previous one.
        join(&mut kernel);
        join(&mut kernel);
        kernel.components_ended(1);
        kernel.reap();
        assert_eq!((kernel.census(), kernel.machine.usage()), before);
    }

    #[test]
    fn programs_reach_it_by_its_endpoint() {
        let mut kernel = system();
        let endpoint = kernel.endpoint_find(b"keys").unwrap();
        let kept = kernel.dup_handle(Handle { object: endpoint.object(), rights: abi::Rights::NONE });
        let send = |kernel: &mut Kernel<FakeMachine>| {
            let event = kernel.event_create().unwrap();
            let handle = kernel.dup_handle(Handle { object: event.object(), rights: abi::Rights::NONE });
            kernel.component_connect(endpoint, handle)
        };
        assert_eq!(send(&mut kernel), Err(Status::UNAVAILABLE));
        let joined = join(&mut kernel);
        assert_eq!(send(&mut kernel), Ok(()));
        kernel.process_kill(joined.process, 0);
        assert_eq!(send(&mut kernel), Err(Status::UNAVAILABLE));
        join(&mut kernel);
        kernel.components_ended(1);
        assert_eq!(send(&mut kernel), Err(Status::PEER_CLOSED));
        let own = kernel.endpoint_create().unwrap();
        let event = kernel.event_create().unwrap();
        let handle = kernel.dup_handle(Handle { object: event.object(), rights: abi::Rights::NONE });
        assert_eq!(kernel.component_connect(own, handle), Err(Status::NOT_SUPPORTED));
        kernel.close(kept);
        kernel.reap();
    }

    #[test]
    fn no_other_process_enters_a_component() {
        let mut kernel = system();
        let joined = join(&mut kernel);
        let refused = Some(Status::NOT_SUPPORTED);
        assert_eq!(kernel.thread_create(joined.process, Name::new(b"t")).err(), refused);
        assert_eq!(
            kernel.task_suspend(crate::task::suspend_token::SuspendedTask::Thread(joined.thread)).err(),
            refused
        );
        assert_eq!(
            kernel.task_suspend(crate::task::suspend_token::SuspendedTask::Process(joined.process)).err(),
            refused
        );
        assert_eq!(kernel.thread_registers(joined.thread).err(), Some(Status::BAD_STATE));
        let endpoint = kernel.endpoint_find(b"keys").unwrap();
        assert_eq!(kernel.endpoint_mint(endpoint, joined.thread, 0, Default::default()).err(), refused);
        assert_eq!(kernel.thread_set_pointer(joined.thread, 0).err(), refused);
        assert_eq!(kernel.exception_channel_create(Task::Thread(joined.thread), false, Rights::NONE).err(), refused);
        for debugger in [false, true] {
            let made = kernel.exception_channel_create(Task::Process(joined.process), debugger, Rights::NONE);
            assert_eq!(made.err(), refused);
        }
    }

    #[test]
    fn its_instructions_are_its_own() {
        let mut kernel = system();
        let joined = join(&mut kernel);
        assert_eq!(kernel.ioports_set(joined.process, 0x100, 8, true), Err(Status::NOT_SUPPORTED));
        assert_eq!(kernel.ioports_set(joined.process, 0x100, 0, true), Err(Status::INVALID_ARGS));
        assert_eq!(kernel.ioports_set(joined.process, 0x100, 8, false), Ok(()));
        // An ordinary program may.
        let job = kernel.root_job().unwrap();
        let (program, _) = kernel.process_create(job, Name::new(b"p")).unwrap();
        assert_eq!(kernel.ioports_set(program, 0x100, 8, true), Ok(()));
    }
}
