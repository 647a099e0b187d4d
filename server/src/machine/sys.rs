//! The kernel's operations as this server uses them, on capabilities named by their slots.
//!
//! A *slot* here is a pointer into the server's own capability space, as laid out in [`server_boot::cspace`]. If an
//! operation that frees something fails, the debug kernel reports it and the server ignores it: the caller could do
//! nothing about it, and the object stays with its owner.

use objects::arch::{DebugRegisters, Registers, UserRegisters};
use objects::machine::{EndpointUse, Priority, RunnerState};
use sel4::{
    AdjacentPages, AsidPool, CNode, CPtr, CapData, Endpoint, FPU_WORDS, HoldResult, IrqHandler, Message, MessageInfo,
    Notification, Page, PageDirectory, PageTable, Pdpt, Received, Result, Rights, SchedParams, Slot, Tcb, TcbConfig,
    Untyped, VSpace,
};
use server_boot::cspace::{self, LEAF_BITS, root_slot};

use super::arch::{debug_from_words, debug_words, from_context, user_context};

pub use sel4::{AT_ONCE, Attributes, Caching, Error, ObjectType as Object};

/// The server's own address space.
pub const OWN_VSPACE: u64 = root_slot(cspace::VSPACE);
/// The server's endpoint.
pub const ENDPOINT: Endpoint = Endpoint::new(root_slot(cspace::ENDPOINT));
/// The root task's service endpoint.
pub const ROOT: Endpoint = Endpoint::new(root_slot(cspace::ROOT));

/// The root CNode, without its guard.
const SELF: CNode = CNode::new(cspace::SELF);

/// Bits that the root CNode resolves. Set once at the start.
static ROOT_BITS: super::single::Single<u8> = super::single::Single::new(10);

/// The kernel's priority for the lowest priority of programs. All of them are below the server's own (200), which must
/// be able to answer whatever a program does.
const LOWEST_PRIORITY: u8 = 84;
const _: () = assert!(LOWEST_PRIORITY + 2 * Priority::DEADLINE.0 + 1 < 200);

/// Each priority corresponds to two kernel priorities; preferred threads get the higher one.
fn kernel_priority(priority: Priority, preferred: bool) -> u8 {
    LOWEST_PRIORITY + 2 * priority.0.min(Priority::DEADLINE.0) + u8::from(preferred)
}

/// Binary logarithm of the slots of a thread's CNode.
pub const THREAD_BITS: u8 = 4;
const _: () = assert!(1 << THREAD_BITS == abi::HAFNON_ENDPOINT_SLOTS_END);

/// A function that maps a paging structure into an address space: structure, address space, address.
pub type MapTable = fn(u64, u64, u64) -> Result<()>;

/// Sets the size of the root CNode. Must be called before anything else here.
pub fn init(root_bits: u8) {
    ROOT_BITS.with(|bits| *bits = root_bits);
}

#[inline]
fn root_bits() -> u8 {
    ROOT_BITS.with(|bits| *bits)
}

/// The path to a slot in a leaf.
#[inline]
fn path(slot: u64) -> Slot {
    SELF.slot(slot, root_bits() + LEAF_BITS)
}

/// The path to a slot in the root CNode itself.
fn root_path(slot: u64) -> Slot {
    SELF.slot(slot, root_bits())
}

pub(super) fn complain(result: Result<()>, what: &str) {
    if let Err(error) = result {
        sel4::debug_println!("server: {what}: {error}");
        let _ = (error, what);
    }
}

/// Makes `count` objects in a leaf CNode at a root slot, or in the root CNode itself, from slot `offset` on.
pub fn retype(untyped: u64, object: Object, leaf: Option<u64>, offset: u64, count: u64) -> Result<()> {
    let (index, depth) = leaf.map_or((0, 0), |leaf| (leaf, root_bits()));
    Untyped::new(untyped).retype(object, SELF, index, depth, offset, count)
}

