//! `linux`: Linux as a program, built from Debian's source package and the OS layer in `guests/linux`.
//!
//! The set-up is done once, in `target/hafnon/linux`:
//! 1. The source package is fetched, with the machine's own package lists, and unpacked. Nothing is installed but
//!    compilers and generators that are missing.
//! 2. `guests/linux/build.sh` builds the kernel, again when a file of the OS layer has changed.
//! 3. cargo builds the launcher, the program `linux`.
//!
//! Then `linux` is a program that `run` boots. Its initial file system is made for each run.

pub mod archive;
pub mod initrd;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::args::{Accel, LinuxArgs, LinuxNet, RunArgs};
use crate::network::Net;
use crate::qemu::runtime_folder;
use crate::session::Outcome;
use crate::terminal::Raw;
use crate::{Capture, FILES, check_disk, has_terminal};
use xtask_build::cargo::{self, Build, PROGRAM_TARGET};
use xtask_build::devices::{Devices, Network};
use xtask_build::{BuildOptions, Built, build, program_flags, setup, without_debug_information};
use xtask_common::lock::BuildLock;
use xtask_common::paths::Paths;
use xtask_common::ui::Ui;

/// The port of a Linux in a machine with a card, if none was named.
const PORT: &str = "linux-1";
/// Memory of the machine in addition to Linux', in bytes.
const RESERVE: u64 = 384 << 20;

/// A Linux that can be run.
#[derive(Clone, Debug)]
pub struct Linux {
    /// The launcher.
    pub program: PathBuf,
    /// The kernel.
    pub kernel: PathBuf,
    /// Debian's static busybox.
    pub busybox: PathBuf,
}

impl Linux {
    /// The launcher as a program of the image: by its name it may use the disk.
    fn built_in(&self) -> (String, PathBuf) {
        (NAME.into(), self.program.clone())
    }
}

/// A file of the host's with a file system: Linux' first block device.
#[derive(Clone, Debug)]
pub struct Root {
    /// The file.
    pub image: PathBuf,
    /// Linux cannot write there.
    pub read_only: bool,
}

/// What a Linux gets.
#[derive(Clone, Debug)]
pub struct Guest {
    /// Its memory, in bytes.
    pub memory: u64,
    /// The program that init runs, with its arguments; none: a shell.
    pub command: Vec<String>,
    /// Programs in /bin in addition to busybox'.
    pub programs: Vec<(String, PathBuf)>,
    /// A folder whose files are at /host.
    pub files: Option<PathBuf>,
    /// An image of the host's that is the root, instead of the initial file system.
    pub root: Option<Root>,
    /// Its network cards: ports of the system's switch.
    pub ports: Vec<String>,
    /// The machine's card, on the same switch.
    pub network: Option<Network>,
    /// Options of the kernel in addition to ours.
    pub append: Vec<String>,
    /// The input of the command.
    pub input: Vec<u8>,
    /// Time limit of the machine.
    pub timeout: Option<Duration>,
    /// How instructions are executed.
    pub accel: Accel,
}

impl Guest {
    /// With a command, and the defaults of the command line.
    pub fn new(command: &[&str]) -> Guest {
        Guest {
            memory: 128 << 20,
            command: command.iter().map(ToString::to_string).collect(),
            programs: Vec::new(),
            files: None,
            root: None,
            ports: Vec::new(),
            network: None,
            append: Vec::new(),
            input: Vec::new(),
            timeout: None,
            accel: Accel::Tcg,
        }
    }

