//! A thread whose every entry of the kernel is chosen: number, slot, message, all of it.
//!
//! The thread belongs to a process of a few instructions and stands at an undefined one. For each move it is sent to one
//! of the [`Move`]s, with registers to choose, and is stopped again behind it. So what is tried is plain data, nothing of
//! it is code that must be trusted, and a thread that the kernel keeps is noticed and brought back.

use abi::{ZX_EXCP_UNDEFINED_INSTRUCTION, zx_thread_state_general_regs_t};
use conformance::caught::{Caught, catch_until};
use conformance::check::{Failure, Outcome, equal};
use conformance::tiny::{OwnJob, Tiny};
use zx::{AsHandleRef, Channel, Duration, MonotonicInstant, Signals, Status, Thread};

/// All moves, each ending at an undefined instruction.
const CODE: &[u8] = &[
    0x0f, 0x0b, // ud2
    0x48, 0x89, 0xe3, // mov rbx, rsp
    0x0f, 0x05, // syscall
    0x48, 0x89, 0xdc, // mov rsp, rbx
    0x0f, 0x0b, // ud2
    0x65, 0x48, 0x89, 0x07, // mov gs:[rdi], rax
    0x0f, 0x0b, // ud2
    0x65, 0x48, 0x8b, 0x07, // mov rax, gs:[rdi]
    0x0f, 0x0b, // ud2
    0x48, 0x89, 0x07, // mov [rdi], rax
    0x0f, 0x0b, // ud2
    0x48, 0x8b, 0x07, // mov rax, [rdi]
    0x0f, 0x0b, // ud2
    0xff, 0xc9, // again: dec ecx
    0x75, 0xfc, // jnz again
    0x0f, 0x0b, // ud2
    0x48, 0xff, 0x07, // again: inc qword [rdi]
    0xeb, 0xfb, // jmp again
    0x48, 0x89, 0xe3, // mov rbx, rsp
    0x0f, 0x05, // syscall
    0x48, 0x89, 0xdc, // mov rsp, rbx
    0x41, 0xff, 0xe4, // jmp r12
];

/// What a thread can be sent to do: the place in the code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Move {
    /// Enter the kernel with the registers as they are.
    Enter = 2,
    /// Store `rax` in its own IPC buffer, at `rdi`.
    StoreBuffer = 12,
    /// Load `rax` from there.
    LoadBuffer = 18,
    /// Store `rax` at `rdi`.
    Store = 24,
    /// Load `rax` from `rdi`.
    Load = 29,
    /// Count `ecx` down.
    Spin = 34,
    /// Count at `rdi`, for ever.
    Count = 40,
    /// Enter the kernel as [`Move::Enter`] does, and go to `r12`.
    Leave = 45,
}

/// What became of a move.
#[derive(Clone, Copy, Debug)]
pub enum Happened {
    /// It is done; the registers are these.
    Done(zx_thread_state_general_regs_t),
    /// An exception: its type, and the status that goes with it.
    Exception(u32, Status),
    /// The thread did not come back, and was fetched.
    Kept,
    /// Its process has ended.
    Ended,
}

impl Happened {
    /// The registers, if it is done.
    pub fn done(self) -> Result<zx_thread_state_general_regs_t, Failure> {
        match self {
            Happened::Done(registers) => Ok(registers),
            other => Err(format!("a move that should have been made: {other:?}").into()),
        }
    }
}

/// Numbers by which seL4 5.0.0 is entered.
pub mod entry {
    /// Sends and waits for the reply.
    pub const CALL: u64 = -1_i64 as u64;
    /// Replies and receives.
    pub const REPLY_RECV: u64 = -2_i64 as u64;
    /// Sends, and waits until it is received.
    pub const SEND: u64 = -3_i64 as u64;
    /// Sends to whoever waits for it.
    pub const NB_SEND: u64 = -4_i64 as u64;
    /// Receives, and waits for something to receive.
    pub const RECV: u64 = -5_i64 as u64;
    /// Replies.
    pub const REPLY: u64 = -6_i64 as u64;
    /// Lets others run.
    pub const YIELD: u64 = -7_i64 as u64;
    /// Receives what is there.
    pub const NB_RECV: u64 = -8_i64 as u64;
    /// All of them.
    pub const ALL: [u64; 8] = [CALL, REPLY_RECV, SEND, NB_SEND, RECV, REPLY, YIELD, NB_RECV];
}

