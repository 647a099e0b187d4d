//! `run`: boots the system for the tour or for one program.
#![forbid(unsafe_code)]

pub mod accel;
pub mod args;
pub mod batch;
pub mod cargo_command;
pub mod compiler;
pub mod disk;
mod gdb;
pub mod install;
mod line;
pub mod link;
pub mod linux;
pub mod network;
pub mod qemu;
pub mod session;
mod stalls;
mod symbols;
mod terminal;
mod trace;
pub mod wire;

use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::args::{Accel, AccelArg, RunArgs};
use crate::network::Net;
use crate::qemu::{Machine, runtime_folder};
use crate::session::{End, Outcome, OutputOptions, Session, Streams};
use crate::symbols::Files;
use crate::trace::Wanted;
use xtask_build::c::front;
use xtask_build::cargo::{self, Build};
use xtask_build::devices::{Devices, Network};
use xtask_build::elf::{self, ProgramError};
use xtask_build::image::{Image, Mode};
use xtask_build::system::System;
use xtask_build::system::instances::{Instances, MAIN, OtherInstance};
use xtask_build::system::rules;
use xtask_build::{BuildOptions, Built, build, program_flags, setup};
use xtask_common::paths::Paths;
use xtask_common::ui::Ui;

/// Memory that the kernel, the root task and the server need in addition to image and programs, in bytes.
const RESERVE: u64 = 48 << 20;

/// The folder of the user's files in the boot image.
pub const FILES: &str = "files";
/// The folder of the built-in programs, as programs see it.
pub const BIN: &str = "/boot/bin";
/// Time after which something that should end is considered hung: long enough for a slow machine under load.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// Variables of our own environment that a program inherits: those that control Rust programs and test harnesses, and
/// those that cargo sets for programs that it runs.
fn inherited(name: &str) -> bool {
    matches!(name, "RUST_BACKTRACE" | "RUST_LIB_BACKTRACE" | "RUST_LOG" | "RUST_MIN_STACK" | "NO_COLOR" | "TERM")
        || matches!(name, "CARGO_MANIFEST_DIR" | "CARGO_MANIFEST_PATH" | "CARGO_CRATE_NAME" | "CARGO_BIN_NAME")
        || matches!(name, "CARGO_PRIMARY_PACKAGE" | "CARGO_TARGET_TMPDIR" | "OUT_DIR")
        || ["RUST_TEST_", "PROPTEST_", "RAYON_", "CARGO_PKG_", "CARGO_BIN_EXE_"].iter().any(|p| name.starts_with(p))
}

/// Runs; returns this process' exit code.
///
/// # Errors
/// Something is missing, does not build or cannot be booted.
pub fn run(paths: &Paths, args: &RunArgs) -> Result<u8> {
    let ui = Ui::new(args.verbose);
    // Checked before anything is built: a wrong name should not cost a build.
    match args.program.first().map(Path::new) {
        Some(program) if is_path(program) => drop(elf::read(program)?),
        Some(program) if args.linux && program == Path::new(linux::NAME) => {}
        Some(program) => check_name(paths, &program.to_string_lossy())?,
        None => {}
    }
    wanted_trace(args)?;
    setup::for_booting(&ui)?;
    if args.gdb.is_some() {
        setup::for_gdb(&ui)?;
    }
    let what =
        BuildOptions { debug: args.debug, shell: args.program.is_empty() && has_terminal(), ..BuildOptions::default() };
    let mut built = build(paths, &ui, what)?;
    // The name of the shell, or of a program that only a build with the shell may contain.
    if let Some(name) = args.program.first().filter(|name| !is_path(Path::new(name))) {
        let installed = install::programs(paths)?;
        let of_linux = args.linux && name == linux::NAME;
        let known = of_linux || built.programs.iter().chain(&installed).any(|(known, _)| known == name);
        if name == "sh" || !known {
            built = build(paths, &ui, BuildOptions { shell: true, ..what })?;
        }
    }
    if !args.linux {
        return boot(&ui, paths, built, args);
    }
    let (args, _files) = linux::beside(paths, &ui, args)?;
    boot(&ui, paths, built, &args)
}

