//! VMOs whose pages a case supplies itself, and threads that access them.
//!
//! A [`Supplier`] has a pager and a port, which receives the page requests for its VMOs; the pages that it supplies
//! hold [`content`]. An [`Access`] accesses a VMO meanwhile: either a thread of a process that has mapped it, or a thread
//! of this process that makes a call.

use std::thread::JoinHandle;

use abi::{
    Status, ZX_EXCP_FATAL_PAGE_FAULT, ZX_EXCP_UNDEFINED_INSTRUCTION, ZX_PAGER_OP_FAIL, ZX_PAGER_VMO_COMPLETE,
    ZX_PAGER_VMO_READ, ZX_PKT_TYPE_PAGE_REQUEST, ZX_VM_PERM_READ, ZX_VM_PERM_WRITE,
};
use zx::{AsHandleRef, Channel, MonotonicInstant, Pager, Port, Rights, Thread, Unowned, Vmo};

use crate::cases::{late, native};
use crate::caught_exception::{OwnedTestProcess, catch};
use crate::check::{Failure, Outcome, equal, fails};

pub const PAGE: u64 = 4096;

/// The first word of a supplied page.
pub fn content(page: u64) -> u64 {
    page + 0x9a6e_0001
}

/// The first words of several pages.
pub fn contents(first: u64, count: u64) -> Vec<u64> {
    (first..first + count).map(content).collect()
}

/// The first word of each of several pages, read by one call.
pub fn words(vmo: &Vmo, first: u64, count: u64) -> zx::Result<Vec<u64>> {
    let mut bytes = vec![0; (count * PAGE) as usize];
    vmo.read(&mut bytes, first * PAGE)?;
    Ok(bytes.chunks_exact(PAGE as usize).map(|page| u64::from_le_bytes(std::array::from_fn(|i| page[i]))).collect())
}

/// Another handle to a VMO.
pub fn another(vmo: &Vmo) -> zx::Result<Vmo> {
    Ok(Vmo::from(vmo.duplicate_handle(Rights::SAME_RIGHTS)?))
}

/// A pager, and the port that receives its requests.
pub struct Supplier {
    pub pager: Pager,
    pub port: Port,
}

/// A VMO of a supplier.
pub struct Paged {
    pub vmo: Vmo,
    pub key: u64,
}

impl std::ops::Deref for Paged {
    type Target = Vmo;

    fn deref(&self) -> &Vmo {
        &self.vmo
    }
}

impl Supplier {
    pub fn new() -> Result<Self, Failure> {
        Ok(Self { pager: Pager::create()?, port: Port::create()? })
    }

    /// A supplier with one VMO of `pages` pages.
    pub fn with(pages: u64) -> Result<(Self, Paged), Failure> {
        Self::with_options(pages, 0)
    }

    /// The same with options (`ZX_VMO_RESIZABLE`, `ZX_VMO_TRAP_DIRTY`).
    pub fn with_options(pages: u64, options: u32) -> Result<(Self, Paged), Failure> {
        let supplier = Self::new()?;
        let vmo = supplier.vmo(1, pages, options)?;
        Ok((supplier, vmo))
    }

    /// Another VMO of the supplier.
    pub fn vmo(&self, key: u64, pages: u64, options: u32) -> Result<Paged, Failure> {
        Ok(Paged { vmo: self.pager.create_vmo(options, &self.port, key, pages * PAGE)?, key })
    }

    /// Supplies pages filled as [`content`] says.
    pub fn supply(&self, vmo: &Paged, first: u64, count: u64) -> Outcome {
        self.supply_as(vmo, first, &contents(first, count))
    }

    /// Supplies pages with these first words.
    pub fn supply_as(&self, vmo: &Paged, first: u64, words: &[u64]) -> Outcome {
        let length = words.len() as u64 * PAGE;
        let aux = Vmo::create(length, 0)?;
        for (page, word) in words.iter().enumerate() {
            aux.write(&word.to_le_bytes(), page as u64 * PAGE)?;
        }
        Ok(self.pager.supply_pages(vmo, first * PAGE, length, &aux, 0)?)
    }

