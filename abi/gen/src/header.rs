//! C headers: `zircon/types.h` with all types, constants and structures, `zircon/syscalls.h` with the calls.
//!
//! The caller passes structures and constants from the tables of the `abi` crate. This crate cannot depend on `abi`,
//! because the build of `abi` depends on this crate.

use std::collections::HashSet;
use std::fmt::Write as _;

use crate::model::{Arg, Dir, SCALARS, Syscall, c_type};

/// A structure for C.
#[derive(Clone, Debug)]
pub struct Structure<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its purpose, one line.
    pub doc: &'a str,
    /// Its size in bytes; the header contains an assertion for it.
    pub size: usize,
    /// Names and Rust types of its fields.
    pub fields: Vec<(&'a str, &'a str)>,
}

/// `zircon/syscalls.h`
pub fn syscalls(calls: &[Syscall]) -> String {
    let mut out = String::from(
        "// The system calls. Made from their definitions.\n\n#ifndef ZIRCON_SYSCALLS_H_\n#define ZIRCON_SYSCALLS_H_\n\n\
         #include <zircon/types.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n",
    );
    for call in calls {
        let _ = writeln!(out, "{}\n{}", prototype("zx_", call), prototype("_zx_", call));
    }
    out.push_str(
        "\nconst char* zx_status_get_string(zx_status_t status);\n\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n",
    );
    out
}

/// A call's declaration in C.
pub fn prototype(prefix: &str, call: &Syscall) -> String {
    let args: Vec<String> = call.args.iter().map(argument).collect();
    let args = if args.is_empty() { "void".to_owned() } else { args.join(", ") };
    let attribute = if call.noreturn { "__attribute__((__noreturn__)) " } else { "" };
    format!("{attribute}{} {prefix}{}({args});", c_type(&call.returns), call.name)
}

fn argument(arg: &Arg) -> String {
    let name = &arg.name;
    match arg.dir {
        None => format!("{} {name}", c_type(&arg.ty)),
        Some(Dir::In) => format!("const {}* {name}", c_type(&arg.ty)),
        Some(Dir::Out | Dir::InOut) => format!("{}* {name}", c_type(&arg.ty)),
    }
}

/// Fields whose C declaration differs from their plain bytes: pointers and unions. Structure, field, declaration.
const DECLARED: &[(&str, &str, &str)] = &[
    ("zx_channel_call_args_t", "wr_bytes", "const void* wr_bytes"),
    ("zx_channel_call_args_t", "wr_handles", "const zx_handle_t* wr_handles"),
    ("zx_channel_call_args_t", "rd_bytes", "void* rd_bytes"),
    ("zx_channel_call_args_t", "rd_handles", "zx_handle_t* rd_handles"),
    ("zx_channel_call_etc_args_t", "wr_bytes", "const void* wr_bytes"),
    ("zx_channel_call_etc_args_t", "wr_handles", "zx_handle_disposition_t* wr_handles"),
    ("zx_channel_call_etc_args_t", "rd_bytes", "void* rd_bytes"),
    ("zx_channel_call_etc_args_t", "rd_handles", "zx_handle_info_t* rd_handles"),
    ("zx_channel_iovec_t", "buffer", "const void* buffer"),
    ("zx_iovec_t", "buffer", "void* buffer"),
    ("zx_exception_context_t", "arch", "struct { union { zx_x86_64_exc_data_t x86_64; } u; } arch"),
    ("zx_info_maps_t", "mapping", "union { zx_info_maps_mapping_t mapping; } u"),
    (
        "zx_port_packet_t",
        "payload",
        "union { zx_packet_user_t user; zx_packet_signal_t signal; zx_packet_interrupt_t interrupt; \
         zx_packet_page_request_t page_request; zx_packet_guest_bell_t guest_bell; zx_packet_guest_mem_t guest_mem; \
         zx_packet_guest_io_t guest_io; }",
    ),
];

/// Programs get the operations on futexes together with the type, if the compiler provides the header.
const ATOMIC: &str = "#if !defined(__cplusplus) && __has_include(<stdatomic.h>)
#include <stdatomic.h>
#endif

";

/// Types that C has in addition to the scalars of definitions. They precede the structures.
///
/// In C, futexes are atomic, so that C's operators act on them as a waiter needs. C++ does not have that type.
const ALIASES: &str = "#ifdef __cplusplus
typedef int zx_futex_t;
#else
typedef _Atomic(int) zx_futex_t;
#endif
typedef int zx_futex_storage_t;
typedef uint32_t zx_obj_type_t;
typedef uint32_t zx_handle_op_t;
typedef uint32_t zx_stream_seek_origin_t;
typedef uint32_t zx_object_info_topic_t;
typedef uint32_t zx_info_maps_type_t;
typedef uint32_t zx_thread_state_t;
typedef uint32_t zx_thread_state_topic_t;
typedef uint32_t zx_thread_state_single_step_t;
typedef uint64_t zx_thread_x86_register_fs_t;
typedef uint64_t zx_thread_x86_register_gs_t;
typedef uint32_t zx_excp_type_t;
typedef uint32_t zx_rsrc_kind_t;
typedef uint32_t zx_rsrc_flags_t;
typedef uint32_t zx_system_event_type_t;
typedef uint32_t zx_paddr32_t;
typedef uint32_t zx_clock_t;
typedef uint32_t zx_vm_option_t;
typedef uint32_t zx_txid_t;
typedef uint64_t zx_off_t;
typedef uintptr_t zx_vaddr_t;
typedef uintptr_t zx_paddr_t;
typedef uintptr_t zx_gpaddr_t;
typedef int64_t zx_instant_mono_t;
typedef int64_t zx_instant_boot_t;
typedef int64_t zx_duration_mono_t;
typedef int64_t zx_duration_boot_t;
typedef struct { const char* c_str; size_t length; } zx_string_view_t;
typedef union { uint64_t u64[4]; uint32_t u32[8]; uint16_t u16[16]; uint8_t c8[32]; } zx_packet_user_t;
";

