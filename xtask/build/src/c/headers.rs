//! `sysroot/include`: the headers of C programs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::sources::Sources;
use crate::cargo::{self, Build};
use xtask_common::files::{copy_if_changed, write_if_changed};
use xtask_common::paths::Paths;
use xtask_common::ui::Ui;

/// musl's headers for features that only Linux has or that do not exist here. A program that checks for a header gets
/// the right answer.
const NOT_HERE: &[&str] = &[
    "aio.h",
    "bits/hwcap.h",
    "bits/io.h",
    "bits/kd.h",
    "bits/ptrace.h",
    "bits/soundcard.h",
    "bits/syscall.h",
    "bits/vt.h",
    "lastlog.h",
    "mqueue.h",
    "netpacket/packet.h",
    "pty.h",
    "scsi/scsi.h",
    "scsi/scsi_ioctl.h",
    "scsi/sg.h",
    "shadow.h",
    "stropts.h",
    "sys/acct.h",
    "sys/auxv.h",
    "sys/cachectl.h",
    "sys/fanotify.h",
    "sys/fsuid.h",
    "sys/inotify.h",
    "sys/io.h",
    "sys/ipc.h",
    "sys/kd.h",
    "sys/klog.h",
    "sys/membarrier.h",
    "sys/mount.h",
    "sys/msg.h",
    "sys/mtio.h",
    "sys/personality.h",
    "sys/prctl.h",
    "sys/procfs.h",
    "sys/ptrace.h",
    "sys/quota.h",
    "sys/reboot.h",
    "sys/reg.h",
    "sys/sem.h",
    "sys/sendfile.h",
    "sys/shm.h",
    "sys/signalfd.h",
    "sys/soundcard.h",
    "sys/statfs.h",
    "sys/stropts.h",
    "sys/swap.h",
    "sys/syscall.h",
    "sys/sysinfo.h",
    "sys/timerfd.h",
    "sys/timex.h",
    "sys/ucontext.h",
    "sys/user.h",
    "sys/vfs.h",
    "sys/vt.h",
    "sys/xattr.h",
    "syscall.h",
    "ucontext.h",
    "utmp.h",
    "utmpx.h",
    "wordexp.h",
];

/// Functions of Linux, and of systems older than POSIX, that do not exist here, in headers that exist for other
/// functions: they are not declared. Those of POSIX are declared; they fail if they cannot do their work
/// (`runtime/libc/c/src/absent.c`).
const NOT_DECLARED: &[(&str, &[&str])] = &[
    ("dirent.h", &["getdents"]),
    ("dlfcn.h", &["dlinfo"]),
    (
        "fcntl.h",
        &[
            "fallocate",
            "name_to_handle_at",
            "open_by_handle_at",
            "readahead",
            "splice",
            "sync_file_range",
            "tee",
            "vmsplice",
        ],
    ),
    (
        "pthread.h",
        &[
            "pthread_getattr_default_np",
            "pthread_setaffinity_np",
            "pthread_setattr_default_np",
            "pthread_timedjoin_np",
            "pthread_tryjoin_np",
        ],
    ),
    ("resolv.h", &["res_query", "res_querydomain", "res_search", "res_send"]),
    ("sched.h", &["clone", "sched_setaffinity", "setns", "unshare"]),
    ("sys/mman.h", &["mincore", "mlock2", "remap_file_pages"]),
    ("sys/resource.h", &["prlimit"]),
    ("sys/socket.h", &["recvmmsg", "sendmmsg"]),
    ("sys/stat.h", &["lchmod", "statx"]),
    ("sys/uio.h", &["preadv2", "process_vm_readv", "process_vm_writev", "pwritev2"]),
    ("time.h", &["stime"]),
    (
        "unistd.h",
        &[
            "acct",
            "copy_file_range",
            "endusershell",
            "euidaccess",
            "getusershell",
            "setdomainname",
            "setusershell",
            "sync",
            "syncfs",
            "syscall",
            "ualarm",
            "vhangup",
        ],
    ),
];

/// A header's text without the declarations of these functions, each of which is one line.
fn without(text: &str, names: &[&str]) -> Result<String> {
    let mut lines: Vec<&str> = text.lines().collect();
    for name in names {
        let before = lines.len();
        lines.retain(|line| {
            let declares = |(at, _)| {
                let (result, rest) = (&line[..at], &line[at + name.len()..]);
                result.ends_with([' ', '*'])
                    && rest.trim_start().starts_with('(')
                    && result.chars().all(|c| c.is_ascii_alphanumeric() || "_ *".contains(c))
            };
            !(line.ends_with(';') && line.match_indices(name).any(declares))
        });
        if lines.len() + 1 != before {
            bail!("{name} is declared {} times, not once", before - lines.len());
        }
    }
    Ok(lines.join("\n") + "\n")
}

/// Creates the folder, or updates it; other files in it are removed.
///
/// # Errors
/// A file cannot be read or written, or the generator of the system calls' headers fails.
pub fn install(paths: &Paths, ui: &Ui, sources: &Sources) -> Result<PathBuf> {
    let generated = zircon(paths, ui)?;
    let [common, own_processor] = &sources.headers;
    let ours = ["runtime/libc/c/include", "runtime/fdio/include"].map(|folder| paths.workspace.join(folder));
    // A later folder's file replaces an earlier one's.
    let mut files = BTreeMap::new();
    for folder in [common, own_processor, &generated, &ours[0], &ours[1]] {
        for file in cargo::sources(folder)? {
            let name = file.strip_prefix(folder).unwrap_or(&file).to_path_buf();
            files.insert(name, file);
        }
    }
    for name in NOT_HERE {
        files.remove(Path::new(name)).with_context(|| format!("{name} is no header of musl: nothing to leave out"))?;
    }
    let include = paths.out.join("sysroot/include");
    for (name, file) in &files {
        let place = include.join(name);
        match NOT_DECLARED.iter().find(|(header, _)| name == Path::new(header)) {
            Some((header, functions)) => {
                let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
                let text = without(&text, functions).with_context(|| format!("in {header}"))?;
                write_if_changed(&place, text.as_bytes())?;
            }
            None => {
                copy_if_changed(file, &place)?;
            }
        }
    }
    for file in cargo::sources(&include)? {
        let name = file.strip_prefix(&include).unwrap_or(&file);
        if !files.contains_key(name) {
            fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
        }
    }
    Ok(include)
}

/// Generates the headers of the system calls for C.
fn zircon(paths: &Paths, ui: &Ui) -> Result<PathBuf> {
    let folder = paths.out.join("headers");
    let made = Build::new("making the system calls' headers", "-p abi --example generate").run(paths, ui)?;
    let output = Command::new(cargo::program(&made, "generate")?).arg("headers").arg(&folder).output();
    let output = output.context("cannot start the generator of headers")?;
    if !output.status.success() {
        bail!("making the system calls' headers failed:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declaration_goes_and_its_neighbours_stay() {
        let text = "#define tee64 tee\nssize_t tee(int, int);\nint teeth(int);\nchar *tee_name (int);\n";
        assert_eq!(without(text, &["tee"]).unwrap(), "#define tee64 tee\nint teeth(int);\nchar *tee_name (int);\n");
        assert_eq!(without("char *a (int);\n", &["a"]).unwrap(), "\n");
        assert!(without(text, &["none"]).is_err());
    }
}
