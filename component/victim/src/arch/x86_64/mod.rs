//! The state: how it is set up, and how it is checked.
//!
//! The compiler does not use x87 and vector registers for this target, so values that are loaded into them stay there.

use core::arch::asm;
use core::arch::x86_64::__cpuid;

/// The part of the state that is wrong.
#[derive(Clone, Copy)]
#[repr(u64)]
pub enum StatePart {
    /// Flags that no arithmetic changes.
    Flags = 1,
    /// The selector in SS.
    StackSegment,
    /// The word at the FS base.
    Fs,
    /// The word at the GS base.
    Gs,
    /// x87's control and status words, and the bitmap of used registers.
    X87Words,
    /// MXCSR.
    Mxcsr,
    /// The x87 registers.
    X87,
    /// The lower halves of vector registers.
    Sse,
    /// The upper halves of vector registers.
    Avx,
}

/// A part of the state that has changed.
#[derive(Clone, Copy)]
pub struct StateMismatch {
    /// The part.
    pub what: StatePart,
    /// The value found.
    pub found: u64,
    /// The value expected.
    pub wanted: u64,
}

/// Bytes of the x87, SSE and AVX state in the format of XSAVE.
const SIZE: usize = 832;
const WORDS: usize = SIZE / 8;

/// Registers in that format.
#[derive(Clone)]
#[repr(align(64))]
struct Image([u64; WORDS]);

/// The checked parts of the image: word range, what it holds, and which bits are checked. The x87 instruction and
/// operand pointers are left out, and so is the image's header.
const PLACES: [(core::ops::Range<usize>, StatePart, u64); 5] = [
    (0..1, StatePart::X87Words, 0xff_ffff_ffff),
    (3..4, StatePart::Mxcsr, 0xffff_ffff),
    (4..20, StatePart::X87, u64::MAX),
    (20..52, StatePart::Sse, u64::MAX),
    (72..WORDS, StatePart::Avx, u64::MAX),
];
/// The word that says which components an image contains.
const COMPONENTS: usize = 64;
/// x87, SSE and AVX.
const ALL: u64 = 7;

/// Flags that are checked: trap, interrupts, direction, privilege, nested task, alignment check, identification.
const FLAGS: u64 = 0x24_7700;
/// The flags among these that are set: interrupts and identification, which no other code sets by accident.
const OWN_FLAGS: u64 = 0x20_0200;

/// The words at the FS and the GS base.
static BEHIND_FS: u64 = 0x5ec2_e7f5_f5f5_f5f5;
static BEHIND_GS: u64 = 0x5ec2_e765_6565_6565;

/// See the module's description.
pub struct State {
    /// The expected registers.
    wanted: Image,
    /// Whether this includes AVX registers.
    avx: bool,
    stack_segment: u64,
    /// Whether it has bases of its own.
    bases: bool,
}

impl State {
    /// Fills the registers, and sets the bases if `bases` is set.
    pub fn take(bases: bool) -> State {
        let avx = has_avx();
        let mut image = Image([0; WORDS]);
        image.0.iter_mut().zip(0..).for_each(|(word, number)| *word = 0x5ec2_e700_0000_0000 + number * 0x0101_0101);
        // Rounding up, all exceptions masked, condition codes of a comparison, all eight registers in use; and flush to
        // zero.
        image.0[0] = 0x00ff_4700_0b7f;
        (image.0[1], image.0[2], image.0[3]) = (0, 0, 0x9fc0);
        image.0[52..72].fill(0);
        image.0[COMPONENTS] = ALL;
        // An x87 register has ten bytes.
        image.0[5..20].iter_mut().step_by(2).for_each(|word| *word = 0x3fff);
        load(&image, avx);
        // SAFETY: it changes a flag that nothing else in this program uses.
        unsafe { asm!("pushfq", "or qword ptr [rsp], {id}", "popfq", id = const 1 << 21) };
        // The expected values are those that the processor saves now.
        let mut wanted = Image([0; WORDS]);
        save(&mut wanted, avx);
        if bases {
            // SAFETY: nothing else in this program uses FS or GS.
            unsafe {
                asm!("wrfsbase {fs}", "wrgsbase {gs}", fs = in(reg) &raw const BEHIND_FS, gs = in(reg) &raw const BEHIND_GS,
                     options(nostack, preserves_flags));
            }
        }
        State { wanted, avx, stack_segment: stack_segment(), bases }
    }

