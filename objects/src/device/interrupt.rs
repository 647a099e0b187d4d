//! Interrupts: of a device, or virtual ones that programs trigger.
//!
//! An interrupt is delivered to a waiting thread or, if bound, to a port, and must be acknowledged before it is
//! delivered again:
//!
//! 1. It occurs ([`Kernel::interrupt_raise`]). Only the first occurrence since the last delivery is remembered.
//!    - 1A A thread waits: the wait ends, and an acknowledgement is required.
//!    - 1B It is bound, and the last delivery is acknowledged: its packet is queued on the port, and an acknowledgement
//!      is required.
//!    - 1C Otherwise it stays pending.
//! 2. It is acknowledged: by `interrupt_ack` if it is bound, otherwise by the next `interrupt_wait`. A device that
//!    holds its line until then may now interrupt again. If it is pending, it is delivered at once: 2A by a packet, 2B
//!    as the result of the wait.
//! 3. It is destroyed, or its last handle is closed: a waiting thread is woken, and it never occurs again.

use alloc::boxed::Box;

use abi::{Signals, Status, ZX_INTERRUPT_VIRTUAL, ZX_TIME_INFINITE};

use crate::containers::slab::Key;
use crate::core::continuation::PAGE_WAIT;
use crate::core::noun::{Noun, ObjectOps};
use crate::core::object::{Id, ObjectId};
use crate::core::port::Port;
use crate::core::wait::Waiting;
use crate::device::msi::Message;
use crate::kernel::Kernel;
use crate::machine::{DeviceError, Irq, IrqKey, IrqSource, Machine};
use crate::task::blocking::Wait;
use crate::task::thread::Thread;

/// State between occurrence and acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// It has not occurred, and no thread waits.
    Idle,
    /// A thread waits for it.
    Waiting(Id<Thread>),
    /// It has occurred and was not delivered (1C).
    Pending,
    /// It was delivered and is not acknowledged.
    Delivered,
    /// It is destroyed (3).
    Destroyed,
}

/// An interrupt.
pub struct Interrupt {
    /// `ZX_INTERRUPT_*`, as created.
    pub options: u32,
    /// Its source; none for a virtual interrupt, or after destruction.
    irq: Option<Irq>,
    /// Its MSI, if it is message-signalled.
    pub(crate) message: Option<Message>,
    state: State,
    /// Time of an occurrence that was not delivered yet.
    came: Option<i64>,
    /// Its packet, while it is bound to a port.
    packet: Option<Key>,
}

impl Noun for Interrupt {
    const TYPE: u32 = abi::ZX_OBJ_TYPE_INTERRUPT;
}

impl ObjectOps for Interrupt {
    #[inline(always)]
    fn last_handle_closed<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>) {
        // The receiver of its packet gets no error.
        let _ = kernel.interrupt_destroy(id);
    }

    #[inline(always)]
    fn destroyed<M: Machine>(self: Box<Self>, kernel: &mut Kernel<M>, _: Id<Self>) {
        // Still set only if it never had a handle.
        if let Some(irq) = self.irq {
            kernel.machine.irq_close(irq);
        }
        if let Some(message) = &self.message {
            kernel.msi_released(message);
        }
    }
}

impl Interrupt {
    fn new(options: u32) -> Interrupt {
        Interrupt { options, irq: None, message: None, state: State::Idle, came: None, packet: None }
    }

    /// Whether it is virtual.
    fn is_virtual(&self) -> bool {
        self.options & ZX_INTERRUPT_VIRTUAL != 0
    }
}

