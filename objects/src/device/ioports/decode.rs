//! The instructions that use ports, and no others.

use crate::machine::{PortWidth, Registers};

/// Bytes of the longest instruction.
pub const LONGEST: usize = 15;

/// What an instruction does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Port to accumulator.
    In,
    /// Accumulator to port.
    Out,
    /// Port to memory.
    Ins,
    /// Memory to port.
    Outs,
}

/// Which port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Port {
    /// One that stands in the instruction.
    Number(u8),
    /// The one in DX.
    Dx,
}

/// The segment that a string out of memory is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Segment {
    /// Begins at 0.
    Flat,
    /// Begins where FS does.
    Fs,
    /// Begins where GS does.
    Gs,
}

/// An instruction that uses a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Instruction {
    /// What it does.
    pub operation: Operation,
    /// How much at a time.
    pub width: PortWidth,
    /// Where.
    pub port: Port,
    /// It has a repeat prefix, and is a string instruction.
    pub repeated: bool,
    /// Its bytes.
    pub length: u64,
    /// Addresses and counts have 32 bits.
    short: bool,
    segment: Segment,
}

impl Instruction {
    fn cut(&self, value: u64) -> u64 {
        if self.short { value & u64::from(u32::MAX) } else { value }
    }

    /// Elements that are still to be moved.
    pub fn count(&self, registers: &Registers) -> u64 {
        self.cut(registers.rcx)
    }

    /// Where in memory the next element is; none if that cannot be known.
    pub fn address(&self, registers: &Registers) -> Option<u64> {
        match (self.operation, self.segment) {
            // What goes into memory goes into the extra segment, whatever the prefixes say.
            (Operation::Ins, _) => Some(self.cut(registers.rdi)),
            (_, Segment::Flat) => Some(self.cut(registers.rsi)),
            (_, Segment::Fs) => Some(self.cut(registers.rsi).wrapping_add(registers.fs_base)),
            // The kernel keeps it for itself.
            (_, Segment::Gs) => None,
        }
    }

    /// An element was moved: on to the next.
    pub fn advance(&self, registers: &mut Registers, step: u64) {
        let place = if self.operation == Operation::Ins { &mut registers.rdi } else { &mut registers.rsi };
        *place = self.cut(place.wrapping_add(step));
        if self.repeated {
            registers.rcx = self.cut(registers.rcx.wrapping_sub(1));
        }
    }
}