/// Copies a capability to an empty slot.
pub fn copy(to: u64, from: u64) -> Result<()> {
    path(to).copy_from(path(from), Rights::ALL)
}

/// Empties a slot.
pub fn delete(slot: u64) {
    complain(path(slot).delete(), "delete");
}

/// Deletes all capabilities derived from a capability.
pub fn revoke(slot: u64) {
    complain(path(slot).revoke(), "revoke");
}

/// Maps a page into the server's own address space, for reading and writing.
#[inline]
pub fn page_map_own(page: u64, address: u64) -> Result<()> {
    page_map(page, OWN_VSPACE, address, true, Caching::WriteBack.not_executed())
}

/// Maps a page.
#[inline]
pub fn page_map(page: u64, vspace: u64, address: u64, write: bool, attributes: Attributes) -> Result<()> {
    let rights = if write { Rights::READ_WRITE } else { Rights::READ };
    Page::new(page).map(VSpace::new(vspace), address, rights, attributes)
}

/// Changes the permissions and attributes of a page's mapping at an address.
pub fn page_remap(page: u64, vspace: u64, address: u64, write: bool, attributes: Attributes) -> Result<()> {
    let rights = if write { Rights::READ_WRITE } else { Rights::READ };
    Page::new(page).remap(VSpace::new(vspace), address, rights, attributes)
}

/// Ends the mapping made with this capability.
pub fn page_unmap(page: u64) {
    complain(Page::new(page).unmap(), "unmap");
}

/// A slot as root slot of the leaf CNode, and index in the leaf.
pub type SlotPlace = (u64, u64);

/// The place of a slot.
pub fn place(slot: u64) -> SlotPlace {
    (slot >> LEAF_BITS, slot % cspace::LEAF_SLOTS)
}

/// Describes adjacent page capabilities for one kernel call.
fn adjacent_pages(from: SlotPlace, to: SlotPlace, count: u64) -> AdjacentPages {
    AdjacentPages { cnode: root_path(from.0), to_index: to.0, from: from.1, to: to.1, count }
}

/// Maps `count` pages at consecutive addresses, at most [`AT_ONCE`] and in one page table. The pages are those of the
/// capabilities from `from` on; the capabilities from `to` on map them, and are copied there if missing. `None` if the
/// kernel cannot do that in one call; then nothing is done.
pub fn pages_map(
    from: SlotPlace,
    to: SlotPlace,
    count: u64,
    vspace: u64,
    address: u64,
    write: bool,
    attributes: Attributes,
) -> Option<Result<()>> {
    let rights = if write { Rights::READ_WRITE } else { Rights::READ };
    let page = Page::new(cspace::leaf_slot(from.0, from.1));
    page.map_several(VSpace::new(vspace), address, rights, attributes, adjacent_pages(from, to, count))
}

/// Ends the mappings made with `count` adjacent capabilities, at most [`AT_ONCE`].
pub fn pages_unmap(to: SlotPlace, count: u64) {
    match Page::new(cspace::leaf_slot(to.0, to.1)).unmap_several(adjacent_pages(to, to, count)) {
        Some(result) => complain(result, "unmap several"),
        None => (to.1..to.1 + count).for_each(|index| page_unmap(cspace::leaf_slot(to.0, index))),
    }
}

/// Which of `count` adjacent capabilities, at most [`AT_ONCE`], map a page that was written by that mapping, one bit
/// for each.
pub fn pages_written(to: SlotPlace, count: u64) -> u64 {
    let told = Page::new(cspace::leaf_slot(to.0, to.1)).written_several(adjacent_pages(to, to, count));
    told.and_then(Result::ok).unwrap_or(0)
}

/// See [`MapTable`].
pub fn page_table_map(table: u64, vspace: u64, address: u64) -> Result<()> {
    PageTable::new(table).map(VSpace::new(vspace), address)
}

/// Removes a page table from its address space, and empties it.
pub fn page_table_unmap(table: u64) -> Result<()> {
    PageTable::new(table).unmap()
}

