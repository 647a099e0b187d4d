//! Generates the binding for the kernel that the system will run on.
//!
//! `SEL4_PREFIX` names an installed seL4 13 to 16. Without it the kernel is the 5.0.0 that this project builds:
//! `HAFNON_SEL4` is the directory of the variant (with its `autoconf.h`), `HAFNON_SEL4_SRC` the patched source tree;
//! both default to the directories that `xtask` uses.

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use sel4_gen::{Error, Family, Kernel, Location};

fn main() -> ExitCode {
    println!("cargo:rerun-if-changed=build.rs");
    for name in ["SEL4_PREFIX", "HAFNON_SEL4", "HAFNON_SEL4_SRC"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    println!("cargo:rustc-check-cfg=cfg(sel4_v5)");
    println!("cargo:rustc-check-cfg=cfg(sel4_v16)");
    println!("cargo:rustc-check-cfg=cfg(sel4_debug)");
    println!("cargo:rustc-check-cfg=cfg(sel4_printing)");

    let location = location();
    match generate(&location) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("cargo:error={error}");
            if let Location::Source { .. } = location {
                println!(
                    "cargo:error=build the kernel first (`./hafnon build`), or set SEL4_PREFIX to an installed seL4"
                );
            }
            ExitCode::FAILURE
        }
    }
}

fn location() -> Location {
    if let Some(prefix) = env::var_os("SEL4_PREFIX").filter(|prefix| !prefix.is_empty()) {
        return Location::Prefix(prefix.into());
    }
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/hafnon/kernel");
    let path = |name: &str, default: &str| env::var_os(name).map_or_else(|| built.join(default), PathBuf::from);
    Location::Source {
        tree: path("HAFNON_SEL4_SRC", "src"),
        autoconf: path("HAFNON_SEL4", "release").join("autoconf.h"),
    }
}

fn generate(location: &Location) -> Result<(), Error> {
    let kernel = Kernel::load(location)?;
    for file in &kernel.files {
        println!("cargo:rerun-if-changed={}", file.display());
    }
    let family = match kernel.family {
        Family::V5 => "sel4_v5",
        Family::V16 => "sel4_v16",
    };
    println!("cargo:rustc-cfg={family}");
    if kernel.config.is_set("DEBUG_BUILD") {
        println!("cargo:rustc-cfg=sel4_debug");
    }
    if kernel.syscall("DebugPutChar").is_some() {
        println!("cargo:rustc-cfg=sel4_printing");
    }
    let file = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("generated.rs");
    std::fs::write(&file, sel4_gen::emit(&kernel)?).map_err(|source| Error::Read { path: file, source })
}