/// Decodes the instruction that `bytes` begins with, if it uses a port.
pub fn decode(bytes: &[u8]) -> Option<Instruction> {
    let (mut words, mut repeated, mut short, mut segment) = (false, false, false, Segment::Flat);
    let mut at = 0;
    loop {
        match *bytes.get(at)? {
            0x66 => words = true,
            0x67 => short = true,
            0xf2 | 0xf3 => repeated = true,
            0x26 | 0x2e | 0x36 | 0x3e => segment = Segment::Flat,
            0x64 => segment = Segment::Fs,
            0x65 => segment = Segment::Gs,
            _ => break,
        }
        at += 1;
    }
    // The last prefix may be a REX, of which no bit means anything here: no such instruction moves 8 bytes.
    if *bytes.get(at)? & 0xf0 == 0x40 {
        at += 1;
        // It is the last one that says how wide: with its W bit, 66 has no effect.
        words &= *bytes.get(at - 1)? & 8 == 0;
    }
    let opcode = *bytes.get(at)?;
    let (operation, has_number) = match opcode {
        0x6c | 0x6d => (Operation::Ins, false),
        0x6e | 0x6f => (Operation::Outs, false),
        0xe4 | 0xe5 => (Operation::In, true),
        0xe6 | 0xe7 => (Operation::Out, true),
        0xec | 0xed => (Operation::In, false),
        0xee | 0xef => (Operation::Out, false),
        _ => return None,
    };
    let width = match (opcode & 1, words) {
        (0, _) => PortWidth::Byte,
        (_, true) => PortWidth::Word,
        (_, false) => PortWidth::Long,
    };
    at += 1;
    let port = if has_number {
        at += 1;
        Port::Number(*bytes.get(at - 1)?)
    } else {
        Port::Dx
    };
    let repeated = repeated && matches!(operation, Operation::Ins | Operation::Outs);
    Some(Instruction { operation, width, port, repeated, length: at as u64, short, segment })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> (Operation, PortWidth, Port, bool, u64) {
        let Instruction { operation, width, port, repeated, length, .. } = decode(bytes).unwrap();
        (operation, width, port, repeated, length)
    }

    #[test]
    fn each_opcode() {
        use PortWidth::{Byte, Long, Word};
        assert_eq!(of(&[0xec]), (Operation::In, Byte, Port::Dx, false, 1));
        assert_eq!(of(&[0xed]), (Operation::In, Long, Port::Dx, false, 1));
        assert_eq!(of(&[0x66, 0xed]), (Operation::In, Word, Port::Dx, false, 2));
        assert_eq!(of(&[0xe4, 0x71]), (Operation::In, Byte, Port::Number(0x71), false, 2));
        assert_eq!(of(&[0xe5, 0x71]), (Operation::In, Long, Port::Number(0x71), false, 2));
        assert_eq!(of(&[0xe6, 0x80]), (Operation::Out, Byte, Port::Number(0x80), false, 2));
        assert_eq!(of(&[0x66, 0xe7, 0x80]), (Operation::Out, Word, Port::Number(0x80), false, 3));
        assert_eq!(of(&[0xee]), (Operation::Out, Byte, Port::Dx, false, 1));
        assert_eq!(of(&[0xef]), (Operation::Out, Long, Port::Dx, false, 1));
        assert_eq!(of(&[0xf3, 0x6c]), (Operation::Ins, Byte, Port::Dx, true, 2));
        assert_eq!(of(&[0xf3, 0x66, 0x6d]), (Operation::Ins, Word, Port::Dx, true, 3));
        assert_eq!(of(&[0x66, 0xf2, 0x6f]), (Operation::Outs, Word, Port::Dx, true, 3));
        assert_eq!(of(&[0x6f]), (Operation::Outs, Long, Port::Dx, false, 1));
    }

    #[test]
    fn prefixes() {
        // A repeat means nothing where there is no string.
        assert_eq!(of(&[0xf3, 0xec]), (Operation::In, PortWidth::Byte, Port::Dx, false, 2));
        // REX comes last, and with W undoes 66.
        assert_eq!(of(&[0x66, 0x48, 0xed]), (Operation::In, PortWidth::Long, Port::Dx, false, 3));
        assert_eq!(of(&[0x66, 0x40, 0xed]), (Operation::In, PortWidth::Word, Port::Dx, false, 3));
        assert_eq!(decode(&[0x48, 0x66, 0xed]), None);
        // LOCK is not allowed here, and is another fault.
        assert_eq!(decode(&[0xf0, 0xec]), None);
        assert_eq!(decode(&[0x66; LONGEST]), None);
        assert_eq!(decode(&[0xe4]), None);
        assert_eq!(decode(&[]), None);
        assert_eq!(decode(&[0xf4]), None, "hlt");
        assert_eq!(decode(&[0xfa]), None, "cli");
    }

    #[test]
    fn addresses() {
        let registers = Registers { rsi: 0x1_0000_1000, rdi: 0x2_0000_2000, fs_base: 0x7000, ..Registers::default() };
        let address = |bytes: &[u8]| decode(bytes).unwrap().address(&registers);
        assert_eq!(address(&[0x6e]), Some(0x1_0000_1000));
        assert_eq!(address(&[0x67, 0x6e]), Some(0x1000));
        assert_eq!(address(&[0x64, 0x6e]), Some(0x1_0000_8000));
        assert_eq!(address(&[0x65, 0x6e]), None);
        assert_eq!(address(&[0x65, 0x6c]), Some(0x2_0000_2000));
        assert_eq!(address(&[0x65, 0x3e, 0x6e]), Some(0x1_0000_1000));
    }
}
