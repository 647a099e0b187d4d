//! Builds the kernel from the tree that cargo fetches: copy, patch, generate, compile.
//!
//! seL4's own build is a large set of makefiles around one idea: all C files are one translation unit. This module uses
//! only that idea; `kernel/README.md` describes the steps. A variant is rebuilt only if one of its inputs has changed,
//! which a stamp next to it records.

use std::collections::hash_map::DefaultHasher;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::NamedTempFile;

use xtask_common::paths::Paths;

/// The variant of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// The default.
    Release,
    /// With assertions, messages, and the debugging system calls.
    Debug,
    /// The default with PCIDs, which KVM has and TCG has not.
    Kvm,
}

impl Variant {
    /// Its name, which is also that of its folder and of its table in `kernel/config.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Variant::Release => "release",
            Variant::Debug => "debug",
            Variant::Kvm => "kvm",
        }
    }
}

/// A built kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The file for a multiboot loader: 32-bit ELF.
    pub image: PathBuf,
    /// The folder with its `autoconf.h`; `HAFNON_SEL4` for the binding.
    pub folder: PathBuf,
    /// The patched tree; `HAFNON_SEL4_SRC` for the binding.
    pub source: PathBuf,
    /// Whether it was built now; otherwise it was up to date.
    pub built: bool,
}

