//! `./hafnon rump` with a prefix that the test makes from a few lines of C: what `check` says, what `cc` links, and that
//! the program runs. Unit tests of `xtask-build` have the other kinds of prefixes and damaged ones.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context as _, Result};
use tempfile::TempDir;

use super::wrong::{said, tool};
use super::{Context, Test, expect, expect_part};
use xtask_build::c::front;
use xtask_common::programs;
use xtask_run::Capture;
use xtask_run::session::End;

/// All of them.
pub fn tests() -> Vec<Test> {
    vec![
        Test::one("rump-tool.check", check),
        Test::one("rump-tool.cc", cc),
        Test::one("rump-tool.wrong-prefix", wrong_prefix),
        Test::one("rump-tool.missing-component", missing_component),
    ]
}

/// The libraries of the prefix that a test makes, with their sources. shmif has an object file for another system.
const LIBRARIES: [(&str, &[&str]); 7] = [
    ("rump", &["kernel.c"]),
    ("rumpvfs", &["empty.c"]),
    ("rumpfs_tmpfs", &["tmpfs.c"]),
    ("rumpnet", &["empty.c"]),
    ("rumpnet_config", &["empty.c"]),
    ("rumpnet_net", &["empty.c"]),
    ("rumpnet_shmif", &["shmif.c", "host.c"]),
];

/// Makes a prefix like rumprun's, whose kernel speaks this revision of the hypercalls.
fn prefix(context: &Context<'_>, revision: u32) -> Result<TempDir> {
    context.built()?;
    let folder = tempfile::tempdir().context("cannot make a folder")?;
    let include = folder.path().join("include");
    for folder in [include.join("rump"), folder.path().join("lib")] {
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let rump = "int rump_init(void);\nconst char *rump_test_component(int);\n";
    let user = format!("#define RUMPUSER_VERSION {revision}\nint rumpuser_init(int, const void *);\n");
    for (name, text) in [("rump.h", rump), ("rumpuser.h", &user)] {
        fs::write(include.join("rump").join(name), text).with_context(|| format!("cannot write {name}"))?;
    }
    for (library, sources) in LIBRARIES {
        let mut archive = Command::new(front::program(context.paths, "ar"));
        archive.arg("rcs").arg(folder.path().join(format!("lib/lib{library}.a")));
        for source in sources {
            archive.arg(object(context, folder.path(), source)?);
        }
        programs::run(&mut archive)?;
    }
    // rumprun's has the headers of a C library as well, which must not be seen.
    fs::write(include.join("stdio.h"), "#error another C library's\n").context("cannot write a header")?;
    Ok(folder)
}

fn object(context: &Context<'_>, folder: &Path, source: &str) -> Result<PathBuf> {
    let object = folder.join(source).with_extension("o");
    let mut compiler = Command::new(front::program(context.paths, "clang"));
    compiler.args(["-c", "-O1", "-w", "-fno-builtin", "-I"]).arg(folder.join("include")).arg("-o").arg(&object);
    programs::run(compiler.arg(context.paths.workspace.join("xtask/test/rump-tool").join(source)))?;
    Ok(object)
}

/// Starts `./hafnon rump` with these words.
fn rump(context: &Context<'_>, words: &[&str]) -> Result<Output> {
    let mut command = tool(context)?;
    command.arg("rump").args(words).env_remove("RUMP_PREFIX");
    command.output().context("cannot start this tool")
}

fn check(context: &Context<'_>) -> Result<()> {
    let prefix = prefix(context, 17)?;
    let output = rump(context, &["check", &prefix.path().to_string_lossy()])?;
    expect("the exit code", &output.status.code(), &Some(0))?;
    // Lines are wrapped.
    let text = String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "kind rumprun's: components in link sets",
        "with SafeStack",
        "hypercalls revision 17",
        "components 7: base config net shmif socket tmpfs vfs",
        "not in it agr aio",
        "left out host.o",
        "calls all answered",
    ] {
        expect_part("the output", &text, part)?;
    }
    Ok(())
}

fn cc(context: &Context<'_>) -> Result<()> {
    let prefix = prefix(context, 17)?;
    let program = prefix.path().join("program");
    let source = context.paths.workspace.join("xtask/test/rump-tool/program.c");
    let [folder, source, to] = [prefix.path(), &source, &program].map(|path| path.to_string_lossy().into_owned());
    let output = rump(context, &["cc", "--prefix", &folder, "-l", "tmpfs,shmif", &source, "-Wall", "-o", &to])?;
    let said = said(&output);
    expect(&format!("the exit code of cc, which says\n{said}\n"), &output.status.code(), &Some(0))?;
    expect_part("standard error", &said, "librumpnet_shmif.a: host.o is left out")?;
    let outcome = Capture::new(context.built()?, &program).run()?;
    expect("the end", &outcome.end, &End::Exit(0))?;
    let text = String::from_utf8_lossy(&outcome.stdout()).into_owned();
    expect("the output", &text.as_str(), &"init 0\nbase 1 tmpfs 1 shmif 1 others 0\nfile read\n")
}

fn wrong_prefix(context: &Context<'_>) -> Result<()> {
    let prefix = prefix(context, 16)?;
    let folder = prefix.path().to_string_lossy().into_owned();
    let output = rump(context, &["check", &folder])?;
    expect("the exit code of check", &output.status.code(), &Some(1))?;
    expect_part("the output", &String::from_utf8_lossy(&output.stdout), "unusable: its hypercalls have revision 16")?;
    let output = rump(context, &["cc", "--prefix", &folder, "a.c"])?;
    expect("the exit code of cc", &output.status.code(), &Some(125))?;
    expect_part("standard error", &said(&output), "its hypercalls have revision 16")?;
    let nowhere = prefix.path().join("lib").to_string_lossy().into_owned() + "/no";
    for words in [&["check", &nowhere][..], &["cc", "--prefix", &nowhere, "a.c"]] {
        let output = rump(context, words)?;
        expect("the exit code", &output.status.code(), &Some(125))?;
        expect_part("standard error", &said(&output), "no such folder")?;
    }
    let output = rump(context, &["cc", "a.c"])?;
    expect("the exit code without a prefix", &output.status.code(), &Some(125))?;
    expect_part("standard error", &said(&output), "no prefix: name one")
}

fn missing_component(context: &Context<'_>) -> Result<()> {
    let prefix = prefix(context, 17)?;
    let folder = prefix.path().to_string_lossy().into_owned();
    for (components, part) in [
        ("tmpfs,ext2fs", "not in this prefix: dev (librumpdev.a), disk (librumpdev_disk.a), ext2fs"),
        ("tmpf", "no component `tmpf` (is it tmpfs?)"),
    ] {
        let output = rump(context, &["cc", "--prefix", &folder, "-l", components, "a.c"])?;
        expect("the exit code", &output.status.code(), &Some(125))?;
        expect_part("standard error", &said(&output), part)?;
    }
    Ok(())
}
