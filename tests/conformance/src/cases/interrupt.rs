//! Interrupts that programs trigger, waited for and bound to ports, and those of a device.

use abi::{
    Rights, Signals, Status, ZX_INTERRUPT_BIND, ZX_INTERRUPT_MODE_EDGE_BOTH, ZX_INTERRUPT_UNBIND, ZX_INTERRUPT_VIRTUAL,
    ZX_INTERRUPT_WAKE_VECTOR, ZX_PKT_TYPE_INTERRUPT, ZX_RSRC_KIND_IRQ, ZX_RSRC_KIND_MMIO,
    ZX_THREAD_STATE_BLOCKED_INTERRUPT, zx_info_interrupt_t, zx_port_packet_t,
};
use zx::{AsHandleRef, Handle, Info, Interrupt, IoPorts, MonotonicInstant, Port};

use super::asleep::Caller;
use super::{cases, late, raw, root_resource, user_packet, without};
use crate::check::{Failure, Outcome, equal, fails, gives};

cases! {
    "interrupt.create.virtual" => create_virtual,
    "interrupt.create.arguments" => create_arguments,
    "interrupt.create.resource" => create_resource,
    "interrupt.wait.reported_once" => wait_reported_once,
    "interrupt.wait.no_timestamp" => wait_no_timestamp,
    "interrupt.wait.blocks" => wait_blocks,
    "interrupt.wait.one_thread" => wait_one_thread,
    "interrupt.wait.suspended" => wait_suspended,
    "interrupt.wait.rights" => wait_rights,
    "interrupt.bind.packets" => bind_packets,
    "interrupt.bind.pending" => bind_pending,
    "interrupt.bind.plain_port" => bind_plain_port,
    "interrupt.bind.unbind" => bind_unbind,
    "interrupt.bind.arguments" => bind_arguments,
    "interrupt.bind.waited_for" => bind_waited_for,
    "interrupt.bind.before_others" => bind_before_others,
    "interrupt.bind.wakes_a_thread" => bind_wakes_a_thread,
    "interrupt.bind.port_gone" => bind_port_gone,
    "interrupt.ack.unbound" => ack_unbound,
    "interrupt.trigger.options" => trigger_options,
    "interrupt.trigger.signal" => trigger_signal,
    "interrupt.destroy.ends_all" => destroy_ends_all,
    "interrupt.destroy.ends_the_wait" => destroy_ends_the_wait,
    "interrupt.destroy.bound" => destroy_bound,
    "interrupt.close.ends_the_wait" => close_ends_the_wait,
    "interrupt.device.clock" => device_clock,
    "interrupt.device.clock_waited_for" => device_clock_waited_for,
    "interrupt.device.one_object" => device_one_object,
    "interrupt.device.the_systems" => device_the_systems,
}

fn at(time: i64) -> MonotonicInstant {
    MonotonicInstant(time)
}

fn nothing(port: &Port) -> Outcome {
    fails(port.wait(MonotonicInstant::ZERO), Status::TIMED_OUT)
}

/// The next packet of a port must be an interrupt packet with this key and time.
fn told(port: &Port, key: u64, time: i64) -> Outcome {
    let zx_port_packet_t { key: found, type_, status, payload } = port.wait(late())?;
    equal((found, type_, status, payload), (key, ZX_PKT_TYPE_INTERRUPT, 0, [time as u64, 0, 0, 0]))
}

fn waiting(interrupt: &Interrupt) -> Result<Caller<zx::Result<MonotonicInstant>>, Failure> {
    let twin = interrupt.duplicate(Rights::SAME_RIGHTS)?;
    Caller::new(ZX_THREAD_STATE_BLOCKED_INTERRUPT, move || twin.wait())
}

fn options(interrupt: &Interrupt) -> Result<u32, Failure> {
    let mut record = [0; size_of::<zx_info_interrupt_t>()];
    interrupt.get_info(abi::ZX_INFO_INTERRUPT, &mut record)?;
    Ok(u32::from_le_bytes(record))
}