    /// The launcher's arguments; `verbose`: Linux says what it does.
    fn arguments(&self, verbose: bool) -> Vec<String> {
        let mut words = vec!["--memory".into(), (self.memory >> 20).to_string()];
        if let Some(root) = &self.root {
            // The machine's disk. Our init mounts it, as Debian's own does.
            let access = if root.read_only { "ro" } else { "rw" };
            words.extend(["--disk".into(), "disk".into(), "--append".into(), format!("root=/dev/vda {access}")]);
        }
        words.extend(self.ports.iter().flat_map(|port| ["--net".into(), format!("switch/{port}")]));
        // The kernel asks for eth0's address before its first program runs.
        let asks = self.network.is_some() && !self.append.iter().any(|word| word.starts_with("ip="));
        words.extend(asks.then_some(["--append", "ip=::::linux:eth0:dhcp"]).into_iter().flatten().map(String::from));
        words.extend(self.append.iter().flat_map(|word| ["--append".into(), word.clone()]));
        words.extend(verbose.then(|| "--verbose".into()));
        if self.command.is_empty() {
            words.push("--terminal".into());
        } else {
            words.push("--".into());
            words.extend(self.command.iter().cloned());
        }
        words
    }

    /// Boots the system with a Linux whose output is collected.
    ///
    /// # Errors
    /// The machine cannot be started.
    pub fn capture(&self, paths: &Paths, built: &Built, linux: &Linux) -> Result<Outcome> {
        let folder = runtime_folder()?;
        files(folder.path(), linux, &initrd::made(paths, &linux.busybox, self)?)?;
        let mut capture = Capture::new(built, Path::new(PROGRAM));
        capture.programs = vec![linux.built_in()];
        if let Some(root) = &self.root {
            let (disk, read_only) = (Some(root.image.clone()), root.read_only);
            capture.devices = Devices { disk, read_only, raw: true, ..Devices::default() };
        }
        capture.devices.switch = !self.ports.is_empty();
        capture.devices.network = self.network.clone();
        capture.args = self.arguments(false);
        capture.input = self.input.clone();
        capture.accel = self.accel;
        capture.memory = self.memory + RESERVE;
        capture.folders = vec![(FOLDER, folder.path().into())];
        if let Some(timeout) = self.timeout {
            capture.timeout = timeout;
        }
        capture.run()
    }
}

/// A boot of the system's own shell.
#[derive(Clone, Debug)]
pub struct InTheShell<'a> {
    /// What it runs. It may start Linux as a program.
    pub script: &'a str,
    /// The folder that it begins in has copies of this folder's files.
    pub files: &'a Path,
    /// What the machine has.
    pub devices: Devices,
    /// Programs in Linux' /bin in addition to busybox'.
    pub programs: Vec<(String, PathBuf)>,
    /// How instructions are executed.
    pub accel: Accel,
}

impl InTheShell<'_> {
    /// A script and a folder, in a machine without further devices.
    pub fn new<'a>(script: &'a str, files: &'a Path) -> InTheShell<'a> {
        InTheShell { script, files, devices: Devices::default(), programs: Vec::new(), accel: Accel::Tcg }
    }

    /// Boots it; output is collected.
    ///
    /// # Errors
    /// The machine cannot be started.
    pub fn capture(&self, paths: &Paths, built: &Built, linux: &Linux) -> Result<Outcome> {
        let of_linux = runtime_folder()?;
        let guest = Guest { programs: self.programs.clone(), ..Guest::new(&[]) };
        files(of_linux.path(), linux, &initrd::made(paths, &linux.busybox, &guest)?)?;
        let mut capture = Capture::new(built, Path::new("sh"));
        capture.args = vec!["-c".into(), self.script.into()];
        capture.programs = vec![linux.built_in()];
        capture.folders = vec![(FOLDER, of_linux.path().into())];
        capture.files = Some(self.files);
        capture.variables = vec![("PWD".into(), format!("/boot/{FILES}"))];
        capture.devices = self.devices.clone();
        capture.accel = self.accel;
        capture.memory = 1 << 30;
        capture.run()
    }
}

/// The launcher's name in the system, and its path there.
pub const NAME: &str = "linux";
const PROGRAM: &str = "/boot/bin/linux";

/// The folder of the boot image with the files of the kernel and of the initial file system.
const FOLDER: &str = "linux";
const KERNEL: &str = "vmlinux";
const INITRD: &str = "initrd";

