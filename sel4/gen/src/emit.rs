//! Writes the generated half of the binding.
//!
//! A method becomes a function that takes its object, its capabilities and its numbers in the order of the interface
//! file, puts them where the kernel expects them, makes the call, and decodes the results. Four words of a message
//! travel in registers; further words and all capabilities go through the IPC buffer.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::error::Error;
use crate::interfaces::{Method, Struct};
use crate::kernel::Kernel;
use crate::types::{Placed, Places, Type, WORD_BITS};

/// Words of a message that travel in registers.
const REGISTERS: usize = 4;

/// Configuration flags that the binding needs, whether or not the kernel defines them.
const FLAGS: &[&str] =
    &["DEBUG_BUILD", "PRINTING", "FASTPATH", "HUGE_PAGE", "IOMMU", "VTX", "HARDWARE_DEBUG_API", "ENABLE_BENCHMARKS"];

/// Configuration numbers that the binding needs, with their defaults.
const NUMBERS: &[(&str, i64)] = &[
    ("MAX_NUM_NODES", 1),
    ("NUM_DOMAINS", 1),
    ("NUM_PRIORITIES", 256),
    ("MAX_NUM_BOOTINFO_UNTYPED_CAPS", 0),
    ("ROOT_CNODE_SIZE_BITS", 0),
    ("RETYPE_FAN_OUT_LIMIT", 0),
    ("XSAVE_SIZE", 512),
    ("TIMER_TICK_MS", 2),
    ("TIME_SLICE", 5),
];

/// Generates the Rust source that the binding includes.
pub fn emit(kernel: &Kernel) -> Result<String, Error> {
    let mut out = String::from("// Generated from the kernel's interface files and configuration.\n\n");
    config(&mut out, kernel);
    labels(&mut out, kernel);
    syscalls(&mut out, kernel);
    context(&mut out, kernel)?;
    invocations(&mut out, kernel)?;
    Ok(out)
}

fn config(out: &mut String, kernel: &Kernel) {
    out.push_str("/// The configuration that the kernel was built with.\npub mod config {\n");
    for name in FLAGS {
        let set = kernel.config.is_set(name);
        let _ = writeln!(out, "    /// Whether `CONFIG_{name}` is set.\n    pub const {name}: bool = {set};");
    }
    for (name, default) in NUMBERS {
        let number = kernel.config.number(name).unwrap_or(*default);
        let _ = writeln!(out, "    /// `CONFIG_{name}`.\n    pub const {name}: u64 = {number};");
    }
    out.push_str("}\n\n");
}

fn labels(out: &mut String, kernel: &Kernel) {
    out.push_str("/// The labels of invocations.\n#[allow(dead_code)]\npub(crate) mod label {\n");
    for (method, label) in kernel.methods.iter().zip(1..) {
        let _ = writeln!(out, "    pub const {}: u64 = {label};", shout(&method.id));
    }
    out.push_str("}\n\n");
}

fn syscalls(out: &mut String, kernel: &Kernel) {
    out.push_str("/// The numbers of system calls.\n#[allow(dead_code)]\npub(crate) mod syscall {\n");
    for (name, number) in &kernel.syscalls {
        let _ = writeln!(out, "    pub const {}: i64 = {number};", shout(name));
    }
    out.push_str("}\n\n");
}

/// Generates the words of a thread's register set.
fn context(out: &mut String, kernel: &Kernel) -> Result<(), Error> {
    let path = kernel.files.first().cloned().unwrap_or_default();
    let found = kernel.structs.iter().find(|s| s.name == "seL4_UserContext");
    let context = found.ok_or_else(|| Error::Xml { path, what: "no <struct> seL4_UserContext".into() })?;
    // 5.0.0 calls the FS base `tls_base`, after its use.
    let members: Vec<&str> = context.members.iter().map(|m| if m == "tls_base" { "fs_base" } else { m }).collect();
    let count = members.len();
    let _ = writeln!(
        out,
        "/// The words of a thread's registers.\npub(crate) const USER_CONTEXT_WORDS: usize = {count};\n"
    );
    out.push_str("impl crate::UserContext {\n    pub(crate) fn to_words(&self) -> [u64; USER_CONTEXT_WORDS] {\n");
    let list = |prefix: &str| members.iter().map(|m| format!("{prefix}{m}")).collect::<Vec<_>>().join(", ");
    let _ = writeln!(out, "        [{}]\n    }}\n", list("self."));
    out.push_str("    pub(crate) fn from_words(words: &[u64; USER_CONTEXT_WORDS]) -> Self {\n");
    let _ = writeln!(out, "        let [{}] = *words;", list(""));
    let _ = writeln!(out, "        Self {{ {}, ..Self::default() }}\n    }}\n}}\n", list(""));
    Ok(())
}

fn invocations(out: &mut String, kernel: &Kernel) -> Result<(), Error> {
    out.push_str(
        "/// One function for each invocation.\n#[allow(dead_code, missing_docs, clippy::too_many_arguments)]\n",
    );
    out.push_str(
        "pub(crate) mod invoke {\n    use super::label;\n    use crate::message::Invocation;\n    use crate::*;\n",
    );
    let mut seen = BTreeSet::new();
    for method in &kernel.methods {
        let name = function_name(method);
        if seen.insert(name.clone()) {
            invocation(out, method, &name, &kernel.structs)?;
        }
    }
    out.push_str("}\n");
    Ok(())
}