// --- create ---

fn create_virtual() -> Outcome {
    let interrupt = Interrupt::create_virtual()?;
    let basic = interrupt.basic_info()?;
    equal((basic.type_, basic.rights), (abi::ZX_OBJ_TYPE_INTERRUPT, abi::ZX_DEFAULT_INTERRUPT_RIGHTS.bits()))?;
    equal(options(&interrupt)?, ZX_INTERRUPT_VIRTUAL)?;
    // The server does not check the handle.
    let mut out = 0_u32;
    let wake = ZX_INTERRUPT_VIRTUAL | ZX_INTERRUPT_WAKE_VECTOR;
    gives(raw!(zx_interrupt_create, 0xffff_fff0_u32, 99, wake, &raw mut out), Status::OK)?;
    equal(options(&Interrupt::from(Handle::from_raw(out).ok_or("no handle")?))?, wake)
}

fn create_arguments() -> Outcome {
    let root = root_resource()?;
    let mut out = 0_u32;
    for wrong in [ZX_INTERRUPT_VIRTUAL | 1, ZX_INTERRUPT_VIRTUAL | 2, ZX_INTERRUPT_VIRTUAL | 1 << 31, 62] {
        gives(raw!(zx_interrupt_create, 0, 0, wrong, &raw mut out), Status::INVALID_ARGS)?;
    }
    for wrong in [1 << 31, 1 << 7, 6 << 1, 7 << 1] {
        fails(Interrupt::create(&root, 5, wrong), Status::INVALID_ARGS)?;
    }
    fails(Interrupt::create(&root, 5, ZX_INTERRUPT_MODE_EDGE_BOTH), Status::NOT_SUPPORTED)?;
    fails(Interrupt::create(&root, u32::MAX, 0), Status::INVALID_ARGS)?;
    equal(out, 0)
}

fn create_resource() -> Outcome {
    let root = root_resource()?;
    let event = zx::Event::create()?;
    let mut out = 0_u32;
    gives(raw!(zx_interrupt_create, 0, 5, 0, &raw mut out), Status::BAD_HANDLE)?;
    gives(raw!(zx_interrupt_create, event.raw_handle(), 5, 0, &raw mut out), Status::WRONG_TYPE)?;
    let memory = root.create_child(ZX_RSRC_KIND_MMIO, 5, 1, "")?;
    fails(Interrupt::create(&memory, 5, 0), Status::WRONG_TYPE)?;
    let other = root.create_child(ZX_RSRC_KIND_IRQ, 6, 2, "")?;
    for outside in [5, 8] {
        fails(Interrupt::create(&other, outside, 0), Status::OUT_OF_RANGE)?;
    }
    equal(out, 0)
}

// --- wait ---

fn wait_reported_once() -> Outcome {
    let interrupt = Interrupt::create_virtual()?;
    interrupt.trigger(at(12345))?;
    equal(interrupt.wait()?, at(12345))?;
    // An interrupt that is triggered again before a wait is reported with the time of the first trigger.
    interrupt.trigger(at(1))?;
    interrupt.trigger(at(2))?;
    equal(interrupt.wait()?, at(1))?;
    interrupt.trigger(at(3))?;
    equal(interrupt.wait()?, at(3))
}

fn wait_no_timestamp() -> Outcome {
    let interrupt = Interrupt::create_virtual()?;
    interrupt.trigger(at(1))?;
    gives(raw!(zx_interrupt_wait, interrupt.raw_handle(), 0), Status::OK)?;
    // The same for a thread that was blocked.
    let twin = interrupt.duplicate(Rights::SAME_RIGHTS)?;
    let wait = move || raw!(zx_interrupt_wait, twin.raw_handle(), 0);
    let caller = Caller::new(ZX_THREAD_STATE_BLOCKED_INTERRUPT, wait)?;
    interrupt.trigger(at(2))?;
    gives(caller.join()?, Status::OK)?;
    // If the time cannot be returned, the interrupt stays pending.
    interrupt.trigger(at(3))?;
    gives(raw!(zx_interrupt_wait, interrupt.raw_handle(), 0x1000), Status::INVALID_ARGS)?;
    equal(interrupt.wait()?, at(3))
}