/// Why the kernel could not be built.
#[derive(Debug)]
pub enum Error {
    /// A file or folder could not be read or written.
    File {
        /// The verb, for the message.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A tool could not be started.
    Tool {
        /// Its name.
        tool: String,
        /// Why not.
        source: io::Error,
    },
    /// A tool failed.
    Failed {
        /// The step of the build.
        step: String,
        /// The tool's output.
        output: String,
    },
    /// The package with the kernel's tree could not be found.
    Package(String),
    /// A patch does not apply to the tree.
    Patch {
        /// Its file.
        patch: PathBuf,
        /// Why not.
        why: String,
    },
    /// `kernel/config.toml` is invalid.
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The kernel's interface files could not be read.
    Interfaces(sel4_gen::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::File { doing, path, source } => write!(f, "cannot {doing} {}: {source}", path.display()),
            Error::Tool { tool, source } => {
                write!(
                    f,
                    "cannot run `{tool}`, which building the kernel takes: {source}; install it or put it on PATH"
                )
            }
            Error::Failed { step, output } => write!(f, "building the kernel failed when {step}:\n{output}"),
            Error::Package(why) => {
                write!(f, "cannot find the package that holds the kernel's source (kernel/Cargo.toml): {why}")
            }
            Error::Patch { patch, why } => {
                write!(
                    f,
                    "{} does not fit the kernel's tree: {why}; was the package's version changed?",
                    patch.display()
                )
            }
            Error::Config { path, why } => write!(f, "{}: {why}", path.display()),
            Error::Interfaces(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::File { source, .. } | Error::Tool { source, .. } => Some(source),
            // The text of the error already contains it.
            Error::Interfaces(error) => error.source(),
            _ => None,
        }
    }
}

impl From<sel4_gen::Error> for Error {
    fn from(error: sel4_gen::Error) -> Self {
        Error::Interfaces(error)
    }
}

type Result<T, E = Error> = std::result::Result<T, E>;

/// Builds a variant, unless it is up to date.
///
/// # Errors
/// A tool (gcc, objcopy, python3, cargo) is missing or fails, or a file cannot be read or written. The package is
/// fetched if it is not in cargo's cache; that needs a network.
pub fn build(paths: &Paths, variant: Variant) -> Result<Kernel> {
    let _guard = one_at_a_time();
    if let Some(prefix) = prefix() {
        return installed(paths, prefix);
    }
    let (source, source_stamp) = prepared(paths)?;
    let folder = paths.out.join("kernel").join(variant.name());
    let kernel =
        |built| Kernel { image: folder.join("kernel.elf"), folder: folder.clone(), source: source.clone(), built };

    let autoconf = autoconf(&paths.workspace.join("kernel/config.toml"), variant)?;
    let compiler = run(Command::new("gcc").arg("--version"), "asking gcc for its version")?;
    let variant_stamp = stamp(&[&source_stamp, &autoconf, &compiler]);
    if is_stamped(&folder, &variant_stamp) {
        return Ok(kernel(false));
    }
    let _ = fs::remove_file(folder.join(STAMP));
    Build { source: &source, folder: folder.join("build"), autoconf: &autoconf }.run(variant)?;
    for file in ["kernel.elf", "kernel64.elf", "autoconf.h"] {
        let (from, to) = (folder.join("build").join(file), folder.join(file));
        // The binding is regenerated whenever this file has a newer time.
        if file == "autoconf.h" && fs::read(&to).is_ok_and(|old| old == autoconf.as_bytes()) {
            continue;
        }
        fs::copy(&from, &to).map_err(|source| Error::File { doing: "write", path: to, source })?;
    }
    write(&folder.join(STAMP), &variant_stamp)?;
    Ok(kernel(true))
}

/// The patched tree of the kernel that is built here, even if the system runs on a user's own kernel.
///
/// # Errors
/// As [`build`], for the package and for files.
pub fn source(paths: &Paths) -> Result<PathBuf> {
    let _guard = one_at_a_time();
    prepared(paths).map(|(source, _)| source)
}

/// Tests that run in parallel may need the same kernel, and each would remove what the other builds.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same, and its stamp.
fn prepared(paths: &Paths) -> Result<(PathBuf, String)> {
    let description = paths.workspace.join("kernel");
    let source = paths.out.join("kernel/src");
    let patches = patches(&description.join("patches"))?;
    let lock = read(&description.join("Cargo.lock"))?;
    let stamp = stamp(&[&lock, &format!("{patches:?}"), include_str!("kernel.rs")]);
    if !is_stamped(&source, &stamp) {
        prepare_source(&description, &source, &patches)?;
        write(&source.join(STAMP), &stamp)?;
    }
    Ok((source, stamp))
}

/// The path where a user's own kernel is installed, if the system runs on that.
pub fn prefix() -> Option<PathBuf> {
    std::env::var_os("SEL4_PREFIX").filter(|prefix| !prefix.is_empty()).map(PathBuf::from)
}

/// Converts a user's own kernel for a multiboot loader.
///
/// # Errors
/// The prefix contains no kernel, or one that the system cannot run on.
fn installed(paths: &Paths, prefix: PathBuf) -> Result<Kernel> {
    // A mismatch is found here, before anything is built for it.
    sel4_gen::Kernel::load(&sel4_gen::Location::Prefix(prefix.clone()))?;
    let unsuitable = |why: &str| Err(sel4_gen::Error::Unsuitable { path: prefix.clone(), why: why.into() }.into());
    if !prefix.join("bin/kernel.elf").is_file() {
        return unsuitable("it has no bin/kernel.elf; `ninja kernel.elf` and `cmake --install .` put it there");
    }
    let (from, to) = (prefix.join("bin/kernel.elf"), paths.out.join("kernel/installed/kernel.elf"));
    let file = fs::read(&from).map_err(|source| Error::File { doing: "read", path: from.clone(), source })?;
    if !is_elf(&file) {
        return unsuitable("its bin/kernel.elf is no 64-bit ELF file for x86_64; build and install it again");
    }
    let mut hasher = DefaultHasher::new();
    file.hash(&mut hasher);
    let stamp = format!("{:016x}\n", hasher.finish());
    let folder = paths.out.join("kernel/installed");
    if !is_stamped(&folder, &stamp) {
        let error = |doing| {
            let path = folder.clone();
            move |source| Error::File { doing, path, source }
        };
        fs::create_dir_all(&folder).map_err(error("make"))?;
        // A kernel that is refused must not replace the previous one, whose stamp stays.
        let made = NamedTempFile::new_in(&folder).map_err(error("write to"))?;
        to_32_bits(&from, made.path())?;
        let image = fs::read(made.path()).map_err(error("read what was made in"))?;
        if !has_multiboot_header(&image) {
            return unsuitable(
                "its bin/kernel.elf has no multiboot header, by which QEMU loads it; build it with \
                 -DKernelMultiboot1Header=ON",
            );
        }
        let _ = fs::remove_file(folder.join(STAMP));
        made.persist(&to).map_err(|e| Error::File { doing: "write", path: to.clone(), source: e.error })?;
        // Debuggers read its symbols.
        write(&folder.join("kernel64.elf"), &file)?;
        write(&folder.join(STAMP), &stamp)?;
    }
    Ok(Kernel { image: to, folder: prefix.clone(), source: prefix, built: false })
}

/// Whether a file is 64-bit ELF for x86-64.
fn is_elf(file: &[u8]) -> bool {
    const START: &[u8] = b"\x7fELF\x02\x01";
    const MACHINE: usize = 18;
    const X86_64: &[u8] = &[62, 0];
    file.starts_with(START) && file.get(MACHINE..MACHINE + 2) == Some(X86_64)
}

/// Whether the first 8 KiB of a file contain the header of a multiboot loader.
fn has_multiboot_header(file: &[u8]) -> bool {
    const MAGIC: u32 = 0x1bad_b002;
    file.chunks_exact(4).take(8192 / 4).any(|word| word == MAGIC.to_le_bytes())
}

/// Converts a file to 32-bit ELF, the only format that multiboot loaders, including QEMU's `-kernel`, accept.
fn to_32_bits(from: &Path, to: &Path) -> Result<()> {
    let mut convert = Command::new("objcopy");
    convert.args(["-O", "elf32-i386"]).args([from, to]);
    run(&mut convert, "turning it into a 32-bit ELF file").map(drop)
}

/// The file that records what a folder was made from.
const STAMP: &str = ".made-from";

fn stamp(inputs: &[&str]) -> String {
    let mut hasher = DefaultHasher::new();
    inputs.hash(&mut hasher);
    format!("{:016x}\n", hasher.finish())
}

fn is_stamped(folder: &Path, stamp: &str) -> bool {
    fs::read_to_string(folder.join(STAMP)).is_ok_and(|found| found == stamp)
}

// ---- the tree -------------------------------------------------------------------------------------------------------

/// The parts of the package's kernel tree that are needed; the rest are manuals and makefiles.
const PARTS: &[&str] = &["include", "libsel4", "src", "tools", "LICENSE_BSD2.txt", "LICENSE_GPLv2.txt", "VERSION"];

/// The folder in which the generators find PLY, the parser library that they import and that the package bundles.
const PYTHON_LIBRARY: &str = "hafnon-python";

fn prepare_source(description: &Path, source: &Path, patches: &[(PathBuf, String)]) -> Result<()> {
    let package = package(&description.join("Cargo.toml"))?;
    let tree = package.join("seL4");
    if source.exists() {
        fs::remove_dir_all(source).map_err(|e| Error::File { doing: "remove", path: source.into(), source: e })?;
    }
    for part in PARTS {
        copy(&tree.join(part), &source.join(part))?;
    }
    for (path, text) in patches {
        apply(source, path, text)?;
    }

    let library = source.join(PYTHON_LIBRARY);
    write(&library.join("ply/__init__.py"), "")?;
    copy(&package.join("tools/yacc.py"), &library.join("ply/yacc.py"))?;
    copy(&tree.join("tools/lex.py"), &library.join("ply/lex.py"))?;
    // The generators use only `range` of `six`, which is Python 3's own.
    write(&library.join("six/__init__.py"), "")?;
    write(&library.join("six/moves.py"), "range = range\n")
}

/// The folder of the package `sel4-sys`, which is fetched if necessary.
fn package(manifest: &Path) -> Result<PathBuf> {
    let cargo = || {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        // The kernel is not part of the workspace's build, whose settings must not affect it.
        cargo.env_remove("CARGO_TARGET_DIR").env_remove("RUSTFLAGS");
        cargo
    };
    let metadata = || {
        let mut cargo = cargo();
        cargo.args(["metadata", "--locked", "--offline", "--format-version", "1", "--manifest-path"]).arg(manifest);
        run(&mut cargo, "asking cargo where the kernel's source lies")
    };
    let text = match metadata() {
        Ok(text) => text,
        Err(Error::Failed { .. }) => {
            let mut cargo = cargo();
            run(cargo.args(["fetch", "--locked", "--manifest-path"]).arg(manifest), "fetching the kernel's source")?;
            metadata()?
        }
        Err(other) => return Err(other),
    };
    let metadata: serde_json::Value = serde_json::from_str(&text).map_err(|e| Error::Package(e.to_string()))?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let found =
        packages.filter(|package| package["name"] == "sel4-sys").find_map(|package| package["manifest_path"].as_str());
    let found = found.ok_or_else(|| Error::Package("cargo metadata does not name sel4-sys".into()))?;
    Path::new(found).parent().map(Path::to_path_buf).ok_or_else(|| Error::Package("it has no folder".into()))
}

/// The folders of `kernel/patches`, in the order in which their patches are applied: faults of seL4 need none of the other
/// patches, and features need none for speed.
const PATCH_GROUPS: [&str; 3] = ["faults", "features", "speed"];

/// The patches in a folder with these groups, each with its text, in the order in which they are applied: by group, then by
/// file name.
///
/// # Errors
/// A group's folder or a patch cannot be read.
pub fn patches(folder: &Path) -> Result<Vec<(PathBuf, String)>> {
    let mut found = Vec::new();
    for group in PATCH_GROUPS {
        for path in entries(&folder.join(group))? {
            if path.extension() == Some(OsStr::new("patch")) {
                let text = read(&path)?;
                found.push((path, text));
            }
        }
    }
    Ok(found)
}

fn apply(source: &Path, path: &Path, text: &str) -> Result<()> {
    xtask_patch::apply(source, text).map_err(|why| Error::Patch { patch: path.into(), why })
}

// ---- the configuration ----------------------------------------------------------------------------------------------

/// The text of a variant's `autoconf.h`.
fn autoconf(path: &Path, variant: Variant) -> Result<String> {
    let error = |why: String| Error::Config { path: path.into(), why };
    let tables: toml::Table = read(path)?.parse().map_err(|e: toml::de::Error| error(e.to_string()))?;
    let table = |name: &str| {
        tables.get(name).and_then(toml::Value::as_table).ok_or_else(|| error(format!("there is no table [{name}]")))
    };
    let mut settings = table("base")?.clone();
    settings.extend(table(variant.name())?.clone());

    let mut text = String::from("/* Made from kernel/config.toml. */\n");
    for (name, value) in &settings {
        let value = match value {
            toml::Value::Boolean(true) => 1,
            toml::Value::Boolean(false) => continue,
            toml::Value::Integer(number) => *number,
            other => return Err(error(format!("{name} = {other} is neither a number nor true or false"))),
        };
        text.push_str(&format!("#define CONFIG_{name} {value}\n"));
    }
    Ok(text)
}

// ---- the build ------------------------------------------------------------------------------------------------------

/// The bit-field descriptions of the tree, and the headers that are generated from them.
const BITFIELDS: [(&str, &str); 3] = [
    ("include/arch/x86/arch/object/structures.bf", "arch/object/structures"),
    ("include/64/mode/api/shared_types.bf", "64/mode/api/shared_types"),
    ("include/plat/pc99/plat/64/plat_mode/machine/hardware.bf", "plat/64/plat_mode/machine/hardware"),
];

const ASSEMBLY: [&str; 4] = ["64/machine_asm", "64/traps", "64/head", "multiboot"];

struct Build<'a> {
    source: &'a Path,
    folder: PathBuf,
    autoconf: &'a str,
}

