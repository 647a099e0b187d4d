//! The pages that attackers and victims share.
//!
//! | where | what |
//! |---|---|
//! | 0x100, 0x180, … | a line for each of them: turns made, what it found wrong, and space to store registers |
//! | 0x800 | the content of the victims' registers, followed by the control words of victims and attackers |
//! | 0x900 | the target of a victim's FS; a time in the near future; a far pointer with a null selector |
//! | 0xa00 | the selectors that can be loaded: their number, then each of them |
//! | 0x1000, 0x1400 | x87 and vector registers that attackers load: all, and those of SSE alone |
//! | 0x1800 | stacks for code that does not run in a thread of its own |

use conformance::check::Failure;
use zx::{MonotonicInstant, Vmo};

/// Size in bytes.
pub const SIZE: u64 = 0x2000;
const LINES: u64 = 0x100;
const LINE: u64 = 0x80;
pub const PATTERN: u64 = 0x800;
pub const MASKS: u64 = 0x820;
/// The target of a victim's FS.
pub const FS_WORD: u64 = 0x900;
pub const DEADLINE: u64 = 0x910;
const SELECTORS: u64 = 0xa00;
const IMAGES: [(u64, u8); 2] = [(0x1000, 7), (0x1400, 2)];
const STACKS: u64 = 0x1800;
const STACK: u64 = 0x200;

const WORDS: [u64; 4] = [0x5ec2_e701_0203_0405, 0x5ec2_e711_1213_1415, 0x5ec2_e721_2223_2425, 0x5ec2_e731_3233_3435];
const FS_CONTENT: u64 = 0x5ec2_e7f5_f5f5_f5f5;

/// The shared pages.
pub struct Memory(pub Vmo);

/// The offset of a line.
pub fn line(number: u64) -> u64 {
    LINES + number * LINE
}

/// The top of a stack, for code that does not run in a thread of its own.
pub fn stack(number: u64) -> u64 {
    STACKS + (number + 1) * STACK
}

impl Memory {
    /// Creates the pages with the victims' registers, and what attackers load: these selectors, and registers.
    pub fn new(selectors: &[u64]) -> Result<Memory, Failure> {
        let vmo = Vmo::create(SIZE, 0)?;
        for (word, place) in WORDS.into_iter().zip((PATTERN..).step_by(8)) {
            vmo.write(&word.to_le_bytes(), place)?;
        }
        // The victims' MXCSR (flush to zero) and the attackers' (rounding to zero), with all exceptions masked; the victims' FCW (rounding
        // up) and the attackers' (an exception for a division by zero).
        vmo.write(&0x9fc0_u32.to_le_bytes(), MASKS)?;
        vmo.write(&0x7f80_u32.to_le_bytes(), MASKS + 4)?;
        vmo.write(&0x0b7f_u16.to_le_bytes(), MASKS + 8)?;
        vmo.write(&0x037b_u16.to_le_bytes(), MASKS + 10)?;
        vmo.write(&FS_CONTENT.to_le_bytes(), FS_WORD)?;
        for (word, place) in [selectors.len() as u64].iter().chain(selectors).zip((SELECTORS..IMAGES[0].0).step_by(8)) {
            vmo.write(&word.to_le_bytes(), place)?;
        }
        for (at, components) in IMAGES {
            let mut image = [0; 832];
            image[..2].copy_from_slice(&0x037f_u16.to_le_bytes());
            image[24..28].copy_from_slice(&0x7f80_u32.to_le_bytes());
            image[32..416].fill(0xee);
            // XRSTOR refuses components that the kernel has not enabled.
            image[512] = components & if super::has_avx() { 7 } else { 3 };
            image[576..].fill(0xee);
            vmo.write(&image, at)?;
        }
        Ok(Memory(vmo))
    }

    /// Reads a word of the pages.
    pub fn word(&self, place: u64) -> Result<u64, Failure> {
        let mut bytes = [0; 8];
        self.0.read(&mut bytes, place)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// The turns that one of them has made, and what it found wrong.
    pub fn turns(&self, number: u64) -> Result<(u64, u64), Failure> {
        Ok((self.word(line(number))?, self.word(line(number) + 8)?))
    }

    /// The word that one of them has stored as its result.
    pub fn told(&self, number: u64) -> Result<u64, Failure> {
        self.word(line(number) + 16)
    }

    /// The listed selectors.
    pub fn selectors(&self) -> Result<Vec<u64>, Failure> {
        (1..=self.word(SELECTORS)?).map(|number| self.word(SELECTORS + number * 8)).collect()
    }

    /// Sets the time at which sleeping attackers wake: soon.
    pub fn wind(&self) -> Result<(), Failure> {
        let soon = MonotonicInstant::after(zx::Duration::from_micros(200)).0;
        Ok(self.0.write(&soon.to_le_bytes(), DEADLINE)?)
    }
}
