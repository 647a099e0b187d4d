//! `bench --peers`: the cost of the same work on Linux, in the same machine.
//!
//! 1. Debian's kernel is fetched, and the host's gcc compiles the C programs of `tests/bench/linux`. The measuring
//!    program is linked statically and is the first process. A second copy, linked dynamically, is started by it to
//!    measure a process start.
//! 2. Both are packed into an initramfs, with the host's C library for the second one.
//! 3. The machine boots; the figures come over the second serial port. The run ends with the machine.
//!
//! [`PEERS`] defines which of its operations is compared with which of ours.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use cpio::newc::ModeFileType;

use super::commit;
use super::operations::{Figure, figure};
use xtask_build::devices::Devices;
use xtask_build::setup;
use xtask_common::paths::Paths;
use xtask_common::threads::Watcher;
use xtask_common::ui::Ui;
use xtask_run::args::Accel;
use xtask_run::linux::archive::Archive;
use xtask_run::qemu::Machine;
use xtask_run::session::console::Listener;

/// The figures of Linux in the tree.
pub const ACCEPTED: &str = "docs/measurements/linux.json";
/// Without mitigations, as seL4 5.0.0 has none. A panic ends the machine.
const COMMAND_LINE: &str = "console=ttyS0 quiet mitigations=off tsc=reliable panic=-1";
const SOURCES: [&str; 5] = ["main.c", "calls.c", "memory.c", "parties.c", "tasks.c"];
/// Maximum time without output from the machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// Maximum size of its output in bytes.
const MOST: u64 = 16 << 20;

/// An operation of ours, the comparable one of Linux, and what that one does.
pub const PEERS: &[(&str, &str, &str)] = &[
    ("null0", "linux_getppid", "getppid"),
    ("clock_get", "linux_clock_gettime", "clock_gettime in the vDSO"),
    ("handle_duplicate", "linux_dup", "dup of an eventfd"),
    ("handle_close", "linux_close", "close of that copy"),
    ("event_create", "linux_eventfd", "eventfd"),
    ("event_close", "linux_eventfd_close", "its close"),
    ("object_signal", "linux_eventfd_write", "write to an eventfd"),
    ("wait_one_ready", "linux_poll_ready", "poll of one eventfd"),
    ("channel_create", "linux_datagram_create", "socketpair of datagrams"),
    ("channel_close", "linux_datagram_close", "close of both ends"),
    ("channel_write_64", "linux_datagram_write_64", "write of a datagram"),
    ("channel_read_64", "linux_datagram_read_64", "read of a datagram"),
    ("channel_handle", "linux_datagram_descriptor", "sendmsg and recvmsg with a descriptor"),
    ("socket_write_64", "linux_stream_write_64", "write to a stream of a socketpair"),
    ("socket_read_64", "linux_stream_read_64", "read from it"),
    ("fifo_write", "linux_pipe_write_8", "write of 8 bytes to a pipe"),
    ("fifo_read", "linux_pipe_read_8", "read of 8 bytes"),
    ("port_wait_signal", "linux_epoll_ready", "epoll_wait, one eventfd of one"),
    ("vmo_create", "linux_memfd", "memfd_create and ftruncate"),
    ("vmo_close", "linux_memfd_close", "close"),
    ("vmar_map", "linux_mmap", "mmap of that file, shared"),
    ("vmar_unmap", "linux_munmap", "munmap"),
    ("vmar_map_touched", "linux_mmap_touched", "mmap and a write"),
    ("vmar_unmap_touched", "linux_munmap_touched", "munmap"),
    ("fault_write_single", "linux_fault_write_single", "anonymous memory, small pages"),
    ("fault_write_run", "linux_fault_write_run", "anonymous memory, small pages"),
    ("echo_process_4", "linux_echo_poll_4", "datagrams: write, poll and read on each side"),
    ("echo_process_1024", "linux_echo_poll_1024", "the same"),
    ("channel_call_process_4", "linux_echo_4", "datagrams: write and read on each side"),
    ("futex_pingpong", "linux_futex_pingpong", "FUTEX_WAKE and FUTEX_WAIT on each side"),
    ("eventpair_pingpong", "linux_eventfd_pingpong", "eventfds: write and read on each side"),
    ("thread_lifecycle", "linux_pthread", "pthread_create and pthread_join"),
    ("process_lifecycle", "linux_fork_exit_wait", "fork of a small static program, _exit, waitpid"),
    ("spawn_call", "linux_spawn_call", "posix_spawn of a C program, dynamically linked"),
    ("spawn_to_main", "linux_spawn_to_main", "until its main"),
    ("spawn_to_end", "linux_spawn_to_end", "until waitpid returns"),
    ("channel_bulk_1024", "linux_datagram_bulk_1024", "a datagram"),
    ("channel_bulk_16384", "linux_datagram_bulk_16384", "a datagram"),
    ("channel_bulk_65536", "linux_datagram_bulk_65536", "a datagram"),
    ("socket_bulk_1024", "linux_stream_bulk_1024", "a stream"),
    ("socket_bulk_16384", "linux_stream_bulk_16384", "a stream"),
    ("socket_bulk_65536", "linux_stream_bulk_65536", "a stream"),
    ("vmo_write_1024", "linux_file_write_1024", "pwrite to a memfd"),
    ("vmo_write_16384", "linux_file_write_16384", "pwrite to a memfd"),
    ("vmo_write_65536", "linux_file_write_65536", "pwrite to a memfd"),
    ("vmo_read_1024", "linux_file_read_1024", "pread from a memfd"),
    ("vmo_read_16384", "linux_file_read_16384", "pread from a memfd"),
    ("vmo_read_65536", "linux_file_read_65536", "pread from a memfd"),
];

