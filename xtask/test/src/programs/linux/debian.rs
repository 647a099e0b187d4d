//! Programs of Debian's, in a root that Debian's own tools make: on the host's Linux, and on Linux as a program.
//!
//! It runs with `--all`, or when it is named: the packages are fetched once, some 100 MB, and only root can make the
//! root.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

use super::super::{Cases, InSystem, compare, text};
use super::{ended, run};
use crate::args::TestArgs;
use crate::{Context, Test, expect};
use xtask_build::setup;
use xtask_common::words::tail;
use xtask_run::args::Accel;
use xtask_run::linux::Root;

/// Debian's release.
const RELEASE: &str = "bookworm";
/// What is in the root in addition to what each Debian has.
const PACKAGES: &str = "perl,python3,tcc,libc6-dev,luajit,strace,gdb-minimal,stress-ng,procps,esbuild,rt-tests";
/// Size of the image.
const SIZE: &str = "480M";
/// What is different in the names of the two scripts' environments.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What stress-ng does: each checks itself. The work is counted, so that no clock decides.
const STRESS: &str = "cpu:2 vm:4 fork:10 vfork:10 pthread:10 mmap:1 mprotect:10 fault:100 pipe:500 futex:50 sigsegv:50 sigfpe:50 \
                      signal:100 sigrt:50 switch:100 timer:10 poll:20 eventfd:50 msg:100 splice:20 dup:5 flock:20 fifo:50 kill:100 \
                      ptrace:10 wait:10 fp:1 vecmath:4 matrix:4 malloc:100 hdd:10 seek:20 dir:10";

/// How often cyclictest's thread sleeps.
const TIMES: u64 = 300;

/// All of them.
pub fn tests(args: &TestArgs) -> Vec<Test> {
    if !args.all && !args.filter.as_deref().is_some_and(|filter| filter.starts_with("linux.d")) {
        return Vec::new();
    }
    vec![
        Test::many("linux.debian", same),
        Test::one("linux.debian-core", core),
        Test::many("linux.debian-stress", stress),
        Test::many("linux.debian-cyclictest", cyclictest),
    ]
}

/// The root as a folder and as an image.
struct Debian {
    folder: PathBuf,
    image: PathBuf,
}

/// Runs a script as root.
fn as_root(script: &str, words: &[&Path]) -> Result<Vec<u8>> {
    let prefix = setup::as_root().context("only root can make a root of Debian's; there is no sudo")?;
    let mut command = match prefix.split_first() {
        Some((sudo, rest)) => {
            let mut command = Command::new(sudo);
            command.args(rest).arg("sh");
            command
        }
        None => Command::new("sh"),
    };
    command.args(["-euc", script, "sh"]).args(words).stdin(Stdio::null());
    let output = command.output().context("cannot start a shell")?;
    if !output.status.success() {
        bail!("{script}\nended with {}: {}", output.status, tail(&text(&output.stderr), 20));
    }
    Ok(output.stdout)
}

/// Makes the root, if there is none of these packages.
fn made(context: &Context<'_>) -> Result<Debian> {
    static MAKING: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _making = MAKING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let all = context.paths.out.join("linux/debian");
    let debian = Debian { folder: all.join("root"), image: all.join("root.img") };
    let (made_of, state) = (all.join("made-of"), format!("{RELEASE} {PACKAGES} {SIZE}\n"));
    if fs::read_to_string(&made_of).is_ok_and(|was| was == state) {
        return Ok(debian);
    }
    setup::for_disks(&context.ui)?;
    let programs = setup::mmdebstrap(&context.ui, &all.join("mmdebstrap"))?;
    let mut step = context.ui.step("making a root of Debian's");
    step.activity(RELEASE);
    let script = format!(
        "export PATH=\"$1:$PATH\" TMPDIR=\"$2\"; rm -rf \"$3\" \"$4\"; umask 022\n\
         mmdebstrap --mode=root --variant=minbase --include={PACKAGES} --aptopt='Acquire::Languages \"none\"' \
         --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
         --dpkgopt='path-exclude=/usr/share/locale/*' {RELEASE} \"$3\"\n\
         mke2fs -q -t ext4 -d \"$3\" \"$4\" {SIZE}; chmod 644 \"$4\""
    );
    as_root(&script, &[&programs, &all, &debian.folder, &debian.image])?;
    fs::write(made_of, state).context("cannot write what the root was made of")?;
    Ok(debian)
}

