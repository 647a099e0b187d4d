//! Builds everything that boots, in the order of dependencies.
//!
//! ```text
//! kernel ----------------------------------------------+
//! vdso, userboot --------------------> server -> root -+-> QEMU
//! vdso -> libc -> fdio, crt ---------> sysroot -+      |
//!                                   programs ---+-> BOOTFS image
//! ```
//!
//! Cargo decides what must be rebuilt. An output is replaced only if it differs, so a change rebuilds only the parts
//! that depend on it. If no source has changed since the last build, cargo is not called.
#![forbid(unsafe_code)]

pub mod c;
pub mod cargo;
pub mod devices;
pub mod elf;
pub mod image;
pub mod kernel;
pub mod rump;
pub mod setup;
pub mod system;
mod unwinder;

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::cargo::{Artifact, BARE_TARGET, Build, PROGRAM_TARGET};
use crate::kernel::Variant;
use crate::system::{DeviceNeed, ServiceEntry, System};
use xtask_common::files::{copy_if_changed, write_if_changed};
use xtask_common::lock::BuildLock;
use xtask_common::paths::Paths;
use xtask_common::ui::Ui;

/// What to build.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BuildOptions {
    /// The debug kernel, and everything that is built against it.
    pub debug: bool,
    /// Also the conformance programs.
    pub tests: bool,
    /// Also the shell and the programs that users expect with it.
    pub shell: bool,
    /// A root task that first reports the costs of the kernel itself.
    pub measure: bool,
}

/// The locations of everything built.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Built {
    /// The kernel for QEMU.
    pub kernel: PathBuf,
    /// The root task, which contains the server.
    pub root: PathBuf,
    /// The server, for debuggers.
    pub server: PathBuf,
    /// Path in the image and file of every library.
    pub libraries: Vec<(String, PathBuf)>,
    /// Name and file of every built-in program.
    pub programs: Vec<(String, PathBuf)>,
    /// Name and file of every conformance program.
    pub test_programs: Vec<(String, PathBuf)>,
    /// The services that the system description names, including drivers.
    pub services: Vec<ServiceEntry>,
    /// Additional names of programs.
    pub names: BTreeMap<String, Vec<String>>,
    /// The programs that may inspect all tasks.
    pub trusted: Vec<String>,
}

impl Built {
    /// Whether `init` gives the program of this name, if the system is booted for it, rights that others do not have: a
    /// service that is not public, or all tasks.
    pub fn gives_rights_to(&self, name: &str) -> bool {
        let names = self.services.iter().flat_map(|known| &known.service.programs).chain(&self.trusted);
        names.into_iter().any(|known| known == name)
    }
}

/// Records what a build was made from.
#[derive(Serialize, Deserialize)]
struct Stamp {
    sources: u64,
    built: Built,
}

/// Builds `what`.
///
/// # Errors
/// A part does not build; the error names it, and the compiler's messages have been printed.
pub fn build(paths: &Paths, ui: &Ui, what: BuildOptions) -> Result<Built> {
    let _lock = BuildLock::take(paths, ui)?;
    let parts = [(what.debug, "-debug"), (what.tests, "-tests"), (what.shell, "-shell"), (what.measure, "-measure")];
    let name: String = parts.iter().filter_map(|(part, name)| part.then_some(*name)).collect();
    let stamp_file = paths.out.join(format!("built{name}.json"));
    let sources = state_of_sources(paths)?;
    if let Some(built) = unchanged(&stamp_file, sources) {
        return Ok(built);
    }
    setup::for_building(ui)?;
    let built = Builder { paths, ui, what, tree: None }.all()?;
    let stamp = Stamp { sources, built };
    write_if_changed(&stamp_file, &serde_json::to_vec(&stamp).context("cannot write the build's stamp")?)?;
    Ok(stamp.built)
}

/// A kernel, with what the user sees of its build. The caller has the build lock.
///
/// # Errors
/// It does not build.
pub fn built_kernel(paths: &Paths, ui: &Ui, variant: Variant) -> Result<kernel::Kernel> {
    let mut step = ui.step("building the kernel");
    if !paths.out.join("kernel").join(variant.name()).is_dir() {
        step.activity("seL4");
    }
    let kernel = kernel::build(paths, variant)?;
    drop(step);
    if kernel.built {
        let name = variant.name();
        ui.note(&format!("built the {name} kernel: seL4, licensed under GPL-2.0 (see kernel/README.md)"));
    }
    Ok(kernel)
}