/// See [`MapTable`].
pub fn page_directory_map(table: u64, vspace: u64, address: u64) -> Result<()> {
    PageDirectory::new(table).map(VSpace::new(vspace), address)
}

/// See [`MapTable`].
pub fn pdpt_map(table: u64, vspace: u64, address: u64) -> Result<()> {
    Pdpt::new(table).map(VSpace::new(vspace), address)
}

/// As [`page_table_unmap`].
pub fn page_directory_unmap(table: u64) -> Result<()> {
    PageDirectory::new(table).unmap()
}

/// As [`page_table_unmap`].
pub fn pdpt_unmap(table: u64) -> Result<()> {
    Pdpt::new(table).unmap()
}

/// Assigns an ASID from a pool to a new address space.
pub fn asid_assign(pool: u64, vspace: u64) -> Result<()> {
    AsidPool::new(cspace::asid_pool(pool)).assign(VSpace::new(vspace))
}

/// Mints the server's endpoint, badged and only for calls, into a slot of a CNode of `bits` bits.
pub fn mint_endpoint(cnode: u64, slot: u64, bits: u8, badge: u64) -> Result<()> {
    let to = CNode::new(cnode).slot(slot, bits);
    to.mint_from(root_path(cspace::ENDPOINT), Rights::CALL, CapData::badge(badge))
}

/// Mints the server's notification with a badge into an empty slot.
pub fn mint_notification(to: u64, badge: u64) -> Result<()> {
    path(to).mint_from(root_path(cspace::NOTIFICATION), Rights::WRITE, CapData::badge(badge))
}

/// The configuration of a thread.
pub struct Threadspace {
    /// Pointer to its fault endpoint, in the thread's own CNode.
    pub fault_endpoint: u64,
    /// Its CNode.
    pub cnode: u64,
    /// Binary logarithm of the CNode's slots.
    pub cnode_bits: u8,
    /// Its address space.
    pub vspace: u64,
    /// The address of its IPC buffer. [`Threadspace::buffer`] is the capability that maps it.
    pub buffer_address: u64,
    /// See [`Threadspace::buffer_address`].
    pub buffer: u64,
}

/// Configures a thread. It needs only registers to run.
pub fn tcb_configure(tcb: u64, space: Threadspace) -> Result<()> {
    Tcb::new(tcb).configure(&TcbConfig {
        fault_endpoint: CPtr(space.fault_endpoint),
        cspace: CNode::new(space.cnode),
        cspace_data: CapData::guard(0, 64 - space.cnode_bits),
        vspace: VSpace::new(space.vspace),
        ipc_buffer: Some((space.buffer_address, Page::new(space.buffer))),
        sched: Some(SchedParams {
            authority: Tcb::new(root_slot(cspace::TCB)),
            max_controlled: 0,
            priority: kernel_priority(Priority::DEFAULT, false),
        }),
    })
}

/// Configures a runner. It needs only registers to run. `guard` is its CNode's guard, `slot` the slot of its fault
/// endpoint.
pub fn runner_configure(
    tcb: u64,
    cnode: u64,
    (guard, slot): (u64, u64),
    vspace: u64,
    priority: Priority,
) -> Result<()> {
    Tcb::new(tcb).configure(&TcbConfig {
        fault_endpoint: CPtr(guard << THREAD_BITS | slot),
        cspace: CNode::new(cnode),
        cspace_data: CapData::guard(guard, 64 - THREAD_BITS),
        vspace: VSpace::new(vspace),
        ipc_buffer: None,
        sched: Some(SchedParams {
            authority: Tcb::new(root_slot(cspace::TCB)),
            max_controlled: 0,
            priority: kernel_priority(priority, false),
        }),
    })
}

/// Binds a notification to a thread, and mints a badged capability for signalling it into an empty slot.
pub fn bind_doorbell(tcb: u64, doorbell: u64, to: u64, badge: u64) -> Result<()> {
    path(to).mint_from(path(doorbell), Rights::WRITE, CapData::badge(badge))?;
    Tcb::new(tcb).bind_notification(Notification::new(doorbell))
}