fn invocation(out: &mut String, method: &Method, name: &str, structs: &[Struct]) -> Result<(), Error> {
    let Places { words: inputs, caps, length } = Places::of(method, &method.inputs, structs)?;
    let outputs = Places::of(method, &method.outputs, structs)?.words;
    let service = Type::service(&method.interface).ok_or_else(|| Error::UnknownType {
        path: method.path.clone(),
        method: method.id.clone(),
        ty: method.interface.clone(),
    })?;

    let mut parameters = format!("service: {service}");
    for parameter in &method.inputs {
        // Versions disagree on the kind of some capabilities and the width of some numbers, so the functions accept
        // any.
        let ty = match Type::of(&parameter.ty, structs) {
            Some(Type::Cap(_)) => "impl Into<CPtr>".to_owned(),
            Some(Type::Words(words)) => format!("&[u64; {words}]"),
            Some(Type::Number(_)) => "impl Into<u64>".to_owned(),
            None => continue,
        };
        let _ = write!(parameters, ", {}: {ty}", identifier(&parameter.name));
    }
    let results: Vec<String> = outputs.iter().map(|output| result_type(&output.ty)).collect();
    let result = match results.as_slice() {
        [] => "()".to_owned(),
        [one] => one.clone(),
        many => format!("({})", many.join(", ")),
    };

    let _ = writeln!(out, "\n    #[inline]\n    pub fn {name}({parameters}) -> Result<{result}> {{");
    let _ = writeln!(
        out,
        "        let {}call = Invocation::new(service.cptr(), label::{}, {length}, {});",
        if length == 0 && caps.is_empty() { "" } else { "mut " },
        shout(&method.id),
        caps.len()
    );
    for (i, cap) in caps.iter().enumerate() {
        let _ = writeln!(out, "        call.cap::<{i}>({}.into());", identifier(&cap.name));
    }
    for word in 0..length {
        words(out, &inputs, word);
    }
    if outputs.is_empty() {
        out.push_str("        call.run().map(|_| ())\n    }\n");
        return Ok(());
    }
    out.push_str("        let reply = call.run()?;\n");
    let values: Vec<String> = outputs.iter().map(value).collect();
    match values.as_slice() {
        [one] => {
            let _ = writeln!(out, "        Ok({one})\n    }}");
        }
        many => {
            let _ = writeln!(out, "        Ok(({}))\n    }}", many.join(", "));
        }
    }
    Ok(())
}

/// Fills one word of the message from one parameter, or from several that share it.
fn words(out: &mut String, inputs: &[Placed<'_>], word: usize) {
    let mut parts = Vec::new();
    for input in inputs {
        let name = identifier(&input.parameter.name);
        match input.ty {
            Type::Words(count) if (input.word..input.word + count).contains(&word) => {
                parts.push(format!("{name}[{}]", word - input.word));
            }
            Type::Number(_) if input.word == word => {
                let value = match input.ty {
                    Type::Number(bits) if bits < WORD_BITS => format!("{name}.into() & {:#x}", (1_u64 << bits) - 1),
                    _ => format!("{name}.into()"),
                };
                parts.push(if input.bit == 0 { value } else { format!("({value}) << {}", input.bit) });
            }
            _ => {}
        }
    }
    let _ = writeln!(out, "        call.word::<{word}>({});", parts.join(" | "));
}

fn value(output: &Placed<'_>) -> String {
    let read = |word: usize| {
        if word < REGISTERS { format!("reply[{word}]") } else { format!("crate::ipc::message_word({word})") }
    };
    match output.ty {
        Type::Words(count) => {
            let words: Vec<String> = (output.word..output.word + count).map(read).collect();
            format!("[{}]", words.join(", "))
        }
        Type::Number(64) => read(output.word),
        Type::Number(1) => format!("({} >> {}) & 1 != 0", read(output.word), output.bit),
        Type::Number(bits) => format!("({} >> {}) as {}", read(output.word), output.bit, number_type(bits)),
        Type::Cap(_) => unreachable!("capabilities have no place in the message"),
    }
}

fn number_type(bits: u32) -> &'static str {
    match bits {
        1 => "bool",
        8 => "u8",
        16 => "u16",
        32 => "u32",
        _ => "u64",
    }
}

fn result_type(ty: &Type) -> String {
    match ty {
        Type::Number(bits) => number_type(*bits).into(),
        Type::Words(words) => format!("[u64; {words}]"),
        Type::Cap(cap) => (*cap).into(),
    }
}

/// The Rust name of a method: `seL4_X86_Page` and `Map` become `x86_page_map`.
fn function_name(method: &Method) -> String {
    let interface = method.interface.strip_prefix("seL4_").unwrap_or(&method.interface);
    format!("{}_{}", interface.to_lowercase(), snake(&method.name))
}

fn identifier(name: &str) -> String {
    match name {
        "type" => "object_type".into(),
        "service" | "call" | "reply" => format!("{name}_"),
        other => snake(other),
    }
}

/// `GetIOAPIC` becomes `get_ioapic`: a new word starts where a capital follows a small letter.
fn snake(name: &str) -> String {
    let mut out = String::new();
    let mut small = false;
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && small {
            out.push('_');
        }
        small = letter.is_ascii_lowercase();
        out.push(letter.to_ascii_lowercase());
    }
    out
}

fn shout(name: &str) -> String {
    snake(name).to_uppercase()
}
