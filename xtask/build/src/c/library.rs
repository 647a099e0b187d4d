//! `libc.so`: musl's sources and our C sources, compiled by clang and linked with our Rust half.
//!
//! `runtime/libc/c/sources.toml` selects musl's files. An object is recompiled only when its source, any header, the
//! flags or the compiler change: its name contains a hash of them all.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::sources::Sources;
use super::{CLANG, TARGET};
use crate::cargo;
use xtask_common::paths::Paths;
use xtask_common::ui::Ui;

/// `sources.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Selection {
    /// Folders of musl, and the files in them that are left out.
    folders: BTreeMap<String, Vec<String>>,
    /// Folders of musl, and the only files that are taken from them.
    files: BTreeMap<String, Vec<String>>,
    /// Aliases of functions.
    aliases: BTreeMap<String, String>,
}

/// Flags for all sources. The compiler must not replace code of a function by a call of that same function, and the
/// linker part must not use stack protection before it has set it up.
const FLAGS: &str = "-std=c11 -nostdinc -ffreestanding -fno-builtin -fPIC -O2 -g1 -fno-sanitize=safe-stack -fno-stack-protector \
     -fomit-frame-pointer -frounding-math -ffp-contract=off -fno-strict-aliasing -ffunction-sections -fdata-sections \
     -D_XOPEN_SOURCE=700 -Wno-everything -Werror=implicit-function-declaration -Werror=implicit-int -Werror=int-conversion";

/// The same flags as for Rust's own target.
const LINK: &str = "-shared -soname=libc.so --entry=_dl_start -Bsymbolic --eh-frame-hdr --build-id --hash-style=gnu --gc-sections \
     -zdefs -znow -zrelro -zrodynamic -zseparate-loadable-segments -zrel -zmax-page-size=4096 --pack-dyn-relocs=relr";

/// Symbols of Rust's compiler are not exported.
const EXPORTS: &str = "{ global: *; local: _ZN*; _R*; __rust*; rust_*; };\n";