/// Whether a user is at a terminal.
pub fn has_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// Boots the built system; returns this process' exit code.
///
/// # Errors
/// The program or the machine cannot be started.
pub fn boot(ui: &Ui, paths: &Paths, mut built: Built, args: &RunArgs) -> Result<u8> {
    let shell = has_terminal() && args.program.is_empty();
    let (raw, read_only) = (args.raw_disk, args.read_only_disk);
    let mut devices =
        Devices { terminal: shell, disk: args.disk.clone(), raw, read_only, switch: args.switch, ..Devices::default() };
    if let Some(disk) = &devices.disk {
        check_disk("--disk", disk, read_only)?;
    }
    if let Some(Net::Card { netdev, model }) = &args.net {
        let (netdev, capture) = (netdev.clone(), args.pcap.clone());
        devices.network = Some(Network { netdev, model: *model, mac: None, capture, monitor: None });
    }
    if devices.network.is_none() && args.pcap.is_some() {
        bail!("--pcap: the machine has no network card; `--net user` gives it one");
    }
    if let (Some(access), Some(program)) = (&args.net_rule, args.program.first()) {
        rules::set(&mut built.services, &place_in_image(Path::new(program)).1, access.clone()).context("--net-rule")?;
    }
    let mut image = Image::new(&built, false, &devices)?;
    image.add_installed(&args.programs)?;
    let installed = install::programs(paths)?;
    check_installed(&built, |name| image.has(&format!("bin/{name}")), installed.iter().map(|(name, _)| name))?;
    image.add_installed(&installed)?;
    if let Some(folder) = &args.files {
        image.add_folder(FILES, folder).context("--files")?;
    }
    for (name, folder) in &args.folders {
        image.add_folder(name, folder)?;
    }
    let mode = match args.program.split_first() {
        None => Mode::Tour { shell },
        Some((program, args_of_it)) => {
            Mode::Run(add_program(&mut image, Path::new(program), args.mem)?, args_of_it.to_vec())
        }
    };
    let trace = wanted_trace(args)?;
    if trace.is_some() {
        image.add("config/trace", "")?;
    }
    let folder = runtime_folder()?;
    let mut root = built.root.clone();
    let instances = match &args.system {
        Some(file) => Instances::read(file).context("--system")?,
        None => System::read(paths)?.instances()?,
    };
    if args.system.is_some() {
        root = instances.embed(&built.root, &folder.path().join("root.elf"))?;
        devices.beside = beside(&built, &instances, args.mem)?;
    }
    devices.components = instances.components()?;
    image.add_trust(&instances.trusted(MAIN))?;
    let bytes = image.finish(&mode, &variables(&args.env))?;
    let images = devices.beside.iter().map(|(_, image)| image.len() as u64).sum::<u64>();
    check_memory(bytes.len() as u64 + images, args.mem)?;
    // A debugger's breakpoints were tried without KVM only.
    let wanted = match accel::wanted(args.accel)? {
        AccelArg::Auto if args.gdb.is_some() => AccelArg::Tcg,
        wanted => wanted,
    };
    let accel = accel::choose(paths, ui, Some(wanted), &mut built)?;
    let machine = Machine {
        kernel: &built.kernel,
        root: &root,
        image: &bytes,
        memory: args.mem,
        accel,
        gdb: args.gdb,
        devices,
        linux: None,
    };
    let timeout = args.timeout.map(Duration::from_secs_f64);
    let first = args.program.first().map(PathBuf::from).filter(|program| !program.starts_with(BIN) && is_path(program));
    let mut programs: Vec<PathBuf> = first.into_iter().collect();
    programs.extend(args.programs.iter().map(|(_, program)| program.clone()));
    programs.extend(installed.iter().map(|(name, _)| install::original(paths, name)));
    let mut files = Files::new(paths, &built, &programs);
    files.components = instances.component_files();
    if let Some(port) = args.gdb {
        let script = gdb::prepare(paths, &built, &files, port)?;
        ui.note("the machine waits for gdb; in another terminal, in the project's folder:");
        ui.note(&format!("  gdb -x {}", paths.short(&script).display()));
    }
    let names = (!args.raw_backtraces).then_some(files);
    let session = Session {
        machine,
        timeout,
        quiet: None,
        verbose: args.verbose,
        streams: Streams::Ours(OutputOptions { names, trace }),
        until_first_output: false,
    };
    let outcome = session.run()?;
    match &outcome.end {
        End::TimedOut => ui.note(&format!(
            "the program did not end within {} s; the machine was stopped",
            args.timeout.unwrap_or_default()
        )),
        End::Stopped(why) => ui.note(&format!("the system stopped before the program ended: {why}")),
        End::Exit(_) | End::Output | End::Signal(_) | End::OutputClosed => {}
    }
    Ok(outcome.end.exit_code())
}