fn files(folder: &Path, linux: &Linux, initrd: &[u8]) -> Result<()> {
    fs::copy(&linux.kernel, folder.join(KERNEL)).context("cannot copy the kernel")?;
    fs::write(folder.join(INITRD), initrd).context("cannot write the initial file system")
}

/// Puts a Linux, whose files are in this folder, into the image of a run.
fn add(boot: &mut RunArgs, linux: &Linux, folder: &Path) {
    boot.folders.push((FOLDER, folder.into()));
    boot.programs.push(linux.built_in());
}

/// `run --linux`: builds Linux, and puts it into the image. The folder has its files until the machine has them.
///
/// # Errors
/// Something is missing, or does not build.
pub fn beside(paths: &Paths, ui: &Ui, args: &RunArgs) -> Result<(RunArgs, TempDir)> {
    let linux = made(paths, ui)?;
    let folder = runtime_folder()?;
    files(folder.path(), &linux, &initrd::made(paths, &linux.busybox, &Guest::new(&[]))?)?;
    let mut boot = args.clone();
    add(&mut boot, &linux, folder.path());
    Ok((boot, folder))
}

/// Builds what is missing and runs Linux; returns this process' exit code.
///
/// # Errors
/// Something is missing, does not build or cannot be booted.
pub fn linux(paths: &Paths, args: &LinuxArgs) -> Result<u8> {
    let ui = Ui::new(args.verbose);
    let mut guest = Guest {
        memory: args.memory,
        append: args.append.iter().flat_map(|words| words.split_whitespace()).map(String::from).collect(),
        command: args.command.clone(),
        files: args.files.clone(),
        root: args.root.clone().map(|image| Root { image, read_only: args.read_only }),
        ..Guest::new(&[])
    };
    let mut boot = RunArgs::with_memory(Some(args.memory + RESERVE));
    for net in &args.net {
        match net {
            LinuxNet::Port(port) => guest.ports.push(port.clone()),
            LinuxNet::Machine(_) if boot.net.is_some() => bail!("--net: a machine has one network card"),
            LinuxNet::Machine(net) => boot.net = Some(net.clone()),
        }
    }
    if let Some(Net::Card { netdev, model }) = &boot.net {
        guest.network =
            Some(Network { netdev: netdev.clone(), model: *model, mac: None, capture: None, monitor: None });
        if guest.ports.is_empty() {
            guest.ports.push(PORT.into());
        }
    }
    // Before Linux is built.
    if let Some(root) = &guest.root {
        check_disk("--root", &root.image, root.read_only)?;
    }
    setup::for_booting(&ui)?;
    let linux = made(paths, &ui)?;
    let built = build(paths, &ui, BuildOptions::default())?;
    let folder = runtime_folder()?;
    let initrd = match &args.initrd {
        Some(file) => fs::read(file).with_context(|| format!("cannot read {}", file.display()))?,
        None => initrd::made(paths, &linux.busybox, &guest)?,
    };
    files(folder.path(), &linux, &initrd)?;
    boot.timeout = args.timeout;
    boot.verbose = args.verbose;
    boot.accel = args.accel;
    add(&mut boot, &linux, folder.path());
    if let Some(root) = &guest.root {
        (boot.disk, boot.raw_disk, boot.read_only_disk) = (Some(root.image.clone()), true, root.read_only);
    }
    boot.switch = !guest.ports.is_empty();
    boot.program = vec![PROGRAM.into()];
    boot.program.extend(guest.arguments(args.verbose));
    // Linux' own terminal driver echoes and edits.
    let _raw = (args.command.is_empty() && has_terminal()).then(Raw::take);
    crate::boot(&ui, paths, built, &boot)
}

/// Builds what is not built yet.
///
/// # Errors
/// It cannot be fetched or does not build.
pub fn made(paths: &Paths, ui: &Ui) -> Result<Linux> {
    made_with(paths, ui, None)
}

