//! How libc.so is linked: its name, its entry point as the program interpreter, and its own calls bound to itself.
use std::path::PathBuf;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-env-changed=HAFNON_SYSROOT");
    println!("cargo:rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("fuchsia") {
        return;
    }
    let arg = |text: &str| println!("cargo:rustc-cdylib-link-arg={text}");
    // A program that needs `libc.so` and a program whose interpreter is `ld.so.1` mean the same mapped image.
    arg("-soname=libc.so");
    arg("--entry=_dl_start");
    // The linker part runs before any symbol is bound, so that calls from this image to itself must need no binding.
    arg("-Bsymbolic");
    arg("--eh-frame-hdr");
    // Undefined: the system calls (bound to the vDSO at start). Named as a need when the vDSO is there to be read.
    let sysroot = env::var_os("HAFNON_SYSROOT").map(PathBuf::from);
    if let Some(lib) = sysroot.map(|root| root.join("lib")).filter(|lib| lib.join("libzircon.so").exists()) {
        println!("cargo:rerun-if-changed={}", lib.join("libzircon.so").display());
        if fs::metadata(lib.join("libzircon.so")).is_ok() {
            arg(&format!("-L{}", lib.display()));
            arg("-lzircon");
            arg("-zdefs");
        }
    }
}