/// `zircon/types.h`, with constants (name, Rust type, value) and structures.
pub fn types<'a>(constants: impl IntoIterator<Item = (&'a str, &'a str, i128)>, structs: &[Structure<'_>]) -> String {
    let mut out = String::from(
        "// Types, constants and structures of the system calls. Made from the same tables as everything else.\n\n\
         #ifndef ZIRCON_TYPES_H_\n#define ZIRCON_TYPES_H_\n\n#include <stdbool.h>\n#include <stddef.h>\n\
         #include <stdint.h>\n#include <zircon/compiler.h>\n\n",
    );
    out.push_str(ATOMIC);
    for scalar in SCALARS.iter().filter(|scalar| scalar.c.starts_with("zx_") && scalar.name != "futex") {
        let _ = writeln!(out, "typedef {} {};", c_type(scalar.rust), scalar.c);
    }
    out.push_str(ALIASES);
    out.push('\n');
    for (name, ty, value) in constants {
        let _ = writeln!(out, "#define {name} {}", literal(ty, value));
    }
    out.push('\n');
    structures(&mut out, structs);
    // Functions for times, which need the types above.
    out.push_str("\n#include <zircon/time.h>\n\n#endif\n");
    out
}

fn literal(ty: &str, value: i128) -> String {
    let c = field_type(ty);
    match value {
        v if v == i128::from(i64::MIN) => format!("(({c})(-0x7fffffffffffffffll - 1))"),
        v if v < 0 => format!("(({c})({v}ll))"),
        v if v > 0xffff => format!("(({c}){v:#x}ull)"),
        v => format!("(({c}){v}u)"),
    }
}

/// Writes each structure after those that it contains.
fn structures(out: &mut String, structs: &[Structure<'_>]) {
    let all: HashSet<&str> = structs.iter().map(|s| s.name).collect();
    let mut written = HashSet::new();
    while written.len() < all.len() {
        let before = written.len();
        for s in structs.iter().filter(|s| s.name.starts_with("zx_") || s.name.starts_with("hafnon_")) {
            if !written.contains(s.name) && needs(s, &all).iter().all(|name| written.contains(name)) {
                structure(out, s);
                written.insert(s.name);
            }
        }
        // The remaining structures are not for programs, such as the layout of the vDSO's data.
        if written.len() == before {
            break;
        }
    }
}

fn needs<'a>(s: &Structure<'_>, all: &HashSet<&'a str>) -> Vec<&'a str> {
    let text = |field: &str, ty: &str| declared(s.name, field).map_or_else(|| ty.to_owned(), str::to_owned);
    let texts: Vec<String> = s.fields.iter().map(|(field, ty)| text(field, ty)).collect();
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    all.iter()
        .copied()
        .filter(|name| texts.iter().any(|t| t.split(|c| !is_word(c)).any(|word| word == *name)))
        .collect()
}

fn structure(out: &mut String, s: &Structure<'_>) {
    let _ = writeln!(out, "// {}\ntypedef struct {} {{", s.doc, s.name.trim_end_matches("_t"));
    for (field, ty) in &s.fields {
        match declared(s.name, field) {
            Some(text) => {
                let _ = writeln!(out, "    {text};");
            }
            None => {
                let _ = writeln!(out, "    {};", field_declaration(field.trim_end_matches('_'), ty));
            }
        }
    }
    let _ = writeln!(out, "}} {0};\n_Static_assert(sizeof({0}) == {1}, \"{0}\");\n", s.name, s.size);
}

fn declared(name: &str, field: &str) -> Option<&'static str> {
    DECLARED.iter().find(|(s, f, _)| *s == name && *f == field).map(|(_, _, text)| *text)
}

/// Converts a Rust field to a C declaration: `[[u64; 2]; 8]` becomes `uint64_t name[8][2]`.
fn field_declaration(name: &str, ty: &str) -> String {
    let mut dimensions = String::new();
    let mut ty = ty.trim();
    while let Some(inner) = ty.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
        let Some((element, length)) = inner.rsplit_once(';') else { break };
        let _ = write!(dimensions, "[{}]", length.trim());
        ty = element.trim();
    }
    let ty = if name == "name" && ty == "u8" { "char" } else { field_type(ty) };
    format!("{ty} {name}{dimensions}")
}

/// The C type of a scalar field or constant.
fn field_type(rust: &str) -> &str {
    c_type(rust)
}
