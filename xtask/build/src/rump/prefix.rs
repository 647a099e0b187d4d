//! A prefix: what a build of NetBSD's rump kernel leaves, read from its folder.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::objects::{self, Object};

/// The revision of the hypercalls that `librumpuser.a` implements.
pub const REVISION: u32 = 17;
/// The library that every rump kernel has.
pub const BASE: &str = "rump";
/// Where the libraries are below the folder that the user names: buildrump.sh, rumprun, NetBSD's own build, themselves.
const FOLDERS: [&str; 5] = ["lib", "lib/rumprun-hw", "lib/rumprun-xen", "usr/lib", ""];
/// Libraries of a prefix that are for programs or for the system that it was built for: no part of a rump kernel.
const OF_THE_HOST: [&str; 4] = ["rumpuser", "rumpclient", "rumphijack", "rumpfs_intr"];
/// Most libraries of a prefix.
const LIBRARIES: usize = 1024;

/// A library of a prefix.
#[derive(Clone, Debug, Default)]
pub struct Library {
    /// Its file.
    pub path: PathBuf,
    /// Its object files, or why there are none.
    pub objects: Vec<Object>,
    /// The file cannot be used: the reason.
    pub fault: Option<String>,
}

/// What is in a prefix.
#[derive(Clone, Debug, Default)]
pub struct Prefix {
    /// The libraries of a rump kernel by name: `rumpfs_tmpfs` is `librumpfs_tmpfs.a`.
    pub libraries: BTreeMap<String, Library>,
    /// The folder that has the headers, as `rump/rump.h`.
    pub headers: Option<PathBuf>,
    /// The revision in its header `rump/rumpuser.h`.
    pub revision_of_header: Option<u32>,
}

/// How components announce themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// By constructors: the build for POSIX systems.
    Constructors,
    /// In a link set: the build of kernel parts alone (`-k`).
    LinkSets,
    /// As [`Kind::LinkSets`], and the kernel defines the system calls' plain names (`open`, `read`) itself.
    Rumprun,
}

/// How a prefix was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// How components announce themselves.
    pub kind: Kind,
    /// The compiler of the base library.
    pub compiler: Option<String>,
    /// Compiled for Fuchsia's target: code uses its second stack.
    pub has_safe_stack: bool,
    /// It checks assertions.
    pub has_diagnostic: bool,
    /// It has debug information.
    pub has_debug_information: bool,
    /// The revision of the hypercalls, in the code.
    pub revision: Option<u32>,
}

/// Reads the prefix in a folder.
///
/// # Errors
/// The folder has no rump kernel.
pub fn read(folder: &Path) -> Result<Prefix> {
    if !folder.is_dir() {
        bail!("{}: no such folder; a prefix is the folder that buildrump.sh fills (docs/rump.md)", folder.display());
    }
    // Its paths become arguments of tools: none begins with a hyphen or an @ so.
    let folder = &fs::canonicalize(folder).with_context(|| format!("cannot find {}", folder.display()))?;
    let base = format!("lib{BASE}.a");
    let Some(place) = FOLDERS.iter().map(|place| folder.join(place)).find(|place| place.join(&base).is_file()) else {
        bail!(
            "{}: no prefix of a rump kernel, as it has no lib/{base}; buildrump.sh makes one (docs/rump.md)",
            folder.display()
        );
    };
    let mut prefix = Prefix { libraries: libraries(&place)?, ..Prefix::default() };
    let headers = [folder.join("include"), folder.join("usr/include"), place.join("../include")];
    prefix.headers = headers.into_iter().find(|headers| headers.join("rump/rump.h").is_file());
    prefix.revision_of_header = prefix.headers.as_ref().and_then(|headers| revision(&headers.join("rump/rumpuser.h")));
    Ok(prefix)
}

fn libraries(folder: &Path) -> Result<BTreeMap<String, Library>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry.with_context(|| format!("cannot read {}", folder.display()))?.path();
        let name = path.file_name().and_then(|name| name.to_str()?.strip_prefix("lib")?.strip_suffix(".a"));
        let Some(name) = name.filter(|name| is_of_kernel(name)) else { continue };
        found.insert(name.to_string(), path);
        if found.len() > LIBRARIES {
            bail!("{}: more than {LIBRARIES} libraries", folder.display());
        }
    }
    // The same objects, compiled for shared libraries or for profiling.
    let names: BTreeSet<String> = found.keys().cloned().collect();
    let is_copy =
        |name: &str| ["_pic", "_p"].iter().any(|end| name.strip_suffix(end).is_some_and(|n| names.contains(n)));
    let found = found.into_iter().filter(|(name, _)| !is_copy(name));
    Ok(found.map(|(name, path)| (name, library(path))).collect())
}

