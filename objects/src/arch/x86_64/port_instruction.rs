//! Decoder for the instructions that use I/O ports, and no others.

use super::Registers;
use crate::arch::{PortAccess, PortOperation as Operation, PortWidth};

/// The direction flag: string instructions go downwards.
const DIRECTION: u64 = 1 << 10;

/// The operand that names the port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Port {
    /// An immediate byte.
    Number(u8),
    /// Register DX.
    Dx,
}

/// The segment of a string's source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Segment {
    /// Base 0.
    Flat,
    /// FS.
    Fs,
    /// GS.
    Gs,
}

/// An instruction that uses a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Instruction {
    operation: Operation,
    width: PortWidth,
    port: Port,
    /// It is a string instruction with a repeat prefix.
    repeated: bool,
    /// Its length in bytes.
    length: u64,
    /// 32-bit address size, for addresses and counts.
    short: bool,
    segment: Segment,
}

impl Instruction {
    fn cut(&self, value: u64) -> u64 {
        if self.short { value & u64::from(u32::MAX) } else { value }
    }
}

impl PortAccess<Registers> for Instruction {
    const LONGEST: usize = 15;

    fn decode(code: &[u8]) -> Option<Self> {
        decode(code)
    }

    fn operation(&self) -> Operation {
        self.operation
    }

    fn width(&self) -> PortWidth {
        self.width
    }

    fn port(&self, registers: &Registers) -> u16 {
        match self.port {
            Port::Number(number) => number.into(),
            Port::Dx => registers.rdx as u16,
        }
    }

    fn value(&self, registers: &Registers) -> u32 {
        registers.rax as u32 & self.width.all_ones()
    }

    fn set_value(&self, registers: &mut Registers, value: u32) {
        registers.rax = match self.width {
            // A 32-bit result clears the upper half.
            PortWidth::Long => value.into(),
            _ => registers.rax & !u64::from(self.width.all_ones()) | u64::from(value & self.width.all_ones()),
        };
    }

    fn count(&self, registers: &Registers) -> u64 {
        if self.repeated { self.cut(registers.rcx) } else { 1 }
    }

    fn address(&self, registers: &Registers) -> Option<u64> {
        match (self.operation, self.segment) {
            // The destination is always in the extra segment; prefixes do not change that.
            (Operation::InMemory, _) => Some(self.cut(registers.rdi)),
            (_, Segment::Flat) => Some(self.cut(registers.rsi)),
            (_, Segment::Fs) => Some(self.cut(registers.rsi).wrapping_add(registers.fs_base)),
            // The kernel reserves GS for itself.
            (_, Segment::Gs) => None,
        }
    }

    fn advance(&self, registers: &mut Registers) {
        let width = u64::from(self.width.bytes());
        let step = if registers.rflags & DIRECTION != 0 { width.wrapping_neg() } else { width };
        let place = if self.operation == Operation::InMemory { &mut registers.rdi } else { &mut registers.rsi };
        *place = self.cut(place.wrapping_add(step));
        if self.repeated {
            registers.rcx = self.cut(registers.rcx.wrapping_sub(1));
        }
    }

    fn finish(&self, registers: &mut Registers) {
        if !(self.repeated && self.count(registers) != 0) {
            registers.rip = registers.rip.wrapping_add(self.length);
        }
    }
}

/// Decodes the instruction at the start of `bytes`, if it uses a port.
fn decode(bytes: &[u8]) -> Option<Instruction> {
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
    // The last prefix may be a REX. None of its bits matters here, as no such instruction moves 8 bytes.
    if *bytes.get(at)? & 0xf0 == 0x40 {
        at += 1;
        // The last REX decides about the width: with its W bit, prefix 66 has no effect.
        words &= *bytes.get(at - 1)? & 8 == 0;
    }
    let opcode = *bytes.get(at)?;
    let (operation, has_number) = match opcode {
        0x6c | 0x6d => (Operation::InMemory, false),
        0x6e | 0x6f => (Operation::OutMemory, false),
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
    let repeated = repeated && matches!(operation, Operation::InMemory | Operation::OutMemory);
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
        assert_eq!(of(&[0xf3, 0x6c]), (Operation::InMemory, Byte, Port::Dx, true, 2));
        assert_eq!(of(&[0xf3, 0x66, 0x6d]), (Operation::InMemory, Word, Port::Dx, true, 3));
        assert_eq!(of(&[0x66, 0xf2, 0x6f]), (Operation::OutMemory, Word, Port::Dx, true, 3));
        assert_eq!(of(&[0x6f]), (Operation::OutMemory, Long, Port::Dx, false, 1));
    }

    #[test]
    fn prefixes() {
        // Without a string instruction, a repeat prefix has no effect.
        assert_eq!(of(&[0xf3, 0xec]), (Operation::In, PortWidth::Byte, Port::Dx, false, 2));
        // REX comes last, and its W bit overrides 66.
        assert_eq!(of(&[0x66, 0x48, 0xed]), (Operation::In, PortWidth::Long, Port::Dx, false, 3));
        assert_eq!(of(&[0x66, 0x40, 0xed]), (Operation::In, PortWidth::Word, Port::Dx, false, 3));
        assert_eq!(decode(&[0x48, 0x66, 0xed]), None);
        // LOCK is not allowed here, and causes another fault.
        assert_eq!(decode(&[0xf0, 0xec]), None);
        assert_eq!(decode(&[0x66; Instruction::LONGEST]), None);
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
