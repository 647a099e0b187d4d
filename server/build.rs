//! Generates the dispatch table of system calls from their definitions: each number leads to the function of that name
//! in `syscalls/<noun>.rs`, with the words converted to typed arguments. An unsupported call has no function and
//! returns `ZX_ERR_NOT_SUPPORTED`. A definition that says "supported" without a function does not compile.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use abi_gen::{Arg, Support, Syscall, Via};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let definitions = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../abi/syscalls");
    println!("cargo::rerun-if-changed={}", definitions.display());
    println!("cargo::rerun-if-changed=src/syscalls");
    let calls = abi_gen::load(&definitions)?;
    let mut out = String::from("match number {\n");
    for call in calls.iter().filter(|call| call.via == Via::Server) {
        match call.support {
            Support::Unsupported(_) => {
                not_written(call)?;
                writeln!(
                    out,
                    "    {} => |_, _| Answer::Done(i64::from(Status::NOT_SUPPORTED.0)), // {}",
                    call.number, call.name
                )?;
            }
            _ => arm(&mut out, call)?,
        }
    }
    out.push_str("    _ => |_, _| Answer::Done(i64::from(Status::BAD_SYSCALL.0)),\n}\n");
    fs::write(Path::new(&env::var("OUT_DIR")?).join("dispatch.rs"), out)?;
    embed("HAFNON_VDSO")?;
    embed("HAFNON_USERBOOT")
}

/// Sets the path of the file that the binary embeds. Without the variable, for example when only the source is checked,
/// it is an empty file, and the server reports that it cannot start.
fn embed(name: &str) -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-env-changed={name}");
    let path = match env::var_os(name) {
        Some(path) => path.into(),
        None => {
            let path = Path::new(&env::var("OUT_DIR")?).join(name);
            fs::write(&path, [])?;
            path
        }
    };
    println!("cargo::rerun-if-changed={}", path.display());
    println!("cargo::rustc-env={name}={}", path.display());
    Ok(())
}

/// An unsupported call must have no function; otherwise the definition was not updated when the call was built.
fn not_written(call: &Syscall) -> Result<(), Box<dyn std::error::Error>> {
    let source = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("src/syscalls").join(format!("{}.rs", call.noun));
    let text = fs::read_to_string(source).unwrap_or_default();
    if text.contains(&format!("pub fn {}<", call.name)) {
        let (noun, name) = (&call.noun, &call.name);
        return Err(format!("abi/syscalls/{noun}.toml calls {name} unsupported, but syscalls/{noun}.rs has it").into());
    }
    Ok(())
}

fn arm(out: &mut String, call: &Syscall) -> Result<(), std::fmt::Error> {
    let words = if call.args.is_empty() { "_" } else { "a" };
    write!(out, "    {} => |cx, {words}| ", call.number)?;
    let extra = call.args.len() > 4;
    if extra {
        out.push_str("{ let e = cx.extra_args(); ");
    }
    write!(out, "syscalls::{}::{}(cx", call.noun, call.name)?;
    for (n, arg) in call.args.iter().enumerate() {
        let word = if n < 4 { format!("a[{n}]") } else { format!("e[{}]", n - 4) };
        write!(out, ", {}", value(arg, &word))?;
    }
    out.push_str(").into_answer()");
    out.push_str(if extra { " },\n" } else { ",\n" });
    Ok(())
}

/// Converts an argument's word to the type in its definition. Words are truncated to narrow types: the upper half of
/// the register does not count.
fn value(arg: &Arg, word: &str) -> String {
    let base = match abi_gen::model::scalar_type(&arg.ty) {
        Some(scalar) => scalar.rust.to_string(),
        None if arg.ty == "void" => "u8".to_string(),
        None => return pointer(arg, &format!("abi::{}", arg.ty), word),
    };
    if arg.is_pointer() { pointer(arg, &base, word) } else { format!("{word} as {base}") }
}

fn pointer(arg: &Arg, to: &str, word: &str) -> String {
    let kind = match arg.dir {
        Some(abi_gen::Dir::In) | None => "In",
        Some(abi_gen::Dir::Out) => "Out",
        Some(abi_gen::Dir::InOut) => "InOut",
    };
    format!("user::{kind}::<{to}>::new({word})")
}
