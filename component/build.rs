//! Generates the calls of a component that is a client, from the calls' definitions.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "client")]
    client::write()?;
    Ok(())
}

#[cfg(feature = "client")]
mod client {
    use std::fmt::Write;
    use std::path::Path;
    use std::{env, fs};

    use abi_gen::model::scalar_type;
    use abi_gen::{Arg, Dir, Syscall, Via};

    /// Structures that contain addresses, which the generated functions do not follow.
    const WITH_POINTERS: [&str; 3] = ["zx_channel_call_args_t", "zx_channel_call_etc_args_t", "zx_iovec_t"];

    /// Generates all functions.
    pub fn write() -> Result<(), Box<dyn std::error::Error>> {
        let definitions = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../abi/syscalls");
        println!("cargo::rerun-if-changed={}", definitions.display());
        let mut out = String::new();
        for call in abi_gen::load(&definitions)?.iter().filter(|call| can(call)) {
            function(&mut out, call)?;
        }
        fs::write(Path::new(&env::var("OUT_DIR")?).join("calls.rs"), out)?;
        Ok(())
    }

    /// Whether a component can make a call, that is, whether the definition describes everything that the call passes.
    fn can(call: &Syscall) -> bool {
        let value = |name: &String| call.args.iter().any(|arg| arg.name == *name && !arg.is_pointer());
        let plain = |arg: &Arg| {
            !arg.is_pointer()
                || !WITH_POINTERS.contains(&arg.ty.as_str()) && (!arg.array || arg.len.as_ref().is_some_and(value))
        };
        // A futex is identified by its address, which a copy does not have.
        call.via == Via::Server
            && !call.wrapper
            && !call.noreturn
            && call.noun != "futex"
            && scalar_type(&call.returns).is_some()
            && call.args.iter().all(plain)
    }

    fn function(out: &mut String, call: &Syscall) -> std::fmt::Result {
        let args: Vec<String> = call.args.iter().map(|arg| format!("r#{}: {}", arg.name, argument(arg))).collect();
        let result = value(&call.returns);
        writeln!(
            out,
            "#[unsafe(no_mangle)]\nunsafe extern \"C\" fn zx_{}({}) -> {result} {{",
            call.name,
            args.join(", ")
        )?;
        let mutable = if call.args.is_empty() { "" } else { "mut " };
        writeln!(out, "    let {mutable}call = Call::new();")?;
        for arg in &call.args {
            let name = &arg.name;
            match arg.dir {
                None => writeln!(out, "    call.value(r#{name} as u64);")?,
                Some(dir) => {
                    let size =
                        if arg.ty == "void" { "1".to_owned() } else { format!("size_of::<{}>()", value(&arg.ty)) };
                    let len = match &arg.len {
                        Some(len) => format!("(r#{len} as usize).saturating_mul({size})"),
                        None => size,
                    };
                    let back = dir != Dir::In;
                    writeln!(out, "    call.pointer(r#{name}.cast_mut_u8(), {len}, {back});")?;
                }
            }
        }
        writeln!(out, "    call.make(abi::nr::{}) as {result}\n}}", call.name.to_uppercase())
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
        scalar_type(ty).map_or_else(|| format!("abi::{ty}"), |scalar| scalar.rust.to_owned())
    }
}