/// The slot of a thread's endpoint for calls.
pub const CALLS: u64 = 1;
/// The slot of its endpoint for faults.
pub const FAULTS: u64 = 2;

/// An entry of the kernel with a message.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// One of [`entry`], or any other number.
    pub number: u64,
    /// The capability's address.
    pub slot: u64,
    /// The message's label.
    pub label: u64,
    /// How many words it says it has.
    pub length: u64,
    /// How many capabilities it says it has.
    pub caps: u64,
    /// The words that travel in registers.
    pub words: [u64; 4],
}

impl Message {
    /// A system call as the vDSO would make it, with up to four arguments.
    pub fn call(number: u32, words: [u64; 4]) -> Message {
        Message { number: entry::CALL, slot: CALLS, label: number.into(), length: 4, caps: 0, words }
    }

    /// The same for another capability.
    pub fn to(self, slot: u64) -> Message {
        Message { slot, ..self }
    }

    fn info(&self) -> u64 {
        self.label << 12 | (self.caps & 3) << 7 | self.length & 0x7f
    }
}

/// How long a move may take before its thread is taken for kept: much longer than any takes that comes back.
const PATIENCE: Duration = Duration::from_millis(100);

/// A thread that makes moves.
pub struct Hand {
    /// The thread.
    pub thread: Thread,
    channel: Channel,
    stopped: Option<Caught>,
    code: u64,
}

/// A process whose threads make moves, in a job of its own.
pub struct Hands {
    /// The process with its first thread.
    pub tiny: Tiny,
    /// Its job, with which it ends.
    pub job: OwnJob,
}

impl Hands {
    /// The process, and its first thread at its start.
    pub fn new() -> Result<(Hands, Hand), Failure> {
        let job = OwnJob::new()?;
        let tiny = Tiny::in_job(&job, CODE)?;
        let channel = tiny.thread.create_exception_channel(0)?;
        tiny.start(None, 0)?;
        let thread = tiny.thread.duplicate(abi::Rights::SAME_RIGHTS)?;
        let hand = Hand::started(thread, channel, tiny.entry)?;
        Ok((Hands { tiny, job }, hand))
    }

    /// One more thread.
    pub fn another(&self) -> Result<Hand, Failure> {
        let thread = self.tiny.process.create_thread("hand")?;
        let channel = thread.create_exception_channel(0)?;
        thread.start(self.tiny.entry, self.tiny.stack, 0, 0)?;
        Hand::started(thread, channel, self.tiny.entry)
    }

    /// Memory of the process that can be read and written; gives its address there.
    pub fn memory(&self, pages: usize) -> Result<(zx::Vmo, u64), Failure> {
        let vmo = zx::Vmo::create(pages as u64 * 4096, 0)?;
        let options = abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE;
        let address = self.tiny.vmar.map(options, 0, &vmo, 0, pages * 4096)?;
        Ok((vmo, address as u64))
    }

    /// Kills the process, which must end.
    pub fn end(self) -> Outcome {
        self.job.kill()?;
        self.tiny.end().map(drop)
    }
}

impl Hand {
    fn started(thread: Thread, channel: Channel, code: usize) -> Result<Hand, Failure> {
        let mut hand = Hand { thread, channel, stopped: None, code: code as u64 };
        match hand.stop(Duration::from_seconds(5))? {
            Some((ZX_EXCP_UNDEFINED_INSTRUCTION, _)) => Ok(hand),
            other => Err(format!("a thread's first instruction gave {other:?}").into()),
        }
    }

    /// Waits until it stands; gives the exception's type and status, or nothing if it does not stand in time.
    fn stop(&mut self, patience: Duration) -> Result<Option<(u32, Status)>, Failure> {
        let caught = match catch_until(&self.channel, MonotonicInstant::after(patience)) {
            Ok(caught) => caught,
            Err(_) if self.channel.signals()?.contains(Signals::CHANNEL_READABLE) => return Err("no exception".into()),
            Err(_) => return Ok(None),
        };
        let report = self.thread.exception_report()?;
        let found = (caught.info.type_, Status(report.context.synth_code as i32));
        self.stopped = Some(caught);
        Ok(Some(found))
    }

    fn has_ended(&self) -> Result<bool, Failure> {
        Ok(self.thread.signals()?.contains(Signals::TASK_TERMINATED))
    }