/// Whether a library of this name is part of a rump kernel.
fn is_of_kernel(name: &str) -> bool {
    let is_rump =
        name == BASE || ["rumpkern_", "rumpdev", "rumpfs_", "rumpnet", "rumpvfs"].iter().any(|p| name.starts_with(p));
    is_rump && !OF_THE_HOST.contains(&name)
}

fn library(path: PathBuf) -> Library {
    match bytes(&path).and_then(|bytes| objects::read(&bytes)) {
        Ok(objects) => Library { path, objects, fault: None },
        Err(why) => Library { path, objects: Vec::new(), fault: Some(why) },
    }
}

/// The bytes of an archive.
///
/// # Errors
/// It is no file, cannot be read, or is too long.
pub fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    let failed = |error| format!("cannot be read: {error}");
    // Before it is opened: that would wait for the other end of a pipe.
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err("is no file".into());
    }
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(objects::LONGEST + 1).read_to_end(&mut bytes)).map_err(failed)?;
    if bytes.len() as u64 > objects::LONGEST {
        return Err(format!("is longer than {} MiB", objects::LONGEST >> 20));
    }
    Ok(bytes)
}

/// The number that `rump/rumpuser.h` defines.
fn revision(header: &Path) -> Option<u32> {
    revision_in(&String::from_utf8_lossy(&bytes(header).ok()?))
}

fn revision_in(header: &str) -> Option<u32> {
    header.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some("#define") && words.next() == Some("RUMPUSER_VERSION"))
            .then(|| words.next()?.parse().ok())?
    })
}

impl Prefix {
    /// How it was built.
    ///
    /// # Errors
    /// Its base library cannot be used; the error says what to do.
    pub fn facts(&self) -> Result<Facts, String> {
        let base = self.libraries.get(BASE).ok_or("it has no librump.a")?;
        if let Some(fault) = &base.fault {
            return Err(format!("librump.a cannot be used: {fault}; build the prefix again (docs/rump.md)"));
        }
        let any = |what: fn(&Object) -> bool| base.objects.iter().any(what);
        let defines = |name: &str| base.objects.iter().any(|object| object.defined.contains(name));
        let asserting = base.objects.iter().filter(|object| object.wanted.contains("rumpns_kern_assert")).count();
        let kind = match (any(|object| object.has_component_set), any(|object| object.has_constructors)) {
            (true, _) if defines("open") && defines("read") => Kind::Rumprun,
            (true, _) => Kind::LinkSets,
            (false, true) => Kind::Constructors,
            (false, false) => return Err("librump.a announces no component: it is no library of a rump kernel".into()),
        };
        let code = base.objects.iter().find_map(|object| object.revision);
        Ok(Facts {
            kind,
            compiler: base.objects.iter().find_map(|object| object.compiler.clone()),
            has_safe_stack: any(|object| object.has_safe_stack),
            // A release has a few assertions, too.
            has_diagnostic: asserting * 8 >= base.objects.len(),
            has_debug_information: any(|object| object.has_debug_information),
            revision: code.or(self.revision_of_header),
        })
    }

    /// Every symbol that an object file of the prefix defines, with the libraries that define it.
    pub fn definitions(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut all: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (name, library) in &self.libraries {
            for symbol in library.objects.iter().flat_map(|object| &object.defined) {
                all.entry(symbol).or_default().insert(name);
            }
        }
        all
    }
}

impl Facts {
    /// Fails unless `librumpuser.a` speaks the prefix's revision of the hypercalls.
    ///
    /// # Errors
    /// It does not; the error says what to do.
    pub fn check_revision(&self) -> Result<(), String> {
        match self.revision {
            Some(REVISION) => Ok(()),
            Some(other) => Err(format!(
                "its hypercalls have revision {other}, and this system has revision {REVISION}: build the prefix from \
                 a NetBSD of revision {REVISION} (docs/rump.md says which were tried)"
            )),
            None => Err(format!(
                "the revision of its hypercalls is in neither librump.a nor include/rump/rumpuser.h; this system has \
                 revision {REVISION}"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_kernels_libraries() {
        for name in
            ["rump", "rumpvfs", "rumpdev_disk", "rumpnet", "rumpnet_netinet6", "rumpkern_sysproxy", "rumpfs_tmpfs"]
        {
            assert!(is_of_kernel(name), "{name}");
        }
        for name in ["rumpuser", "rumpclient", "rumprun_base", "c", "bmk_core", "rumpfoo"] {
            assert!(!is_of_kernel(name), "{name}");
        }
    }

    #[test]
    fn the_headers_revision() {
        let header = "/* RUMPUSER_VERSION 3 */\n#define OTHER 4\n#define\tRUMPUSER_VERSION 17 /* here */\n";
        assert_eq!(revision_in(header), Some(17));
        for wrong in ["", "#define RUMPUSER_VERSION", "#define RUMPUSER_VERSION x", "RUMPUSER_VERSION 17"] {
            assert_eq!(revision_in(wrong), None, "{wrong}");
        }
    }
}