/// Sets a thread's priority.
pub fn set_priority(tcb: u64, priority: Priority, preferred: bool) {
    let priority = kernel_priority(priority, preferred);
    let set = Tcb::new(tcb).set_priority(Tcb::new(root_slot(cspace::TCB)), priority);
    complain(set, "set a priority");
}

/// Stops a thread and resets it to the state of a new one, except for its configuration. Returns whether the kernel can
/// do that.
pub fn reset(tcb: u64) -> bool {
    Tcb::new(tcb).reset().is_some_and(|reset| reset.is_ok())
}

/// Answers the call that a thread waits in.
#[inline]
pub fn answer(tcb: u64, message: Message) {
    Tcb::new(tcb).answer(message);
}

/// As [`answer`]; the same kernel entry then sends the reply to the call that is being handled, if there is one, and
/// receives the next event.
#[inline]
pub fn answer_first(tcb: u64, answer: Message, reply: Option<Message>) -> Received {
    ENDPOINT.answer_first(Tcb::new(tcb), answer, reply)
}

/// Stops a thread.
pub fn suspend(tcb: u64) {
    complain(Tcb::new(tcb).suspend(), "suspend");
}

/// Resumes a thread.
pub fn resume(tcb: u64) {
    complain(Tcb::new(tcb).resume(), "resume");
}

/// A thread's registers, without stopping it.
pub fn read_registers(tcb: u64) -> Result<Registers> {
    Tcb::new(tcb).read_registers(false).map(from_context)
}

/// Stops a thread and reads its registers.
pub fn stop_and_read(tcb: u64) -> Result<Registers> {
    Tcb::new(tcb).read_registers(true).map(from_context)
}

/// Sets a thread's registers, and resumes it if `resume` is set.
pub fn write_registers(tcb: u64, resume: bool, registers: &UserRegisters) {
    complain(Tcb::new(tcb).write_registers(&user_context(registers), resume), "write registers");
}

/// Sets a runner's registers, and resumes it if `resume` is set. None of a runner's system calls reach the kernel. With
/// `shares`, a thread, it uses that thread's vector registers from now on.
pub fn write_foreign(tcb: u64, registers: &UserRegisters, resume: bool, shares: Option<u64>) {
    let written = Tcb::new(tcb).write_foreign(&user_context(registers), resume, shares.map(Tcb::new));
    complain(written, "write registers");
}

/// Makes a thread use another thread's vector registers from now on, if the kernel can do that.
pub fn share_fpu(tcb: u64, owner: u64) {
    if let Some(result) = Tcb::new(tcb).share_fpu(Tcb::new(owner)) {
        complain(result, "share vector registers");
    }
}

/// Stops a thread if it runs. If the kernel cannot tell, nothing happens.
pub fn hold(tcb: u64) -> RunnerState {
    match Tcb::new(tcb).hold() {
        Some(Ok(HoldResult::Stopped)) => RunnerState::Running,
        Some(Ok(HoldResult::Sending)) => RunnerState::Sending,
        Some(Ok(HoldResult::NotRunning) | Err(_)) | None => RunnerState::Idle,
    }
}

/// A thread's vector registers, if the kernel provides them.
pub fn read_fpu(tcb: u64) -> Option<[u64; FPU_WORDS]> {
    Tcb::new(tcb).read_fpu()?.ok()
}

/// Sets them, if the kernel supports that.
pub fn write_fpu(tcb: u64, state: &[u64; FPU_WORDS]) {
    if let Some(result) = Tcb::new(tcb).write_fpu(state) {
        complain(result, "write vector registers");
    }
}

/// A thread's debug registers, if the kernel provides them.
pub fn read_debug(tcb: u64) -> Option<DebugRegisters> {
    Tcb::new(tcb).read_debug()?.ok().map(debug_from_words)
}