fn wait_blocks() -> Outcome {
    let interrupt = Interrupt::create_virtual()?;
    for time in 7..10 {
        let caller = waiting(&interrupt)?;
        interrupt.trigger(at(time))?;
        equal(caller.join()??, at(time))?;
    }
    Ok(())
}

fn wait_one_thread() -> Outcome {
    let interrupt = Interrupt::create_virtual()?;
    let caller = waiting(&interrupt)?;
    fails(interrupt.wait(), Status::BAD_STATE)?;
    interrupt.trigger(at(4))?;
    equal(caller.join()??, at(4))
}

fn wait_suspended() -> Outcome {
    let interrupt = Interrupt::create_virtual()?;
    let caller = waiting(&interrupt)?;
    // After a suspension and resume the thread continues its wait.
    drop(caller.suspend()?);
    let limit = late();
    while caller.handle.info()?.state != ZX_THREAD_STATE_BLOCKED_INTERRUPT {
        if MonotonicInstant::now() > limit {
            return Err("it does not wait on".into());
        }
        zx::nanosleep(super::soon(1))?;
    }
    // An interrupt during the suspension is reported when the thread resumes.
    let token = caller.suspend()?;
    interrupt.trigger(at(5))?;
    equal(caller.handle.info()?.state, abi::ZX_THREAD_STATE_SUSPENDED)?;
    drop(token);
    equal(caller.join()??, at(5))
}

fn wait_rights() -> Outcome {
    let interrupt = Interrupt::create_virtual()?;
    interrupt.trigger(at(1))?;
    fails(Interrupt::from(without(&interrupt, Rights::WAIT)?).wait(), Status::ACCESS_DENIED)?;
    fails(Interrupt::from(without(&interrupt, Rights::SIGNAL)?).trigger(at(1)), Status::ACCESS_DENIED)?;
    let port = Port::create_for_interrupts()?;
    fails(Interrupt::from(without(&interrupt, Rights::READ)?).bind(&port, 1), Status::ACCESS_DENIED)?;
    let weak = Port::from(without(&port, Rights::WRITE)?);
    fails(interrupt.bind(&weak, 1), Status::ACCESS_DENIED)?;
    interrupt.bind(&port, 1)?;
    fails(Interrupt::from(without(&interrupt, Rights::WRITE)?).ack(), Status::ACCESS_DENIED)
}

// --- bind ---

fn bind_packets() -> Outcome {
    let (interrupt, port) = (Interrupt::create_virtual()?, Port::create_for_interrupts()?);
    interrupt.bind(&port, 0x1234_5678_9abc)?;
    fails(interrupt.bind(&port, 1), Status::ALREADY_BOUND)?;
    fails(interrupt.wait(), Status::BAD_STATE)?;
    nothing(&port)?;
    interrupt.trigger(at(50))?;
    told(&port, 0x1234_5678_9abc, 50)?;
    // No other packet comes until the interrupt is acknowledged.
    interrupt.trigger(at(51))?;
    interrupt.trigger(at(52))?;
    nothing(&port)?;
    interrupt.ack()?;
    told(&port, 0x1234_5678_9abc, 51)?;
    interrupt.ack()?;
    nothing(&port)?;
    interrupt.trigger(at(53))?;
    told(&port, 0x1234_5678_9abc, 53)
}

fn bind_pending() -> Outcome {
    let (interrupt, port) = (Interrupt::create_virtual()?, Port::create_for_interrupts()?);
    interrupt.trigger(at(8))?;
    interrupt.bind(&port, 3)?;
    told(&port, 3, 8)?;
    interrupt.trigger(at(9))?;
    nothing(&port)?;
    interrupt.ack()?;
    told(&port, 3, 9)
}