/// The same, with the additional configuration `guests/linux/config-NAME`.
///
/// # Errors
/// As [`made`].
pub fn made_with(paths: &Paths, ui: &Ui, config: Option<&str>) -> Result<Linux> {
    // Tests of one run wait here, and not for the lock, which would name another invocation.
    static MAKING: Mutex<()> = Mutex::new(());
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = paths.out.join("linux");
    // The launcher's libraries are part of the system. This takes the lock for as long as it builds.
    build(paths, ui, BuildOptions::default())?;
    let _lock = BuildLock::take(paths, ui)?;
    let kernel = kernel(paths, ui, &folder, config)?;
    let busybox = setup::busybox(ui, &folder.join("busybox"))?;
    Ok(Linux { program: launcher(paths, ui, &folder)?, kernel, busybox })
}

/// Steps 1 and 2.
fn kernel(paths: &Paths, ui: &Ui, folder: &Path, with: Option<&str>) -> Result<PathBuf> {
    let ours = paths.workspace.join("guests/linux");
    let (source, version) = setup::linux_source(ui, &folder.join("source"))?;
    let read = |name: String| {
        let file = ours.join(name);
        fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
    };
    let mut config = read("config".into())?;
    if let Some(with) = with {
        config += &read(format!("config-{with}"))?;
    }
    let state = state(&ours, &[&version, &config])?;
    let folder = with.map_or(folder.to_path_buf(), |with| folder.join(with));
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let (kernel, made_of) = (folder.join("vmlinux"), folder.join("made-of"));
    if kernel.is_file() && fs::read_to_string(&made_of).is_ok_and(|was| was == state) {
        return Ok(kernel);
    }
    setup::for_linux(ui)?;
    let mut step = ui.step("building Linux");
    step.activity(&format!("version {version}, some six minutes of processor time"));
    let (build, configuration) = (folder.join("build"), folder.join("config"));
    fs::write(&configuration, config).with_context(|| format!("cannot write {}", configuration.display()))?;
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let log = folder.join("build.log");
    let out = fs::File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let errors = out.try_clone().context("cannot write the log of the build")?;
    let status = Command::new(ours.join("build.sh"))
        .args([&source, &build, &configuration])
        .arg(format!("-j{jobs}"))
        // The same source gives the same kernel.
        .envs([("KBUILD_BUILD_USER", "hafnon"), ("KBUILD_BUILD_HOST", "hafnon"), ("KBUILD_BUILD_VERSION", "1")])
        .env("KBUILD_BUILD_TIMESTAMP", &version)
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(errors)
        .status()
        .context("cannot start the build of Linux")?;
    if !status.success() {
        let text = fs::read_to_string(&log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let last = lines[lines.len().saturating_sub(20)..].join("\n");
        bail!("Linux does not build; the end of {}:\n{last}", paths.short(&log).display());
    }
    without_debug_information(&build.join("vmlinux"), &kernel)?;
    fs::write(&made_of, state).context("cannot write what Linux was made of")?;
    Ok(kernel)
}

/// A digest of all that the kernel is made of.
fn state(ours: &Path, words: &[&str]) -> Result<String> {
    let mut hash = Sha256::new();
    words.iter().for_each(|word| hash.update(word));
    let mut folders = vec![ours.join("overlay")];
    let mut files = vec![ours.join("build.sh")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    for file in files {
        hash.update(file.strip_prefix(ours).unwrap_or(&file).to_string_lossy().as_bytes());
        hash.update(fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?);
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Step 3.
fn launcher(paths: &Paths, ui: &Ui, folder: &Path) -> Result<PathBuf> {
    let build =
        Build::new("building the launcher of Linux", &format!("--release --locked --target {PROGRAM_TARGET} -p linux"));
    let built = build.env("CARGO_ENCODED_RUSTFLAGS", program_flags(paths)).run(paths, ui)?;
    let program = folder.join("linux");
    without_debug_information(cargo::program(&built, "linux")?, &program)?;
    Ok(program)
}