/// The additional instances, each with an image that says what it runs.
///
/// # Errors
/// A program does not exist or cannot run.
pub fn beside(built: &Built, instances: &Instances, memory: u64) -> Result<Vec<(OtherInstance, Vec<u8>)>> {
    let image = |beside: OtherInstance| -> Result<(OtherInstance, Vec<u8>)> {
        let (program, args) = beside.program.split_first().context("it says no `program`")?;
        let mut image = Image::new(built, false, &Devices::default())?;
        let path = add_program(&mut image, Path::new(program), memory)?;
        image.add_trust(&instances.trusted(&beside.name))?;
        let bytes = image.finish(&Mode::Run(path, args.to_vec()), &[])?;
        Ok((beside, bytes))
    };
    let name = |beside: &OtherInstance| format!("instance `{}`", beside.name);
    instances.beside()?.into_iter().map(|beside| image(beside.clone()).with_context(|| name(&beside))).collect()
}

/// The root task for a machine with this memory and these instances, if they differ from `system.toml`; it is written
/// to `file`. Devices that the instances need are added to the machine.
///
/// # Errors
/// They are invalid, or a program of theirs is missing.
pub fn described(
    built: &Built,
    instances: Option<&Instances>,
    (devices, memory): (&mut Devices, u64),
    file: &Path,
) -> Result<PathBuf> {
    let Some(instances) = instances else { return Ok(built.root.clone()) };
    devices.beside = beside(built, instances, memory)?;
    devices.components = instances.components()?;
    instances.embed(&built.root, file)
}

/// The requested trace, if any.
fn wanted_trace(args: &RunArgs) -> Result<Option<Wanted>> {
    let wanted = Wanted::new(args.trace.as_deref(), args.trace_output.clone(), args.trace_file.clone())?;
    if wanted.is_some() && args.program.is_empty() {
        bail!("a trace is of a program: name one");
    }
    Ok(wanted)
}

/// A boot of one program whose output is collected.
#[derive(Clone, Debug)]
pub struct Capture<'a> {
    built: &'a Built,
    program: &'a Path,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its environment.
    pub variables: Vec<(String, String)>,
    /// Its input.
    pub input: Vec<u8>,
    /// Send the program nothing, not even its input.
    pub overheard: bool,
    /// Time limit of the machine.
    pub timeout: Duration,
    /// Memory of the machine in bytes.
    pub memory: u64,
    /// How instructions are executed.
    pub accel: Accel,
    /// End the machine at the first output.
    pub until_first_output: bool,
    /// Additional devices of the machine.
    pub devices: Devices,
    /// Programs in the image in addition to the built-in ones.
    pub programs: Vec<(String, PathBuf)>,
    /// A folder whose files are included, as with `run --files`.
    pub files: Option<&'a Path>,
    /// Folders whose files are included as /boot/NAME.
    pub folders: Vec<(&'static str, PathBuf)>,
    /// The instances, if they differ from `system.toml`.
    pub instances: Option<Instances>,
    /// Built-in programs that run beside it, one after the other, with their arguments. Their output is its input.
    pub beside: Vec<Vec<String>>,
    /// The image also contains the test programs.
    pub tests: bool,
}