    /// Supplies pages from a VMO in which they begin at page `from`.
    pub fn supply_from(&self, vmo: &Paged, first: u64, count: u64, from: u64) -> Outcome {
        let aux = Vmo::create((from + count) * PAGE, 0)?;
        for page in 0..count {
            aux.write(&content(first + page).to_le_bytes(), (from + page) * PAGE)?;
        }
        Ok(self.pager.supply_pages(vmo, first * PAGE, count * PAGE, &aux, from * PAGE)?)
    }

    /// Reports that pages cannot be supplied.
    pub fn fail(&self, vmo: &Paged, first: u64, count: u64, status: Status) -> zx::Result<()> {
        let data = i64::from(status.0) as u64;
        self.pager.op_range(ZX_PAGER_OP_FAIL, vmo, first * PAGE, count * PAGE, data)
    }

    /// The next packet must arrive, and must be this command for these pages of this VMO.
    #[track_caller]
    pub fn asked(&self, vmo: &Paged, command: u16, first: u64, count: u64) -> Outcome {
        let expected = (ZX_PKT_TYPE_PAGE_REQUEST, vmo.key, command, first, count);
        equal(self.next(late())?, expected)
    }

    /// The next packet: its type, key, command, first page, number of pages.
    fn next(&self, deadline: MonotonicInstant) -> zx::Result<(u32, u64, u16, u64, u64)> {
        let packet = self.port.wait(deadline)?;
        let [command, offset, length, _] = packet.payload;
        // In pages; `u64::MAX`, which no case expects, if the length is not a whole number of pages.
        let pages = |bytes: u64| if bytes.is_multiple_of(PAGE) { bytes / PAGE } else { u64::MAX };
        Ok((packet.type_, packet.key, command as u16, pages(offset), pages(length)))
    }

    /// A read request for these pages must arrive.
    #[track_caller]
    pub fn asked_to_read(&self, vmo: &Paged, first: u64, count: u64) -> Outcome {
        self.asked(vmo, ZX_PAGER_VMO_READ, first, count)
    }

    /// The packet must arrive that says that no more requests follow.
    #[track_caller]
    pub fn completed(&self, vmo: &Paged) -> Outcome {
        self.asked(vmo, ZX_PAGER_VMO_COMPLETE, 0, 0)
    }

    /// No request waits at the port now.
    #[track_caller]
    pub fn unasked(&self) -> Outcome {
        fails(self.next(MonotonicInstant::INFINITE_PAST), Status::TIMED_OUT)
    }
}

/// How an access is made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum AccessKind {
    /// By loads and stores through a mapping.
    Mapped,
    /// By system calls.
    Called,
}

/// A thread that accesses a VMO.
pub enum Access {
    Mapped(MappedAccess),
    Called(JoinHandle<zx::Result<Vec<u64>>>),
}

/// A process with a VMO mapped. Its thread accesses one word in each of several pages and then ends at an undefined
/// instruction.
pub struct MappedAccess {
    process: OwnedTestProcess,
    channel: Channel,
    shared: Vmo,
    count: u64,
    /// Where the VMO is mapped.
    pub base: u64,
    /// The first address that the thread accesses.
    pub first: u64,
}

/// Starts with the address of the shared page in `rsi`. The page holds: address, number of pages, whether to write,
/// value to write. The words read are stored from offset 64 on.
const CODE: &[u8] = &[
    0x48, 0x8b, 0x16, // mov rdx, [rsi]
    0x48, 0x8b, 0x4e, 0x08, // mov rcx, [rsi + 8]
    0x48, 0x8d, 0x7e, 0x40, // lea rdi, [rsi + 64]
    0x48, 0x8b, 0x5e, 0x18, // mov rbx, [rsi + 24]
    // again:
    0x48, 0x83, 0x7e, 0x10, 0x00, // cmp qword ptr [rsi + 16], 0
    0x75, 0x08, // jne write
    0x48, 0x8b, 0x02, // mov rax, [rdx]
    0x48, 0x89, 0x07, // mov [rdi], rax
    0xeb, 0x03, // jmp next
    // write:
    0x48, 0x89, 0x1a, // mov [rdx], rbx
    // next:
    0x48, 0x83, 0xc7, 0x08, // add rdi, 8
    0x48, 0x81, 0xc2, 0x00, 0x10, 0x00, 0x00, // add rdx, 4096
    0x48, 0xff, 0xc9, // dec rcx
    0x75, 0xde, // jnz again
    0x0f, 0x0b, // ud2
];
const WORDS: u64 = 64;

