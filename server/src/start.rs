//! The start: the vDSO, the root objects, and the first process.
//!
//! The server does for the first process what another process does for each later one: it maps `userboot` and the vDSO,
//! makes a stack, and sends a processargs message with the handles that everything else comes from: the root job, the
//! root resource, the vDSO's image and the BOOTFS image. From then on, programs start each other.

use alloc::vec::Vec;
use core::fmt;

use abi::{
    Rights, Status, VDSO_CODE_START, VDSO_DATA_CONSTANTS, VDSO_DATA_CONSTANTS_SIZE, VDSO_DATA_TIME_VALUES,
    ZX_CLOCK_OPT_CONTINUOUS, ZX_CLOCK_OPT_MONOTONIC, ZX_DEFAULT_CHANNEL_RIGHTS, ZX_DEFAULT_CLOCK_RIGHTS,
    ZX_DEFAULT_JOB_RIGHTS, ZX_DEFAULT_PROCESS_RIGHTS, ZX_DEFAULT_RESOURCE_RIGHTS, ZX_DEFAULT_THREAD_RIGHTS,
    ZX_DEFAULT_VMAR_RIGHTS, vdso_constants, vdso_features, vdso_time_values,
};
use objects::arch::{GeneralRegisters, Registers};
use objects::containers::name::Name;
use objects::core::debuglog::{Level, LogWriter};
use objects::core::handle::Handle;
use objects::ipc::channel::Message;
use objects::machine::{Frame, Machine, PAGE, PAGE_SIZE, Perm};
use objects::memory::vmar::{MapRequest, Place, Vmar, VmarFlags};
use objects::memory::vmo::Vmo;
use objects::task::process::Process;
use objects::{Id, Kernel, ObjectId};
use processargs::{Builder, HandleInfo};
use zerocopy::IntoBytes;

use crate::Server;

/// The system's version string.
const VERSION: &str = concat!("hafnon ", env!("CARGO_PKG_VERSION"));

/// Bytes of the first process's stack.
const STACK_SIZE: u64 = 64 * 1024;

/// The inputs of a server's start.
pub struct Boot<'a> {
    /// The pages of the BOOTFS image.
    pub bootfs: Vec<Frame>,
    /// Its size in bytes.
    pub bootfs_size: u64,
    /// The vDSO's image.
    pub vdso: &'a [u8],
    /// The first process's image: an ELF file without interpreter.
    pub userboot: &'a [u8],
    /// The environment of the first process, as words.
    pub command_line: &'a str,
}

/// Why a server cannot start.
#[derive(Debug)]
pub enum StartError {
    /// A step of the start failed.
    Step(&'static str, Status),
    /// The first process's image is malformed.
    Image(&'static str),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Step(step, status) => write!(f, "cannot {step}: {status}"),
            StartError::Image(what) => write!(f, "the first process's image {what}"),
        }
    }
}

impl core::error::Error for StartError {}

