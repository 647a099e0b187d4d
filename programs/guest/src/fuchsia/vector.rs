//! Vector registers of a process. They are in its runner, and the system tells them to nobody; so they are saved and loaded by a few
//! instructions in the sub-domain itself, to and from a page of its own.

use std::sync::OnceLock;

use abi::{hafnon_vproc_run_t, hafnon_vproc_state_t};
use zx::{Exit, Vmar, Vmo, map_runs};

use super::kernel::Kernel;
use super::linux::{Result, Stop};
use super::memory::{EXECUTE, PAGE, READ};
use super::space::{Space, TOP};

/// Where the instructions are: above all that the program can have.
const CODE: u64 = TOP + PAGE;
/// Where the registers are.
pub const STATE: u64 = TOP + 2 * PAGE;
/// Bytes of them: the legacy area, its header, and the upper halves of `ymm0` to `ymm15`.
pub const BYTES: usize = 832;
/// `xsave64 [rdi]; syscall`, and `xrstor64 [rdi]; syscall`.
const SAVE_AND_LOAD: [u8; 12] = [0x48, 0x0f, 0xae, 0x27, 0x0f, 0x05, 0x48, 0x0f, 0xae, 0x2f, 0x0f, 0x05];
const LOAD: u64 = CODE + 6;
/// What is saved: x87, SSE and AVX.
const PARTS: u64 = 7;

/// Puts the instructions into a sub-domain.
pub fn map(vmar: &Vmar) -> zx::Result<()> {
    static MADE: OnceLock<zx::Result<Vmo>> = OnceLock::new();
    let make = || {
        let vmo = Vmo::create(PAGE, 0)?;
        vmo.write(&SAVE_AND_LOAD, 0)?;
        vmo.replace_as_executable(None)
    };
    let code = MADE.get_or_init(make).as_ref().map_err(|status| *status)?;
    map_runs(
        vmar,
        code,
        &[hafnon_vproc_run_t { address: CODE, offset: 0, len: PAGE, options: READ | EXECUTE, reserved: 0 }],
    )
}

impl Kernel<'_> {
    /// The registers of a process.
    pub fn vector(&mut self, space: &Space) -> Result<[u8; BYTES]> {
        if !self.at_vector(space, CODE)? {
            return Err(Stop::Broken("vector registers cannot be saved".into()));
        }
        let mut bytes = [0; BYTES];
        self.memory.read(space.vector, 0, &mut bytes)?;
        Ok(bytes)
    }

    /// Gives a process such registers; says whether there can be such.
    pub fn set_vector(&mut self, space: &Space, bytes: &[u8; BYTES]) -> Result<bool> {
        self.memory.write(space.vector, 0, bytes)?;
        self.at_vector(space, LOAD)
    }

    fn at_vector(&mut self, space: &Space, ip: u64) -> Result<bool> {
        *self.processor.state() =
            hafnon_vproc_state_t { ip, rax: PARTS, rdi: STATE, flags: 0x202, ..Default::default() };
        loop {
            match self.processor.enter(&space.process)? {
                Exit::Syscall => return Ok(true),
                Exit::Exception(_) => return Ok(false),
                // It is noticed when the program runs.
                Exit::Kick => self.time_is_over = true,
                other => return Err(Stop::Broken(format!("{other:?} where vector registers are saved"))),
            }
        }
    }
}