/// The environment variables for building crates that depend on the kernel.
///
/// # Errors
/// The kernel does not build.
pub fn kernel_variables(paths: &Paths) -> Result<[(&'static str, OsString); 2]> {
    let kernel = kernel::build(paths, Variant::Release)?;
    Ok([("HAFNON_SEL4", kernel.folder.into()), ("HAFNON_SEL4_SRC", kernel.source.into())])
}

/// The same system, except that server and root task are built from a modified copy of the tree.
///
/// # Errors
/// They do not build.
pub fn variant(paths: &Paths, ui: &Ui, built: &Built, tree: &Path) -> Result<Built> {
    let _lock = BuildLock::take(paths, ui)?;
    let builder = Builder { paths, ui, what: BuildOptions::default(), tree: Some(tree) };
    let kernel = kernel::build(paths, Variant::Release)?;
    let (vdso, userboot) = (paths.out.join("vdso/libzircon.so"), paths.out.join("userboot/userboot"));
    let (server, root) = builder.server_and_root(&kernel, &vdso, &userboot, &System::read(paths)?)?;
    Ok(Built { server, root, ..built.clone() })
}

/// The names of all programs in images, with a shell or without, before anything is built.
///
/// # Errors
/// Cargo does not list the programs of the packages.
pub fn program_names(paths: &Paths) -> Result<BTreeSet<String>> {
    let image = System::read(paths)?.image;
    let packages: Vec<&String> = image.programs.iter().chain(&image.shell_programs).collect();
    let mut names = cargo::binaries(paths, |package| packages.iter().any(|name| *name == package))?;
    names.extend(image.names.into_values().flatten());
    Ok(names)
}

/// The result of the last build for programs, whatever has changed since.
pub fn last(paths: &Paths) -> Option<Built> {
    let stamp: Stamp = serde_json::from_slice(&fs::read(paths.out.join("built.json")).ok()?).ok()?;
    Some(stamp.built)
}

/// The result of the last build, if none of its sources has changed and all outputs still exist.
fn unchanged(stamp_file: &Path, sources: u64) -> Option<Built> {
    let stamp: Stamp = serde_json::from_slice(&fs::read(stamp_file).ok()?).ok()?;
    let built = &stamp.built;
    let mut files = vec![&built.kernel, &built.root, &built.server];
    for named in [&built.libraries, &built.programs, &built.test_programs] {
        files.extend(named.iter().map(|(_, file)| file));
    }
    (stamp.sources == sources && files.iter().all(|file| file.is_file())).then_some(stamp.built)
}

/// Hash of the name, size and modification time of every file of the tree and of a user's own kernel, and of the
/// variables that affect builds.
fn state_of_sources(paths: &Paths) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    cargo::TOOLCHAIN.hash(&mut hasher);
    std::env::var_os("SEL4_PREFIX").hash(&mut hasher);
    paths.workspace.hash(&mut hasher);
    let installed = kernel::prefix().map(|prefix| prefix.join("bin/kernel.elf"));
    for path in cargo::sources(&paths.workspace)?.into_iter().chain(installed) {
        if paths.short(&path).starts_with("docs") || paths.short(&path).starts_with("examples") {
            continue;
        }
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        (&path, metadata.len(), metadata.modified().ok()).hash(&mut hasher);
    }
    Ok(hasher.finish())
}

struct Builder<'a> {
    paths: &'a Paths,
    ui: &'a Ui,
    what: BuildOptions,
    /// The copy of the tree from which server and root task are built instead.
    tree: Option<&'a Path>,
}

