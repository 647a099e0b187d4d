//! Which machines run on KVM: with `--accel auto`, all that a user starts, if KVM works on this host.
//!
//! A device file does not mean that KVM works: a virtual host can have one, and then QEMU aborts or says nothing for ever.
//! So a probe boots kernel and root task with KVM, and waits for the root task's first line. Results are kept until the
//! host boots again, or QEMU or the kernel changes.

use std::collections::hash_map::DefaultHasher;
use std::env;
use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::ValueEnum as _;
use serde::{Deserialize, Serialize};

use crate::args::{ACCEL, Accel, AccelArg};
use crate::qemu::{self, mortal, runtime_folder};
use xtask_build::kernel::Variant;
use xtask_build::{Built, built_kernel};
use xtask_common::files::write_if_changed;
use xtask_common::lock::BuildLock;
use xtask_common::paths::Paths;
use xtask_common::threads::Watcher;
use xtask_common::ui::Ui;

/// How long the probe waits for the root task's first line.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long it waits for QEMU's end after that. A process that waits in the host's kernel does not end by SIGKILL.
const END: Duration = Duration::from_secs(1);
/// What a line of the root task contains.
const FIRST_LINE: &[u8] = b" root: ";
/// The probe looks no further into the machine's output.
const OUTPUT: u64 = 64 << 10;
/// The number of results that are kept.
const MOST_KEPT: usize = 8;

/// What is known of KVM on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kvm {
    /// There is no device file.
    Absent,
    /// It cannot work, or a machine did not start; the reason.
    Broken(String),
    /// Nothing is against it; only a machine shows whether it works.
    Untried,
    /// A machine started.
    Works,
}

/// A result that is kept.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Kept {
    /// Hash of what it depends on.
    of: u64,
    /// Why it failed, if it did.
    broken: Option<String>,
}

/// How a machine of this system executes instructions: as an option says, or [`ACCEL`], or with KVM if it works. With KVM,
/// `built` gets the kernel for it.
///
/// # Errors
/// KVM was asked for and does not work. The variable is wrong.
pub fn choose(paths: &Paths, ui: &Ui, option: Option<AccelArg>, built: &mut Built) -> Result<Accel> {
    let wanted = wanted(option)?;
    match wanted {
        AccelArg::Tcg => return Ok(Accel::Tcg),
        AccelArg::Counting => return Ok(Accel::Counting),
        AccelArg::CountingPaced => return Ok(Accel::CountingPaced),
        AccelArg::Auto | AccelArg::Kvm => {}
    }
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let kvm = look(Path::new("/dev/kvm"), &processor);
    let (kvm, first) = if kvm == Kvm::Absent {
        (kvm, false)
    } else {
        // One at a time builds the kernel, probes, and keeps the result.
        let _lock = BuildLock::take(paths, ui)?;
        match kvm {
            Kvm::Untried => match kernel_for(paths, ui, &processor, built) {
                Ok(kernel) => {
                    let (kvm, first) = tried(paths, &kernel, &built.root, wanted == AccelArg::Kvm)?;
                    if kvm == Kvm::Works {
                        built.kernel = kernel;
                    }
                    (kvm, first)
                }
                Err(error) => (Kvm::Broken(format!("{error:#}")), true),
            },
            Kvm::Broken(why) => {
                let first = keep(paths, of(&why), Some(&why));
                (Kvm::Broken(why), first)
            }
            known => (known, false),
        }
    };
    match (kvm, wanted) {
        (Kvm::Works, _) => return Ok(Accel::Kvm),
        (Kvm::Broken(why), AccelArg::Kvm) => bail!("--accel kvm: {why}; leave the option out to run without KVM"),
        (_, AccelArg::Kvm) => bail!("--accel kvm: there is no /dev/kvm; leave the option out to run without KVM"),
        (Kvm::Broken(why), _) if first => {
            ui.note(&format!(
                "KVM does not work here: {why}. QEMU translates instructions instead (TCG), which is slower"
            ));
        }
        _ => {}
    }
    Ok(Accel::Tcg)
}