/// Sets them, if the kernel supports that.
pub fn write_debug(tcb: u64, registers: &DebugRegisters) {
    if let Some(result) = Tcb::new(tcb).write_debug(&debug_words(registers)) {
        complain(result, "write debug registers");
    }
}

/// Nanoseconds for which a thread has run, in units of the kernel's tick, if the kernel counts them.
pub fn runtime(tcb: u64) -> Option<i64> {
    let ticks = Tcb::new(tcb).read_ticks()?.ok()?;
    Some(ticks.saturating_mul(sel4::config::TIMER_TICK_MS * 1_000_000).min(i64::MAX as u64) as i64)
}

/// Counts of the time-stamp counter during which no thread was ready to run, if the kernel sums them up.
pub fn idle_counts() -> Option<u64> {
    Tcb::new(root_slot(cspace::TCB)).read_idle_counts()?.ok()
}

/// Signals a notification.
#[inline]
pub fn signal(notification: u64) {
    Notification::new(notification).signal();
}

/// Binds an interrupt to the server's notification, through a badged capability to it, and unmasks it.
pub fn irq_listen(irq: u64, notification: u64) -> Result<()> {
    IrqHandler::new(irq).set_notification(Notification::new(notification))?;
    IrqHandler::new(irq).ack()
}

/// Acknowledges an interrupt, so that it can arrive again.
#[inline]
pub fn irq_ack(irq: u64) {
    complain(IrqHandler::new(irq).ack(), "acknowledge");
}

/// Takes the pending signals of the server's notification: the badges, combined by OR; 0 for none.
pub fn take_signals() -> u64 {
    Notification::new(root_slot(cspace::NOTIFICATION)).poll()
}

/// Mints an endpoint of the server, badged, into a slot of a thread's CNode.
pub fn mint_own(cnode: u64, slot: u64, from: u64, badge: u64, for_what: EndpointUse) -> Result<()> {
    let EndpointUse { call, send, receive } = for_what;
    let rights = Rights { read: receive, write: send, grant: false, grant_reply: call };
    let to = CNode::new(cnode).slot(slot, THREAD_BITS);
    to.mint_from(path(from), rights, CapData::badge(badge))
}

/// Moves a capability to a slot of a thread's CNode.
pub fn move_to(cnode: u64, slot: u64, from: u64) -> Result<()> {
    CNode::new(cnode).slot(slot, THREAD_BITS).move_from(path(from))
}

/// Empties a slot of a thread's CNode.
pub fn delete_of(cnode: u64, slot: u64) {
    complain(CNode::new(cnode).slot(slot, THREAD_BITS).delete(), "delete");
}

/// Mints the server's endpoint, with the badge of a component's thread, into the component's slot for it.
pub fn join(cnode: u64, badge: u64) -> Result<()> {
    mint_endpoint(cnode, component_boot::cspace::SERVER, component_boot::cspace::BITS, badge)
}

/// Deletes it again. A component that waits in a call repeats the call, which then fails. If the component has ended,
/// this does nothing.
pub fn leave(tcb: u64, cnode: u64) {
    let slot = CNode::new(cnode).slot(component_boot::cspace::SERVER, component_boot::cspace::BITS);
    let _ = slot.delete();
    let _ = Tcb::new(tcb).suspend().and_then(|()| Tcb::new(tcb).resume());
}

/// Calls the root task's service with a request and two words. Returns the reply's status and first word.
pub fn call_root(request: u64, words: [u64; 2]) -> (u64, u64) {
    ask_root(request, [words[0], words[1], 0, 0])
}

/// As [`call_root`], with four words.
pub fn ask_root(request: u64, words: [u64; 4]) -> (u64, u64) {
    let (status, words) = talk_to_root(request, words);
    (status, words[0])
}

/// As [`ask_root`], with four words in the reply.
pub fn talk_to_root(request: u64, words: [u64; 4]) -> (u64, [u64; 4]) {
    let reply = ROOT.call(Message { info: MessageInfo::new(request, 4), mr: words });
    (reply.info.label(), reply.mr)
}
