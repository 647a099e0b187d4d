//! Interrupts.

use abi::{
    Rights, Status, ZX_DEFAULT_INTERRUPT_RIGHTS, ZX_INTERRUPT_BIND, ZX_INTERRUPT_MODE_DEFAULT,
    ZX_INTERRUPT_MODE_EDGE_BOTH, ZX_INTERRUPT_MODE_EDGE_HIGH, ZX_INTERRUPT_MODE_EDGE_LOW, ZX_INTERRUPT_MODE_LEVEL_HIGH,
    ZX_INTERRUPT_MODE_LEVEL_LOW, ZX_INTERRUPT_MODE_MASK, ZX_INTERRUPT_REMAP_IRQ, ZX_INTERRUPT_TIMESTAMP_MONO,
    ZX_INTERRUPT_UNBIND, ZX_INTERRUPT_VIRTUAL, ZX_INTERRUPT_WAKE_VECTOR, ZX_RSRC_KIND_IRQ,
};
use objects::core::handle::HandleValue;
use objects::core::port::Port;
use objects::core::wait::Waiting;
use objects::device::interrupt::Interrupt;
use objects::machine::{IrqSource, Machine};

use crate::cx::Cx;
use crate::syscalls::resource::need_range;
use crate::user::Out;

/// Lower pins are those of the ISA bus, whose interrupts are triggered by rising edges.
const ISA_PINS: u32 = 16;

/// Creates an interrupt: virtual, or for a pin of the interrupt controllers.
pub fn interrupt_create<M: Machine>(
    cx: &mut Cx<'_, M>,
    resource: HandleValue,
    number: u32,
    options: u32,
    out: Out<u32>,
) -> Result<(), Status> {
    // This system never sleeps, and both clocks are the same.
    let common = ZX_INTERRUPT_WAKE_VECTOR | ZX_INTERRUPT_TIMESTAMP_MONO;
    if options & ZX_INTERRUPT_VIRTUAL != 0 {
        if options & !(ZX_INTERRUPT_VIRTUAL | common) != 0 {
            return Err(Status::INVALID_ARGS);
        }
        let interrupt = cx.kernel.interrupt_create_virtual(options)?;
        return cx.hand_out(interrupt, ZX_DEFAULT_INTERRUPT_RIGHTS, out);
    }
    need_range(cx, resource, ZX_RSRC_KIND_IRQ, u64::from(number), 1)?;
    if options & !(ZX_INTERRUPT_REMAP_IRQ | ZX_INTERRUPT_MODE_MASK | common) != 0 {
        return Err(Status::INVALID_ARGS);
    }
    // Of a PC's ISA interrupts, only the timer's is wired to another pin.
    let number = if options & ZX_INTERRUPT_REMAP_IRQ != 0 && number == 0 { 2 } else { number };
    let (level, active_low) = match options & ZX_INTERRUPT_MODE_MASK {
        ZX_INTERRUPT_MODE_DEFAULT => (number >= ISA_PINS, number >= ISA_PINS),
        ZX_INTERRUPT_MODE_EDGE_LOW => (false, true),
        ZX_INTERRUPT_MODE_EDGE_HIGH => (false, false),
        ZX_INTERRUPT_MODE_LEVEL_LOW => (true, true),
        ZX_INTERRUPT_MODE_LEVEL_HIGH => (true, false),
        ZX_INTERRUPT_MODE_EDGE_BOTH => return Err(Status::NOT_SUPPORTED),
        _ => return Err(Status::INVALID_ARGS),
    };
    if number >= cx.kernel.machine.irq_counts().0 {
        return Err(Status::INVALID_ARGS);
    }
    let interrupt = cx.kernel.interrupt_create(options, IrqSource::Pin { number, level, active_low })?;
    cx.hand_out(interrupt, ZX_DEFAULT_INTERRUPT_RIGHTS, out)
}

/// Binds an interrupt to a port, or unbinds it.
pub fn interrupt_bind<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    port: HandleValue,
    key: u64,
    options: u32,
) -> Result<(), Status> {
    if options != ZX_INTERRUPT_BIND && options != ZX_INTERRUPT_UNBIND {
        return Err(Status::INVALID_ARGS);
    }
    let interrupt = cx.get::<Interrupt>(value, Rights::READ)?;
    let port = cx.get::<Port>(port, Rights::WRITE)?;
    if !cx.kernel.objects.get(port)?.takes_interrupts {
        return Err(Status::WRONG_TYPE);
    }
    if options == ZX_INTERRUPT_BIND {
        cx.kernel.interrupt_bind(interrupt, port, key)
    } else {
        cx.kernel.interrupt_unbind(interrupt, port)
    }
}

/// Waits for an interrupt that is not bound to a port.
pub fn interrupt_wait<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, out: Out<i64>) -> Result<Waiting, Status> {
    let interrupt = cx.get::<Interrupt>(value, Rights::WAIT)?;
    // An interrupt is delivered only if its timestamp can be.
    let place = cx.place_optional(out)?;
    match cx.kernel.interrupt_wait(interrupt, cx.thread, out.0)? {
        Some(time) => {
            cx.fill(place, time)?;
            Ok(Waiting::Over(Status::OK))
        }
        None => Ok(Waiting::Blocked),
    }
}

/// Acknowledges a bound interrupt.
pub fn interrupt_ack<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue) -> Result<(), Status> {
    let interrupt = cx.get::<Interrupt>(value, Rights::WRITE)?;
    cx.kernel.interrupt_ack(interrupt)
}

/// Raises a virtual interrupt.
pub fn interrupt_trigger<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    options: u32,
    timestamp: i64,
) -> Result<(), Status> {
    if options != 0 {
        return Err(Status::INVALID_ARGS);
    }
    let interrupt = cx.get::<Interrupt>(value, Rights::SIGNAL)?;
    cx.kernel.interrupt_trigger(interrupt, timestamp)
}

/// Ends an interrupt.
pub fn interrupt_destroy<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue) -> Result<(), Status> {
    let interrupt = cx.get::<Interrupt>(value, Rights::NONE)?;
    cx.kernel.interrupt_destroy(interrupt)
}
