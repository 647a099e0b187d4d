//! Generates the declarations of all calls of the vDSO from the calls' definitions.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

use abi_gen::{Arg, Dir};

/// Structures with addresses: `sys` declares them with pointers, `abi` with numbers.
const WITH_POINTERS: [&str; 4] =
    ["zx_channel_call_args_t", "zx_channel_call_etc_args_t", "zx_iovec_t", "zx_string_view_t"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let definitions = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../abi/syscalls");
    println!("cargo::rerun-if-changed={}", definitions.display());
    let mut out = String::from("unsafe extern \"C\" {\n");
    let calls = abi_gen::load(&definitions)?;
    for call in &calls {
        let args: Vec<String> = call.args.iter().map(|arg| format!("{}: {}", raw(&arg.name), argument(arg))).collect();
        let result = match call.returns.as_str() {
            _ if call.noreturn => " -> !".to_owned(),
            "void" => String::new(),
            "string_view" => " -> zx_string_view_t".to_owned(),
            other => format!(" -> {}", value(other)),
        };
        let summary = call.doc.split(". ").next().unwrap_or_default().trim().replace('\n', " ");
        writeln!(out, "    #[doc = {summary:?}]\n    pub fn zx_{}({}){result};", call.name, args.join(", "))?;
    }
    out.push_str("}\n");
    addresses(&mut out, &calls)?;
    fs::write(Path::new(&env::var("OUT_DIR")?).join("calls.rs"), out)?;
    Ok(())
}

/// For tests: generates a function that returns a call's address by its name.
fn addresses(out: &mut String, calls: &[abi_gen::Syscall]) -> std::fmt::Result {
    out.push_str(
        "/// The address of a call, for `probe::call`; `name` is without `zx_`.\n#[cfg(feature = \"probe\")]\n",
    );
    out.push_str("pub fn address(name: &str) -> Option<usize> {\n    Some(match name {\n");
    for call in calls {
        writeln!(out, "        {:?} => zx_{} as *const () as usize,", call.name, call.name)?;
    }
    out.push_str("        _ => return None,\n    })\n}\n");
    Ok(())
}

/// A name as a raw identifier if it is a keyword.
fn raw(name: &str) -> String {
    if matches!(name, "type" | "fn" | "in" | "mod" | "ref" | "move") { format!("r#{name}") } else { name.to_owned() }
}

fn argument(arg: &Arg) -> String {
    let target = if arg.ty == "void" { "c_void".to_owned() } else { value(&arg.ty) };
    match arg.dir {
        None => target,
        Some(Dir::In) => format!("*const {target}"),
        Some(Dir::Out | Dir::InOut) => format!("*mut {target}"),
    }
}

fn value(ty: &str) -> String {
    match abi_gen::model::scalar_type(ty) {
        Some(scalar) => scalar.rust.to_owned(),
        None if WITH_POINTERS.contains(&ty) => ty.to_owned(),
        None => format!("abi::{ty}"),
    }
}
