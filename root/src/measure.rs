//! Measures the cost of seL4's own operations before anything else runs. Only the root task that `./hafnon bench` boots
//! contains this (the feature `measure`), so that the costs of system calls can be compared with those of the kernel in
//! the same boot.
//!
//! Two threads take part. The first is the root task's own. The second, the *partner*, runs a function of the root
//! task's image, either in an address space where that image is mapped a second time at the same addresses, or in the
//! root task's own. The thread that is called or woken has the higher priority, like a server above its programs. Each
//! figure is a line on the console: `figure NAME instructions MEAN LEAST MOST SAMPLES`.

mod samples;

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sel4::bootinfo::{DOMAIN, INIT_ASID_POOL, INIT_CNODE, INIT_TCB, INIT_VSPACE};
use sel4::{
    BootInfo, CPtr, Caching, CapData, Endpoint, Fault, Message, Notification, ObjectType, Page, Rights, SchedParams,
    Tcb, TcbConfig, Untyped, VSpace,
};

use crate::arch::{self, tsc_in_order as counter};
use crate::error::{Context, Error};
use crate::make::{ObjectMaker, own_slot};
use crate::memory::Memory;
use samples::Meter;

const PAGE: u64 = 4096;
/// Priorities of the thread that calls or signals, and of the thread that is called or woken.
const LOW: u8 = 100;
const HIGH: u8 = 200;
/// The root task's priority.
const HIGHEST: u8 = 255;
/// Nothing is mapped here.
const NOWHERE: usize = 0x7000_0000;
const STACK: usize = 4096;

/// The partners' stack: one partner runs at a time.
#[repr(C, align(16))]
struct Stack(core::cell::UnsafeCell<[u8; STACK]>);
// SAFETY: only the one partner that runs uses it.
unsafe impl Sync for Stack {}
static PARTNERS_STACK: Stack = Stack(core::cell::UnsafeCell::new([0; STACK]));

/// The counter when the partner was woken, and when it begins to wait again.
static WOKEN: AtomicU64 = AtomicU64::new(0);
static WAITS: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" {
    /// The beginning of the image; from the linker.
    static __executable_start: u8;
}

/// Measures everything and prints the results.
pub fn run(memory: &mut Memory, boot: &BootInfo, server: &[u8]) -> Result<(), Error> {
    let mut meter = Meter::new();
    let other = other_space(memory, boot, server)?;
    calls(memory, &mut meter, "sel4_call_process", other)?;
    calls(memory, &mut meter, "sel4_call_thread", INIT_VSPACE)?;
    signals(memory, &mut meter, other)?;
    switches(memory, &mut meter)?;
    faults(memory, &mut meter, other)?;
    frames(memory, &mut meter)?;
    meter.print();
    Ok(())
}

/// An address space with the root task's image in it, except for the server's program file, which is large.
fn other_space(memory: &mut Memory, boot: &BootInfo, server: &[u8]) -> Result<VSpace, Error> {
    let space = VSpace(memory.make(ObjectType::VSpace)?);
    INIT_ASID_POOL.assign(space).context("an address space's number")?;
    let image = (&raw const __executable_start).addr() as u64 & !(PAGE - 1);
    let left_out = server.as_ptr_range();
    let left_out = (left_out.start.addr() as u64).next_multiple_of(PAGE)..left_out.end.addr() as u64 & !(PAGE - 1);
    let pages = boot.user_image_pages();
    for (slot, address) in (pages.start..pages.end).zip((image..).step_by(PAGE as usize)) {
        if !left_out.contains(&address) {
            let page = memory.again(Page::new(slot))?;
            memory.map(page, space, address, Rights::READ_WRITE, Caching::WriteBack)?;
        }
    }
    Ok(space)
}

/// Starts a partner with `run`, which gets a capability's address.
fn partner(
    memory: &mut Memory,
    space: VSpace,
    priority: u8,
    fault_endpoint: CPtr,
    run: extern "C" fn(u64) -> !,
    cap: CPtr,
) -> Result<Tcb, Error> {
    let tcb = Tcb(memory.make(ObjectType::Tcb)?);
    tcb.configure(&TcbConfig {
        fault_endpoint,
        cspace: INIT_CNODE,
        cspace_data: CapData::NONE,
        vspace: space,
        ipc_buffer: None,
        sched: Some(SchedParams { authority: INIT_TCB, max_controlled: 0, priority }),
    })
    .context("configuring a partner")?;
    // As after a call instruction.
    let stack = PARTNERS_STACK.0.get().addr() as u64 + STACK as u64 - 8;
    let registers = arch::at_start(run as *const () as u64, stack, cap.0);
    tcb.without_fpu(DOMAIN).context("a partner without FPU")?;
    tcb.write_registers(&registers, true).context("starting a partner")?;
    Ok(tcb)
}

/// Sets the priority of the root task's thread. Ready threads with a higher priority run at once.
fn set_own_priority(priority: u8) -> Result<(), Error> {
    INIT_TCB.set_priority(INIT_TCB, priority).context("a priority")
}

extern "C" fn answer(endpoint: u64) -> ! {
    let endpoint = Endpoint::new(endpoint);
    endpoint.recv();
    loop {
        endpoint.reply_recv(Message::empty(0));
    }
}

