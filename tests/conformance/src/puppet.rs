//! A process that makes system calls on request, one at a time.
//!
//! The effect of a call can depend on its caller: on the caller's job, or on whether the caller is another process. A
//! [`Puppet`] is a [`TestProcess`] with the vDSO and a page of memory that it shares with its controller. It waits for
//! a signal on its channel, makes the call that the page describes, writes the result there, and signals back.

use zx::{AsHandleRef, Channel, Handle, Job, MonotonicInstant, Signals, Status, Vmo};

use crate::check::{Failure, Outcome};
use crate::test_process::{OwnJob, TestProcess};

/// Address of the shared page in the puppet.
const PAGE: usize = 0x300_0000;
/// Offsets in the page, in bytes: the function, 8 arguments, the result; functions for waiting and signalling; the
/// puppet's handle to its channel; room for data that calls read and write.
const FUNCTION: u64 = 0;
const RESULT: u64 = 72;
const WAIT: u64 = 80;
const CHANNEL: u64 = 104;
/// Offset in the page of the room for a call's data.
const ROOM: usize = 512;

const POSTED: Signals = Signals::USER_0;
const DONE: Signals = Signals::USER_1;

/// Starts with the channel in `rdi` and the page's address in `rsi`.
const CODE: &[u8] = &[
    0x48, 0x83, 0xec, 0x08, // sub rsp, 8
    0x48, 0x89, 0xf3, // mov rbx, rsi
    0x49, 0x89, 0xfc, // mov r12, rdi
    0x48, 0x89, 0x7b, 0x68, // mov [rbx + CHANNEL], rdi
    // again:
    0x4c, 0x89, 0xe7, // mov rdi, r12
    0xbe, 0x00, 0x00, 0x00, 0x01, // mov esi, POSTED
    0x48, 0xba, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, // mov rdx, ZX_TIME_INFINITE
    0x31, 0xc9, // xor ecx, ecx
    0xff, 0x53, 0x50, // call [rbx + 80]: object_wait_one
    0x4c, 0x89, 0xe7, // mov rdi, r12
    0xbe, 0x00, 0x00, 0x00, 0x01, // mov esi, POSTED
    0x31, 0xd2, // xor edx, edx
    0xff, 0x53, 0x58, // call [rbx + 88]: object_signal
    0x48, 0x8b, 0x7b, 0x08, // mov rdi, [rbx + 8]
    0x48, 0x8b, 0x73, 0x10, // mov rsi, [rbx + 16]
    0x48, 0x8b, 0x53, 0x18, // mov rdx, [rbx + 24]
    0x48, 0x8b, 0x4b, 0x20, // mov rcx, [rbx + 32]
    0x4c, 0x8b, 0x43, 0x28, // mov r8, [rbx + 40]
    0x4c, 0x8b, 0x4b, 0x30, // mov r9, [rbx + 48]
    0xff, 0x73, 0x40, // push [rbx + 64]
    0xff, 0x73, 0x38, // push [rbx + 56]
    0xff, 0x13, // call [rbx]
    0x59, 0x59, // pop rcx; pop rcx
    0x48, 0x89, 0x43, 0x48, // mov [rbx + 72], rax
    0x4c, 0x89, 0xe7, // mov rdi, r12
    0x31, 0xf6, // xor esi, esi
    0xba, 0x00, 0x00, 0x00, 0x02, // mov edx, DONE
    0xff, 0x53, 0x60, // call [rbx + 96]: object_signal_peer
    0xeb, 0xa7, // jmp again
];

/// See the module's documentation.
pub struct Puppet {
    /// The process.
    pub tiny: TestProcess,
    ours: Channel,
    page: Vmo,
    /// Difference between an address in the puppet's vDSO and the same address in this process's vDSO.
    slide: u64,
    /// Its job, if the puppet owns it.
    job: Option<OwnJob>,
}

/// The address of a call, for [`Puppet::call`].
macro_rules! function {
    ($name:ident) => {
        zx::sys::$name as *const () as usize as u64
    };
}
pub(crate) use function;