impl Builder<'_> {
    fn all(&self) -> Result<Built> {
        let system = System::read(self.paths)?;
        let kernel = self.kernel()?;
        let (vdso, userboot) = self.first_process()?;
        let (server, root) = self.server_and_root(&kernel, &vdso, &userboot, &system)?;
        let libraries = self.sysroot(&vdso)?;
        let mut programs = self.programs("building the programs", &system.image.programs)?;
        if self.what.shell {
            programs.extend(self.programs("building the shell's programs", &system.image.shell_programs)?);
        }
        let test_programs = match self.what.tests {
            true => self.programs("building the conformance programs", &system.image.test_programs)?,
            false => Vec::new(),
        };
        let services = system.services()?;
        let made = |known: &ServiceEntry| {
            let is_for_tests = known.needs == [DeviceNeed::Tests];
            let of_tests: &[_] = if is_for_tests { &test_programs } else { &[] };
            let left_out = is_for_tests && !self.what.tests;
            left_out || programs.iter().chain(of_tests).any(|(name, _)| *name == known.service.program)
        };
        if let Some(ServiceEntry { service, .. }) = services.iter().find(|known| !made(known)) {
            bail!(
                "system.toml: the service `{}` has the program `{}`, which no package of the image makes",
                service.name,
                service.program
            );
        }
        Ok(Built {
            kernel: kernel.image,
            root,
            server,
            libraries,
            programs,
            test_programs,
            services,
            trusted: system.image.trusted,
            names: system.image.names,
        })
    }

    fn kernel(&self) -> Result<kernel::Kernel> {
        built_kernel(self.paths, self.ui, if self.what.debug { Variant::Debug } else { Variant::Release })
    }

    /// A cargo build with the profile of the parts below the programs.
    fn system_build<'a>(&self, title: &'a str, target: &str, args: &str) -> Build<'a> {
        Build::new(title, &format!("--profile system --target {target} {args}"))
    }

    /// Copies an output to where the next part finds it, only if it differs.
    fn place(&self, from: &Path, to: &str) -> Result<PathBuf> {
        let to = self.paths.out.join(to);
        copy_if_changed(from, &to)?;
        Ok(to)
    }

    fn first_process(&self) -> Result<(PathBuf, PathBuf)> {
        let build = self.system_build("building the vDSO", PROGRAM_TARGET, "-p vdso");
        let made = build.run(self.paths, self.ui)?;
        let vdso = self.place(shared_object(&made, "zircon")?, "vdso/libzircon.so")?;
        copy_if_changed(&vdso, &self.paths.sysroot_lib().join("libzircon.so"))?;
        let build = self.system_build("building userboot", PROGRAM_TARGET, "-p userboot");
        let made = build.env("HAFNON_VDSO", &vdso).run(self.paths, self.ui)?;
        let userboot = self.place(cargo::program(&made, "userboot")?, "userboot/userboot")?;
        Ok((vdso, userboot))
    }

    /// The libraries that programs link with and load: C library, fdio, start file, unwinder.
    fn sysroot(&self, vdso: &Path) -> Result<Vec<(String, PathBuf)>> {
        self.place(vdso, "sysroot/lib/libzircon.so")?;
        let musl = c::sources::fetched(self.paths, self.ui)?;
        let include = c::headers::install(self.paths, self.ui, &musl)?;
        c::front::install(self.paths)?;
        let made = self.system_build("building the C library", PROGRAM_TARGET, "-p zlibc").run(self.paths, self.ui)?;
        let rust = cargo::library(&made, "zlibc", "a")?;
        let libc = c::library::build(self.paths, self.ui, &musl, &include, rust)?;
        let libc = self.place(&libc, "sysroot/lib/libc.so")?;
        let library = |title, package: &str, target: &str, to: &str| {
            let build = self.system_build(title, PROGRAM_TARGET, &format!("-p {package}"));
            let made = build.env("HAFNON_SYSROOT", self.paths.out.join("sysroot")).run(self.paths, self.ui)?;
            self.place(shared_object(&made, target)?, &format!("sysroot/lib/{to}"))
        };
        self.start_file()?;
        let build = self.system_build("building libsync", PROGRAM_TARGET, "-p sync-archive");
        let made = build.run(self.paths, self.ui)?;
        self.place(cargo::library(&made, "sync_archive", "a")?, "sysroot/lib/libsync.a")?;
        let fdio = library("building fdio", "fdio", "fdio", "libfdio.so")?;
        let build = self.system_build("building librumpuser", PROGRAM_TARGET, "-p rumpuser");
        let made = build.run(self.paths, self.ui)?;
        let rumpuser = c::rumpuser::build(self.paths, cargo::library(&made, "rumpuser", "a")?)?;
        self.place(&rumpuser, "sysroot/lib/librumpuser.a")?;
        Ok(vec![("lib/ld.so.1".into(), libc.clone()), ("lib/libc.so".into(), libc), ("lib/libfdio.so".into(), fdio)])
    }

    /// Links an object file and an archive, because cargo does not make object files.
    fn start_file(&self) -> Result<()> {
        let object = self.paths.out.join("crt/Scrt1.o");
        fs::create_dir_all(self.paths.out.join("crt")).context("cannot make a folder for the start file")?;
        unwinder::object(&self.paths.workspace.join("runtime/crt/src/lib.rs"), "crt", &object)?;
        self.place(&object, "sysroot/lib/Scrt1.o")?;
        self.place(&unwinder::build(self.paths)?, "sysroot/lib/libunwind.a").map(drop)
    }

    fn server_and_root(
        &self,
        kernel: &kernel::Kernel,
        vdso: &Path,
        userboot: &Path,
        system: &System,
    ) -> Result<(PathBuf, PathBuf)> {
        let variant = match (self.tree, self.what.debug) {
            (Some(_), _) => "variant",
            (None, true) => "debug",
            (None, false) => "release",
        };
        let build = |title, args| {
            // Each kernel variant has its own cargo target directory, so switching between them rebuilds nothing.
            let mut build = self.system_build(title, BARE_TARGET, args);
            build.target_dir = self.what.debug.then(|| self.paths.out.join("cargo-debug"));
            if let Some(tree) = self.tree {
                build.folder = Some(tree.to_path_buf());
                build.target_dir = Some(self.paths.out.join("mutations/cargo"));
            }
            build.env("HAFNON_SEL4", &kernel.folder).env("HAFNON_SEL4_SRC", &kernel.source)
        };
        let made = build("building the server", "-p server")
            .env("HAFNON_VDSO", vdso)
            .env("HAFNON_USERBOOT", userboot)
            .run(self.paths, self.ui)?;
        let server = self.place(cargo::program(&made, "server")?, &format!("server/{variant}/server.elf"))?;
        let (args, variant) = match self.what.measure {
            true => ("-p root --features root/measure", "measure"),
            false => ("-p root", variant),
        };
        let made = build("building the root task", args).env("HAFNON_SERVER", &server).run(self.paths, self.ui)?;
        let to = self.paths.out.join(format!("root/{variant}/root.elf"));
        let root = system.instances()?.embed(cargo::program(&made, "root")?, &to)?;
        Ok((server, root))
    }

    fn programs(&self, title: &str, packages: &[String]) -> Result<Vec<(String, PathBuf)>> {
        let mut build = Build::new(title, &format!("--release --bins --target {PROGRAM_TARGET}"));
        for package in packages {
            build = build.arg("-p").arg(package);
        }
        let made = build.env("CARGO_ENCODED_RUSTFLAGS", program_flags(self.paths)).run(self.paths, self.ui)?;
        let programs = made.into_iter().filter(|artifact| artifact.executable);
        programs
            .map(|program| {
                let placed = self.paths.out.join("programs").join(&program.name);
                without_debug_information(&program.path, &placed)?;
                Ok((program.name, placed))
            })
            .collect()
    }
}

/// Copies a program without its debug information, which is nine tenths of it and would be part of every boot. The
/// original keeps it.
///
/// # Errors
/// `objcopy` is missing, or it cannot read the program.
pub fn without_debug_information(from: &Path, to: &Path) -> Result<()> {
    let mut small = to.to_path_buf().into_os_string();
    small.push(".small");
    fs::create_dir_all(to.parent().unwrap_or(to)).context("cannot make a folder for programs")?;
    let status = Command::new("objcopy").arg("--strip-debug").arg(from).arg(&small).status();
    if !status.context("cannot start objcopy")?.success() {
        bail!("objcopy could not read {}", from.display());
    }
    copy_if_changed(Path::new(&small), to)?;
    fs::remove_file(&small).context("cannot remove a temporary file")
}

/// The shared object that cargo built from the library target `name`.
fn shared_object<'a>(made: &'a [Artifact], name: &str) -> Result<&'a Path> {
    cargo::library(made, name, "so")
}

/// Flags for linking programs, in the form of `CARGO_ENCODED_RUSTFLAGS`.
pub fn program_flags(paths: &Paths) -> OsString {
    format!("-Lnative={}", paths.sysroot_lib().display()).into()
}