impl<'a> Capture<'a> {
    /// The program in a file, without arguments, in a machine with the defaults of `run`, with the time limit
    /// [`PATIENCE`].
    pub fn new(built: &'a Built, program: &'a Path) -> Capture<'a> {
        Capture {
            built,
            program,
            args: Vec::new(),
            variables: Vec::new(),
            input: Vec::new(),
            overheard: false,
            timeout: PATIENCE,
            memory: 512 << 20,
            accel: Accel::Tcg,
            until_first_output: false,
            devices: Devices::default(),
            programs: Vec::new(),
            files: None,
            folders: Vec::new(),
            instances: None,
            beside: Vec::new(),
            tests: false,
        }
    }

    /// Boots and runs the program.
    ///
    /// # Errors
    /// The program or the machine cannot be started.
    pub fn run(&self) -> Result<Outcome> {
        let mut image = Image::new(self.built, self.tests, &self.devices)?;
        image.add_installed(&self.programs)?;
        image.add_beside(&self.beside)?;
        if let Some(folder) = self.files {
            image.add_folder(FILES, folder)?;
        }
        for (name, folder) in &self.folders {
            image.add_folder(name, folder)?;
        }
        let path = add_program(&mut image, self.program, self.memory)?;
        if let Some(instances) = &self.instances {
            image.add_trust(&instances.trusted(MAIN))?;
        }
        let bytes = image.finish(&Mode::Run(path, self.args.clone()), &self.variables)?;
        check_memory(bytes.len() as u64, self.memory)?;
        let folder = runtime_folder()?;
        let mut devices = self.devices.clone();
        let file = folder.path().join("root.elf");
        let root = described(self.built, self.instances.as_ref(), (&mut devices, self.memory), &file)?;
        let machine = Machine {
            kernel: &self.built.kernel,
            root: &root,
            image: &bytes,
            memory: self.memory,
            accel: self.accel,
            gdb: None,
            devices,
            linux: None,
        };
        let session = Session {
            machine,
            timeout: Some(self.timeout),
            quiet: None,
            verbose: false,
            streams: if self.overheard { Streams::Overheard } else { Streams::Captured(self.input.clone()) },
            until_first_output: self.until_first_output,
        };
        session.run()
    }
}

/// Builds the program of `examples/NAME` for the system.
///
/// # Errors
/// It does not build.
pub fn example(paths: &Paths, ui: &Ui, name: &str) -> Result<PathBuf> {
    let title = format!("building the example {name}");
    let mut build = Build::new(&title, &format!("--release --locked --target {}", cargo::PROGRAM_TARGET));
    build.folder = Some(paths.workspace.join("examples").join(name));
    build.target_dir = Some(paths.out.join("examples"));
    for (variable, tool) in front::variables(paths) {
        build = build.env(variable, tool);
    }
    let made = build.env("CARGO_ENCODED_RUSTFLAGS", program_flags(paths)).run(paths, ui)?;
    Ok(cargo::program(&made, name)?.to_path_buf())
}

/// Whether this names a file rather than a built-in program: a name with a slash is a path, as in a shell, and so is
/// the name of a file in the current folder.
fn is_path(program: &Path) -> bool {
    program.components().count() > 1
        || program.is_absolute()
        || program.as_os_str().to_string_lossy().contains('/')
        || program.is_file()
}

/// Refuses a name that no program in the image will have.
fn check_name(paths: &Paths, name: &str) -> Result<()> {
    let mut names = xtask_build::program_names(paths)?;
    names.extend(install::names(paths)?);
    match names.contains(name) {
        true => Ok(()),
        false => {
            let names = names.into_iter().collect::<Vec<_>>().join(", ");
            Err(ProgramError::Missing(format!("{name}: no such program; built in are {names}")).into())
        }
    }
}

/// Adds the program to the image; returns its path there as programs see it. A path below [`BIN`] is a program that is
/// there already, whatever files the host has.
fn add_program(image: &mut Image, program: &Path, memory: u64) -> Result<String> {
    let (is_file, name) = place_in_image(program);
    let Some(file) = is_file.then(|| elf::read(program)).transpose()? else {
        if !image.has(&format!("bin/{name}")) {
            let names: Vec<&str> = image.names("bin").collect();
            let text = format!("{name}: no such program; built in are {}", names.join(", "));
            return Err(ProgramError::Missing(text).into());
        }
        return Ok(format!("{BIN}/{name}"));
    };
    check_program(program, &file, |library| image.has(&format!("lib/{library}")), memory)?;
    image.add(&name, file.bytes)?;
    Ok(format!("/boot/{name}"))
}

