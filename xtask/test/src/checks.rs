//! Checks of the source and of what was built from it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::{Context, Test, architecture, kernel_entry, nouns};
use xtask_build::cargo::{self, BARE_TARGET, PROGRAM_TARGET};
use xtask_build::kernel::{self, Variant};
use xtask_build::setup;
use xtask_common::words::tail;
use xtask_docs::families;

/// Directories that may contain unsafe code, as listed in `docs/architecture.md`; all other code forbids it.
const UNSAFE_ALLOWED: [&str; 9] = [
    "sel4/attack",
    "sel4/src",
    "root/src",
    "server/src/main.rs",
    "server/src/machine",
    "runtime/vdso",
    "runtime/libc",
    "runtime/fdio",
    "runtime/crt",
];
/// Further such directories.
const UNSAFE_ALLOWED_TOO: [&str; 14] = [
    "runtime/zx",
    "runtime/driver",
    "runtime/sync",
    "runtime/vthread",
    "runtime/userboot",
    "component/src",
    "component/victim/src",
    "examples/hello",
    "examples/key-store/component",
    "examples/samples/component",
    // Calls a kernel, and is called by it.
    "guests/linux/launcher/src",
    // The hypercalls of a kernel in C.
    "guests/rump/rumpuser/src",
    // Third-party crates with patches.
    "services/rsext4/src/lib.rs",
    "services/smoltcp/src/lib.rs",
];

/// The packages for the bare-metal target and those for the program target. The libraries below the programs are built
/// one by one, as in the real build, because they enable features of shared packages that would pull `std` into another
/// library's build.
const BARE: [&str; 8] =
    ["root", "sel4", "kernel-attack", "server", "server-boot", "component", "component-boot", "state-victim"];
const LIBRARIES: [&str; 7] = ["vdso", "userboot", "zlibc", "sync-archive", "fdio", "crt", "rumpuser"];
const PROGRAMS: [&str; 25] = [
    "zx",
    "sync",
    "driver",
    "libc-probe",
    "process-builder",
    "init",
    "shell",
    "demos",
    "drivers",
    "network",
    "network-protocol",
    "network-tests",
    "network-tools",
    "netdevice",
    "net-switch",
    "vhost-user",
    "virtqueue",
    "switch-tests",
    "service",
    "tools",
    "conformance",
    "hostile",
    "bench",
    "guest",
    "linux",
];

/// Builds the kernel that only KVM can boot. It must invalidate by PCID, and the default must not: QEMU's own processors have
/// none.
fn kernel_for_kvm(context: &Context<'_>) -> Result<()> {
    // The instruction INVPCID, with any operands.
    const INVPCID: &[u8] = &[0x66, 0x0f, 0x38, 0x82];
    for (variant, wanted) in [(Variant::Kvm, true), (Variant::Release, false)] {
        let image = fs::read(kernel::build(context.paths, variant)?.image).context("cannot read the kernel")?;
        if image.windows(INVPCID.len()).any(|part| part == INVPCID) != wanted {
            bail!("the kernel `{}` {} INVPCID", variant.name(), if wanted { "does not use" } else { "uses" });
        }
    }
    Ok(())
}