impl Puppet {
    /// Creates a puppet in a job and starts it.
    pub fn new(job: &Job) -> Result<Self, Failure> {
        let tiny = TestProcess::in_job(job, CODE)?;
        let slide = tiny.map_vdso()?;
        let page = Vmo::create(4096, 0)?;
        let options = abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE | abi::ZX_VM_SPECIFIC;
        let address = tiny.vmar.map(options, PAGE, &page, 0, 4096)?;
        let functions = [function!(zx_object_wait_one), function!(zx_object_signal), function!(zx_object_signal_peer)];
        for (n, function) in functions.iter().enumerate() {
            page.write(&function.wrapping_add(slide).to_le_bytes(), WAIT + 8 * n as u64)?;
        }
        let (ours, theirs) = Channel::create()?;
        tiny.start(Some(theirs.into_handle()), address)?;
        let puppet = Self { tiny, ours, page, slide, job: None };
        // The puppet has stored its channel's handle in the page when this call is done, and it waits for the next one.
        puppet.post(function!(zx_ticks_get), &[])?;
        puppet.result()?.ok_or("it has ended at once")?;
        Ok(puppet)
    }

    /// Creates a puppet in a job that is killed with it.
    pub fn of(job: OwnJob) -> Result<Self, Failure> {
        let mut puppet = Self::new(&job)?;
        puppet.job = Some(job);
        Ok(puppet)
    }

    /// The address in the puppet of the byte at `offset` in the page's [`ROOM`].
    pub fn room(&self, offset: usize) -> Result<u64, Failure> {
        Ok((self.tiny.vmar.info()?.base + PAGE + ROOM + offset) as u64)
    }

    /// Reads a word of the page's [`ROOM`].
    pub fn word(&self, offset: usize) -> Result<u32, Failure> {
        let mut bytes = [0; 4];
        self.page.read(&mut bytes, (ROOM + offset) as u64)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// Makes the puppet start a call ([`function!`]); does not wait for its end.
    pub fn post(&self, function: u64, arguments: &[u64]) -> Outcome {
        let mut words = [0; 9];
        words[0] = function.wrapping_add(self.slide);
        words[1..=arguments.len()].copy_from_slice(arguments);
        let bytes: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
        self.page.write(&bytes, FUNCTION)?;
        self.ours.signal(DONE, Signals::NONE)?;
        Ok(self.ours.signal_peer(Signals::NONE, POSTED)?)
    }

    /// Waits for the end of a posted call; returns its result, or `None` if the puppet has ended instead.
    pub fn result(&self) -> Result<Option<u64>, Failure> {
        let deadline = MonotonicInstant::after(zx::Duration::from_seconds(5));
        // The channel's peer is closed when the process that holds it ends.
        let signals = self.ours.wait_one(DONE | Signals::PEER_CLOSED, deadline)?;
        if !signals.contains(DONE) {
            return Ok(None);
        }
        let mut bytes = [0; 8];
        self.page.read(&mut bytes, RESULT)?;
        Ok(Some(u64::from_le_bytes(bytes)))
    }

    /// Makes the puppet make a call and returns its status.
    pub fn call(&self, function: u64, arguments: &[u64]) -> Result<Status, Failure> {
        self.post(function, arguments)?;
        match self.result()? {
            Some(status) => Ok(Status(status as i32)),
            None => Err("the process that should make a call has ended".into()),
        }
    }

    /// The value that makes [`Puppet::post`] call code at an address of the puppet.
    pub fn code_at(&self, address: usize) -> u64 {
        (address as u64).wrapping_sub(self.slide)
    }

    /// Transfers a handle to the puppet; returns its value there.
    pub fn give(&self, handle: Handle) -> Result<u64, Failure> {
        self.ours.write(&[], [handle])?;
        let mut bytes = [0; 8];
        self.page.read(&mut bytes, CHANNEL)?;
        let channel = u64::from_le_bytes(bytes);
        let room = self.room(0)?;
        let arguments = [channel, 0, 0, room, 0, 1, room + 8, room + 16];
        crate::check::gives(self.call(function!(zx_channel_read), &arguments)?, Status::OK)?;
        Ok(u64::from(self.word(0)?))
    }
}