impl MappedAccess {
    /// Accesses pages of a VMO; writes `value` if there is one.
    pub fn new(vmo: &Vmo, first: u64, count: u64, value: Option<u64>) -> Result<Self, Failure> {
        let access = Self::prepare(vmo, first, count, value)?;
        access.start()?;
        Ok(access)
    }

    /// Creates the process without starting its thread.
    pub fn prepare(vmo: &Vmo, first: u64, count: u64, value: Option<u64>) -> Result<Self, Failure> {
        let process = OwnedTestProcess::new(CODE)?;
        let permissions = ZX_VM_PERM_READ | ZX_VM_PERM_WRITE;
        let base = process.vmar.map(permissions, 0, vmo, 0, vmo.get_size()? as usize)? as u64;
        let shared = Vmo::create(PAGE, 0)?;
        let words = [base + first * PAGE, count, u64::from(value.is_some()), value.unwrap_or(0)];
        shared.write(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>(), 0)?;
        let channel = process.thread.create_exception_channel(0)?;
        Ok(Self { process, channel, shared, count, base, first: words[0] })
    }

    /// Starts a prepared access.
    pub fn start(&self) -> Outcome {
        let permissions = ZX_VM_PERM_READ | ZX_VM_PERM_WRITE;
        let address = self.process.vmar.map(permissions, 0, &self.shared, 0, PAGE as usize)?;
        self.process.start(None, address)
    }

    /// The process.
    pub fn process(&self) -> &OwnedTestProcess {
        &self.process
    }

    /// Waits for the end: the words that the thread read, or the address and status of a fault.
    fn end(&self) -> Result<Result<Vec<u64>, (u64, Status)>, Failure> {
        let caught = catch(&self.channel)?;
        if caught.info.type_ == ZX_EXCP_UNDEFINED_INSTRUCTION {
            let mut bytes = vec![0; self.count as usize * 8];
            self.shared.read(&mut bytes, WORDS)?;
            return Ok(Ok(bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect()));
        }
        equal(caught.info.type_, ZX_EXCP_FATAL_PAGE_FAULT)?;
        let context = caught.exception.thread()?.exception_report()?.context;
        Ok(Err((context.arch.cr2, Status(context.synth_code as i32))))
    }
}

impl Access {
    /// Reads pages of a VMO.
    pub fn read(how: AccessKind, vmo: &Vmo, first: u64, count: u64) -> Result<Self, Failure> {
        Ok(match how {
            AccessKind::Mapped => Self::Mapped(MappedAccess::new(vmo, first, count, None)?),
            AccessKind::Called => {
                let vmo = another(vmo)?;
                Self::call(move || words(&vmo, first, count))
            }
        })
    }

    /// Writes a word into each of several pages.
    pub fn write(how: AccessKind, vmo: &Vmo, first: u64, count: u64, value: u64) -> Result<Self, Failure> {
        Ok(match how {
            AccessKind::Mapped => Self::Mapped(MappedAccess::new(vmo, first, count, Some(value))?),
            AccessKind::Called => {
                let vmo = another(vmo)?;
                Self::call(move || {
                    let mut bytes = vec![0; ((count - 1) * PAGE + 8) as usize];
                    bytes.chunks_mut(PAGE as usize).for_each(|page| page[..8].copy_from_slice(&value.to_le_bytes()));
                    vmo.write(&bytes, first * PAGE).map(|()| vec![0; count as usize])
                })
            }
        })
    }