/// What an option says, or else the variable. Without a value, the variable says nothing.
///
/// # Errors
/// The variable has an unknown value.
pub fn wanted(option: Option<AccelArg>) -> Result<AccelArg> {
    match (option, env::var_os(ACCEL).filter(|value| !value.is_empty())) {
        (Some(option), _) => Ok(option),
        (None, None) => Ok(AccelArg::Auto),
        (None, Some(value)) => {
            let known = value.to_str().and_then(|value| AccelArg::from_str(value, false).ok());
            let value = value.display();
            known.with_context(|| format!("{ACCEL}={value}: auto, tcg, kvm, counting or counting-paced is needed"))
        }
    }
}

/// A line about KVM for `doctor`.
pub fn state(paths: &Paths) -> String {
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    match look(Path::new("/dev/kvm"), &processor) {
        Kvm::Absent => "not there, and not needed: machines run without it (TCG)".into(),
        Kvm::Broken(why) => format!("there, but {why}; not needed: machines run without it (TCG)"),
        Kvm::Untried | Kvm::Works => match kept(paths).pop() {
            Some(Kept { broken: Some(why), .. }) => {
                format!("there, but did not work when it was tried: {why}; not needed")
            }
            Some(Kept { broken: None, .. }) => "works: a machine was started with it".into(),
            None => "there; the first ./hafnon run tries whether it works".into(),
        },
    }
}

/// The kernel for KVM. The debug kernel, and one of the user's own, are the same as without it.
fn kernel_for(paths: &Paths, ui: &Ui, processor: &str, built: &Built) -> Result<PathBuf> {
    match variant(processor) {
        Some(variant) if built.kernel.ends_with("release/kernel.elf") => Ok(built_kernel(paths, ui, variant)?.image),
        _ => Ok(built.kernel.clone()),
    }
}

/// The kernel for a processor with this `/proc/cpuinfo`, if it is another one.
fn variant(processor: &str) -> Option<Variant> {
    (has_flag(processor, "pcid") && has_flag(processor, "invpcid")).then_some(Variant::Kvm)
}

/// What can be known without a machine.
fn look(device: &Path, processor: &str) -> Kvm {
    match File::options().read(true).write(true).open(device) {
        Err(error) if error.kind() == ErrorKind::NotFound => Kvm::Absent,
        Err(error) => Kvm::Broken(format!("{} cannot be opened: {error}", device.display())),
        Ok(_) if !has_flag(processor, "vmx") && !has_flag(processor, "svm") => {
            Kvm::Broken("the processor has neither vmx nor svm, as /proc/cpuinfo shows".into())
        }
        Ok(_) => Kvm::Untried,
    }
}

/// Whether the first processor has a feature.
fn has_flag(processor: &str, name: &str) -> bool {
    let flags = processor.lines().find_map(|line| line.strip_prefix("flags")?.trim_start().strip_prefix(':'));
    flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == name))
}

/// Whether a machine starts, from an earlier probe or by a new one; and whether the user has not heard of that yet. With
/// `again`, an earlier failure does not count.
fn tried(paths: &Paths, kernel: &Path, root: &Path, again: bool) -> Result<(Kvm, bool)> {
    let of = of(&fs::read(kernel).ok());
    let known = kept(paths).into_iter().find(|kept| kept.of == of && !(again && kept.broken.is_some()));
    let (broken, first) = match known {
        Some(kept) => (kept.broken, false),
        None => {
            let folder = runtime_folder()?;
            let broken = probe(command(folder.path(), kernel, root)?, PATIENCE).err();
            let first = keep(paths, of, broken.as_deref());
            (broken, first)
        }
    };
    Ok((broken.map_or(Kvm::Works, Kvm::Broken), first))
}

