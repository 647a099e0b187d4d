//! Linux programs in sub-domains of a virtual processor, run by a kernel that is itself a program (`programs/guest`).
//! The host's Linux runs the same files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, bail};

use super::Work;
use crate::{Context, Test};
use xtask_build::cargo::{self, Build, PROGRAM_TARGET};
use xtask_build::{program_flags, setup, without_debug_information};
use xtask_common::files::write_if_changed;
use xtask_common::words::tail;

/// Our own programs, in `programs/guest/programs`.
const PROGRAMS: [&str; 5] = ["paging", "fork", "preempt", "signals", "three"];

/// Compiler options: no library, fixed addresses, no vector registers except those that the programs name.
const ARGS: &str = "-O1 -w -ffreestanding -fno-builtin -fno-stack-protector -fcf-protection=none -fno-pie -mno-avx \
                    -nostdlib -static -no-pie -Wl,-Ttext-segment=0x400000 -Wl,-z,noexecstack";

/// On the host the programs run directly on Linux.
const ON_HOST: &str = "#!/bin/sh\nwhile case \"$1\" in --*) true ;; *) false ;; esac; do shift; done\nexec \"$@\"\n";

/// Our programs, and third-party ones.
pub fn tests() -> Vec<Test> {
    let test = |name: &'static str, script: &'static str| {
        Test::many(name, move |context, cases| {
            context.built_with_shell()?;
            let (program, host, files) = made(context)?;
            let programs = vec![("guest".into(), program)];
            Work { script, programs, host, files: &files, variables: Vec::new() }.compare(context, cases)
        })
    };
    vec![test("vproc.guest", "guest.sh"), test("vproc.busybox", "guest-busybox.sh")]
}

/// The guest, the folder with its replacement on the host, and the folder in which both run.
fn made(context: &Context<'_>) -> Result<(PathBuf, PathBuf, PathBuf)> {
    static MAKING: Mutex<()> = Mutex::new(());
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    // Its libraries are part of the system.
    context.built()?;
    let folder = context.paths.out.join("programs/of-guest");
    let build =
        Build::new("building the test guest", &format!("--release --locked --target {PROGRAM_TARGET} -p guest"));
    let built = build.env("CARGO_ENCODED_RUSTFLAGS", program_flags(context.paths)).run(context.paths, &context.ui)?;
    let guest = folder.join("guest");
    without_debug_information(cargo::program(&built, "guest")?, &guest)?;
    let (host, files) = (folder.join("host"), folder.join("files"));
    write_if_changed(&host.join("guest"), ON_HOST.as_bytes())?;
    executable(&host.join("guest"))?;
    for name in PROGRAMS {
        let source = context.paths.workspace.join("programs/guest/programs").join(name).with_extension("c");
        fs::create_dir_all(&files).context("cannot make a folder")?;
        let mut gcc = Command::new("gcc");
        let output = gcc.args(ARGS.split_whitespace()).arg("-o").arg(files.join(name)).arg(&source).output();
        let output = output.context("cannot start gcc")?;
        if !output.status.success() {
            bail!("{} does not compile:\n{}", source.display(), tail(&String::from_utf8_lossy(&output.stderr), 20));
        }
    }
    let busybox = setup::busybox(&context.ui, &folder.join("busybox"))?;
    fs::copy(busybox, files.join("busybox")).context("cannot copy busybox")?;
    executable(&files.join("busybox"))?;
    write_if_changed(&files.join("data"), &data())?;
    write_if_changed(&files.join("empty"), &[])?;
    Ok((guest, host, files))
}

fn executable(file: &Path) -> Result<()> {
    fs::set_permissions(file, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot change {}", file.display()))
}

/// Numbers and words in random order, one per line.
fn data() -> Vec<u8> {
    let line = |n: u64| {
        let n = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        format!("{} {:x} word{}\n", n % 10_007, n, n % 89)
    };
    (1..=6000).flat_map(|n| line(n).into_bytes()).collect()
}