/// The cost of an operation on Linux.
pub fn beside(linux: &[Figure], operation: &str) -> Option<f64> {
    let (_, name, _) = PEERS.iter().find(|(ours, ..)| *ours == operation)?;
    Some(linux.iter().find(|figure| figure.name == *name)?.mean)
}

/// Boots Linux in a machine with this much memory; returns all figures.
///
/// # Errors
/// Linux cannot be fetched, something does not compile, or the machine ends without figures.
pub fn measure(paths: &Paths, ui: &Ui, memory: u64) -> Result<Vec<Figure>> {
    setup::for_booting(ui)?;
    setup::for_building(ui)?;
    let folder = paths.out.join("peers");
    let (kernel, version) = setup::linux(ui, &folder.join("linux"))?;
    let files = folder.join("initramfs");
    fs::write(&files, archive(paths, &folder)?).context("cannot write Linux' first files")?;
    let step = ui.step("measuring Linux");
    let text = boot(&kernel, &files, memory)?;
    drop(step);
    let common = (
        commit(paths),
        format!("Linux {version} (Debian, cloud), mitigations off"),
        format!("QEMU TCG, one processor without ERMS, {} MiB, -icount shift=0,sleep=off", memory >> 20),
    );
    let figures = figures(&text, &common)?;
    match PEERS.iter().find(|(_, name, _)| !figures.iter().any(|figure| figure.name == *name)) {
        None => Ok(figures),
        Some((_, name, _)) => bail!("Linux did not measure {name}:\n{text}"),
    }
}

/// Boots a kernel of Linux, with an initial file system in a file, in a machine with this much memory whose clock counts
/// instructions. Returns what its programs write to the second serial port.
///
/// # Errors
/// The machine cannot be started, or prints nothing for a long time.
pub fn boot(kernel: &Path, files: &Path, memory: u64) -> Result<String> {
    boot_with(kernel, files, memory, Accel::Counting, Devices::default(), &[])
}

/// The same, with these devices, and arguments for the first process.
///
/// # Errors
/// As [`boot`].
pub fn boot_with(
    kernel: &Path,
    files: &Path,
    memory: u64,
    accel: Accel,
    devices: Devices,
    args: &[String],
) -> Result<String> {
    let command_line = format!("{COMMAND_LINE} -- {}", args.join(" "));
    let linux = Some(command_line.as_str());
    let machine = Machine { kernel, root: files, image: &[], memory, accel, gdb: None, devices, linux };
    let mut running = machine.start()?;
    let console = running.console.try_clone().context("cannot share a serial port")?;
    let listener = Listener { verbose: false, ours: false, files: None, watcher: Watcher::none() };
    let console = listener.watch(console, String::new())?;
    running.link.set_read_timeout(PATIENCE);
    let mut bytes = Vec::new();
    let read = running.link.try_clone()?.take(MOST).read_to_end(&mut bytes);
    let complaints = running.end(Duration::ZERO);
    let last: Vec<String> = console.join()?.last.into();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    read.with_context(|| format!("Linux said nothing more; before that:\n{text}{}\n{complaints}", last.join("\n")))?;
    Ok(text)
}

