//! Checks what building and booting need on the host, and installs it on Debian and its derivatives.

use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};

use crate::cargo::{BARE_TARGET, PROGRAM_TARGET, TOOLCHAIN};
use xtask_common::paths::Paths;
use xtask_common::programs::find_program;
use xtask_common::ui::Ui;

/// A program that must be in `PATH`, the Debian package that contains it, and its purpose.
#[derive(Clone, Copy, Debug)]
struct Tool {
    program: &'static str,
    package: &'static str,
    purpose: &'static str,
}

/// QEMU's program.
pub const QEMU: &str = "qemu-system-x86_64";

const MACHINE: Tool = Tool { program: QEMU, package: "qemu-system-x86", purpose: "the machine that boots" };

const GDB: Tool = Tool { program: "gdb", package: "gdb", purpose: "looks into the machine for `run --gdb`" };

const BUILD_TOOLS: [Tool; 6] = [
    Tool { program: "gcc", package: "gcc libc6-dev", purpose: "compiles the kernel, links host programs" },
    Tool { program: "objcopy", package: "binutils", purpose: "gives the kernel the form that QEMU loads" },
    Tool { program: "python3", package: "python3", purpose: "runs the kernel's own generators" },
    Tool { program: "clang", package: "clang", purpose: "compiles the C library and C programs" },
    Tool { program: "ld.lld", package: "lld", purpose: "links C programs" },
    Tool { program: "pip3", package: "python3-pip", purpose: "fetches the C library's sources" },
];

/// Programs that tests use to create and check images.
const DISK_TOOLS: [Tool; 3] = [
    Tool { program: "mke2fs", package: "e2fsprogs", purpose: "makes, reads and checks ext4 on disks" },
    Tool { program: "mkfs.vfat", package: "dosfstools", purpose: "makes and checks file systems on disks" },
    Tool { program: "mcopy", package: "mtools", purpose: "reads and writes files in them" },
];

/// Programs that build Linux, in addition to [`BUILD_TOOLS`].
const LINUX_TOOLS: [Tool; 5] = [
    Tool { program: "make", package: "make", purpose: "builds Linux" },
    Tool { program: "flex", package: "flex", purpose: "builds Linux" },
    Tool { program: "bison", package: "bison", purpose: "builds Linux" },
    Tool { program: "bc", package: "bc", purpose: "builds Linux" },
    Tool { program: "xz", package: "xz-utils", purpose: "unpacks Linux' source" },
];

/// Components of the toolchain in addition to its minimal profile.
const COMPONENTS: [&str; 4] = ["clippy", "rustfmt", "rust-src", "llvm-tools"];

/// Makes sure that everything for building is installed.
///
/// # Errors
/// Something is missing and cannot be installed automatically; the error says what to install.
pub fn for_building(ui: &Ui) -> Result<()> {
    packages(ui, &BUILD_TOOLS)?;
    toolchain(ui)
}

/// Makes sure that everything for booting is installed.
///
/// # Errors
/// As [`for_building`].
pub fn for_booting(ui: &Ui) -> Result<()> {
    packages(ui, &[MACHINE])
}

/// Makes sure that gdb is installed.
///
/// # Errors
/// As [`for_building`].
pub fn for_gdb(ui: &Ui) -> Result<()> {
    packages(ui, &[GDB])
}

/// Makes sure that everything for libFuzzer is installed, which is compiled from C++.
///
/// # Errors
/// As [`for_building`].
pub fn for_fuzzing(ui: &Ui) -> Result<()> {
    packages(ui, &[Tool { program: "g++", package: "g++", purpose: "compiles libFuzzer" }])
}