/// A copy of the image, which a Linux can write.
fn copy(debian: &Debian, folder: &TempDir) -> Result<Root> {
    let image = folder.path().join("root.img");
    let copied = Command::new("cp").args(["--sparse=always", "--"]).args([&debian.image, &image]).status();
    if !copied.context("cannot start cp")?.success() {
        bail!("the image cannot be copied");
    }
    Ok(Root { image, read_only: false })
}

/// Our programs at /host.
fn host_files(context: &Context<'_>, folder: &TempDir) -> Result<PathBuf> {
    let files = folder.path().join("host");
    fs::create_dir(&files).context("cannot make a folder")?;
    let source = context.paths.workspace.join("guests/linux/tests/threads.rs");
    let mut rustc = Command::new("rustc");
    rustc
        .args(["--edition", "2024", "-O", "-C", "target-feature=+crt-static", "-o"])
        .arg(files.join("rust"))
        .arg(source);
    let output = rustc.output().context("cannot start rustc")?;
    if !output.status.success() {
        bail!("a program does not compile:\n{}", text(&output.stderr));
    }
    // mktemp's folders are their owner's only.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).context("cannot change a folder")?;
    Ok(files)
}

/// A script, in the same root.
fn same(context: &Context<'_>, cases: &mut Cases) -> Result<()> {
    let debian = made(context)?;
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let file = context.paths.workspace.join("xtask/test/programs/linux-debian.sh");
    let files = host_files(context, &folder)?;
    // Mounts of its own, which end with it. What it writes is in memory.
    let enter = format!(
        "exec unshare -mpf --kill-child sh -euc 'mkdir -p \"$1/host\"; mount --bind \"$2\" \"$1/host\"; \
         mount -t proc proc \"$1/proc\"; mount --rbind /dev \"$1/dev\"; mount -t sysfs sys \"$1/sys\"; \
         mount -t tmpfs tmp \"$1/tmp\"; exec chroot \"$1\" /usr/bin/env -i PATH={PATH} TMP=/tmp HOME=/tmp LC_ALL=C TZ=UTC0 \
         bash -c \"$(cat \"$3\")\"' sh \"$@\""
    );
    let here = as_root(&enter, &[&debian.folder, &files, &file])?;
    let there =
        in_linux(context, &debian, &folder, &fs::read_to_string(&file).context("cannot read the script")?, files)?;
    compare(&here, &there, cases)
}

/// Runs a script by bash, in a copy of the root, which must be clean afterwards.
fn in_linux(
    context: &Context<'_>,
    debian: &Debian,
    folder: &TempDir,
    script: &str,
    files: PathBuf,
) -> Result<InSystem> {
    let root = copy(debian, folder)?;
    let image = root.image.clone();
    let script = format!("export TMP=/tmp HOME=/tmp LC_ALL=C TZ=UTC0 PATH={PATH}\n{script}\nexit 0");
    let done = run(context, &["bash", "-c", &script], |guest| {
        guest.memory = 384 << 20;
        guest.root = Some(root);
        guest.files = Some(files);
    })?;
    let checked = Command::new("e2fsck").arg("-fn").arg(&image).stdin(Stdio::null()).output();
    let checked = checked.context("cannot start e2fsck")?;
    if !checked.status.success() {
        bail!("the root is not clean:\n{}\n{}", text(&checked.stdout), done.errors);
    }
    Ok(done)
}

