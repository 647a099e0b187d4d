//! A process that accesses given addresses, to test what the processor itself permits.
//!
//! The system's calls say what a mapping permits; only an access shows whether the page tables say the same. The
//! prober's thread is stopped at an undefined instruction. For each probe the case moves it to a load or a store that
//! another undefined instruction follows. The next exception is the result.

use abi::{ZX_EXCP_FATAL_PAGE_FAULT, ZX_EXCP_UNDEFINED_INSTRUCTION, zx_thread_state_general_regs_t};
use zx::{Channel, Status, Vmar};

use crate::caught_exception::{CaughtException, catch, catch_type};
use crate::check::{Failure, Outcome, equal};
use crate::test_process::TestProcess;

/// `ud2`, `mov al, [rsi]`, `ud2`, `mov [rsi], al`, `ud2`.
const CODE: &[u8] = &[0x0f, 0x0b, 0x8a, 0x06, 0x0f, 0x0b, 0x88, 0x06, 0x0f, 0x0b];
const LOAD: u64 = 2;
const STORE: u64 = 6;

/// See the module's documentation.
pub struct Prober {
    pub tiny: TestProcess,
    channel: Channel,
    stopped: std::cell::Cell<Option<CaughtException>>,
}

impl Prober {
    pub fn new() -> Result<Self, Failure> {
        let tiny = TestProcess::new(CODE)?;
        let channel = tiny.process.create_exception_channel(0)?;
        tiny.start(None, 0)?;
        let stopped = Some(catch_type(&channel, ZX_EXCP_UNDEFINED_INSTRUCTION)?).into();
        Ok(Self { tiny, channel, stopped })
    }

    /// A region of `pages` pages in the process.
    pub fn region(&self, pages: usize) -> Result<(Vmar, usize), Failure> {
        let can = abi::ZX_VM_CAN_MAP_READ | abi::ZX_VM_CAN_MAP_WRITE | abi::ZX_VM_CAN_MAP_SPECIFIC;
        Ok(self.tiny.vmar.allocate(can, 0, pages * 4096)?)
    }

    fn access(&self, from: u64, address: usize, value: u8) -> Result<Result<u8, Status>, Failure> {
        let mut registers: zx_thread_state_general_regs_t = self.tiny.thread.registers()?;
        registers.rip = self.tiny.entry as u64 + from;
        registers.rsi = address as u64;
        registers.rax = value.into();
        self.tiny.thread.set_registers(&registers)?;
        self.stopped.take().ok_or("the prober does not stand")?.handled()?;
        let caught = catch(&self.channel)?;
        let kind = caught.info.type_;
        let report = caught.exception.thread()?.exception_report()?;
        self.stopped.set(Some(caught));
        if kind == ZX_EXCP_FATAL_PAGE_FAULT {
            equal(report.context.arch.cr2, address as u64)?;
            return Ok(Err(Status(report.context.synth_code as i32)));
        }
        equal(kind, ZX_EXCP_UNDEFINED_INSTRUCTION)?;
        Ok(Ok(self.tiny.thread.registers::<zx_thread_state_general_regs_t>()?.rax as u8))
    }

    /// Loads a byte; returns the fault if there is one.
    #[track_caller]
    pub fn load(&self, address: usize) -> Result<Result<u8, Status>, Failure> {
        self.access(LOAD, address, 0)
    }

    /// Stores a byte; returns the fault if there is one.
    #[track_caller]
    pub fn store(&self, address: usize, value: u8) -> Result<Result<(), Status>, Failure> {
        Ok(self.access(STORE, address, value)?.map(drop))
    }

    /// The byte at this address must have this value.
    #[track_caller]
    pub fn finds(&self, address: usize, value: u8) -> Outcome {
        equal(self.load(address)?, Ok(value))
    }

    /// A store must work.
    #[track_caller]
    pub fn stores(&self, address: usize, value: u8) -> Outcome {
        equal(self.store(address, value)?, Ok(()))
    }

    /// Nothing is mapped at this address.
    #[track_caller]
    pub fn finds_nothing(&self, address: usize) -> Outcome {
        equal(self.load(address)?, Err(Status::NOT_FOUND))?;
        equal(self.store(address, 0)?, Err(Status::NOT_FOUND))
    }

    /// The address can be read but not written.
    #[track_caller]
    pub fn finds_read_only(&self, address: usize, value: u8) -> Outcome {
        self.finds(address, value)?;
        equal(self.store(address, 0)?, Err(Status::ACCESS_DENIED))?;
        self.finds(address, value)
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        let _ = self.tiny.process.kill();
    }
}
