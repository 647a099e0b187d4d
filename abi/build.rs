//! Generates the numbers and the table of system calls from their definitions.

use std::path::Path;
use std::{env, fs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let definitions = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("syscalls");
    println!("cargo::rerun-if-changed={}", definitions.display());
    let calls = abi_gen::load(&definitions)?;
    let out = env::var("OUT_DIR")?;
    let out = Path::new(&out);
    fs::write(out.join("syscalls.rs"), abi_gen::numbers::rust(&calls))?;
    fs::write(out.join("test_info.rs"), abi_gen::test_info::rust(&calls))?;
    Ok(())
}