/// The file with the results.
fn file(paths: &Paths) -> PathBuf {
    paths.out.join("kvm.json")
}

/// The results that are kept, the latest one last.
fn kept(paths: &Paths) -> Vec<Kept> {
    fs::read(file(paths)).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

/// Keeps a result, for a few kernels; returns whether the user has not heard of it yet. If it cannot be kept, the user hears
/// of it each time.
fn keep(paths: &Paths, of: u64, broken: Option<&str>) -> bool {
    let result = Kept { of, broken: broken.map(Into::into) };
    let mut all = kept(paths);
    if all.contains(&result) {
        return false;
    }
    all.retain(|kept| kept.of != of);
    let more = (all.len() + 1).saturating_sub(MOST_KEPT);
    all.drain(..more);
    all.push(result);
    let _ = serde_json::to_vec(&all).map(|text| write_if_changed(&file(paths), &text));
    true
}

/// Hash of what a result depends on: this boot of the host, QEMU, and for a probe the machine's kernel.
fn of(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    fs::read("/proc/sys/kernel/random/boot_id").ok().hash(&mut hasher);
    let qemu = qemu::find().and_then(|qemu| fs::metadata(qemu).ok());
    qemu.and_then(|qemu| Some((qemu.len(), qemu.modified().ok()?))).hash(&mut hasher);
    what.hash(&mut hasher);
    hasher.finish()
}

/// A machine with KVM and nothing else: without a boot file it comes as far as the root task.
fn command(folder: &Path, kernel: &Path, root: &Path) -> Result<Command> {
    for (name, file) in [("kernel.elf", kernel), ("root.elf", root)] {
        symlink(file, folder.join(name)).context("cannot make a temporary file")?;
    }
    let mut command = mortal();
    command.args(["-machine", "q35", "-cpu", "host", "-accel", "kvm", "-m", "512M", "-display", "none", "-no-reboot"]);
    command.args([
        "-nodefaults",
        "-no-user-config",
        "-serial",
        "stdio",
        "-kernel",
        "kernel.elf",
        "-initrd",
        "root.elf",
    ]);
    command.current_dir(folder);
    Ok(command)
}

/// Runs a machine until the root task's first line.
///
/// # Errors
/// Why that line did not come.
fn probe(mut command: Command, patience: Duration) -> Result<(), String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().map_err(|error| format!("QEMU cannot be started: {error}"))?;
    let (Some(output), Some(mut errors)) = (child.stdout.take(), child.stderr.take()) else {
        return Err("QEMU has no output".into());
    };
    let (lines, line) = channel();
    let reader = Watcher::none().start("probe", move || {
        let mut seen = Vec::<u8>::new();
        let mut output = output.take(OUTPUT);
        let mut piece = [0; 256];
        while let Ok(count @ 1..) = output.read(&mut piece) {
            seen.extend(piece.iter().take(count));
            if seen.windows(FIRST_LINE.len()).any(|part| part == FIRST_LINE) {
                let _ = lines.send(());
                return;
            }
        }
    });
    reader.map_err(|error| error.to_string())?;
    let came = line.recv_timeout(patience);
    let ended = end(&mut child);
    match came {
        Ok(()) => Ok(()),
        Err(RecvTimeoutError::Timeout) => {
            Err(format!("a machine with it said nothing within {} s", patience.as_secs_f64()))
        }
        // QEMU ended, so its messages end, too.
        Err(RecvTimeoutError::Disconnected) => {
            let mut text = Vec::new();
            if ended {
                let _ = errors.by_ref().take(OUTPUT).read_to_end(&mut text);
            }
            let text = String::from_utf8_lossy(&text);
            let why = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
            Err(format!("QEMU ended: {}", why.trim()))
        }
    }
}