fn bind_plain_port() -> Outcome {
    let (interrupt, port) = (Interrupt::create_virtual()?, Port::create()?);
    fails(interrupt.bind(&port, 1), Status::WRONG_TYPE)?;
    interrupt.trigger(at(1))?;
    nothing(&port)
}

fn bind_unbind() -> Outcome {
    let (interrupt, port) = (Interrupt::create_virtual()?, Port::create_for_interrupts()?);
    fails(interrupt.unbind(&port), Status::NOT_FOUND)?;
    interrupt.bind(&port, 1)?;
    let other = Port::create_for_interrupts()?;
    fails(interrupt.unbind(&other), Status::NOT_FOUND)?;
    interrupt.trigger(at(1))?;
    // Unbinding removes the packet.
    interrupt.unbind(&port)?;
    nothing(&port)?;
    fails(interrupt.unbind(&port), Status::NOT_FOUND)?;
    fails(interrupt.ack(), Status::BAD_STATE)?;
    // The interrupt can be waited for, and bound again.
    interrupt.trigger(at(2))?;
    equal(interrupt.wait()?, at(2))?;
    interrupt.trigger(at(3))?;
    interrupt.bind(&other, 2)?;
    told(&other, 2, 3)?;
    nothing(&port)
}

fn bind_arguments() -> Outcome {
    let (interrupt, port) = (Interrupt::create_virtual()?, Port::create_for_interrupts()?);
    for options in [ZX_INTERRUPT_BIND | 2, ZX_INTERRUPT_UNBIND | 2, 1 << 31] {
        let status = raw!(zx_interrupt_bind, interrupt.raw_handle(), port.raw_handle(), 1, options);
        gives(status, Status::INVALID_ARGS)?;
    }
    nothing(&port)
}

fn bind_waited_for() -> Outcome {
    let (interrupt, port) = (Interrupt::create_virtual()?, Port::create_for_interrupts()?);
    let caller = waiting(&interrupt)?;
    fails(interrupt.bind(&port, 1), Status::BAD_STATE)?;
    interrupt.trigger(at(6))?;
    equal(caller.join()??, at(6))?;
    nothing(&port)
}

fn bind_before_others() -> Outcome {
    let port = Port::create_for_interrupts()?;
    let two = [Interrupt::create_virtual()?, Interrupt::create_virtual()?];
    for (key, interrupt) in (1..).zip(&two) {
        interrupt.bind(&port, key)?;
    }
    port.queue(&user_packet(9, [0; 4]))?;
    two[1].trigger(at(1))?;
    two[0].trigger(at(2))?;
    told(&port, 2, 1)?;
    told(&port, 1, 2)?;
    equal(port.wait(late())?.key, 9)
}

fn bind_wakes_a_thread() -> Outcome {
    let (interrupt, port) = (Interrupt::create_virtual()?, Port::create_for_interrupts()?);
    interrupt.bind(&port, 5)?;
    for time in 1..4 {
        let twin = port.duplicate(Rights::SAME_RIGHTS)?;
        let caller = Caller::new(abi::ZX_THREAD_STATE_BLOCKED_PORT, move || twin.wait(late()))?;
        interrupt.trigger(at(time))?;
        let packet = caller.join()??;
        equal((packet.key, packet.payload[0]), (5, time as u64))?;
        interrupt.ack()?;
    }
    nothing(&port)
}

fn bind_port_gone() -> Outcome {
    let (interrupt, port) = (Interrupt::create_virtual()?, Port::create_for_interrupts()?);
    interrupt.bind(&port, 5)?;
    interrupt.trigger(at(1))?;
    drop(port);
    interrupt.trigger(at(2))?;
    // It is no longer bound.
    fails(interrupt.ack(), Status::BAD_STATE)?;
    equal(interrupt.wait()?, at(2))
}

// --- ack, trigger ---

fn ack_unbound() -> Outcome {
    let interrupt = Interrupt::create_virtual()?;
    fails(interrupt.ack(), Status::BAD_STATE)?;
    interrupt.trigger(at(1))?;
    fails(interrupt.ack(), Status::BAD_STATE)?;
    equal(interrupt.wait()?, at(1))
}

