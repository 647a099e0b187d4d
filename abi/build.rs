//! Writes the numbers and the table of system calls out of their definitions.

use std::path::Path;
use std::{env, fs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let definitions = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("syscalls");
    println!("cargo::rerun-if-changed={}", definitions.display());
    let calls = abi_gen::load(&definitions)?;
    fs::write(Path::new(&env::var("OUT_DIR")?).join("syscalls.rs"), abi_gen::numbers::rust(&calls))?;
    Ok(())
}
