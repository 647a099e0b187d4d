//! A thread whose every kernel entry is chosen: number, slot, and all of the message.
//!
//! The thread belongs to a process of a few instructions and is stopped at an undefined one. For each move it is sent
//! to one of the [`Move`]s with chosen registers, and stops again after it. So a test consists of plain data and no
//! code that must be trusted, and a thread that the kernel does not let return is noticed and fetched.

use abi::{ZX_EXCP_UNDEFINED_INSTRUCTION, zx_thread_state_general_regs_t};
use conformance::caught_exception::{CaughtException, catch_until};
use conformance::check::{Failure, Outcome, equal};
use conformance::test_process::{OwnJob, TestProcess};
use zx::{AsHandleRef, Channel, Duration, MonotonicInstant, Signals, Status, Thread};

/// All moves; each ends at an undefined instruction.
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

/// What a thread can be made to do: the offset in the code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Move {
    /// Enter the kernel with the current registers.
    Enter = 2,
    /// Store `rax` in its own IPC buffer, at `rdi`.
    StoreBuffer = 12,
    /// Load `rax` from there.
    LoadBuffer = 18,
    /// Store `rax` at `rdi`.
    Store = 24,
    /// Load `rax` from `rdi`.
    Load = 29,
    /// Count `ecx` down to zero.
    Spin = 34,
    /// Increment the word at `rdi` for ever.
    Count = 40,
    /// Enter the kernel like [`Move::Enter`], then jump to `r12`.
    Leave = 45,
}

/// The result of a move.
#[derive(Clone, Copy, Debug)]
pub enum MoveResult {
    /// It is complete, with these registers.
    Done(zx_thread_state_general_regs_t),
    /// An exception: its type, and its status.
    Exception(u32, Status),
    /// The thread did not return, and was fetched.
    Kept,
    /// Its process has ended.
    Ended,
}

impl MoveResult {
    /// The registers, if the move is complete.
    pub fn done(self) -> Result<zx_thread_state_general_regs_t, Failure> {
        match self {
            MoveResult::Done(registers) => Ok(registers),
            other => Err(format!("a move that should have been made: {other:?}").into()),
        }
    }
}

/// The numbers of seL4 5.0.0's system calls.
pub mod entry {
    /// Sends and waits for the reply.
    pub const CALL: u64 = -1_i64 as u64;
    /// Replies and receives.
    pub const REPLY_RECV: u64 = -2_i64 as u64;
    /// Sends, and waits until it is received.
    pub const SEND: u64 = -3_i64 as u64;
    /// Sends if a thread waits to receive.
    pub const NB_SEND: u64 = -4_i64 as u64;
    /// Receives, and waits for something to receive.
    pub const RECV: u64 = -5_i64 as u64;
    /// Replies.
    pub const REPLY: u64 = -6_i64 as u64;
    /// Yields.
    pub const YIELD: u64 = -7_i64 as u64;
    /// Receives if a message waits.
    pub const NB_RECV: u64 = -8_i64 as u64;
    /// All of them.
    pub const ALL: [u64; 8] = [CALL, REPLY_RECV, SEND, NB_SEND, RECV, REPLY, YIELD, NB_RECV];
}

/// The slot of a thread's endpoint for calls.
pub const CALLS: u64 = 1;
/// The slot of its endpoint for faults.
pub const FAULTS: u64 = 2;

/// A kernel entry with a message.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// One of [`entry`], or any other number.
    pub number: u64,
    /// The capability's address.
    pub slot: u64,
    /// The message's label.
    pub label: u64,
    /// The number of words that the message claims.
    pub length: u64,
    /// The number of capabilities that the message claims.
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

/// How long a move may take before its thread counts as kept: much longer than any move that returns.
const PATIENCE: Duration = Duration::from_millis(100);

/// A thread that makes moves.
pub struct Hand {
    /// The thread.
    pub thread: Thread,
    channel: Channel,
    stopped: Option<CaughtException>,
    code: u64,
}

/// A process whose threads make moves, in a job of its own.
pub struct Hands {
    /// The process with its first thread.
    pub tiny: TestProcess,
    /// Its job; the process ends with it.
    pub job: OwnJob,
}

impl Hands {
    /// The process, and its first thread, which is stopped at its start.
    pub fn new() -> Result<(Hands, Hand), Failure> {
        let job = OwnJob::new()?;
        let tiny = TestProcess::in_job(&job, CODE)?;
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

    /// Creates readable and writable memory of the process; returns its address there.
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

    /// Waits until the thread stops; returns the exception's type and status, or nothing if it does not stop in time.
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

    /// Sends the thread to a move from which it may not return by itself.
    pub fn send(&mut self, to: Move, set: impl FnOnce(&mut zx_thread_state_general_regs_t)) -> Outcome {
        let mut registers: zx_thread_state_general_regs_t = self.thread.registers()?;
        registers.rip = self.code + to as u64;
        set(&mut registers);
        self.thread.set_registers(&registers)?;
        self.stopped.take().ok_or("the thread does not stand")?.handled()?;
        Ok(())
    }

    /// Resumes the thread after an exception.
    pub fn go_on(&mut self) -> Outcome {
        self.stopped.take().ok_or("the thread does not stand")?.handled()?;
        Ok(())
    }

    /// Waits for the end of a move.
    pub fn finish(&mut self) -> Result<MoveResult, Failure> {
        match self.stop(PATIENCE)? {
            Some((ZX_EXCP_UNDEFINED_INSTRUCTION, _)) => Ok(MoveResult::Done(self.thread.registers()?)),
            Some((kind, status)) => Ok(MoveResult::Exception(kind, status)),
            None if self.has_ended()? => Ok(MoveResult::Ended),
            None => Ok(MoveResult::Kept),
        }
    }

    /// Makes a move; fetches the thread if it does not return.
    pub fn make(
        &mut self,
        to: Move,
        set: impl FnOnce(&mut zx_thread_state_general_regs_t),
    ) -> Result<MoveResult, Failure> {
        self.send(to, set)?;
        let happened = self.finish()?;
        if matches!(happened, MoveResult::Kept) {
            self.fetch()?;
        }
        Ok(happened)
    }

    /// Suspends a running or waiting thread and brings it back to where it can be sent from.
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
    pub fn enter(&mut self, message: &Message) -> Result<MoveResult, Failure> {
        self.make(Move::Enter, |registers| set(registers, message))
    }

    /// Makes the thread enter the kernel and then jump to an address, without waiting for the result.
    pub fn send_away(&mut self, message: &Message, to: u64) -> Outcome {
        self.send(Move::Leave, |registers| {
            set(registers, message);
            registers.r12 = to;
        })
    }

    /// Enters the kernel without waiting for the result.
    pub fn send_in(&mut self, message: &Message) -> Outcome {
        self.send(Move::Enter, |registers| set(registers, message))
    }

    /// Makes a system call that must return; gives its result.
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

    /// Checks that the thread can still make a system call and gets the right answer.
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