/// Measures `Call` on one side and `ReplyRecv` on the other, with empty messages.
fn calls(memory: &mut Memory, meter: &mut Meter, name: &'static str, space: VSpace) -> Result<(), Error> {
    let endpoint = memory.endpoint()?;
    let partner = partner(memory, space, HIGH, CPtr(0), answer, endpoint.cptr())?;
    set_own_priority(LOW)?;
    meter.measure([name], |[call]| {
        call.time(|| endpoint.call(Message::empty(0)));
    });
    set_own_priority(HIGHEST)?;
    partner.suspend().context("stopping a partner")
}

extern "C" fn wait(notification: u64) -> ! {
    let notification = Notification::new(notification);
    loop {
        notification.wait();
        WOKEN.store(counter(), Relaxed);
        WAITS.store(counter(), Relaxed);
    }
}

/// Measures a signal for which no thread waits, and a wait for a pending signal. Then measures a signal that wakes a
/// partner, until the partner runs, and the partner's next wait, until the first thread continues.
fn signals(memory: &mut Memory, meter: &mut Meter, space: VSpace) -> Result<(), Error> {
    let notification = Notification(memory.make(ObjectType::Notification)?);
    meter.measure(["sel4_signal", "sel4_wait_ready"], |[signal, wait]| {
        signal.time(|| notification.signal());
        wait.time(|| notification.wait());
    });
    let partner = partner(memory, space, HIGH, CPtr(0), wait, notification.cptr())?;
    set_own_priority(LOW)?;
    meter.measure(["sel4_signal_wakes", "sel4_wait_blocks"], |[wakes, blocks]| {
        let start = counter();
        notification.signal();
        let end = counter();
        wakes.add(start, WOKEN.load(Relaxed));
        blocks.add(WAITS.load(Relaxed), end);
    });
    set_own_priority(HIGHEST)?;
    partner.suspend().context("stopping a partner")
}

/// The notification that the partner signals.
static BACK: AtomicU64 = AtomicU64::new(0);

extern "C" fn signal_back(notification: u64) -> ! {
    let (notification, back) = (Notification::new(notification), Notification::new(BACK.load(Relaxed)));
    loop {
        notification.wait();
        back.signal();
    }
}

/// Measures a signal to a partner of the same priority in the same address space, and the wait for its signal: two
/// switches.
fn switches(memory: &mut Memory, meter: &mut Meter) -> Result<(), Error> {
    let there = Notification(memory.make(ObjectType::Notification)?);
    let back = Notification(memory.make(ObjectType::Notification)?);
    BACK.store(back.cptr().0, Relaxed);
    let partner = partner(memory, INIT_VSPACE, LOW, CPtr(0), signal_back, there.cptr())?;
    set_own_priority(LOW)?;
    meter.measure(["sel4_thread_switch"], |[switch]| {
        let start = counter();
        there.signal();
        back.wait();
        switch.add_half(start, counter());
    });
    set_own_priority(HIGHEST)?;
    partner.suspend().context("stopping a partner")
}

extern "C" fn fault(_: u64) -> ! {
    let nowhere = core::ptr::with_exposed_provenance::<u8>(NOWHERE);
    // SAFETY: nothing is mapped there, so nothing is ever read: the thread faults, and faults again when it is resumed.
    unsafe { nowhere.read_volatile() };
    loop {
        core::hint::spin_loop();
    }
}

/// Measures a page fault, its message to the handler, and the handler's reply, after which the thread repeats the
/// access and faults again.
fn faults(memory: &mut Memory, meter: &mut Meter, space: VSpace) -> Result<(), Error> {
    let endpoint = memory.endpoint()?;
    let partner = partner(memory, space, LOW, endpoint.cptr(), fault, CPtr(0))?;
    endpoint.recv();
    meter.measure(["sel4_fault_reply"], |[fault]| {
        fault.time(|| endpoint.reply_recv(Fault::RETRY));
    });
    partner.suspend().context("stopping a partner")
}

/// Measures making a frame from untyped memory, which clears it, and the operations on its capability; all paging
/// structures exist.
fn frames(memory: &mut Memory, meter: &mut Meter) -> Result<(), Error> {
    let untyped = Untyped(memory.make(ObjectType::Untyped(12))?);
    let frame = memory.slot()?;
    let copy = memory.slot()?;
    // This creates the paging structures for the address.
    let first = Page(memory.make(ObjectType::Page)?);
    let address = memory.map_own(first, PAGE, Caching::WriteBack)?;
    first.unmap().context("unmapping a page")?;
    let mut wrong = None;
    let names = ["sel4_frame_make", "sel4_frame_delete", "sel4_cap_copy", "sel4_cap_delete", "sel4_map", "sel4_unmap"];
    meter.measure(names, |[make, delete, copies, deletes, map, unmap]| {
        let results = [
            make.time(|| untyped.retype(ObjectType::Page, INIT_CNODE, 0, 0, frame, 1)),
            copies.time(|| own_slot(copy).copy_from(own_slot(frame), Rights::ALL)),
            map.time(|| Page::new(copy).map(INIT_VSPACE, address, Rights::READ_WRITE, Caching::WriteBack)),
            unmap.time(|| Page::new(copy).unmap()),
            deletes.time(|| own_slot(copy).delete()),
            delete.time(|| own_slot(frame).delete()),
        ];
        wrong = results.into_iter().find_map(Result::err).or(wrong);
    });
    wrong.map_or(Ok(()), Err).context("a frame that is measured")
}