fn trigger_options() -> Outcome {
    let interrupt = Interrupt::create_virtual()?;
    gives(raw!(zx_interrupt_trigger, interrupt.raw_handle(), 1, 5), Status::INVALID_ARGS)?;
    interrupt.trigger(at(1))?;
    equal(interrupt.wait()?, at(1))
}

fn trigger_signal() -> Outcome {
    let quiet = Signals::VIRTUAL_INTERRUPT_UNTRIGGERED;
    let (interrupt, port) = (Interrupt::create_virtual()?, Port::create_for_interrupts()?);
    equal(interrupt.signals()?, quiet)?;
    interrupt.trigger(at(1))?;
    equal(interrupt.signals()?, Signals::NONE)?;
    interrupt.bind(&port, 1)?;
    equal(interrupt.signals()?, Signals::NONE)?;
    told(&port, 1, 1)?;
    equal(interrupt.signals()?, Signals::NONE)?;
    interrupt.ack()?;
    equal(interrupt.signals()?, quiet)
}

// --- destroy, close ---

fn destroy_ends_all() -> Outcome {
    let (interrupt, port) = (Interrupt::create_virtual()?, Port::create_for_interrupts()?);
    interrupt.trigger(at(1))?;
    interrupt.destroy()?;
    fails(interrupt.wait(), Status::CANCELED)?;
    fails(interrupt.trigger(at(2)), Status::CANCELED)?;
    fails(interrupt.bind(&port, 1), Status::CANCELED)?;
    fails(interrupt.unbind(&port), Status::CANCELED)?;
    fails(interrupt.ack(), Status::CANCELED)?;
    interrupt.destroy()?;
    nothing(&port)
}

fn destroy_ends_the_wait() -> Outcome {
    let interrupt = Interrupt::create_virtual()?;
    let caller = waiting(&interrupt)?;
    interrupt.destroy()?;
    fails(caller.join()?, Status::CANCELED)
}

fn destroy_bound() -> Outcome {
    let port = Port::create_for_interrupts()?;
    // Not triggered, or triggered with its packet still queued.
    for triggered in [false, true] {
        let interrupt = Interrupt::create_virtual()?;
        interrupt.bind(&port, 1)?;
        if triggered {
            interrupt.trigger(at(1))?;
        }
        interrupt.destroy()?;
        fails(interrupt.ack(), Status::CANCELED)?;
        nothing(&port)?;
    }
    // Its packet was dequeued.
    let interrupt = Interrupt::create_virtual()?;
    interrupt.bind(&port, 1)?;
    interrupt.trigger(at(1))?;
    told(&port, 1, 1)?;
    fails(interrupt.destroy(), Status::NOT_FOUND)?;
    fails(interrupt.ack(), Status::CANCELED)?;
    fails(interrupt.trigger(at(2)), Status::CANCELED)?;
    // Its packet was dequeued and acknowledged.
    let interrupt = Interrupt::create_virtual()?;
    interrupt.bind(&port, 1)?;
    interrupt.trigger(at(1))?;
    told(&port, 1, 1)?;
    interrupt.ack()?;
    interrupt.destroy()?;
    nothing(&port)
}

fn close_ends_the_wait() -> Outcome {
    // The thread waits through the only handle, and this thread closes it through a copy of its value.
    let interrupt = Interrupt::create_virtual()?.into_handle().into_raw();
    let wait = move || {
        let mut time = 0_i64;
        raw!(zx_interrupt_wait, interrupt, &raw mut time)
    };
    let caller = Caller::new(ZX_THREAD_STATE_BLOCKED_INTERRUPT, wait)?;
    drop(Handle::from_raw(interrupt));
    gives(caller.join()?, Status::CANCELED)
}

// --- a device ---

/// The pin of the real-time clock.
const CLOCK_PIN: u32 = 8;

