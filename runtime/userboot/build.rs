//! Link arguments of userboot, a program without libraries.
//!
//! Programs of the target begin with `Scrt1.o`, which passes control to the C library. Userboot has no C library, so an
//! empty object replaces that file; the entry point is userboot's own, and the file names no dynamic linker.
use std::path::PathBuf;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("fuchsia") {
        return;
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(out.join("Scrt1.o"), empty_object()).expect("OUT_DIR can be written to");
    println!("cargo:rustc-link-search=native={}", out.display());
    for arg in [
        "--entry=_start",
        "--no-dynamic-linker",
        "--gc-sections",
        "--build-id=none",
        "-zdefs",
        "-znoexecstack",
        // Relocated data stays writable, because nothing protects it after relocation.
        "-znorelro",
    ] {
        println!("cargo:rustc-link-arg-bins={arg}");
    }
}

/// An ELF object for x86-64 without sections.
fn empty_object() -> [u8; 64] {
    let mut elf = [0; 64];
    elf[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    elf[16] = 1; // ET_REL
    elf[18] = 62; // EM_X86_64
    elf[20] = 1; // version
    elf[52] = 64; // size of this header in bytes
    elf[58] = 64; // size of a section header in bytes
    elf
}
