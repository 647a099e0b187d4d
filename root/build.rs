//! Finds what the root task carries: the server (`HAFNON_SERVER`) and the system description (`HAFNON_SYSTEM`).
//!
//! Without the first the root task is built empty, which is enough to check its source, and says so when it starts.
//! Without the second it describes one server that gets everything.

use std::path::PathBuf;
use std::{env, fs};

use description::{Devices, Instance, Level, Memory, Serial, Timer};

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let given = |name: &str, default: &[u8]| {
        println!("cargo:rerun-if-env-changed={name}");
        let path = env::var_os(name).map(PathBuf::from).unwrap_or_else(|| {
            let path = out.join(name);
            fs::write(&path, default).expect("the build directory can be written");
            path
        });
        println!("cargo:rerun-if-changed={}", path.display());
        println!("cargo:rustc-env={name}={}", path.display());
    };
    let everything = Instance {
        name: "main",
        memory: Memory::Percent(100),
        timer: Timer::Hpet,
        console: Some(Serial::COM1),
        link: Some(Serial::COM2),
        log: Level::Info,
        power: true,
        boot_files: true,
        devices: Devices::ALL,
    };
    given("HAFNON_SERVER", &[]);
    given("HAFNON_SYSTEM", &description::encode(&[everything]).expect("one instance can be encoded"));
}