/// A real-time thread's timer beside programs that compute, start others, copy and make system calls is never late by a
/// tick, 10 ms. The guest's clock counts instructions, so the host's load changes nothing.
fn cyclictest(context: &Context<'_>, cases: &mut Cases) -> Result<()> {
    let debian = made(context)?;
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let root = copy(&debian, &folder)?;
    let script = format!(
        "export PATH={PATH}; cd /tmp; (while :; do :; done) & (while :; do /bin/true; done) &\n\
         (while :; do dd if=/dev/zero of=file bs=1M count=4; done) 2>/dev/null & dd if=/dev/zero of=/dev/null bs=1 &\n\
         cyclictest -q -p 80 -i 10000 -l {TIMES}; kill $(jobs -p); exit 0"
    );
    let done = run(context, &["bash", "-c", &script], |guest| {
        guest.memory = 384 << 20;
        guest.root = Some(root);
        guest.accel = Accel::Counting;
    })?;
    ended(&done, 0)?;
    let output = text(&done.output);
    let number = |name: &str| output.rsplit_once(name)?.1.split_whitespace().next()?.parse::<u64>().ok();
    let (Some(TIMES), Some(late)) = (number(" C:"), number(" Max:")) else {
        bail!("the output is\n{output}\n{}", done.errors);
    };
    let told = format!("late by at most {late} microseconds");
    cases.note(&told);
    cases.case("latency", (late < 10_000).then_some(()).ok_or(told));
    Ok(())
}

/// What a debugger finds in a core dump.
fn core(context: &Context<'_>) -> Result<()> {
    let debian = made(context)?;
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let script = "cd /tmp; ulimit -c unlimited\n\
                  printf '%s\\n' 'double half = 0.5;' 'static int look(int *at, double x) { return *at + (int)x; }' \
                  'int main(int count, char **words) { return look((int *)0, half * 3); }' >crash.c\n\
                  tcc -g -o crash crash.c; ./crash 2>/dev/null; echo code $?\n\
                  gdb -nx -q -batch -ex backtrace -ex 'print x' -ex 'print $xmm0.v2_double[0]' crash core 2>/dev/null | grep '^[#$]'";
    let files = host_files(context, &folder)?;
    let done = in_linux(context, &debian, &folder, script, files)?;
    ended(&done, 0)?;
    let output = text(&done.output);
    let mut lines: Vec<&str> = output.lines().collect();
    // The debugger shows the first frame also when it has read the core.
    lines.dedup();
    let [code, look, main, x, ..] = lines[..] else { bail!("the output is\n{output}\n{}", done.errors) };
    expect("the code", &code, &"code 139")?;
    expect("the value", &x, &"$1 = 1.5")?;
    // tcc tells the arguments in another order than they have.
    let all = |line: &str, words: &[&str]| words.iter().all(|word| line.contains(word));
    if !all(look, &["in look (", "at=0x0", "x=1.5"]) || !all(main, &["in main (", "count=1"]) {
        bail!("the backtrace is\n{look}\n{main}");
    }
    Ok(())
}

/// stress-ng, whose stressors check what they get.
fn stress(context: &Context<'_>, cases: &mut Cases) -> Result<()> {
    let debian = made(context)?;
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let files = host_files(context, &folder)?;
    let script = format!(
        "cd /tmp; for work in {STRESS}; do name=${{work%:*}}\n\
         stress-ng --verify --quiet --vm-bytes 16M --shm-bytes 1M --hdd-bytes 4M --mmap-bytes 4M --stack-fill \
         --$name 1 --$name-ops ${{work#*:}} --timeout 60 >$name.log 2>&1; code=$?; echo === $name; echo code $code\n\
         [ $code = 0 ] || cat $name.log; done"
    );
    let done = in_linux(context, &debian, &folder, &script, files)?;
    let expected: String = STRESS
        .split_whitespace()
        .filter_map(|work| work.split(':').next())
        .map(|name| format!("=== {name}\ncode 0\n"))
        .collect();
    compare(expected.as_bytes(), &done, cases)
}