/// Whether a program is a file of the host's, and its name, by which rules know it: that in the image's `bin`, or `run/NAME`.
fn place_in_image(program: &Path) -> (bool, String) {
    match program.strip_prefix(BIN) {
        Ok(built_in) => (false, built_in.display().to_string()),
        Err(_) if !is_path(program) => (false, program.display().to_string()),
        // A separate folder, because the name may be that of a built-in program.
        Err(_) => {
            let name = program.file_name().map_or("program".into(), |name| name.to_string_lossy());
            (true, format!("run/{name}"))
        }
    }
}

/// Refuses a program that cannot run for lack of a library or of memory.
///
/// # Errors
/// The error says which, and what to do.
pub fn check_program(
    program: &Path,
    file: &elf::Program,
    has_library: impl Fn(&str) -> bool,
    memory: u64,
) -> Result<(), ProgramError> {
    if let Some(library) = file.needed.iter().find(|name| *name != "libzircon.so" && !has_library(name)) {
        let text = format!("{}: needs the shared library {library}, which the system does not have", program.display());
        return Err(ProgramError::NoProgram(text));
    }
    if file.memory.saturating_add(RESERVE) > memory {
        let text = format!(
            "{}: takes {} MiB of memory, the machine has {} MiB; give it more with --mem",
            program.display(),
            file.memory.div_ceil(1 << 20),
            memory >> 20
        );
        return Err(ProgramError::NoProgram(text));
    }
    Ok(())
}

/// Refuses a file that cannot be a disk.
///
/// # Errors
/// It is not a file, cannot be written, or does not consist of whole blocks.
fn check_disk(option: &str, disk: &Path, read_only: bool) -> Result<()> {
    let opened = fs::OpenOptions::new().read(true).write(!read_only).open(disk).and_then(|file| file.metadata());
    let what = if read_only { "" } else { " for writing" };
    let data = opened.with_context(|| format!("{option} {}: it cannot be opened{what}", disk.display()))?;
    if !data.is_file() || data.len() == 0 || data.len() % 512 != 0 {
        bail!(
            "{option} {}: a disk is a file of whole blocks of 512 bytes (`truncate -s 64M FILE` makes one)",
            disk.display()
        );
    }
    Ok(())
}

/// Refuses an installed program whose name gives it rights that are not its own: `init` knows programs by the name that
/// the system is booted for.
///
/// # Errors
/// The first such program.
pub(crate) fn check_installed<'a>(
    built: &Built,
    is_built_in: impl Fn(&str) -> bool,
    mut installed: impl Iterator<Item = &'a String>,
) -> Result<()> {
    match installed.find(|name| built.gives_rights_to(name) && !is_built_in(name)) {
        Some(name) => bail!(
            "the installed program `{name}` has the name of a program of the system's that has rights, so the system is \
             not booted with it: `./hafnon uninstall PACKAGE` removes it"
        ),
        None => Ok(()),
    }
}

/// Refuses a boot that cannot succeed.
///
/// # Errors
/// Image and system need more memory than the machine has.
pub fn check_memory(image: u64, memory: u64) -> Result<()> {
    let needed = image.saturating_add(RESERVE);
    if needed > memory {
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        bail!(
            "the machine has too little memory: {} MiB, but the image has {} MiB and the system needs {} MiB beside it; \
             give it {}M or more with --mem",
            memory >> 20,
            mib(image),
            mib(RESERVE),
            mib(needed)
        );
    }
    Ok(())
}

/// A program's environment: the given variables, and those that it inherits from ours.
pub fn variables(given: &[(String, String)]) -> Vec<(String, String)> {
    let inherited = std::env::vars_os().filter_map(|(key, value)| {
        let (key, value) = (key.into_string().ok()?, value.into_string().ok()?);
        (inherited(&key) && !given.iter().any(|(name, _)| *name == key)).then_some((key, value))
    });
    let mut all: Vec<_> = inherited.collect();
    all.sort();
    all.extend(given.iter().cloned());
    all
}
