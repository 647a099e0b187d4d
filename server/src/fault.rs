//! Faults of programs' threads.
//!
//! A page fault on mapped memory is served: the server commits and maps the page. The server carries out the access to
//! an I/O port that the process was granted ([`objects::device::ioports`]). Everything else becomes an exception
//! ([`objects::task::exception`]).

use abi::{
    Status, ZX_EXCP_FATAL_PAGE_FAULT, ZX_EXCP_POLICY_CODE_BAD_SYSCALL, ZX_EXCP_POLICY_ERROR, zx_exception_report_t,
};
use objects::arch::{Architecture, GeneralRegisters, Native};
use objects::containers::slab::Key;
use objects::core::continuation::PAGE_WAIT;
use objects::core::wait::Waiting;
use objects::device::ioports::PortFault;
use objects::machine::{Fault, Machine, MachineThread, ThreadKey};
use objects::task::exception::synthetic;
use objects::task::page_wait::AfterPageWait;
use objects::task::thread::{Thread, ThreadState};
use objects::{Id, Kernel};

use crate::Answer;

/// Serves a fault or turns it into an exception.
pub fn handle<M: Machine>(kernel: &mut Kernel<M>, key: ThreadKey, fault: Fault) -> Answer {
    let Some(thread) = kernel.thread_at(key.0) else { return Answer::Nothing };
    // Step 5C of long calls. Only a debugger moves a thread out of a long call, and it can move it anywhere.
    if kernel.continuation_take(thread).is_some() {
        kernel.serial_written(thread);
    }
    let Ok(t) = kernel.objects.get(thread) else { return Answer::Nothing };
    let (true, false, Some(machine)) = (t.state == ThreadState::Running, t.is_waiting(), t.machine()) else {
        // A thread that waits in a call cannot fault, so the message is forged.
        return Answer::Nothing;
    };
    let Ok(aspace) = kernel.aspace_of_thread(thread) else { return Answer::Nothing };
    let report = match fault {
        Fault::Page { address, write, execute, .. } => match serve(kernel, thread, aspace, (address, write, execute)) {
            Ok(Waiting::Over(_)) => return Answer::Resume,
            Ok(Waiting::Blocked) => {
                kernel.thread_settle(thread);
                return Answer::Nothing;
            }
            Err(status) => page_fault_report(address, write, execute, status),
        },
        Fault::Exception { vector, code, ip } if Native::can_be_port_access(vector, code) => {
            match kernel.ioports_fault(thread, aspace) {
                PortFault::Done => return Answer::Resume,
                PortFault::Memory { address, write } => {
                    return handle(kernel, key, Fault::Page { address, ip, write, execute: false });
                }
                PortFault::NotGranted => processor_report(vector, code),
            }
        }
        Fault::Exception { vector, code, .. } => processor_report(vector, code),
        Fault::Syscall { .. } => foreign_call(kernel, machine),
    };
    kernel.exception_fault(thread, report);
    Answer::Nothing
}

/// A memory access: its address, whether it is a store, whether it is an instruction fetch.
type Access = (u64, bool, bool);

/// Serves a page fault, or blocks the thread until its page arrives.
fn serve<M: Machine>(
    kernel: &mut Kernel<M>,
    thread: Id<Thread>,
    aspace: Key,
    (address, write, execute): Access,
) -> Result<Waiting, Status> {
    // Serving a fault also allocates memory for the objects' records.
    if kernel.heap_reserve().is_err() && !kernel.machine.heap_last_reserve() {
        return Err(Status::NO_MEMORY);
    }
    match kernel.page_fault(aspace, address, write, execute) {
        Ok(()) => Ok(Waiting::Over(Status::OK)),
        Err(PAGE_WAIT) => kernel.page_wait(thread, AfterPageWait::Fault { address, write, execute }),
        Err(status) => Err(status),
    }
}

/// A thread's wait for a page has ended with `result`: serves the fault again, or turns it into an exception.
pub fn retry<M: Machine>(kernel: &mut Kernel<M>, thread: Id<Thread>, access: Access, result: Result<(), Status>) {
    // A thread that is about to be stopped does not wait again.
    let Ok(aspace) = kernel.aspace_of_thread(thread) else { return };
    match result.and_then(|()| serve(kernel, thread, aspace, access)) {
        Ok(_) => kernel.thread_settle(thread),
        Err(status) => {
            let (address, write, execute) = access;
            kernel.exception_fault(thread, page_fault_report(address, write, execute, status));
        }
    }
}

/// The report of a page fault that cannot be served, with the processor's error code. The page may not have been mapped
/// yet because nothing touched it; the report then follows the permissions that the program asked for, not what the
/// processor saw.
pub(crate) fn page_fault_report(address: u64, write: bool, execute: bool, status: Status) -> zx_exception_report_t {
    let mut report = synthetic(ZX_EXCP_FATAL_PAGE_FAULT, status.0 as u32, 0);
    report.context.arch = Native::page_fault_data(address, status == Status::ACCESS_DENIED, write, execute);
    report
}

pub(crate) fn processor_report(vector: u64, code: u64) -> zx_exception_report_t {
    let mut report = synthetic(Native::exception_kind(vector), 0, 0);
    report.context.arch = Native::exception_data(vector, code);
    report
}

/// A `syscall` instruction outside the vDSO. If a handler resumes the thread, the call has failed.
fn foreign_call<M: Machine>(kernel: &mut Kernel<M>, thread: MachineThread) -> zx_exception_report_t {
    let mut registers = kernel.machine.thread_registers(thread);
    let number = registers.refuse_call(Status::BAD_SYSCALL);
    kernel.machine.thread_set_registers(thread, &registers);
    synthetic(ZX_EXCP_POLICY_ERROR, ZX_EXCP_POLICY_CODE_BAD_SYSCALL, number)
}