/// Extracts the figures from the lines of the measuring program.
///
/// # Errors
/// It has failed, or a line is no figure.
pub fn figures(text: &str, common: &(String, String, String)) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.first() {
            Some(&"figure") => {
                let figure = figure(&words, common);
                figures.push(figure.with_context(|| format!("cannot understand Linux' line `{line}`"))?);
            }
            Some(&"failed") => bail!("on Linux {line}"),
            _ => {}
        }
    }
    Ok(figures)
}

/// Compiles the measuring program.
fn compile(paths: &Paths, folder: &Path, name: &str, options: &[&str]) -> Result<PathBuf> {
    let program = folder.join(name);
    gcc(paths, &program, options, &SOURCES)?;
    Ok(program)
}

/// Compiles a program from sources of `tests/bench/linux` with the host's gcc.
///
/// # Errors
/// It does not compile.
pub fn gcc(paths: &Paths, program: &Path, options: &[&str], sources: &[&str]) -> Result<()> {
    fs::create_dir_all(program.parent().unwrap_or(program)).context("cannot make a folder")?;
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread"]).args(options).arg("-o").arg(program);
    gcc.args(sources.iter().map(|source| paths.workspace.join("tests/bench/linux").join(source)));
    let output = gcc.output().context("cannot start gcc")?;
    if !output.status.success() {
        bail!("the programs for Linux do not compile:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// The measuring program without shared libraries.
///
/// # Errors
/// It does not compile.
pub fn static_program(paths: &Paths, folder: &Path) -> Result<PathBuf> {
    compile(paths, folder, "static", &["-static"])
}

/// Compiles both programs, and packs them with the libraries of the second into an initramfs.
fn archive(paths: &Paths, folder: &Path) -> Result<Vec<u8>> {
    let library = |name: &str| -> Result<PathBuf> {
        let output =
            Command::new("gcc").arg(format!("-print-file-name={name}")).output().context("cannot start gcc")?;
        let file = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        if !file.is_absolute() {
            bail!("gcc does not know where the host's {name} is");
        }
        Ok(file)
    };
    let files = [
        ("init", static_program(paths, folder)?),
        ("dynamic", compile(paths, folder, "dynamic", &[])?),
        ("lib64/ld-linux-x86-64.so.2", library("ld-linux-x86-64.so.2")?),
        ("lib/x86_64-linux-gnu/libc.so.6", library("libc.so.6")?),
    ];
    let folders = ["dev", "lib64", "lib", "lib/x86_64-linux-gnu"];
    let files = files
        .into_iter()
        .map(|(name, file)| Ok((name, fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?)));
    pack(&folders, &files.collect::<Result<Vec<_>>>()?)
}

/// Builds an initial file system.
///
/// # Errors
/// A file is too long.
pub fn pack(folders: &[&str], files: &[(&str, Vec<u8>)]) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    folders.iter().try_for_each(|name| archive.add(name, ModeFileType::Directory, 0o755, &[]))?;
    files.iter().try_for_each(|(name, bytes)| archive.add(name, ModeFileType::Regular, 0o755, bytes))?;
    archive.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anchors::operations;

    #[test]
    fn operations_have_one_peer_each() {
        for (operation, ..) in PEERS {
            assert!(operations().any(|ours| ours.name == *operation), "{operation}");
            assert_eq!(PEERS.iter().filter(|(other, ..)| other == operation).count(), 1, "{operation}");
        }
    }

    #[test]
    fn lines_of_linux() {
        let common = ("state".into(), "kernel".into(), "options".into());
        let text = "calibration 1.0\r\nfigure linux_dup instructions 513.50 513 520 1000\r\n";
        let found = figures(text, &common).unwrap();
        assert_eq!((found.len(), found[0].name.as_str(), found[0].mean), (1, "linux_dup", 513.5));
        assert_eq!(beside(&found, "handle_duplicate"), Some(513.5));
        assert_eq!(beside(&found, "null0"), None);
        assert!(figures("failed pipe(ends): Too many open files\r\n", &common).is_err());
        assert!(figures("figure linux_dup instructions 513.50\r\n", &common).is_err());
    }

    #[test]
    fn archives_are_read_again() {
        let archive = pack(&["dev"], &[("init", vec![7; 5])]).unwrap();
        let reader = cpio::newc::Reader::new(archive.as_slice()).unwrap();
        assert_eq!((reader.entry().name(), reader.entry().mode()), ("dev", 0o40755));
        let mut reader = cpio::newc::Reader::new(reader.finish().unwrap()).unwrap();
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        assert_eq!((reader.entry().name(), reader.entry().mode(), bytes), ("init", 0o100755, vec![7; 5]));
    }
}