/// All of them.
pub fn tests() -> Vec<Test> {
    let mut tests = vec![
        check("check.rustfmt", rustfmt),
        check("check.lock-file", lock_file),
        check("check.pages", |context| {
            let stale = xtask_docs::stale(context.paths)?;
            if stale.is_empty() {
                Ok(())
            } else {
                bail!("{} are not what they are made from: run `./hafnon docs`", stale.join(", "))
            }
        }),
        check("check.unsafe-only-where-allowed", unsafe_code),
        check("check.registers-in-one-place", registers),
        check("check.families", |context| {
            let faults = families::faults(context.paths)?;
            if faults.is_empty() { Ok(()) } else { bail!("{}", faults.join("\n")) }
        }),
        check("check.kernel-entry", kernel_entry::check),
        check("check.architecture", architecture::check),
        check("check.nouns", nouns::check),
        check("check.clippy-host", |context| {
            let mut args = vec!["--workspace", "--all-features", "--all-targets"];
            for package in BARE.iter().chain(&LIBRARIES) {
                args.extend(["--exclude", package]);
            }
            clippy(context, &args)
        }),
        check("check.clippy-system", |context| {
            kernel::build(context.paths, Variant::Release)?;
            clippy(context, &packages(BARE_TARGET, &BARE))?;
            clippy(context, &["--target", BARE_TARGET, "-p", "component", "--features", "client"])?;
            clippy(context, &["--target", BARE_TARGET, "-p", "root", "--features", "measure"])
        }),
        check("check.clippy-libraries", |context| {
            LIBRARIES.iter().try_for_each(|library| {
                let args = ["--profile", "system", "--target", PROGRAM_TARGET, "-p", library];
                clippy(context, &args).with_context(|| format!("in {library}"))
            })
        }),
        check("check.clippy-programs", |context| clippy(context, &packages(PROGRAM_TARGET, &PROGRAMS))),
        check("check.binding-to-16", |context| {
            let mut command = cargo::command(&context.paths.workspace);
            command.args(["check", "-p", "sel4", "--target", BARE_TARGET]);
            command.env("SEL4_PREFIX", context.paths.workspace.join("sel4/fixtures/prefix-16"));
            run(command.arg("--target-dir").arg(context.paths.out.join("cargo-16")))
        }),
        check("check.no-vector-registers", vector_registers),
        check("check.vdso-image", |context| {
            context.built()?;
            let mut command = cargo::command(&context.paths.workspace);
            command.args(["run", "--quiet", "-p", "abi", "--example", "generate", "--target-dir"]);
            command.arg(context.paths.cargo_target()).args(["--", "check-vdso"]);
            run(command.arg(context.paths.sysroot_lib().join("libzircon.so")))
        }),
    ];
    // On a user's own kernel, which has no variants, there is none for KVM.
    if kernel::prefix().is_none() {
        tests.push(check("check.kernel-for-kvm", kernel_for_kvm));
    }
    tests
}

/// A check needs the compiler's tools and targets, which a new machine does not have before something is built.
fn check(name: &str, run: impl Fn(&Context<'_>) -> Result<()> + Send + Sync + 'static) -> Test {
    Test::one(name, move |context| {
        setup::for_building(&context.ui)?;
        run(context)
    })
}

fn packages<'a>(target: &'a str, names: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["--target", target];
    names.iter().for_each(|name| args.extend(["-p", name]));
    args
}

fn clippy(context: &Context<'_>, args: &[&str]) -> Result<()> {
    let mut command = cargo::command(&context.paths.workspace);
    command.arg("clippy").args(args).arg("--target-dir").arg(context.paths.cargo_target());
    run(command.args(["--", "-D", "warnings"]))
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.env("CARGO_TERM_COLOR", "never").output().context("cannot start cargo")?;
    if !output.status.success() {
        bail!("{}", tail(&String::from_utf8_lossy(&output.stderr), 40));
    }
    Ok(())
}

fn rustfmt(context: &Context<'_>) -> Result<()> {
    let mut command = cargo::command(&context.paths.workspace);
    let output = command.args(["fmt", "--all", "--check", "--", "-l"]).output().context("cannot start cargo fmt")?;
    for example in ["hello", "same-source"] {
        let mut command = cargo::command(&context.paths.workspace.join("examples").join(example));
        run(command.args(["fmt", "--check"])).with_context(|| format!("examples/{example}"))?;
    }
    if !output.status.success() {
        bail!("not formatted:\n{}", tail(&String::from_utf8_lossy(&output.stdout), 20));
    }
    Ok(())
}

/// `Cargo.lock` matches the manifests, so every build uses the locked versions.
fn lock_file(context: &Context<'_>) -> Result<()> {
    let mut command = cargo::command(&context.paths.workspace);
    run(command.args(["metadata", "--locked", "--format-version", "1", "--quiet"]))
}