/// The real-time clock, which interrupts some hundred times a second until this is dropped.
struct Clock(IoPorts);

impl Clock {
    const HOW_OFTEN: u8 = 0x0a;
    const WHAT: u8 = 0x0b;
    const WHY: u8 = 0x0c;
    const PERIODIC: u8 = 0x40;

    fn new() -> Result<Self, Failure> {
        let this = Clock(IoPorts::request(&*root_resource()?, 0x70, 2)?);
        let rate = this.read(Self::HOW_OFTEN) & 0xf0 | 8;
        this.write(Self::HOW_OFTEN, rate);
        let what = this.read(Self::WHAT) | Self::PERIODIC;
        this.write(Self::WHAT, what);
        this.read(Self::WHY);
        Ok(this)
    }

    fn read(&self, register: u8) -> u8 {
        self.0.write8(0, register);
        self.0.read8(1)
    }

    fn write(&self, register: u8, value: u8) {
        self.0.write8(0, register);
        self.0.write8(1, value);
    }

    /// The clock interrupts again only after its reason register was read.
    fn was_it(&self) -> bool {
        self.read(Self::WHY) & Self::PERIODIC != 0
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        let what = self.read(Self::WHAT) & !Self::PERIODIC;
        self.write(Self::WHAT, what);
        self.read(Self::WHY);
    }
}

fn device_clock() -> Outcome {
    let port = Port::create_for_interrupts()?;
    let interrupt = Interrupt::create(&*root_resource()?, CLOCK_PIN, 0)?;
    equal(options(&interrupt)?, 0)?;
    fails(interrupt.trigger(at(1)), Status::BAD_STATE)?;
    interrupt.bind(&port, 9)?;
    let clock = Clock::new()?;
    let (mut last, mut served) = (0, 0);
    for _ in 0..20 {
        let before = MonotonicInstant::now();
        let packet = port.wait(late())?;
        equal((packet.key, packet.type_), (9, ZX_PKT_TYPE_INTERRUPT))?;
        let time = packet.payload[0] as i64;
        if time <= last || time > MonotonicInstant::now().0 || time < before.0 - 5_000_000_000 {
            return Err("it came at a strange time".into());
        }
        last = time;
        served += u32::from(clock.was_it());
        interrupt.ack()?;
    }
    // Another edge may have come between the read of the reason and the packet before it.
    if served < 10 {
        return Err("the clock was seldom the reason".into());
    }
    drop(clock);
    // After the interrupt object is destroyed, a new one can be created.
    drop(interrupt);
    Interrupt::create(&*root_resource()?, CLOCK_PIN, 0)?;
    Ok(())
}

fn device_clock_waited_for() -> Outcome {
    let interrupt = Interrupt::create(&*root_resource()?, CLOCK_PIN, abi::ZX_INTERRUPT_MODE_EDGE_HIGH)?;
    let clock = Clock::new()?;
    let mut last = at(0);
    for _ in 0..5 {
        let time = interrupt.wait()?;
        if time <= last {
            return Err("time goes backwards".into());
        }
        last = time;
        clock.was_it();
    }
    Ok(())
}

fn device_one_object() -> Outcome {
    let root = root_resource()?;
    let one = Interrupt::create(&root, CLOCK_PIN, 0)?;
    fails(Interrupt::create(&root, CLOCK_PIN, 0), Status::ALREADY_BOUND)?;
    fails(Interrupt::create(&root, CLOCK_PIN, abi::ZX_INTERRUPT_MODE_LEVEL_LOW), Status::ALREADY_BOUND)?;
    one.destroy()?;
    Interrupt::create(&root.create_child(ZX_RSRC_KIND_IRQ, 8, 1, "")?, CLOCK_PIN, 0)?;
    Ok(())
}

fn device_the_systems() -> Outcome {
    // The lines of the console and of the results.
    for pin in [3, 4] {
        fails(Interrupt::create(&*root_resource()?, pin, 0), Status::ACCESS_DENIED)?;
    }
    Ok(())
}