/// Kills QEMU; returns whether it ended.
fn end(child: &mut Child) -> bool {
    let _ = child.kill();
    let start = Instant::now();
    while start.elapsed() < END {
        if !matches!(child.try_wait(), Ok(None)) {
            return true;
        }
        thread::sleep(Duration::from_millis(2));
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `/proc/cpuinfo` of two processors with these flags.
    fn processor(flags: &str) -> String {
        format!(
            "processor\t: 0\nvendor_id\t: Any\nflags\t\t: fpu {flags} syscall\nvmx flags\t: vnmi\n\nprocessor\t: 1\n"
        )
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn what_the_host_shows_decides_first() {
        let folder = tempfile::tempdir().unwrap();
        let device = folder.path().join("kvm");
        assert_eq!(look(&device, &processor("vmx")), Kvm::Absent);
        // A folder cannot be opened for writing.
        fs::create_dir(&device).unwrap();
        assert!(matches!(look(&device, &processor("vmx")), Kvm::Broken(why) if why.contains("cannot be opened")));
        fs::remove_dir(&device).unwrap();
        fs::write(&device, "").unwrap();
        // The line `vmx flags` is another one.
        assert!(matches!(look(&device, &processor("avx")), Kvm::Broken(why) if why.contains("neither vmx nor svm")));
        assert_eq!(look(&device, &processor("vmx")), Kvm::Untried);
        assert_eq!(look(&device, &processor("svm")), Kvm::Untried);
        assert!(matches!(look(&device, ""), Kvm::Broken(_)));
    }

    #[test]
    fn the_kernel_with_pcids_needs_a_processor_with_them() {
        assert_eq!(variant(&processor("pcid invpcid")), Some(Variant::Kvm));
        for flags in ["pcid", "invpcid", "avx", "invpcid_single"] {
            assert_eq!(variant(&processor(flags)), None, "{flags}");
        }
    }

    #[test]
    fn a_machine_must_say_the_first_line() {
        let works = shell("echo firmware; echo '[  0.1] I root: 492 MiB'; exec sleep 1000");
        assert_eq!(probe(works, Duration::from_secs(1000)), Ok(()));
        let silent = probe(shell("echo firmware; exec sleep 1000"), Duration::from_millis(200));
        assert_eq!(silent, Err("a machine with it said nothing within 0.2 s".into()));
        let aborts =
            probe(shell("echo >&2; echo 'failed to set MSR 0x10a' >&2; kill -ABRT $$"), Duration::from_secs(1000));
        assert_eq!(aborts, Err("QEMU ended: failed to set MSR 0x10a".into()));
        let wordless = probe(shell("exit 1"), Duration::from_secs(1000));
        assert_eq!(wordless, Err("QEMU ended: it said nothing".into()));
        let missing = probe(Command::new("/nowhere/qemu"), Duration::from_secs(1000));
        assert!(missing.is_err_and(|why| why.starts_with("QEMU cannot be started")));
    }

    #[test]
    fn a_result_is_kept_and_told_once() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths { out: folder.path().into(), ..Paths::find().unwrap() };
        assert_eq!(kept(&paths), []);
        assert!(keep(&paths, 7, Some("why")));
        assert!(!keep(&paths, 7, Some("why")));
        assert_eq!(kept(&paths), [Kept { of: 7, broken: Some("why".into()) }]);
        // Those of several kernels stay, up to a number; a new one for the same kernel takes the place of the old one.
        for of in 1..=20 {
            assert!(keep(&paths, of, None));
        }
        assert_eq!(kept(&paths).len(), MOST_KEPT);
        assert!(!keep(&paths, 19, None) && !keep(&paths, 20, None) && keep(&paths, 20, Some("why")));
        assert_eq!(kept(&paths).iter().filter(|kept| kept.of == 20).count(), 1);
        fs::write(file(&paths), "no JSON").unwrap();
        assert_eq!(kept(&paths), []);
        // What cannot be kept is told again.
        fs::remove_file(file(&paths)).unwrap();
        fs::create_dir(file(&paths)).unwrap();
        assert!(keep(&paths, 7, None) && keep(&paths, 7, None));
    }
}