/// Makes sure that a toolchain with Miri is installed.
///
/// # Errors
/// It cannot be fetched.
pub fn for_miri(ui: &Ui, nightly: &str) -> Result<()> {
    let has = || {
        let version = Command::new("cargo").args(["miri", "--version"]).env("RUSTUP_TOOLCHAIN", nightly).output();
        version.is_ok_and(|output| output.status.success())
    };
    let _installing = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    if has() {
        return Ok(());
    }
    let mut step = ui.step("installing Miri");
    step.activity(nightly);
    let mut command = Command::new("rustup");
    command.args(["toolchain", "install", nightly, "--profile", "minimal", "--no-self-update"]);
    command.args(["-c", "miri", "-c", "rust-src"]);
    let output = command.stdin(Stdio::null()).output().context("cannot start rustup")?;
    if !output.status.success() || !has() {
        bail!("rustup could not install {nightly} with Miri: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// Makes sure that everything for building Linux is installed.
///
/// # Errors
/// As [`for_building`].
pub fn for_linux(ui: &Ui) -> Result<()> {
    packages(ui, &LINUX_TOOLS)
}

/// The version of Linux' source package that was tested last.
const LINUX_TESTED: &str = "6.12.117-1~deb12u1";

/// Puts Linux' source into a folder, from Debian's package: fetched, not installed. Returns its folder and its version:
/// the tested one, or else the newest of the series.
///
/// # Errors
/// The host is not Debian, or the package cannot be fetched.
pub fn linux_source(ui: &Ui, folder: &Path) -> Result<(PathBuf, String)> {
    const PACKAGE: &str = "linux-source-6.12";
    let (source, marker) = (folder.join(PACKAGE), folder.join("version"));
    if let Ok(version) = fs::read_to_string(&marker) {
        return Ok((source, version));
    }
    packages(ui, &[LINUX_TOOLS[4]])?;
    let package = unpacked(ui, folder, PACKAGE, || {
        let known = output(Command::new("apt-cache").args(["madison", PACKAGE]))?;
        let mut versions = known.lines().filter_map(|line| line.split('|').nth(1)).map(str::trim);
        let newest = versions.clone().next();
        Ok(versions.find(|version| *version == LINUX_TESTED).or(newest).map(|version| format!("{PACKAGE}={version}")))
    })?;
    let version = output(Command::new("dpkg-deb").arg("-f").arg(&package).arg("Version"))?.trim().to_string();
    if version != LINUX_TESTED {
        ui.note(&format!("Linux {version} takes the place of {LINUX_TESTED}, which was tested"));
    }
    let mut step = ui.step("unpacking Linux");
    step.activity(&version);
    let archive = folder.join("usr/src").join(PACKAGE).with_extension("12.tar.xz");
    if source.exists() {
        fs::remove_dir_all(&source).context("cannot remove what was unpacked of Linux")?;
    }
    output(Command::new("tar").arg("xf").arg(&archive).arg("-C").arg(folder))?;
    // What is not needed any more.
    fs::remove_dir_all(folder.join("usr")).context("cannot remove the package of Linux")?;
    for file in [&folder.join(UNPACKED), &package] {
        fs::remove_file(file).context("cannot remove the package of Linux")?;
    }
    fs::write(&marker, &version).context("cannot write the version of Linux")?;
    Ok((source, version))
}

/// Makes sure that the programs with which tests create and check disks are installed.
///
/// # Errors
/// As [`for_building`].
pub fn for_disks(ui: &Ui) -> Result<()> {
    packages(ui, &DISK_TOOLS)
}

/// Puts Debian's kernel for clouds into a folder: fetched, not installed. Returns its file and its version.
///
/// # Errors
/// The host is not Debian, or the package cannot be fetched.
pub fn linux(ui: &Ui, folder: &Path) -> Result<(PathBuf, String)> {
    const META: &str = "linux-image-cloud-amd64";
    let package = unpacked(ui, folder, META, || {
        // The current version of the package.
        let text = output(Command::new("apt-cache").args(["depends", META]))?;
        Ok(text.lines().find_map(|line| Some(line.trim().strip_prefix("Depends: ")?.to_string())))
    })?;
    let version = output(Command::new("dpkg-deb").arg("-f").arg(&package).arg("Version"))?.trim().to_string();
    Ok((kernel_in(folder)?, version))
}

/// Puts Debian's kernel for clouds of this version of the source package into a folder: fetched, not installed.
///
/// # Errors
/// The host is not Debian, or the package cannot be fetched.
pub fn linux_of(ui: &Ui, folder: &Path, version: &str) -> Result<PathBuf> {
    let upstream = version.split('-').next().unwrap_or(version);
    unpacked(ui, folder, "linux-image", || {
        let wanted = format!("^linux-image-{}[^-]*-cloud-amd64-unsigned$", upstream.replace('.', "[.]"));
        let known = output(Command::new("apt-cache").args(["search", "--names-only", &wanted]))?;
        Ok(known.split_whitespace().next().map(|name| format!("{name}={version}")))
    })?;
    kernel_in(folder)
}

/// The kernel in an unpacked package.
fn kernel_in(folder: &Path) -> Result<PathBuf> {
    let boot = fs::read_dir(folder.join("boot")).context("the package of Linux has no folder boot")?;
    let mut kernels = boot.filter_map(|entry| Some(entry.ok()?.path()));
    let kernel =
        kernels.find(|file| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz")));
    kernel.context("the package of Linux has no kernel in it")
}

/// Puts Debian's libcap, for compiling with it, into a folder: fetched, not installed.
///
/// # Errors
/// The host is not Debian, or the package cannot be fetched.
pub fn libcap(ui: &Ui, folder: &Path) -> Result<()> {
    unpacked_if_known(ui, folder, "libcap-dev").map(drop)
}

/// Puts Debian's static busybox into a folder: fetched, not installed.
///
/// # Errors
/// The host is not Debian, or the package cannot be fetched.
pub fn busybox(ui: &Ui, folder: &Path) -> Result<PathBuf> {
    unpacked_if_known(ui, folder, "busybox-static")?;
    let places = ["bin/busybox", "usr/bin/busybox"].map(|place| folder.join(place));
    places.into_iter().find(|place| place.is_file()).context("the package of busybox has no program in it")
}

/// Puts Debian's mmdebstrap, which makes root file systems, into a folder: fetched, not installed. Returns the folder of
/// its programs.
///
/// # Errors
/// The host is not Debian, or the package cannot be fetched.
pub fn mmdebstrap(ui: &Ui, folder: &Path) -> Result<PathBuf> {
    unpacked_if_known(ui, folder, "mmdebstrap")?;
    Ok(folder.join("usr/bin"))
}

/// The file that names the package whose content is in the folder.
const UNPACKED: &str = "unpacked";

/// Fetches and unpacks the newest Debian package of this name in a folder, unless it is there.
fn unpacked_if_known(ui: &Ui, folder: &Path, package: &str) -> Result<PathBuf> {
    unpacked(ui, folder, package, || {
        let known = output(Command::new("apt-cache").args(["madison", package]))?;
        Ok((!known.trim().is_empty()).then(|| package.into()))
    })
}

/// Fetches and unpacks a Debian package in a folder, unless it is there; `newest` returns its name, if apt knows it.
/// Returns the package's file.
fn unpacked(ui: &Ui, folder: &Path, what: &str, newest: impl Fn() -> Result<Option<String>>) -> Result<PathBuf> {
    let there = || {
        let files = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
        files.filter(|file| file.to_string_lossy().ends_with(".deb")).max()
    };
    if there().is_none() {
        let _installing = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
        fs::create_dir_all(folder).with_context(|| format!("cannot make a folder for {what}"))?;
        let mut step = ui.step("fetching a package of Debian's");
        step.activity(what);
        if newest()?.is_none()
            && let Some(prefix) = as_root()
        {
            let command: Vec<PathBuf> = prefix.into_iter().chain(["apt-get".into()]).collect();
            output(Command::new(&command[0]).args(&command[1..]).args(["update", "-qq", RETRIES]))?;
        }
        let name = newest()?.with_context(|| format!("apt knows no package {what}: apt-get update, on Debian"))?;
        output(Command::new("apt-get").args(["download", "-q", RETRIES, &name]).current_dir(folder))?;
    }
    let package = there().context("apt-get downloaded no package")?;
    // What is there already is not written again: others may be reading it.
    let (marker, name) = (folder.join(UNPACKED), package.to_string_lossy().into_owned());
    if fs::read_to_string(&marker).is_ok_and(|was| was == name) {
        return Ok(package);
    }
    let unpacked = output(Command::new("dpkg-deb").arg("-x").arg(&package).arg(folder));
    if unpacked.is_err() {
        // The next run fetches it again.
        let _ = fs::remove_file(&package);
    }
    unpacked?;
    fs::write(&marker, name).with_context(|| format!("cannot write {}", marker.display()))?;
    Ok(package)
}

/// The output of a command.
fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start {name}"))?;
    if !output.status.success() {
        bail!("{name} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Makes apt retry broken connections.
const RETRIES: &str = "-oAcquire::Retries=5";

/// apt and rustup cannot run twice at the same time, and parallel tests may miss the same tool.
static INSTALLING: Mutex<()> = Mutex::new(());

fn packages(ui: &Ui, tools: &[Tool]) -> Result<()> {
    let _installing = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let missing: Vec<&Tool> = tools.iter().filter(|tool| find_program(tool.program).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = missing.iter().flat_map(|tool| tool.package.split(' ')).collect();
    let programs = missing.iter().map(|tool| tool.program).collect::<Vec<_>>().join(", ");
    let Some(apt_get) = find_program("apt-get") else {
        bail!(
            "missing: {programs}. On Debian these are the packages {}; install what this system calls them",
            packages.join(" ")
        );
    };
    let by_hand = format!("missing: {programs}. Install them as root: apt-get install {}", packages.join(" "));
    let Some(prefix) = as_root() else { bail!("{by_hand}") };
    let mut step = ui.step("installing packages");
    step.activity(&packages.join(" "));
    ui.note(&format!("installing {} (for {programs})", packages.join(" ")));
    let apt = |args: &[&str]| -> Result<()> {
        let mut command: Vec<PathBuf> = prefix.clone();
        command.extend(["env".into(), "DEBIAN_FRONTEND=noninteractive".into(), apt_get.clone()]);
        let output = Command::new(&command[0])
            .args(&command[1..])
            .args(args)
            .stdin(Stdio::null())
            .output()
            .context("cannot start apt-get")?;
        if !output.status.success() {
            bail!("{by_hand}\napt-get says: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(())
    };
    apt(&["update", "-qq", RETRIES])?;
    let mut install = vec!["install", "-y", "-qq", RETRIES, "--no-install-recommends"];
    install.extend(&packages);
    apt(&install)?;
    drop(step);
    match missing.iter().find(|tool| find_program(tool.program).is_none()) {
        Some(tool) => bail!("apt-get installed {}, but there is no {} on PATH", tool.package, tool.program),
        None => Ok(()),
    }
}

/// The prefix of a command that needs root; `None` if we cannot be root.
pub fn as_root() -> Option<Vec<PathBuf>> {
    if rustix::process::geteuid().is_root() {
        return Some(Vec::new());
    }
    let sudo = find_program("sudo")?;
    // Without a terminal, sudo must not ask for a password.
    Some(if std::io::stdin().is_terminal() { vec![sudo] } else { vec![sudo, "-n".into()] })
}

/// The missing parts of the Rust toolchain, as arguments of `rustup`.
fn missing_of_toolchain() -> Vec<String> {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).env("RUSTUP_TOOLCHAIN", TOOLCHAIN).output();
    let sysroot = match sysroot {
        Ok(output) if output.status.success() => PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()),
        _ => return vec!["the toolchain itself".into()],
    };
    let targets = [BARE_TARGET, PROGRAM_TARGET].into_iter();
    let targets = targets.filter(|target| !sysroot.join("lib/rustlib").join(target).join("lib").is_dir());
    let parts = [("bin/cargo-clippy", "clippy"), ("bin/rustfmt", "rustfmt")].into_iter();
    let parts = parts.filter(|(file, _)| !sysroot.join(file).is_file()).map(|(_, component)| component);
    targets.map(|target| format!("target {target}")).chain(parts.map(|part| format!("component {part}"))).collect()
}

fn toolchain(ui: &Ui) -> Result<()> {
    let _installing = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let missing = missing_of_toolchain();
    if missing.is_empty() {
        return Ok(());
    }
    let mut command = Command::new("rustup");
    command.args(["toolchain", "install", TOOLCHAIN, "--profile", "minimal", "--no-self-update"]);
    command.args(COMPONENTS.iter().flat_map(|component| ["-c", component]));
    command.args([BARE_TARGET, PROGRAM_TARGET].iter().flat_map(|target| ["-t", target]));
    if find_program("rustup").is_none() {
        bail!(
            "missing of Rust {TOOLCHAIN}: {}; without rustup only a hand can install them, see https://rustup.rs",
            missing.join(", ")
        );
    }
    let mut step = ui.step("installing parts of the Rust toolchain");
    step.activity(&missing.join(", "));
    let output = command.stdin(Stdio::null()).output().context("cannot start rustup")?;
    drop(step);
    let still = missing_of_toolchain();
    if !output.status.success() || !still.is_empty() {
        bail!("rustup could not install {}: {}", missing.join(", "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// Disk space of all tests in a new tree, and additional space in a tree where they have run, in bytes.
const TESTS: u64 = 24 << 30;
const TESTS_AGAIN: u64 = 3 << 30;

/// Checks the free disk space before all tests are run. Without enough space, a build fails in the middle, and tests
/// that need it fail.
///
/// # Errors
/// There is not enough.
pub fn room_for_tests(paths: &Paths) -> Result<()> {
    let wanted = if paths.out.join("packages").is_dir() { TESTS_AGAIN } else { TESTS };
    fs::create_dir_all(&paths.out).with_context(|| format!("cannot make {}", paths.out.display()))?;
    let free = room(&paths.out)?;
    if free < wanted {
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        bail!(
            "all tests take {:.0} GiB in {}, where {:.1} GiB are free; `./hafnon test PART` takes less",
            gib(wanted),
            paths.out.display(),
            gib(free)
        );
    }
    Ok(())
}

/// Free space of the file system that contains a folder, in bytes.
fn room(folder: &Path) -> Result<u64> {
    let told =
        rustix::fs::statvfs(folder).with_context(|| format!("cannot ask how much room {} has", folder.display()))?;
    Ok(told.f_bavail.saturating_mul(told.f_frsize))
}

/// Prints what is there; returns the number of missing things.
pub fn doctor() -> usize {
    let mut missing = 0;
    let mut line = |there: bool, what: &str, detail: &str| {
        missing += usize::from(!there);
        println!("{}  {what:<24} {detail}", if there { "ok     " } else { "MISSING" });
    };
    for tool in BUILD_TOOLS.iter().chain([&MACHINE]).chain(&DISK_TOOLS) {
        let version = find_program(tool.program).and_then(|program| first_line(Command::new(program).arg("--version")));
        let detail = version.clone().unwrap_or_else(|| format!("{}; apt-get install {}", tool.purpose, tool.package));
        line(version.is_some(), tool.program, &detail);
    }
    let rustup = find_program("rustup").and_then(|rustup| first_line(Command::new(rustup).arg("--version")));
    line(rustup.is_some(), "rustup", rustup.as_deref().unwrap_or("installs the toolchain; https://rustup.rs"));
    let parts = missing_of_toolchain();
    let detail = if parts.is_empty() {
        format!("with {BARE_TARGET} and {PROGRAM_TARGET}")
    } else {
        format!("{}; ./hafnon build installs it", parts.join(", "))
    };
    line(parts.is_empty(), &format!("Rust {TOOLCHAIN}"), &detail);
    let root = if as_root().is_some() && find_program("apt-get").is_some() {
        "./hafnon run installs missing packages by itself"
    } else {
        "missing packages must be installed by hand: no apt-get here, or neither root nor sudo"
    };
    println!("-        {:<24} {root}", "set-up");
    missing
}

fn first_line(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_string())
}