/// Links `sysroot/lib/libc.so` from the Rust half, an archive, and the C half.
///
/// # Errors
/// A source does not compile, or a symbol is undefined or defined twice; the error contains the tools' messages.
pub fn build(paths: &Paths, ui: &Ui, musl: &Sources, include: &Path, rust: &Path) -> Result<PathBuf> {
    let ours = paths.workspace.join("runtime/libc/c");
    let text = fs::read_to_string(ours.join("sources.toml")).context("cannot read runtime/libc/c/sources.toml")?;
    let selection: Selection = toml::from_str(&text).context("in runtime/libc/c/sources.toml")?;
    let mut files = selection.files(&musl.musl.join("src"))?;
    files.extend(cargo::sources(&ours.join("src"))?);
    let objects = Compiler::new(paths, musl, include, &ours)?.compile(ui, &files)?;

    let folder = paths.out.join("libc");
    let exports = folder.join("exports");
    let list = folder.join("objects.txt");
    fs::write(&exports, EXPORTS).context("cannot write the list of exports")?;
    fs::write(&list, response(&objects)?).context("cannot write the list of objects")?;
    let library = folder.join("libc.so");
    let mut linker = Command::new("ld.lld");
    linker.args(LINK.split_whitespace()).arg("--version-script").arg(&exports);
    linker.args(selection.aliases.iter().map(|(alias, name)| format!("--defsym={alias}={name}")));
    linker.arg(format!("@{}", list.display())).arg(rust);
    linker.arg(paths.out.join("sysroot/clang/lib/fuchsia/libclang_rt.builtins-x86_64.a"));
    linker.arg("-L").arg(paths.sysroot_lib()).arg("-lzircon").arg("-o").arg(&library);
    let output = linker.output().context("cannot start ld.lld")?;
    if !output.status.success() {
        bail!("linking libc.so failed:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(library)
}

/// A response file for a linker: one argument per line, so that blanks and quotation marks in a path are part of it.
fn response(objects: &[PathBuf]) -> Result<String> {
    let mut text = String::new();
    for object in objects {
        let path = object.to_str().with_context(|| format!("{}: the path is not UTF-8", object.display()))?;
        text.push_str(&format!("\"{}\"\n", path.replace('\\', "\\\\").replace('"', "\\\"")));
    }
    Ok(text)
}

impl Selection {
    /// The selected files, in the version for our processor if there is one.
    fn files(&self, src: &Path) -> Result<Vec<PathBuf>> {
        let mut all = Vec::new();
        for (folder, except) in &self.folders {
            let mut there = in_folder(src, folder)?;
            for name in except {
                there
                    .remove(name)
                    .with_context(|| format!("sources.toml: musl has no {folder}/{name} to leave out"))?;
            }
            all.extend(there.into_values());
        }
        for (folder, names) in &self.files {
            let mut there = in_folder(src, folder)?;
            for name in names {
                all.push(there.remove(name).with_context(|| format!("sources.toml: musl has no {folder}/{name}"))?);
            }
        }
        Ok(all)
    }
}

/// The sources in a folder by their names without extension.
fn in_folder(src: &Path, folder: &str) -> Result<BTreeMap<String, PathBuf>> {
    let mut found = BTreeMap::new();
    for folder in [src.join(folder), src.join(folder).join("x86_64")] {
        if !folder.is_dir() {
            continue;
        }
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let path = entry.with_context(|| format!("cannot read {}", folder.display()))?.path();
            if path.extension().is_some_and(|end| end == "c" || end == "s" || end == "S") {
                found.insert(path.file_stem().unwrap_or_default().to_string_lossy().into_owned(), path);
            }
        }
    }
    Ok(found)
}

struct Compiler {
    flags: Vec<String>,
    /// Hash of the flags, the compiler and all headers.
    common: Sha256,
    objects: PathBuf,
    /// Prefix that is removed from paths in error messages.
    musl: PathBuf,
}

impl Compiler {
    fn new(paths: &Paths, musl: &Sources, include: &Path, ours: &Path) -> Result<Compiler> {
        let internal = ours.join("internal");
        let tree = &musl.musl;
        let arch = [tree.join("arch/x86_64"), tree.join("arch/generic")];
        let folders = [&internal, &tree.join("src/include"), &tree.join("src/internal"), include, &arch[0], &arch[1]];
        let mut flags: Vec<String> = FLAGS.split_whitespace().map(str::to_string).collect();
        flags.extend([format!("--target={TARGET}"), "-include".into(), "weak.h".into()]);
        flags.extend(folders.iter().map(|folder| format!("-I{}", folder.display())));
        // Headers that musl includes and programs must not see.
        flags.push(format!("-idirafter{}", tree.join("include").display()));
        flags.push(format!("-ffile-prefix-map={}=", paths.workspace.display()));
        let mut common = Sha256::new();
        common.update(FLAGS);
        let version = Command::new(CLANG).arg("--version").output().context("cannot start clang")?;
        common.update(&version.stdout);
        let mut headers = cargo::sources(&internal)?;
        for header in &headers {
            // The compiler looks next to the including file first, so musl's own version of this header is removed.
            let theirs = tree.join("src/internal").join(header.strip_prefix(&internal).unwrap_or(header));
            if theirs.is_file() {
                fs::remove_file(&theirs).with_context(|| format!("cannot remove {}", theirs.display()))?;
            }
        }
        headers.extend(cargo::sources(include)?);
        for header in headers {
            common.update(fs::read(&header).with_context(|| format!("cannot read {}", header.display()))?);
        }
        // musl's own headers change only with the package.
        common.update(fs::read(ours.join("requirements.txt")).context("cannot read requirements.txt")?);
        Ok(Compiler { flags, common, objects: paths.out.join("libc/objects"), musl: tree.clone() })
    }

    /// Compiles all sources without an up-to-date object, on all processors; returns the objects in the order of their
    /// sources.
    fn compile(&self, ui: &Ui, files: &[PathBuf]) -> Result<Vec<PathBuf>> {
        fs::create_dir_all(&self.objects).context("cannot make the folder of objects")?;
        let objects = files.iter().map(|file| self.object(file)).collect::<Result<Vec<_>>>()?;
        let missing: Vec<_> = files.iter().zip(&objects).filter(|(_, object)| !object.is_file()).collect();
        let mut step = ui.step("compiling the C library");
        if !missing.is_empty() {
            step.activity(&format!("{} files of C", missing.len()));
        }
        let next = AtomicUsize::new(0);
        let errors = Mutex::new(Vec::new());
        let work = || {
            while let Some((file, object)) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Err(error) = self.one(file, object) {
                    errors.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(error);
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(work);
            }
        });
        if let Some(error) = errors.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()).into_iter().next() {
            return Err(error);
        }
        drop(step);
        let used: HashSet<&PathBuf> = objects.iter().collect();
        for old in cargo::sources(&self.objects)?.iter().filter(|file| !used.contains(file)) {
            fs::remove_file(old).with_context(|| format!("cannot remove {}", old.display()))?;
        }
        Ok(objects)
    }

    /// The path of a source's object.
    fn object(&self, file: &Path) -> Result<PathBuf> {
        let mut hash = self.common.clone();
        hash.update(file.as_os_str().as_encoded_bytes());
        hash.update(fs::read(file).with_context(|| format!("cannot read {}", file.display()))?);
        let hash: String = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        Ok(self.objects.join(format!("{name}-{hash}.o")))
    }

    fn one(&self, file: &Path, object: &Path) -> Result<()> {
        // The object gets its final name last, so an existing object is complete.
        let part = object.with_extension("part");
        let mut clang = Command::new(CLANG);
        clang.args(&self.flags).arg("-c").arg(file).arg("-o").arg(&part);
        let output = clang.output().context("cannot start clang")?;
        if !output.status.success() {
            let name = file.strip_prefix(&self.musl).unwrap_or(file).display();
            bail!("compiling {name} failed:\n{}", String::from_utf8_lossy(&output.stderr));
        }
        fs::rename(&part, object).with_context(|| format!("cannot write {}", object.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The host's compiler reads response files as linkers do.
    #[test]
    fn any_path_is_one_argument() {
        let folder = tempfile::tempdir().unwrap();
        let (source, list) = (folder.path().join("a b\"c\\d'e.c"), folder.path().join("list"));
        fs::write(&source, "int marker;\n").unwrap();
        fs::write(&list, response(std::slice::from_ref(&source)).unwrap()).unwrap();
        let output = Command::new("cc").arg("-E").arg(format!("@{}", list.display())).output().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains("int marker;"), "{output:?}");
    }
}
