//! Link arguments of libfdio.so: its soname, and `-Bsymbolic`, which binds the library's own calls to itself.
use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=HAFNON_SYSROOT");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("fuchsia") {
        return;
    }
    let arg = |text: &str| println!("cargo:rustc-cdylib-link-arg={text}");
    arg("-soname=libfdio.so");
    arg("-Bsymbolic");
    // The C library's functions and the system calls are undefined symbols. With a sysroot, their libraries become
    // needed libraries of libfdio.so and the linker checks the symbols.
    let sysroot = env::var_os("HAFNON_SYSROOT").map(PathBuf::from);
    let needs = ["libc.so", "libzircon.so"];
    if let Some(lib) = sysroot.map(|root| root.join("lib")).filter(|lib| needs.iter().all(|so| lib.join(so).exists())) {
        for so in needs {
            println!("cargo:rerun-if-changed={}", lib.join(so).display());
        }
        arg(&format!("-L{}", lib.display()));
        for argument in ["-lc", "-lzircon", "-zdefs"] {
            arg(argument);
        }
    }
}
