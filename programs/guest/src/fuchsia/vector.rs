//! A process's vector registers. They are in its runner, and no call of the server reads them. So a few instructions in
//! the sub-domain itself save them to a page there and load them from it.

use std::sync::OnceLock;

use abi::{hafnon_vproc_run_t, hafnon_vproc_state_t};
use zx::{Exit, Vmar, Vmo, map_runs};

use super::kernel::Kernel;
use super::linux::{Result, Stop};
use super::memory::{EXECUTE, PAGE, READ};
use super::space::{Space, TOP};

/// The address of the instructions: above the program's addresses.
const CODE: u64 = TOP + PAGE;
/// The address of the saved registers.
pub const STATE: u64 = TOP + 2 * PAGE;
/// Size of the saved registers in bytes: the legacy area, the header, and the upper halves of `ymm0` to `ymm15`.
pub const BYTES: usize = 832;
/// `xsave64 [rdi]; syscall`, and `xrstor64 [rdi]; syscall`.
const SAVE_AND_LOAD: [u8; 12] = [0x48, 0x0f, 0xae, 0x27, 0x0f, 0x05, 0x48, 0x0f, 0xae, 0x2f, 0x0f, 0x05];
const LOAD: u64 = CODE + 6;
/// The saved components: x87, SSE and AVX.
const PARTS: u64 = 7;

/// Maps the instructions into a sub-domain.
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
    /// Saves and returns the vector registers of a process.
    pub fn vector(&mut self, space: &Space) -> Result<[u8; BYTES]> {
        if !self.at_vector(space, CODE)? {
            return Err(Stop::Broken("vector registers cannot be saved".into()));
        }
        let mut bytes = [0; BYTES];
        self.memory.read(space.vector, 0, &mut bytes)?;
        Ok(bytes)
    }

    /// Loads the vector registers of a process; returns whether the state is valid.
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
                // It takes effect when the program runs.
                Exit::Kick => self.time_is_over = true,
                other => return Err(Stop::Broken(format!("{other:?} where vector registers are saved"))),
            }
        }
    }
}