/// Every crate root outside the allowed directories forbids unsafe code, and their sources contain none. The compiler
/// enforces the latter only for code that it compiles.
fn unsafe_code(context: &Context<'_>) -> Result<()> {
    let mut wrong = Vec::new();
    for path in cargo::sources(&context.paths.workspace)? {
        let short = context.paths.short(&path);
        let allowed = UNSAFE_ALLOWED.iter().chain(&UNSAFE_ALLOWED_TOO).any(|room| short.starts_with(room));
        if allowed || path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let has_unsafe = text
            .lines()
            .map(code)
            .any(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe"));
        if has_unsafe {
            wrong.push(format!("{}: unsafe code", short.display()));
        }
        let exempt = short.starts_with("server/src/lib.rs") && text.contains("deny(unsafe_code)");
        if is_crate_root(&path) && !text.contains("forbid(unsafe_code)") && !exempt {
            wrong.push(format!("{}: does not forbid unsafe code", short.display()));
        }
    }
    if wrong.is_empty() { Ok(()) } else { bail!("{}", wrong.join("\n")) }
}

/// The places where the server writes a thread's registers: file, code, number of occurrences. The functions of
/// `sys.rs` take registers that are safe for user mode (`UserRegisters`), and no other code builds the kernel's
/// register set. A new place must be added here and to the cases `tamper.registers.*`.
const REGISTER_WRITES: [(&str, &str, usize); 7] = [
    // Thread start, registers set by a debugger, FS base, upcall.
    ("server/src/machine/thread.rs", "sys::write_registers(", 4),
    // Code of a virtual processor or of restricted mode, resumed or left stopped.
    ("server/src/machine/runners.rs", "sys::write_foreign(", 1),
    ("server/src/machine/sys.rs", ".write_registers(&user_context(", 1),
    ("server/src/machine/sys.rs", ".write_foreign(&user_context(", 1),
    ("server/src/machine/sys.rs", "registers: &UserRegisters", 2),
    // The construction, and the base that some kernels do not report.
    ("server/src/machine/arch/x86_64/registers.rs", "registers: &UserRegisters", 2),
    // The import, the type of registers that are read, and the construction.
    ("server/src/machine/arch/x86_64/registers.rs", "UserContext", 4),
];

/// All registers of program threads reach the kernel through the places in [`REGISTER_WRITES`].
fn registers(context: &Context<'_>) -> Result<()> {
    let mut wrong = Vec::new();
    for path in cargo::sources(&context.paths.workspace)? {
        let short = context.paths.short(&path).to_path_buf();
        if !short.starts_with("server/src") || path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let lines: Vec<&str> = text.lines().map(code).collect();
        for what in ["write_registers(", "write_foreign(", "UserContext", "registers: &UserRegisters"] {
            let found: usize = lines.iter().map(|line| line.matches(what).count()).sum();
            let known = |(file, known, count): &(&str, &str, usize)| {
                if short == Path::new(file) && known.contains(what) { *count } else { 0 }
            };
            // `sys.rs` itself defines two functions with these names.
            let own = usize::from(short == Path::new("server/src/machine/sys.rs") && what.ends_with('('));
            let allowed = REGISTER_WRITES.iter().map(known).sum::<usize>() + own;
            if found != allowed {
                wrong.push(format!("{}: {what} {found} times, and {allowed} are known", short.display()));
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { bail!("{}", wrong.join("\n")) }
}

/// A line without its comment, cut at the first quotation mark.
fn code(line: &str) -> &str {
    let line = line.split("//").next().unwrap_or(line);
    line.split('"').next().unwrap_or(line)
}

fn is_crate_root(path: &Path) -> bool {
    let parent = path.parent().and_then(Path::file_name).unwrap_or_default();
    let name = path.file_name().unwrap_or_default();
    parent == "bin" || (parent == "src" && (name == "lib.rs" || name == "main.rs"))
}

/// Whether a line of objdump's output is an instruction that uses x87 or vector registers or their control state. All
/// names that begin with F are x87 instructions.
fn touches_vectors(line: &str) -> bool {
    let Some((_, instruction)) = line.split_once(":\t") else { return false };
    let registers = ["%xmm", "%ymm", "%zmm", "%mm", "%st"];
    let names = ["f", "emms", "xsave", "xrstor", "ldmxcsr", "stmxcsr", "vldmxcsr", "vstmxcsr", "vzero"];
    registers.iter().any(|register| instruction.contains(register))
        || names.iter().any(|name| instruction.starts_with(name))
}

/// No instruction of the server or the root task uses x87 or vector registers. The kernel leaves a caller's registers
/// in the FPU while either works for the caller (patch `server-without-fpu`), so such an instruction would change them.
fn vector_registers(context: &Context<'_>) -> Result<()> {
    let built = context.built()?;
    let files: [&PathBuf; 2] = [&built.server, &built.root];
    for file in files {
        let output = Command::new("objdump").args(["-d", "--no-show-raw-insn"]).arg(file).output();
        let output = output.context("cannot start objdump")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let mut found = text.lines().filter(|line| touches_vectors(line)).peekable();
        if !output.status.success() || text.lines().count() < 1000 {
            bail!("objdump could not read {}", file.display());
        }
        if found.peek().is_some() {
            let lines: Vec<&str> = found.take(5).collect();
            bail!("{} touches vector registers:\n{}", context.paths.short(file).display(), lines.join("\n"));
        }
    }
    Ok(())
}
