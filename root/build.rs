//! Finds the server that the root task embeds (`HAFNON_SERVER`).
//!
//! Without it the root task is built with an empty one, which is enough to check its source, and reports that when it
//! starts. The system description is written into the finished program later.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    const NAME: &str = "HAFNON_SERVER";
    println!("cargo:rerun-if-env-changed={NAME}");
    let path = env::var_os(NAME).map(PathBuf::from).unwrap_or_else(|| {
        let path = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join(NAME);
        fs::write(&path, []).expect("the build directory can be written");
        path
    });
    println!("cargo:rerun-if-changed={}", path.display());
    println!("cargo:rustc-env={NAME}={}", path.display());
}