    /// Checks everything; returns the first difference.
    pub fn look(&self) -> Option<StateMismatch> {
        let flags: u64;
        // SAFETY: it only reads flags.
        unsafe { asm!("pushfq", "pop {flags}", flags = out(reg) flags) };
        differs(StatePart::Flags, flags & FLAGS, OWN_FLAGS)
            .or_else(|| differs(StatePart::StackSegment, stack_segment(), self.stack_segment))
            .or_else(|| self.look_at_bases())
            .or_else(|| self.look_at_registers())
    }

    fn look_at_bases(&self) -> Option<StateMismatch> {
        if !self.bases {
            return None;
        }
        // The bases are checked before they are used, because a wrong base may lead to unmapped memory.
        let (fs, gs): (u64, u64);
        // SAFETY: with bases of its own, the program has checked that the instructions exist.
        unsafe {
            asm!("rdfsbase {fs}", "rdgsbase {gs}", fs = out(reg) fs, gs = out(reg) gs, options(nostack, preserves_flags));
        }
        let places = [&raw const BEHIND_FS, &raw const BEHIND_GS].map(|place| place.expose_provenance() as u64);
        let bases = differs(StatePart::Fs, fs, places[0]).or_else(|| differs(StatePart::Gs, gs, places[1]));
        bases.or_else(|| {
            let (fs, gs): (u64, u64);
            // SAFETY: the bases are the expected ones, so this reads the two statics.
            unsafe {
                asm!("mov {fs}, fs:[0]", "mov {gs}, gs:[0]", fs = out(reg) fs, gs = out(reg) gs,
                     options(nostack, preserves_flags, readonly));
            }
            differs(StatePart::Fs, fs, BEHIND_FS).or_else(|| differs(StatePart::Gs, gs, BEHIND_GS))
        })
    }

    fn look_at_registers(&self) -> Option<StateMismatch> {
        let mut now = Image([0; WORDS]);
        save(&mut now, self.avx);
        PLACES.iter().find_map(|(words, what, bits)| {
            let pairs = now.0[words.clone()].iter().zip(&self.wanted.0[words.clone()]);
            pairs.into_iter().find_map(|(found, wanted)| differs(*what, found & bits, wanted & bits))
        })
    }
}

fn differs(what: StatePart, found: u64, wanted: u64) -> Option<StateMismatch> {
    (found != wanted).then_some(StateMismatch { what, found, wanted })
}

fn stack_segment() -> u64 {
    let selector: u64;
    // SAFETY: it only reads a selector.
    unsafe { asm!("mov {:e}, ss", out(reg) selector, options(nomem, nostack, preserves_flags)) };
    selector
}

/// Whether the kernel has enabled AVX state, as the processor reports.
fn has_avx() -> bool {
    const XSAVE_AND_AVX: u32 = 0b11 << 27;
    if __cpuid(1).ecx & XSAVE_AND_AVX != XSAVE_AND_AVX {
        return false;
    }
    let components: u32;
    // SAFETY: the kernel has enabled the instruction, which reads a register of the processor.
    unsafe {
        asm!("xgetbv", in("ecx") 0, out("eax") components, out("edx") _, options(nomem, nostack, preserves_flags))
    };
    u64::from(components) & ALL == ALL
}

fn load(image: &Image, avx: bool) {
    // SAFETY: the image is whole and aligned, and no code of this program keeps anything in these registers.
    unsafe {
        if avx {
            asm!("xrstor64 [{}]", in(reg) image, in("eax") ALL as u32, in("edx") 0, options(nostack, preserves_flags));
        } else {
            asm!("fxrstor64 [{}]", in(reg) image, options(nostack, preserves_flags));
        }
    }
}

fn save(image: &mut Image, avx: bool) {
    // SAFETY: the image is whole, aligned, and zero where the processor requires that.
    unsafe {
        if avx {
            asm!("xsave64 [{}]", in(reg) image, in("eax") ALL as u32, in("edx") 0, options(nostack, preserves_flags));
        } else {
            asm!("fxsave64 [{}]", in(reg) image, options(nostack, preserves_flags));
        }
    }
}
