//! Creation and end of threads and processes.

use std::sync::OnceLock;

use zx::{AsHandleRef, Event, MonotonicInstant, Signals, Vmo};

use super::sampler::Suite;
use super::{call, check, place};

const THREADS: usize = 500;
const PROCESSES: usize = 500;
const PAGE: usize = 4096;
const READ_WRITE: u32 = abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE;
const SAME_RIGHTS: u64 = zx::Rights::SAME_RIGHTS.bits() as u64;
/// The offset of the vDSO in the process's root region.
const VDSO: usize = 1 << 20;
const TERMINATED: u64 = Signals::TASK_TERMINATED.bits() as u64;
const FOREVER: i64 = MonotonicInstant::INFINITE.0;

pub fn run(suite: &mut Suite) -> zx::Result<()> {
    threads(suite)?;
    processes(suite)
}

/// The thread's first instruction is the vDSO's entry point that ends the thread.
fn threads(suite: &mut Suite) -> zx::Result<()> {
    let process = zx::startup::process_self().raw_handle();
    let exit = zx::sys::zx_thread_exit as *const () as usize;
    let stack = &mut [0_u64; 64];
    let top = place(stack) + 63 * 8;
    let (mut thread, mut seen) = (0_u32, 0_u32);
    let mut name = *b"short";
    let name = (place(&mut name), name.len());
    suite.measure(["thread_lifecycle"], THREADS, |[life]| {
        let results = life.time(|| {
            [
                call!(zx_thread_create, process, name.0, name.1, 0, place(&mut thread)),
                call!(zx_thread_start, thread, exit, top, 0, 0),
                call!(zx_object_wait_one, thread, TERMINATED, FOREVER, place(&mut seen)),
                call!(zx_handle_close, thread),
            ]
        });
        results.into_iter().try_for_each(check)
    })
}

/// A process with a page of code, a stack and the vDSO: it exits through the vDSO at once.
fn processes(suite: &mut Suite) -> zx::Result<()> {
    if !suite.wants(&["process_lifecycle"]) {
        return Ok(());
    }
    let job = zx::startup::job_default().ok_or(zx::Status::NOT_FOUND)?.raw_handle();
    static VDSO_IMAGE: OnceLock<Option<Vmo>> = OnceLock::new();
    let vdso = VDSO_IMAGE.get_or_init(|| zx::startup::take(abi::PA_VMO_VDSO, 0).map(Vmo::from));
    let vdso = vdso.as_ref().ok_or(zx::Status::NOT_FOUND)?;
    let (data, size) = (abi::VDSO_CODE_START, vdso.get_size()? as usize);
    let here = zx::startup::process_self().get_property_u64(abi::ZX_PROP_PROCESS_VDSO_BASE_ADDRESS)? as usize;
    let exit = zx::sys::zx_process_exit as *const () as usize - here;
    let code = Vmo::create(PAGE as u64, 0)?;
    code.write(&[0x31, 0xff, 0xff, 0xe6], 0)?; // xor edi, edi; jmp rsi
    let code = code.replace_as_executable(None)?;
    let stack = Vmo::create(PAGE as u64, 0)?;
    let event = Event::create()?;
    let mut name = *b"small";
    let name = (place(&mut name), name.len());
    let image = vdso.raw_handle();
    let read = abi::ZX_VM_SPECIFIC | abi::ZX_VM_PERM_READ;
    let execute = read | abi::ZX_VM_PERM_EXECUTE;
    let (mut process, mut vmar, mut thread, mut handle) = (0_u32, 0_u32, 0_u32, 0_u32);
    let (mut base, mut entry, mut top, mut seen) = (0_usize, 0_usize, 0_usize, 0_u32);
    suite.measure(["process_lifecycle"], PROCESSES, |[life]| {
        let results = life.time(|| {
            [
                call!(zx_process_create, job, name.0, name.1, 0, place(&mut process), place(&mut vmar)),
                call!(zx_vmar_map, vmar, read, VDSO, image, 0, data, place(&mut base)),
                call!(zx_vmar_map, vmar, execute, VDSO + data, image, data, size - data, place(&mut entry)),
                call!(zx_vmar_map, vmar, execute, VDSO + (1 << 20), code.raw_handle(), 0, PAGE, place(&mut entry)),
                call!(zx_vmar_map, vmar, READ_WRITE, 0, stack.raw_handle(), 0, PAGE, place(&mut top)),
                call!(zx_thread_create, process, name.0, name.1, 0, place(&mut thread)),
                call!(zx_handle_duplicate, event.raw_handle(), SAME_RIGHTS, place(&mut handle)),
                call!(zx_process_start, process, thread, entry, top + PAGE - 8, handle, base + exit),
                call!(zx_object_wait_one, process, TERMINATED, FOREVER, place(&mut seen)),
                call!(zx_handle_close, thread),
                call!(zx_handle_close, vmar),
                call!(zx_handle_close, process),
            ]
        });
        results.into_iter().try_for_each(check)
    })
}