trait StepContext<T> {
    /// Adds the step that failed.
    fn at(self, step: &'static str) -> Result<T, StartError>;
}

impl<T> StepContext<T> for Result<T, Status> {
    fn at(self, step: &'static str) -> Result<T, StartError> {
        self.map_err(|status| StartError::Step(step, status))
    }
}

const READ: Perm = Perm { read: true, write: false, execute: false };
const READ_WRITE: Perm = Perm { read: true, write: true, execute: false };
const READ_EXECUTE: Perm = Perm { read: true, write: false, execute: true };

impl<M: Machine> Server<M> {
    /// Creates the root objects and starts the first process.
    ///
    /// # Errors
    /// [`StartError`]: the system cannot run.
    pub fn start(machine: M, boot: Boot<'_>) -> Result<Self, StartError> {
        let mut server = Server { kernel: Kernel::new(machine).at("make the root job")? };
        let kernel = &mut server.kernel;
        let vdso = make_vdso(kernel, boot.vdso)?;
        let bootfs = kernel.vmo_from_frames(&boot.bootfs, boot.bootfs_size).at("make the BOOTFS VMO")?;
        kernel.set_name(bootfs.object(), Name::new(b"bootfs")).at("name the BOOTFS VMO")?;
        let resource = kernel.resource_root().at("make the root resource")?;
        let date = kernel.machine.utc_offset();
        let options = ZX_CLOCK_OPT_MONOTONIC | ZX_CLOCK_OPT_CONTINUOUS;
        let utc = kernel
            .clock_create(None::<Id<Process>>, options, 0, Some(date))
            .at("make the clock with the time of day")?;
        let job = kernel.root_job().at("find the root job")?;
        let (process, vmar) = kernel.process_create(job, Name::new(b"userboot")).at("create the first process")?;
        let thread = kernel.thread_create(process, Name::new(b"main")).at("create the first thread")?;

        let entry = load(kernel, vmar, boot.userboot)?;
        let vdso_base = map_vdso(kernel, vmar, vdso, boot.vdso.len() as u64)?;
        let stack = kernel.vmo_create(STACK_SIZE, false).at("make a stack")?;
        let stack_base = map(kernel, vmar, stack, 0, STACK_SIZE, READ_WRITE).at("map a stack")?;
        // The server keeps no handle to the stack's VMO: the mapping keeps the VMO alive.

        let vmo_rights = Rights::BASIC | Rights::READ | Rights::MAP | Rights::GET_PROPERTY;
        let executable = vmo_rights | Rights::EXECUTE;
        let vmar_rights = ZX_DEFAULT_VMAR_RIGHTS | Rights::READ | Rights::WRITE | Rights::EXECUTE;
        let handles: [(u8, ObjectId, Rights); 8] = [
            (processargs::PA_VMO_VDSO, vdso.object(), executable),
            (processargs::PA_VMO_BOOTFS, bootfs.object(), executable),
            (processargs::PA_RESOURCE, resource.object(), ZX_DEFAULT_RESOURCE_RIGHTS),
            (processargs::PA_CLOCK_UTC, utc.object(), ZX_DEFAULT_CLOCK_RIGHTS.difference(Rights::WRITE)),
            (processargs::PA_JOB_DEFAULT, job.object(), ZX_DEFAULT_JOB_RIGHTS),
            (processargs::PA_PROC_SELF, process.object(), ZX_DEFAULT_PROCESS_RIGHTS),
            (processargs::PA_THREAD_SELF, thread.object(), ZX_DEFAULT_THREAD_RIGHTS),
            (processargs::PA_VMAR_ROOT, vmar.object(), vmar_rights),
        ];
        let mut builder = Builder::new();
        let mut message = Message::default();
        for (kind, object, rights) in handles {
            builder.handle(HandleInfo::new(kind));
            message.handles.push(kernel.dup_handle(Handle { object, rights }));
        }
        for word in boot.command_line.split_ascii_whitespace() {
            builder.env(word.as_bytes());
        }
        message.data = builder.build().map_err(|_| StartError::Image("gets too long a command line"))?;

        let (ours, theirs) = kernel.channel_create().at("make the bootstrap channel")?;
        let rights = ZX_DEFAULT_CHANNEL_RIGHTS;
        let our_end = kernel.dup_handle(Handle { object: ours.object(), rights });
        let argument = kernel.dup_handle(Handle { object: theirs.object(), rights });
        kernel.channel_write(ours, message).at("send the first message")?;
        kernel.close(our_end);
        let value = kernel.process_begin(process, Some(argument)).at("begin the first process")?;
        // The stack pointer as after a call instruction: 8 below a multiple of 16.
        let top = stack_base + STACK_SIZE - 8;
        let registers = Registers::initial(entry, top, [u64::from(value), vdso_base]);
        kernel.thread_start(thread, &registers).at("start the first thread")?;
        kernel.log(Level::Info, LogWriter::Kernel("kernel"), b"the first process runs");
        kernel.reap();
        Ok(server)
    }
}

/// The VMO with the vDSO's image, including the constants that programs read there.
fn make_vdso<M: Machine>(kernel: &mut Kernel<M>, image: &[u8]) -> Result<Id<Vmo>, StartError> {
    let id = kernel.vmo_create(image.len() as u64, false).at("make the vDSO")?;
    kernel.vmo_write(id, 0, image).at("fill the vDSO")?;
    let conversion = kernel.machine.conversion();
    let (_, physmem) = kernel.machine.memory();
    // Each debug register can hold a breakpoint or a watchpoint.
    let breakpoints = if kernel.machine.has_debug() { 4 } else { 0 };
    let constants = vdso_constants {
        max_num_cpus: 1,
        features: vdso_features {
            cpu: abi::ZX_HAS_CPU_FEATURES,
            hw_breakpoint_count: breakpoints,
            hw_watchpoint_count: breakpoints,
            ..Default::default()
        },
        dcache_line_size: 64,
        icache_line_size: 64,
        page_size: PAGE_SIZE as u32,
        padding: 0,
        physmem,
        version_string_len: VERSION.len() as u64,
    };
    let times = vdso_time_values {
        version: 1,
        ticks_per_second: conversion.per_second,
        boot_ticks_offset: conversion.offset,
        mono_ticks_offset: conversion.offset,
        ticks_to_time_numerator: conversion.numerator,
        ticks_to_time_denominator: conversion.denominator,
        usermode_can_access_ticks: 1,
        ..Default::default()
    };
    let text = VDSO_DATA_CONSTANTS + size_of::<vdso_constants>();
    const { assert!(size_of::<vdso_constants>() + VERSION.len() < VDSO_DATA_CONSTANTS_SIZE) };
    let blobs = [
        (VDSO_DATA_CONSTANTS, constants.as_bytes()),
        (VDSO_DATA_TIME_VALUES, times.as_bytes()),
        (text, VERSION.as_bytes()),
    ];
    for (offset, bytes) in blobs {
        kernel.vmo_write(id, offset as u64, bytes).at("fill in the vDSO's constants")?;
    }
    kernel.vmo_seal_as_vdso(id, Name::new(b"vdso/next")).at("seal the vDSO")?;
    Ok(id)
}

fn map<M: Machine>(
    kernel: &mut Kernel<M>,
    vmar: Id<Vmar>,
    vmo: Id<Vmo>,
    offset: u64,
    len: u64,
    perm: Perm,
) -> Result<u64, Status> {
    let request = MapRequest { vmo, offset, len, perm, max: perm, fixed: false };
    kernel.vmar_map(vmar, Place::Anywhere { align: PAGE, limit: None }, request)
}

/// Maps the vDSO: data, then code. Returns the image's base.
fn map_vdso<M: Machine>(kernel: &mut Kernel<M>, root: Id<Vmar>, vdso: Id<Vmo>, size: u64) -> Result<u64, StartError> {
    let flags = VmarFlags { specific: true, read: true, write: false, execute: true };
    let place = Place::Anywhere { align: PAGE, limit: None };
    let (vmar, base) = kernel.vmar_allocate(root, place, size, flags).at("make room for the vDSO")?;
    let code = VDSO_CODE_START as u64;
    let size = size.next_multiple_of(PAGE);
    for (from, to, perm) in [(0, code, READ), (code, size, READ_EXECUTE)] {
        let fixed = perm.execute;
        let request = MapRequest { vmo: vdso, offset: from, len: to - from, perm, max: perm, fixed };
        kernel.vmar_map(vmar, Place::At(from), request).at("map the vDSO")?;
    }
    kernel.vdso_mapped(vmar, base).at("map the vDSO")?;
    Ok(base)
}

/// Loads an ELF image without an interpreter and returns its entry point. The image comes from our own build, so the
/// server refuses anything unexpected.
fn load<M: Machine>(kernel: &mut Kernel<M>, root: Id<Vmar>, image: &[u8]) -> Result<u64, StartError> {
    let elf = elf::ElfBytes::<elf::endian::LittleEndian>::minimal_parse(image)
        .map_err(|_| StartError::Image("is not an ELF file"))?;
    let segments = elf.segments().ok_or(StartError::Image("has no segments"))?;
    let loads = || segments.iter().filter(|s| s.p_type == elf::abi::PT_LOAD);
    let end = loads().map(|s| s.p_vaddr.saturating_add(s.p_memsz)).max().unwrap_or(0);
    if end == 0 || end > 16 * 1024 * 1024 {
        return Err(StartError::Image("has no reasonable size"));
    }
    let flags = VmarFlags { specific: true, read: true, write: true, execute: true };
    let place = Place::Anywhere { align: PAGE, limit: None };
    let (vmar, base) = kernel.vmar_allocate(root, place, end, flags).at("make room for the first process")?;
    for segment in loads() {
        let start = segment.p_vaddr / PAGE * PAGE;
        let len = (segment.p_vaddr + segment.p_memsz - start).next_multiple_of(PAGE);
        let data = elf.segment_data(&segment).map_err(|_| StartError::Image("is truncated"))?;
        let vmo = kernel.vmo_create(len, false).at("load the first process")?;
        kernel.vmo_write(vmo, segment.p_vaddr - start, data).at("load the first process")?;
        let perm = Perm {
            read: segment.p_flags & elf::abi::PF_R != 0,
            write: segment.p_flags & elf::abi::PF_W != 0,
            execute: segment.p_flags & elf::abi::PF_X != 0,
        };
        let request = MapRequest { vmo, offset: 0, len, perm, max: perm, fixed: false };
        kernel.vmar_map(vmar, Place::At(start), request).at("map the first process")?;
    }
    Ok(base + elf.ehdr.e_entry)
}
