//! The kernel with capabilities that any program may have: `./hafnon test kernel`. For each case, a root task,
//! `sel4/attack`, is booted instead of the system, on the kernel that the system would run on.

mod words;

use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

use super::{Cases, Context, Test};
use crate::args::TestArgs;
use words::Memory;
use xtask_build::cargo::{self, BARE_TARGET, Build};
use xtask_build::kernel::{self, Variant};
use xtask_build::{kernel_variables, setup};
use xtask_common::threads::Watcher;
use xtask_common::words::tail;
use xtask_run::qemu;

/// Time limit of a case: many times what it takes.
const TIME: Duration = Duration::from_secs(120);
/// Additional time limit per thousand random steps.
const TIME_PER_THOUSAND: Duration = Duration::from_secs(10);

/// QEMU's exit codes for success and for failure: its exit device doubles a code and adds one.
const CONTENT: i32 = 1;
const NOT_CONTENT: [i32; 2] = [3, 5];

/// Messages of the root task before its random steps, and after them, when it waits for the machine's end.
const BEGINS: &str = "begins\n";
const WAITS: &str = "waits\n";

/// The root task, and its kernel: for QEMU, and with symbols.
#[derive(Debug)]
pub struct Attacker {
    kernel: PathBuf,
    named: PathBuf,
    program: PathBuf,
}

/// A test for each of the root task's cases, and the random one.
pub fn tests(args: &TestArgs) -> Vec<Test> {
    let (steps, seed) = (args.steps, args.seed);
    let cases = cases().map(|name| Test::one(format!("kernel.{name}"), move |context| attack(context, name)));
    let random = Test::many("kernel.random", move |context, cases| random(context, cases, steps, seed));
    cases.chain([random]).collect()
}

/// The cases' names, from the root task's source.
fn cases() -> impl Iterator<Item = &'static str> {
    let text = include_str!("../../../../sel4/attack/src/cases/mod.rs");
    text.lines().filter_map(|line| line.trim().strip_prefix("Case { name: \"")?.split('"').next())
}

impl Attacker {
    fn build(context: &Context<'_>) -> Result<Attacker> {
        setup::for_booting(&context.ui)?;
        let kernel = kernel::build(context.paths, Variant::Release)?.image;
        let arguments = format!("--profile system --locked --target {BARE_TARGET} -p kernel-attack");
        let [(folder, built), (source, tree)] = kernel_variables(context.paths)?;
        let build = Build::new("building the root task that attacks the kernel", &arguments);
        let made = build.env(folder, built).env(source, tree).run(context.paths, &context.ui)?;
        let program = cargo::program(&made, "kernel-attack")?.to_path_buf();
        Ok(Attacker { named: kernel.with_file_name("kernel64.elf"), kernel, program })
    }
}

/// One case: the root task ends the machine, and its exit code is the result.
fn attack(context: &Context<'_>, name: &str) -> Result<()> {
    let mut machine = Machine::start(context, name)?;
    match machine.end(TIME)?.map(|status| status.code()) {
        Some(Some(CONTENT)) => Ok(()),
        Some(Some(code)) if NOT_CONTENT.contains(&code) => bail!("{}", machine.last()),
        Some(_) => bail!("the machine has ended:\n{}", machine.last()),
        None => bail!("nothing more is heard of the machine:\n{}", machine.last()),
    }
}

/// Random steps, during which the kernel's own memory must not change.
fn random(context: &Context<'_>, cases: &mut Cases, steps: u64, seed: u64) -> Result<()> {
    let time = TIME + TIME_PER_THOUSAND * u32::try_from(steps / 1000)?;
    let mut machine = Machine::start(context, &format!("random {steps} {seed}"))?;
    let named = &context.attacker.get(|| Attacker::build(context))?.named;
    machine.hear(BEGINS, TIME)?;
    let mut memory = Memory::open(machine.folder.path())?;
    let tables = memory.tables(named)?;
    machine.hear(WAITS, time)?;
    cases.note(&format!("--seed {seed}: {}", machine.last().lines().rev().nth(1).unwrap_or_default()));
    cases.case("others' memory and registers", Ok(()));
    cases.case("the kernel's memory", memory.compare(named, &tables).map_err(|error| format!("{error:#}")));
    Ok(())
}

/// A machine that counts instructions and gets no input from the host.
struct Machine {
    child: Child,
    folder: TempDir,
    said: Arc<Mutex<String>>,
}

impl Machine {
    /// Boots the root task with a command.
    fn start(context: &Context<'_>, order: &str) -> Result<Machine> {
        let attacker = context.attacker.get(|| Attacker::build(context))?;
        let folder = qemu::runtime_folder()?;
        for (name, file) in [("kernel.elf", &attacker.kernel), ("root.elf", &attacker.program)] {
            symlink(file, folder.path().join(name)).context("cannot make a temporary file")?;
        }
        let complaints = fs::File::create(folder.path().join("errors")).context("cannot make a temporary file")?;
        let mut command = qemu::mortal();
        command.args(["-machine", "q35", "-cpu", "max,-rdrand,-rdseed", "-accel", "tcg", "-m", "128M"]);
        command.args(["-display", "none", "-no-reboot", "-nodefaults", "-no-user-config"]);
        command.args(["-icount", "shift=0,sleep=off", "-rtc", "base=2026-01-01,clock=vm", "-seed", "1"]);
        command.args(["-kernel", "kernel.elf", "-initrd", "root.elf", "-qmp", "unix:qmp,server=on,wait=off"]);
        command.arg("-fw_cfg").arg(format!("name=opt/hafnon/attack,string={order}"));
        command.args(["-serial", "stdio", "-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"]);
        command.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(complaints);
        let mut child = command.spawn().context("cannot start QEMU")?;
        let mut output = child.stdout.take().context("QEMU without an output")?;
        let said = Arc::new(Mutex::new(String::new()));
        let heard = Arc::clone(&said);
        // When this thread ends, no more output arrives, and the case reports that.
        Watcher::none().start("kernel console", move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..count]);
                heard.lock().unwrap_or_else(PoisonError::into_inner).push_str(&text);
            }
        })?;
        Ok(Machine { child, folder, said })
    }

    fn said(&self) -> String {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The last lines of output, of the machine and of QEMU itself.
    fn last(&self) -> String {
        let complaints = complaints(self.folder.path());
        [tail(&self.said(), 12), complaints].join("\n").trim().to_string()
    }

    /// Waits for this text.
    fn hear(&mut self, text: &str, time: Duration) -> Result<()> {
        let start = Instant::now();
        while !self.said().contains(text) {
            if self.child.try_wait().context("cannot wait for QEMU")?.is_some() {
                // The last output may still be on its way.
                thread::sleep(Duration::from_millis(100));
                bail!("{}", self.last());
            }
            if start.elapsed() > time {
                bail!("nothing more is heard of the machine:\n{}", self.last());
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Waits for the machine's end, at most this long.
    fn end(&mut self, time: Duration) -> Result<Option<ExitStatus>> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().context("cannot wait for QEMU")? {
                thread::sleep(Duration::from_millis(20));
                return Ok(Some(status));
            }
            if start.elapsed() > time {
                return Ok(None);
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn complaints(folder: &Path) -> String {
    fs::read_to_string(folder.join("errors")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #[test]
    fn cases_are_found() {
        let names: Vec<&str> = super::cases().collect();
        assert!(names.contains(&"alias") && names.contains(&"selectors") && names.len() >= 16, "{names:?}");
    }
}