impl<M: Machine> Kernel<M> {
    /// `interrupt_create` for a virtual interrupt.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn interrupt_create_virtual(&mut self, options: u32) -> Result<Id<Interrupt>, Status> {
        let interrupt = Interrupt::new(options);
        self.create(Signals::VIRTUAL_INTERRUPT_UNTRIGGERED, Box::new(interrupt))
    }

    /// Creates the interrupt of a device.
    ///
    /// # Errors
    /// `ACCESS_DENIED`: the system uses it. `ALREADY_BOUND`: it has an object already. `NO_RESOURCES`: the machine
    /// watches its maximum number. `NO_MEMORY`.
    pub fn interrupt_create(&mut self, options: u32, source: IrqSource) -> Result<Id<Interrupt>, Status> {
        let interrupt = Interrupt::new(options);
        let id: Id<Interrupt> = self.create(Signals::NONE, Box::new(interrupt))?;
        let opened = self.machine.irq_open(source, IrqKey(id.object().index())).map_err(|error| match error {
            DeviceError::Taken => Status::ALREADY_BOUND,
            other => other.into(),
        });
        let irq = opened.inspect_err(|_| self.reaper_enqueue(id.object()))?;
        self.objects.get_mut(id)?.irq = Some(irq);
        Ok(id)
    }

    /// The machine reports that a watched interrupt occurred at `time`.
    pub fn interrupt(&mut self, key: IrqKey, time: i64) {
        let Some(id) = self.objects.slab.at(key.0).map(|(key, _)| ObjectId(key)) else { return };
        if let Ok(id) = self.objects.typed::<Interrupt>(id) {
            self.interrupt_raise(id, time);
        }
    }

    /// Acknowledges an interrupt to the machine (2).
    fn interrupt_open(&mut self, id: Id<Interrupt>) {
        if let Ok(&Interrupt { irq: Some(irq), .. }) = self.objects.get(id) {
            self.machine.irq_ack(irq);
        }
    }

    /// An interrupt has occurred (1).
    fn interrupt_raise(&mut self, id: Id<Interrupt>, time: i64) {
        let Ok(interrupt) = self.objects.get_mut(id) else { return };
        let time = *interrupt.came.get_or_insert(time);
        match (interrupt.state, interrupt.packet) {
            (State::Destroyed, _) => return,
            // 1A
            (State::Waiting(thread), _) => {
                interrupt.came = None;
                self.interrupt_deliver(id, thread, time);
            }
            // 1C, followed by 2A.
            (State::Delivered, Some(_)) => {}
            // 1B
            (_, Some(packet)) => {
                interrupt.state = State::Delivered;
                interrupt.came = None;
                self.packet_of_interrupt_queue(packet, time);
            }
            // 1C, followed by 2B.
            (_, None) => interrupt.state = State::Pending,
        }
        self.interrupt_show(id);
    }

    /// Ends a thread's wait for an interrupt that occurred at `time`.
    fn interrupt_deliver(&mut self, id: Id<Interrupt>, thread: Id<Thread>, time: i64) {
        let wait = self.take_wait(thread);
        if let Ok(interrupt) = self.objects.get_mut(id) {
            interrupt.state = State::Delivered;
        }
        let Some(Wait::Interrupt { out, .. }) = wait else { return };
        let written = match self.aspace_of_thread(thread) {
            Ok(aspace) if out != 0 => self.copy_out(aspace, out, &time.to_le_bytes()),
            _ => Ok(()),
        };
        match written {
            Err(PAGE_WAIT) => {
                self.page_write_results(thread, alloc::vec![(out, time.to_le_bytes().to_vec())], Status::OK)
            }
            _ => self.wake(thread, written.err().unwrap_or(Status::OK)),
        }
    }

    /// Updates the signal of a virtual interrupt that says whether it is triggered and not acknowledged.
    fn interrupt_show(&mut self, id: Id<Interrupt>) {
        let Ok(interrupt) = self.objects.get(id) else { return };
        if interrupt.is_virtual() {
            let quiet = matches!(interrupt.state, State::Idle | State::Waiting(_));
            let signal = Signals::VIRTUAL_INTERRUPT_UNTRIGGERED;
            let (clear, set) = if quiet { (Signals::NONE, signal) } else { (signal, Signals::NONE) };
            self.signal(id.object(), clear, set);
        }
    }

    /// `interrupt_trigger`.
    ///
    /// # Errors
    /// `BAD_STATE`: it is not virtual. `CANCELED`: it is destroyed.
    pub fn interrupt_trigger(&mut self, id: Id<Interrupt>, time: i64) -> Result<(), Status> {
        let interrupt = self.objects.get(id)?;
        if !interrupt.is_virtual() {
            return Err(Status::BAD_STATE);
        }
        if interrupt.state == State::Destroyed {
            return Err(Status::CANCELED);
        }
        self.interrupt_raise(id, time);
        Ok(())
    }

    /// `interrupt_wait`: returns the time of the interrupt, or blocks the thread until it occurs; the time is then
    /// written to `out`, unless that is 0.
    ///
    /// # Errors
    /// `BAD_STATE`: it is bound to a port, or another thread waits. `CANCELED`: it is destroyed. `NO_MEMORY`.
    pub fn interrupt_wait(&mut self, id: Id<Interrupt>, thread: Id<Thread>, out: u64) -> Result<Option<i64>, Status> {
        let interrupt = self.objects.get_mut(id)?;
        if interrupt.packet.is_some() {
            return Err(Status::BAD_STATE);
        }
        match interrupt.state {
            State::Destroyed => return Err(Status::CANCELED),
            State::Waiting(_) => return Err(Status::BAD_STATE),
            // 2B
            State::Pending => {
                interrupt.state = State::Delivered;
                return Ok(Some(interrupt.came.take().unwrap_or(0)));
            }
            State::Delivered | State::Idle => {}
        }
        let delivered = interrupt.state == State::Delivered;
        interrupt.state = State::Waiting(thread);
        if delivered {
            self.interrupt_open(id);
        }
        self.interrupt_show(id);
        match self.block(thread, Wait::Interrupt { interrupt: id.object(), out }, ZX_TIME_INFINITE)? {
            Waiting::Blocked => Ok(None),
            Waiting::Over(status) => Err(status),
        }
    }

    /// The wait of the waiting thread has ended.
    pub(crate) fn interrupt_forget_waiter(&mut self, id: Id<Interrupt>) {
        if let Ok(interrupt) = self.objects.get_mut(id)
            && let State::Waiting(_) = interrupt.state
        {
            interrupt.state = State::Idle;
        }
    }

    /// `interrupt_ack`: acknowledges a bound interrupt (2).
    ///
    /// # Errors
    /// `CANCELED`: it is destroyed. `BAD_STATE`: it is not bound, or it is pending and its last packet is still in the
    /// port.
    pub fn interrupt_ack(&mut self, id: Id<Interrupt>) -> Result<(), Status> {
        let interrupt = self.objects.get_mut(id)?;
        if interrupt.state == State::Destroyed {
            return Err(Status::CANCELED);
        }
        let packet = interrupt.packet.ok_or(Status::BAD_STATE)?;
        if interrupt.state != State::Delivered {
            return Ok(());
        }
        let came = interrupt.came;
        match came {
            None => interrupt.state = State::Idle,
            Some(_) if self.packet_is_queued(packet) => return Err(Status::BAD_STATE),
            // 2A
            Some(time) => {
                self.objects.get_mut(id)?.came = None;
                self.packet_of_interrupt_queue(packet, time);
            }
        }
        self.interrupt_open(id);
        self.interrupt_show(id);
        Ok(())
    }

    /// `interrupt_bind`: delivers the interrupt by packets with `key` from now on.
    ///
    /// # Errors
    /// `CANCELED`: it is destroyed. `BAD_STATE`: a thread waits for it. `ALREADY_BOUND`. `NO_MEMORY`.
    pub fn interrupt_bind(&mut self, id: Id<Interrupt>, port: Id<Port>, key: u64) -> Result<(), Status> {
        let interrupt = self.objects.get(id)?;
        match interrupt.state {
            State::Destroyed => return Err(Status::CANCELED),
            State::Waiting(_) => return Err(Status::BAD_STATE),
            _ if interrupt.packet.is_some() => return Err(Status::ALREADY_BOUND),
            _ => {}
        }
        let packet = self.packet_of_interrupt(port, key, id.object())?;
        let interrupt = self.objects.get_mut(id)?;
        interrupt.packet = Some(packet);
        if interrupt.state == State::Pending {
            // 1C becomes 1B.
            interrupt.state = State::Delivered;
            let time = interrupt.came.take().unwrap_or(0);
            self.packet_of_interrupt_queue(packet, time);
        }
        Ok(())
    }

    /// `interrupt_bind` with `ZX_INTERRUPT_UNBIND`: also drops the packet, if it is still in the port.
    ///
    /// # Errors
    /// `CANCELED`: it is destroyed. `NOT_FOUND`: it is not bound to this port.
    pub fn interrupt_unbind(&mut self, id: Id<Interrupt>, port: Id<Port>) -> Result<(), Status> {
        let interrupt = self.objects.get(id)?;
        if interrupt.state == State::Destroyed {
            return Err(Status::CANCELED);
        }
        let packet = interrupt.packet.filter(|&packet| self.packet_port(packet) == Some(port));
        let packet = packet.ok_or(Status::NOT_FOUND)?;
        self.interrupt_part(id, packet);
        Ok(())
    }

    /// Unbinds an interrupt from its port. Says whether its packet was in the port.
    pub(crate) fn interrupt_part(&mut self, id: Id<Interrupt>, packet: Key) -> bool {
        if let Ok(interrupt) = self.objects.get_mut(id) {
            interrupt.packet = None;
            if interrupt.state == State::Delivered && interrupt.came.is_some() {
                // What 2A would have delivered is for the next waiter.
                interrupt.state = State::Pending;
            }
        }
        let queued = self.packet_is_queued(packet);
        self.packet_drop(packet);
        queued
    }

    /// `interrupt_destroy` (3).
    ///
    /// # Errors
    /// `NOT_FOUND`: it was bound and has an unacknowledged delivery; it is destroyed anyway.
    pub fn interrupt_destroy(&mut self, id: Id<Interrupt>) -> Result<(), Status> {
        let interrupt = self.objects.get_mut(id)?;
        let (state, packet) = (interrupt.state, interrupt.packet);
        if let State::Waiting(thread) = state {
            self.finish_wait(thread, Status::CANCELED);
        }
        let taken_back = packet.is_none_or(|packet| self.interrupt_part(id, packet));
        let interrupt = self.objects.get_mut(id)?;
        interrupt.state = State::Destroyed;
        if let Some(irq) = interrupt.irq.take() {
            self.machine.irq_close(irq);
        }
        if state == State::Delivered && !taken_back { Err(Status::NOT_FOUND) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use abi::{Rights, ZX_DEFAULT_INTERRUPT_RIGHTS, ZX_DEFAULT_PORT_RIGHTS};

    use crate::containers::name::Name;
    use crate::core::handle::HandleValue;
    use crate::core::noun::Noun;
    use crate::fake::FakeMachine;
    use crate::machine::Registers;
    use crate::task::process::Process;

    use super::*;

    struct World {
        kernel: Kernel<FakeMachine>,
        process: Id<Process>,
        thread: Id<Thread>,
        interrupt: Id<Interrupt>,
        handle: HandleValue,
        port: Id<Port>,
        port_handle: HandleValue,
    }

    impl World {
        fn new() -> World {
            let mut kernel = Kernel::new(FakeMachine::new(100)).unwrap();
            let job = kernel.root_job().unwrap();
            let (process, _) = kernel.process_create(job, Name::new(b"test")).unwrap();
            kernel.process_begin(process, None).unwrap();
            let thread = kernel.thread_create(process, Name::default()).unwrap();
            kernel.thread_start(thread, &Registers::default()).unwrap();
            let interrupt = kernel.interrupt_create_virtual(ZX_INTERRUPT_VIRTUAL).unwrap();
            let handle = kernel.give_new(process, interrupt, ZX_DEFAULT_INTERRUPT_RIGHTS).unwrap();
            let port = kernel.port_create(true).unwrap();
            let port_handle = kernel.give_new(process, port, ZX_DEFAULT_PORT_RIGHTS).unwrap();
            World { kernel, process, thread, interrupt, handle, port, port_handle }
        }

        fn raise(&mut self, time: i64) {
            self.kernel.interrupt_trigger(self.interrupt, time).unwrap();
        }

        fn wait(&mut self) -> Result<Option<i64>, Status> {
            self.kernel.interrupt_wait(self.interrupt, self.thread, 0)
        }

        fn bind(&mut self) {
            self.kernel.interrupt_bind(self.interrupt, self.port, 7).unwrap();
        }

        /// Key and time of the next packet.
        fn packet(&mut self) -> Option<(u64, i64)> {
            let packet = self.kernel.port_wait(self.port, self.thread, 0, 0).ok()??;
            let word = |at: usize| u64::from_le_bytes(packet[at..at + 8].try_into().unwrap());
            Some((word(0), word(16) as i64))
        }

        fn woken(&self) -> Vec<i64> {
            self.kernel.machine.threads.values().next().unwrap().woken.clone()
        }

        fn close(&mut self, value: HandleValue) {
            let handle = self.kernel.take(self.process, value).unwrap();
            self.kernel.close(handle);
            self.kernel.reap();
        }

        fn quiet(&self) -> bool {
            self.kernel.signals(self.interrupt.object()).contains(Signals::VIRTUAL_INTERRUPT_UNTRIGGERED)
        }
    }

    #[test]
    fn an_interrupt_before_the_wait_is_reported_once_with_its_first_time() {
        let mut w = World::new();
        assert!(w.quiet());
        w.raise(5);
        w.raise(6);
        assert!(!w.quiet());
        assert_eq!(w.wait(), Ok(Some(5)));
        assert!(!w.quiet());
        assert_eq!(w.wait(), Ok(None));
        assert!(w.quiet());
        assert_eq!(w.kernel.interrupt_wait(w.interrupt, w.thread, 0), Err(Status::BAD_STATE));
        w.raise(9);
        assert_eq!(w.woken(), vec![0]);
        // It may occur again before it is acknowledged.
        w.raise(10);
        assert_eq!(w.wait(), Ok(Some(10)));
    }

    #[test]
    fn a_packet_at_a_time_until_acknowledged() {
        let mut w = World::new();
        w.bind();
        assert_eq!(w.kernel.interrupt_bind(w.interrupt, w.port, 7), Err(Status::ALREADY_BOUND));
        assert_eq!(w.wait(), Err(Status::BAD_STATE));
        w.raise(1);
        w.raise(2);
        w.raise(3);
        assert_eq!(w.kernel.interrupt_ack(w.interrupt), Err(Status::BAD_STATE));
        assert_eq!((w.packet(), w.packet()), (Some((7, 1)), None));
        w.kernel.interrupt_ack(w.interrupt).unwrap();
        assert_eq!((w.packet(), w.packet()), (Some((7, 2)), None));
        assert!(!w.quiet());
        w.kernel.interrupt_ack(w.interrupt).unwrap();
        assert!(w.quiet());
        assert_eq!(w.packet(), None);
    }

    #[test]
    fn packets_of_interrupts_come_first() {
        let mut w = World::new();
        w.bind();
        w.kernel.port_queue(w.port, [1; 48]).unwrap();
        w.raise(4);
        assert_eq!(w.packet(), Some((7, 4)));
        assert_eq!(w.packet().unwrap().0, 0x0101_0101_0101_0101);
    }

    #[test]
    fn unbinding_withdraws_the_packet_and_loses_no_interrupt() {
        let mut w = World::new();
        w.raise(1);
        w.bind();
        assert_eq!(w.packet(), Some((7, 1)));
        w.raise(2);
        w.kernel.interrupt_unbind(w.interrupt, w.port).unwrap();
        assert_eq!(w.kernel.interrupt_unbind(w.interrupt, w.port), Err(Status::NOT_FOUND));
        assert_eq!(w.wait(), Ok(Some(2)));
        w.bind();
        w.raise(3);
        assert_eq!(w.packet(), None, "it has not been dealt with");
        w.kernel.interrupt_ack(w.interrupt).unwrap();
        w.kernel.interrupt_unbind(w.interrupt, w.port).unwrap();
        assert_eq!(w.packet(), None);
    }

    #[test]
    fn the_end_of_the_port_is_not_that_of_the_interrupt() {
        let mut w = World::new();
        w.bind();
        w.raise(1);
        let port = w.port_handle;
        w.close(port);
        assert_eq!(w.wait(), Ok(None));
        w.raise(2);
        assert_eq!(w.woken(), vec![0]);
        assert!(w.kernel.packets.is_empty());
    }

    #[test]
    fn the_end_of_the_interrupt_ends_the_wait_and_takes_the_packet() {
        let mut w = World::new();
        assert_eq!(w.wait(), Ok(None));
        w.kernel.interrupt_destroy(w.interrupt).unwrap();
        assert_eq!(w.woken(), vec![i64::from(Status::CANCELED.0)]);
        assert_eq!(w.wait(), Err(Status::CANCELED));
        assert_eq!(w.kernel.interrupt_trigger(w.interrupt, 1), Err(Status::CANCELED));
        assert_eq!(w.kernel.interrupt_bind(w.interrupt, w.port, 1), Err(Status::CANCELED));
        assert_eq!(w.kernel.interrupt_ack(w.interrupt), Err(Status::CANCELED));
        assert_eq!(w.kernel.interrupt_destroy(w.interrupt), Ok(()));

        let mut w = World::new();
        w.bind();
        w.raise(1);
        assert_eq!(w.kernel.interrupt_destroy(w.interrupt), Ok(()));
        assert_eq!(w.packet(), None);

        let mut w = World::new();
        w.bind();
        w.raise(1);
        assert!(w.packet().is_some());
        assert_eq!(w.kernel.interrupt_destroy(w.interrupt), Err(Status::NOT_FOUND));

        let mut w = World::new();
        assert_eq!(w.wait(), Ok(None));
        let handle = w.handle;
        w.close(handle);
        assert_eq!(w.woken(), vec![i64::from(Status::CANCELED.0)]);
        assert!(w.kernel.objects.get(w.interrupt).is_err());
    }

    #[test]
    fn a_thread_that_ends_waits_no_more() {
        let mut w = World::new();
        let other = w.kernel.thread_create(w.process, Name::default()).unwrap();
        w.kernel.thread_start(other, &Registers::default()).unwrap();
        let handle = w.kernel.give_new(w.process, other, Rights::all()).unwrap();
        assert_eq!(w.kernel.interrupt_wait(w.interrupt, other, 0), Ok(None));
        w.kernel.thread_kill(other);
        w.raise(1);
        assert_eq!(w.wait(), Ok(Some(1)));
        w.close(handle);
        assert_eq!(Interrupt::TYPE, abi::ZX_OBJ_TYPE_INTERRUPT);
    }

    #[test]
    fn a_device_that_holds_its_line_interrupts_again_when_it_was_dealt_with() {
        let mut w = World::new();
        let level = IrqSource::Pin { number: 20, level: true, active_low: true };
        let id = w.kernel.interrupt_create(0, level).unwrap();
        assert_eq!(w.kernel.interrupt_create(0, level), Err(Status::ALREADY_BOUND));
        w.kernel.reap();
        assert_eq!(w.kernel.interrupt_trigger(id, 0), Err(Status::BAD_STATE));
        let handle = w.kernel.give_new(w.process, id, ZX_DEFAULT_INTERRUPT_RIGHTS).unwrap();

        // Delivered to a thread.
        assert_eq!(w.kernel.interrupt_wait(id, w.thread, 0), Ok(None));
        let key = w.kernel.machine.devices.fire(level).unwrap();
        w.kernel.interrupt(key, 11);
        assert_eq!(w.woken(), vec![0]);
        assert_eq!(w.kernel.machine.devices.fire(level), None, "it was not dealt with");
        assert_eq!(w.kernel.interrupt_wait(id, w.thread, 0), Ok(None));
        let key = w.kernel.machine.devices.fire(level).unwrap();
        w.kernel.interrupt(key, 12);

        // Delivered to a port.
        w.kernel.interrupt_bind(id, w.port, 3).unwrap();
        w.kernel.interrupt_ack(id).unwrap();
        let key = w.kernel.machine.devices.fire(level).unwrap();
        w.kernel.interrupt(key, 13);
        assert_eq!(w.packet(), Some((3, 13)));
        assert_eq!(w.kernel.machine.devices.fire(level), None);

        w.close(handle);
        assert!(w.kernel.machine.devices.irqs.is_empty());
        // A number that is not in use any more.
        w.kernel.interrupt(key, 14);
    }

    #[test]
    fn edges_during_handling_are_reported_as_one() {
        let mut w = World::new();
        let edge = IrqSource::Pin { number: 8, level: false, active_low: false };
        let id = w.kernel.interrupt_create(0, edge).unwrap();
        let handle = w.kernel.give_new(w.process, id, ZX_DEFAULT_INTERRUPT_RIGHTS).unwrap();
        w.kernel.interrupt_bind(id, w.port, 3).unwrap();
        for time in 1..4 {
            let key = w.kernel.machine.devices.fire(edge).unwrap();
            w.kernel.interrupt(key, time);
        }
        assert_eq!((w.packet(), w.packet()), (Some((3, 1)), None));
        w.kernel.interrupt_ack(id).unwrap();
        assert_eq!((w.packet(), w.packet()), (Some((3, 2)), None));
        w.kernel.interrupt_ack(id).unwrap();
        assert_eq!(w.packet(), None);
        w.close(handle);
        assert_eq!(
            w.kernel.interrupt_create(0, IrqSource::Pin { number: 99, level: false, active_low: false }),
            Err(Status::ACCESS_DENIED)
        );
    }
}