impl Build<'_> {
    fn run(&self, variant: Variant) -> Result<()> {
        if self.folder.exists() {
            fs::remove_dir_all(&self.folder).map_err(|source| Error::File {
                doing: "remove",
                path: self.folder.clone(),
                source,
            })?;
        }
        self.write("autoconf.h", self.autoconf)?;
        for (name, text) in sel4_gen::headers::headers(self.source)? {
            self.write(name, &text)?;
        }
        for (description, header) in BITFIELDS {
            self.bitfields(variant, description, header)?;
        }

        self.write("kernel_all.c", &self.all_sources()?)?;
        let mut compile = self.gcc(variant);
        compile.args(["-std=gnu99", "-O2", "-ffreestanding", "-fno-pic", "-fno-pie", "-fno-stack-protector"]);
        compile.args(["-fno-asynchronous-unwind-tables", "-fcf-protection=none", "-mcmodel=kernel", "-mno-red-zone"]);
        // No assembly code calls C and then relies on its registers, so C need not preserve callee-saved registers, and
        // kernel entries, which never return, need not save any.
        compile.args(["rbx", "r12", "r13", "r14", "r15"].map(|register| format!("-fcall-used-{register}")));
        // The kernel's own code must not use the vector registers: they belong to the running thread.
        compile.args(["-mno-mmx", "-mno-sse", "-mno-sse2", "-mno-3dnow"]);
        run(compile.args(["-c", "kernel_all.c", "-o", "kernel_all.o"]), "compiling its C code")?;

        let mut objects = vec!["kernel_all.o".to_owned()];
        for name in ASSEMBLY {
            let object = format!("{}.o", name.rsplit('/').next().unwrap_or(name));
            let mut assemble = self.gcc(variant);
            assemble
                .args(["-D__ASSEMBLER__", "-c", "-o", &object])
                .arg(self.source.join(format!("src/arch/x86/{name}.S")));
            run(&mut assemble, "assembling its entry code")?;
            objects.push(object);
        }

        let mut script = self.gcc(variant);
        script.args(["-E", "-P", "-x", "c", "-o", "linker.lds"]).arg(self.source.join("src/plat/pc99/linker.lds"));
        run(&mut script, "preparing its linker script")?;
        let mut link = Command::new("gcc");
        link.current_dir(&self.folder).args(["-nostdlib", "-static", "-no-pie", "-Wl,--build-id=none", "-Wl,-n"]);
        link.args(["-Wl,-z,max-page-size=4096", "-Wl,-T,linker.lds", "-o", "kernel64.elf"]).args(&objects).arg("-lgcc");
        run(&mut link, "linking it")?;
        to_32_bits(&self.folder.join("kernel64.elf"), &self.folder.join("kernel.elf"))
    }

    /// gcc with the options of every compilation step.
    fn gcc(&self, variant: Variant) -> Command {
        let mut gcc = Command::new("gcc");
        gcc.current_dir(&self.folder).args(["-m64", "-nostdinc", "-DHAVE_AUTOCONF", "-DARCH_X86", "-DX86_64"]);
        gcc.args(["-D__KERNEL_64__", "-DKERNEL_64=y", "-D__X86_64__=y"]);
        if variant == Variant::Debug {
            gcc.arg("-DDEBUG");
        }
        if self.autoconf.lines().any(|line| line == "#define CONFIG_FASTPATH 1") {
            gcc.arg("-DFASTPATH");
        }
        // Paths in assertions are relative to the tree, wherever it is.
        gcc.arg(format!("-ffile-prefix-map={}/=", self.source.display()));
        gcc.args(["-I.", "-I64", "-Iplat/64"]);
        let includes = ["", "/64", "/arch/x86", "/arch/x86/arch/64", "/plat/pc99", "/plat/pc99/plat/64"];
        gcc.args(includes.map(|below| format!("-I{}/include{below}", self.source.display())));
        gcc
    }

    fn bitfields(&self, variant: Variant, description: &str, header: &str) -> Result<()> {
        let (plain, generated) = (format!("{header}.pbf"), format!("{header}_gen.h"));
        self.write(&plain, "")?;
        let mut preprocess = self.gcc(variant);
        preprocess.args(["-E", "-P", "-x", "c", "-o", &plain]).arg(self.source.join(description));
        run(&mut preprocess, "preparing its bit-field descriptions")?;

        let tools = self.source.join("tools");
        let path = std::env::join_paths([tools.clone(), self.source.join(PYTHON_LIBRARY)])
            .map_err(|e| Error::Failed { step: "running its generators".into(), output: e.to_string() })?;
        let mut python = Command::new("python3");
        python.current_dir(&self.folder).env("PYTHONPATH", path).env("PYTHONDONTWRITEBYTECODE", "1");
        python.arg("-W").arg("ignore").arg(tools.join("bitfield_gen.py")).args([&plain, &generated]);
        run(&mut python, "generating its bit-field accessors with python3")?;
        Ok(())
    }

    /// A file that includes all C files of this architecture and platform, sorted by name.
    fn all_sources(&self) -> Result<String> {
        let mut text = String::new();
        for path in sources(&self.source.join("src"))? {
            let name = path.strip_prefix(self.source).unwrap_or(&path).display().to_string();
            text.push_str(&format!("#line 1 \"{name}\"\n{}\n", read(&path)?));
        }
        Ok(text)
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        write(&self.folder.join(name), text)
    }
}