    /// Sends it to a move, from which it may not come back by itself.
    pub fn send(&mut self, to: Move, set: impl FnOnce(&mut zx_thread_state_general_regs_t)) -> Outcome {
        let mut registers: zx_thread_state_general_regs_t = self.thread.registers()?;
        registers.rip = self.code + to as u64;
        set(&mut registers);
        self.thread.set_registers(&registers)?;
        self.stopped.take().ok_or("the thread does not stand")?.handled()?;
        Ok(())
    }

    /// Lets it go on after an exception.
    pub fn go_on(&mut self) -> Outcome {
        self.stopped.take().ok_or("the thread does not stand")?.handled()?;
        Ok(())
    }

    /// Waits for the end of a move.
    pub fn finish(&mut self) -> Result<Happened, Failure> {
        match self.stop(PATIENCE)? {
            Some((ZX_EXCP_UNDEFINED_INSTRUCTION, _)) => Ok(Happened::Done(self.thread.registers()?)),
            Some((kind, status)) => Ok(Happened::Exception(kind, status)),
            None if self.has_ended()? => Ok(Happened::Ended),
            None => Ok(Happened::Kept),
        }
    }

    /// Makes a move; if the thread does not come back, fetches it.
    pub fn make(
        &mut self,
        to: Move,
        set: impl FnOnce(&mut zx_thread_state_general_regs_t),
    ) -> Result<Happened, Failure> {
        self.send(to, set)?;
        let happened = self.finish()?;
        if matches!(happened, Happened::Kept) {
            self.fetch()?;
        }
        Ok(happened)
    }

    /// Takes a thread that is somewhere, back to where it can be sent from.
    pub fn fetch(&mut self) -> Outcome {
        if self.stopped.is_some() {
            let code = self.code;
            self.send(Move::Enter, |registers| registers.rip = code)?;
            return self.is_back();
        }
        let token = self.thread.suspend()?;
        self.thread.wait_one(Signals::THREAD_SUSPENDED, MonotonicInstant::after(Duration::from_seconds(5)))?;
        let mut registers: zx_thread_state_general_regs_t = self.thread.registers()?;
        registers.rip = self.code;
        self.thread.set_registers(&registers)?;
        drop(token);
        self.is_back()
    }

    fn is_back(&mut self) -> Outcome {
        match self.stop(Duration::from_seconds(5))? {
            Some((ZX_EXCP_UNDEFINED_INSTRUCTION, _)) => Ok(()),
            other => Err(format!("a thread that was fetched gave {other:?}").into()),
        }
    }

    /// Enters the kernel.
    pub fn enter(&mut self, message: &Message) -> Result<Happened, Failure> {
        self.make(Move::Enter, |registers| set(registers, message))
    }

    /// Has it enter the kernel and then go to an address, without waiting for what becomes of it.
    pub fn send_away(&mut self, message: &Message, to: u64) -> Outcome {
        self.send(Move::Leave, |registers| {
            set(registers, message);
            registers.r12 = to;
        })
    }

    /// Enters the kernel, without waiting for what becomes of it.
    pub fn send_in(&mut self, message: &Message) -> Outcome {
        self.send(Move::Enter, |registers| set(registers, message))
    }

    /// A system call that must come back: its result.
    pub fn call(&mut self, number: u32, words: [u64; 4]) -> Result<Status, Failure> {
        Ok(Status(self.enter(&Message::call(number, words))?.done()?.r10 as i32))
    }

    /// Writes a word of its IPC buffer: word 0 is the message's tag, the message begins at word 1.
    pub fn store_buffer(&mut self, word: u64, value: u64) -> Outcome {
        let set = |registers: &mut zx_thread_state_general_regs_t| (registers.rdi, registers.rax) = (word * 8, value);
        self.make(Move::StoreBuffer, set)?.done().map(drop)
    }

    /// Reads a word of its IPC buffer.
    pub fn load_buffer(&mut self, word: u64) -> Result<u64, Failure> {
        Ok(self.make(Move::LoadBuffer, |registers| registers.rdi = word * 8)?.done()?.rax)
    }

    /// It still makes a system call and gets the right answer.
    pub fn is_well(&mut self) -> Outcome {
        equal(self.call(abi::nr::HANDLE_CLOSE, [0; 4])?, Status::OK)
    }
}

fn set(registers: &mut zx_thread_state_general_regs_t, message: &Message) {
    registers.rdx = message.number;
    registers.rdi = message.slot;
    registers.rsi = message.info();
    [registers.r10, registers.r8, registers.r9, registers.r15] = message.words;
}
