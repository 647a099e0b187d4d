//! The C types of parameters, and how parameters are packed into message words.

use crate::error::Error;
use crate::interfaces::{Method, Parameter, Struct};

/// Bits in a word and in a message register.
pub const WORD_BITS: u32 = 64;

/// How a parameter's C type is passed in the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// A number of this many bits (1 for a boolean).
    Number(u32),
    /// A capability, which is passed beside the message words. The text is the binding's type.
    Cap(&'static str),
    /// A structure of this many words.
    Words(usize),
}

/// The binding's types for the kernel's capabilities. `seL4_CPtr` is a capability whose kind the interface leaves open.
const CAPS: &[(&str, &str)] = &[
    ("seL4_CPtr", "CPtr"),
    ("seL4_CNode", "CNode"),
    ("seL4_TCB", "Tcb"),
    ("seL4_Untyped", "Untyped"),
    ("seL4_IRQControl", "IrqControl"),
    ("seL4_IRQHandler", "IrqHandler"),
    ("seL4_DomainSet", "CPtr"),
    ("seL4_SchedContext", "CPtr"),
    ("seL4_SchedControl", "CPtr"),
    ("seL4_X64_PML4", "VSpace"),
    ("seL4_X86_PDPT", "Pdpt"),
    ("seL4_X86_PageDirectory", "PageDirectory"),
    ("seL4_X86_PageTable", "PageTable"),
    ("seL4_X86_Page", "Page"),
    ("seL4_X86_ASIDControl", "AsidControl"),
    ("seL4_X86_ASIDPool", "AsidPool"),
    ("seL4_X86_IOPort", "IoPort"),
    ("seL4_X86_IOPortControl", "IoPortControl"),
    ("seL4_X86_IOSpace", "CPtr"),
    ("seL4_X86_IOPageTable", "CPtr"),
    ("seL4_X86_VCPU", "CPtr"),
    ("seL4_X86_EPTPML4", "CPtr"),
    ("seL4_X86_EPTPDPT", "CPtr"),
    ("seL4_X86_EPTPD", "CPtr"),
    ("seL4_X86_EPTPT", "CPtr"),
];

impl Type {
    /// The type with this C name. `structs` are those that the interface files define.
    pub fn of(name: &str, structs: &[Struct]) -> Option<Self> {
        if let Some((_, cap)) = CAPS.iter().find(|(c, _)| *c == name) {
            return Some(Type::Cap(cap));
        }
        if let Some(found) = structs.iter().find(|s| s.name == name) {
            return Some(Type::Words(found.members.len()));
        }
        let bits = match name {
            "seL4_Bool" => 1,
            "seL4_Uint8" => 8,
            "seL4_Uint16" => 16,
            "int" | "seL4_Uint32" => 32,
            "long" | "seL4_Word" | "seL4_Uint64" | "seL4_Time" => WORD_BITS,
            "seL4_CapData_t" | "seL4_CapRights_t" | "seL4_PrioProps_t" => WORD_BITS,
            "seL4_X86_VMAttributes" | "seL4_X86_EPT_VMAttributes" => WORD_BITS,
            _ => return None,
        };
        Some(Type::Number(bits))
    }

    /// The binding's type for the object that an interface belongs to.
    pub fn service(interface: &str) -> Option<&'static str> {
        CAPS.iter().find(|(c, _)| *c == interface).map(|(_, cap)| *cap)
    }
}

/// A parameter with its place in the message.
#[derive(Debug, Clone)]
pub struct Placed<'m> {
    /// The parameter.
    pub parameter: &'m Parameter,
    /// Its number of bits or words.
    pub ty: Type,
    /// The message word where it starts.
    pub word: usize,
    /// The bit of that word.
    pub bit: u32,
}

/// The places of a method's inputs, or of its outputs, in the message.
#[derive(Debug, Clone)]
pub struct Places<'m> {
    /// Parameters in the message's words.
    pub words: Vec<Placed<'m>>,
    /// Capabilities, in this order.
    pub caps: Vec<&'m Parameter>,
    /// Number of words of the message.
    pub length: usize,
}

impl<'m> Places<'m> {
    /// Each parameter is aligned to its own size, at most to a word, in the order of the interface file.
    pub fn of(method: &Method, parameters: &'m [Parameter], structs: &[Struct]) -> Result<Self, Error> {
        let (mut words, mut caps, mut used) = (Vec::new(), Vec::new(), 0_u32);
        for parameter in parameters {
            let ty = Type::of(&parameter.ty, structs).ok_or_else(|| Error::UnknownType {
                path: method.path.clone(),
                method: method.id.clone(),
                ty: parameter.ty.clone(),
            })?;
            let bits = match ty {
                Type::Cap(_) => {
                    caps.push(parameter);
                    continue;
                }
                Type::Number(bits) => bits,
                Type::Words(words) => words as u32 * WORD_BITS,
            };
            used = used.next_multiple_of(bits.min(WORD_BITS));
            words.push(Placed { parameter, ty, word: (used / WORD_BITS) as usize, bit: used % WORD_BITS });
            used += bits;
        }
        Ok(Self { words, caps, length: used.div_ceil(WORD_BITS) as usize })
    }
}