/// The C files below a folder, without those of other architectures, word sizes and platforms.
fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in entries(folder)? {
        if path.is_dir() {
            let parent = folder.file_name().and_then(OsStr::to_str);
            let name = path.file_name().and_then(OsStr::to_str);
            let ours = match (parent, name) {
                (Some("arch"), name) => name == Some("x86"),
                (Some("plat"), name) => name == Some("pc99"),
                (Some("x86"), name) => name != Some("32"),
                _ => true,
            };
            if ours {
                found.extend(sources(&path)?);
            }
        } else if path.extension() == Some(OsStr::new("c")) {
            found.push(path);
        }
    }
    Ok(found)
}

// ---- files and tools ------------------------------------------------------------------------------------------------

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let error = |source| Error::File { doing: "list", path: folder.into(), source };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(error)? {
        paths.push(entry.map_err(error)?.path());
    }
    paths.sort();
    Ok(paths)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|source| Error::File { doing: "read", path: path.into(), source })
}

fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(path, bytes));
    written.map_err(|source| Error::File { doing: "write", path: path.into(), source })
}

/// Copies a file, or a folder with its content, except files that are not text.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if from.is_dir() {
        for entry in entries(from)? {
            let name = entry.file_name().unwrap_or_default();
            copy(&entry, &to.join(name))?;
        }
        return Ok(());
    }
    if from.extension() == Some(OsStr::new("pyc")) {
        return Ok(());
    }
    write(to, &read(from)?)
}