    /// Makes an operation on a range of a VMO (`ZX_VMO_OP_*`).
    pub fn op(vmo: &Vmo, op: u32, first: u64, count: u64) -> Result<Self, Failure> {
        let vmo = another(vmo)?;
        Ok(Self::call(move || vmo.op_range(op, first * PAGE, count * PAGE).map(|()| Vec::new())))
    }

    /// Commits pages of a VMO.
    pub fn commit(vmo: &Vmo, first: u64, count: u64) -> Result<Self, Failure> {
        Self::op(vmo, abi::ZX_VMO_OP_COMMIT, first, count)
    }

    /// Makes any call.
    pub fn call(call: impl FnOnce() -> zx::Result<Vec<u64>> + Send + 'static) -> Self {
        Self::Called(std::thread::spawn(call))
    }

    /// Runs `look` on its thread.
    pub fn with_thread<T>(&self, look: impl FnOnce(&Thread) -> T) -> Result<T, Failure> {
        match self {
            Self::Mapped(access) => Ok(look(&access.process.thread)),
            Self::Called(thread) => {
                let thread = Unowned::<Thread>::from_raw(native(thread)).ok_or("a thread without a handle")?;
                Ok(look(&thread))
            }
        }
    }

    fn state(&self) -> Result<u32, Failure> {
        Ok(self.with_thread(|thread| thread.info().map(|info| info.state))??)
    }

    /// Waits until the thread is blocked on a pager.
    #[track_caller]
    pub fn waits(&self) -> Outcome {
        let limit = late();
        while self.state()? != abi::ZX_THREAD_STATE_BLOCKED_PAGER {
            if MonotonicInstant::now() > limit {
                return Err("it does not wait for a page".into());
            }
            zx::nanosleep(crate::cases::soon(1))?;
        }
        Ok(())
    }

    /// Checks that the thread is blocked on a pager now.
    #[track_caller]
    pub fn still_waits(&self) -> Outcome {
        equal(self.state()?, abi::ZX_THREAD_STATE_BLOCKED_PAGER)
    }

    /// Whether the access has completed.
    pub fn has_ended(&self) -> Result<bool, Failure> {
        Ok(match self {
            Self::Mapped(access) => access.channel.signals()?.contains(abi::Signals::CHANNEL_READABLE),
            Self::Called(thread) => thread.is_finished(),
        })
    }

    /// The access must succeed; returns the words that it read.
    #[track_caller]
    pub fn words(self) -> Result<Vec<u64>, Failure> {
        match self {
            Self::Mapped(access) => match access.end()? {
                Ok(words) => Ok(words),
                Err((address, status)) => Err(format!("a fault at {address:#x}: {status}").into()),
            },
            Self::Called(thread) => {
                let limit = late();
                while !thread.is_finished() {
                    if MonotonicInstant::now() > limit {
                        return Err("the call does not end".into());
                    }
                    zx::nanosleep(crate::cases::soon(1))?;
                }
                Ok(thread.join().map_err(|_| "a thread panicked")??)
            }
        }
    }

    /// The access must have read these words.
    #[track_caller]
    pub fn finds(self, words: &[u64]) -> Outcome {
        equal(self.words()?, words.to_vec())
    }

    /// The access must succeed.
    #[track_caller]
    pub fn ends(self) -> Outcome {
        self.words().map(drop)
    }

    /// The access must fail with this status; a mapped access must fault at its first address.
    #[track_caller]
    pub fn fails(self, status: Status) -> Outcome {
        match self {
            Self::Mapped(access) => equal(access.end()?, Err((access.first, status))),
            Self::Called(thread) => {
                let limit = late();
                while !thread.is_finished() {
                    if MonotonicInstant::now() > limit {
                        return Err("the call does not end".into());
                    }
                    zx::nanosleep(crate::cases::soon(1))?;
                }
                fails(thread.join().map_err(|_| "a thread panicked")?, status)
            }
        }
    }
}