/// Runs a tool; returns its output, or on failure the end of it.
fn run(command: &mut Command, step: &str) -> Result<String> {
    let tool = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|source| Error::Tool { tool, source })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    let all = text(&output.stderr) + &text(&output.stdout);
    let lines: Vec<&str> = all.lines().collect();
    let end = lines[lines.len().saturating_sub(40)..].join("\n");
    Err(Error::Failed { step: step.into(), output: format!("{end}\n({})", output.status) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
    }

    #[test]
    fn patches_fit_the_package() {
        let folder = tempfile::tempdir().expect("scratch space");
        let description = workspace().join("kernel");
        let folder_of_patches = description.join("patches");
        let patches = patches(&folder_of_patches).expect("readable");
        // A patch outside of the groups would not be applied.
        let groups = PATCH_GROUPS.map(|group| folder_of_patches.join(group));
        let found = entries(&folder_of_patches).expect("readable");
        assert!(found.iter().all(|path| groups.contains(path) || path.ends_with("README.md")), "{found:?}");
        assert!(groups.iter().all(|group| patches.iter().any(|(path, _)| path.starts_with(group))));
        let source = folder.path().join("src");
        prepare_source(&description, &source, &patches).expect("they fit");
        let header = read(&source.join("include/arch/x86/arch/64/mode/kernel/stack.h")).expect("there");
        assert!(header.contains("BIT(CONFIG_KERNEL_STACK_BITS)"));
        // No patch applies a second time.
        for (path, text) in &patches {
            assert!(matches!(apply(&source, path, text), Err(Error::Patch { .. })), "{}", path.display());
        }
        let names: Vec<_> = sources(&source.join("src")).expect("there");
        assert!(names.iter().any(|name| name.ends_with("plat/pc99/machine/hardware.c")));
        let foreign = |name: &Path| ["arm", "32", "hikey"].iter().any(|part| name.iter().any(|p| p == *part));
        assert!(!names.iter().any(|name| foreign(name.strip_prefix(&source).unwrap_or(name))));
    }

    #[test]
    fn variants_differ_as_configured() {
        let config = workspace().join("kernel/config.toml");
        let release = autoconf(&config, Variant::Release).expect("valid");
        let debug = autoconf(&config, Variant::Debug).expect("valid");
        assert!(release.contains("#define CONFIG_FASTPATH 1\n") && release.contains("#define CONFIG_XSAVE_SIZE 832\n"));
        assert!(!release.contains("CONFIG_PRINTING") && debug.contains("#define CONFIG_PRINTING 1\n"));
    }

    #[test]
    fn a_bad_configuration_is_named() {
        let folder = tempfile::tempdir().expect("scratch space");
        let path = folder.path().join("config.toml");
        for (text, what) in [("[base]\n", "[release]"), ("[base]\nA = \"x\"\n[release]\n", "A = "), ("[", "TOML")] {
            write(&path, text).expect("writable");
            let error = autoconf(&path, Variant::Release).expect_err(text).to_string();
            assert!(error.contains("config.toml") && error.contains(what), "{error}");
        }
    }

    #[test]
    fn a_kernel_that_is_refused_leaves_the_one_that_is_there() {
        let folder = tempfile::tempdir().expect("scratch space");
        let paths = Paths { workspace: workspace().into(), out: folder.path().into() };
        let (prefix, there) = (folder.path().join("prefix"), folder.path().join("kernel/installed/kernel.elf"));
        copy(&workspace().join("sel4/fixtures/prefix-16"), &prefix).expect("copied");
        // An ELF file that is not a bootable kernel.
        let program = fs::read(std::env::current_exe().expect("it has a file")).expect("readable");
        write(&prefix.join("bin/kernel.elf"), program).expect("writable");
        write(&there, "the last one").expect("writable");
        let error = installed(&paths, prefix).expect_err("no multiboot header").to_string();
        assert!(error.contains("multiboot"), "{error}");
        assert_eq!(read(&there).expect("readable"), "the last one");
        assert_eq!(entries(&folder.path().join("kernel/installed")).expect("there"), [there]);
    }

    #[test]
    fn a_patch_without_files_is_refused() {
        let error = apply(Path::new("."), Path::new("0000-none.patch"), "only words\n").expect_err("no file");
        assert!(error.to_string().contains("changes no file"));
    }
}
