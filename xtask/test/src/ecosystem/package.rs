//! Packages: the list of them, and copies to test.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use xtask_build::cargo;
use xtask_common::files::copy_folder;
use xtask_common::paths::Paths;
use xtask_common::words::tail;

/// `packages.toml`.
#[derive(Debug, Deserialize)]
pub struct List {
    /// The packages, in their order.
    #[serde(rename = "package")]
    pub packages: Vec<Package>,
}

/// A package, and how it is tested.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version, from `Cargo.toml`.
    #[serde(skip)]
    pub version: String,
    /// Additional features.
    #[serde(default)]
    pub features: Vec<String>,
    /// Its dev-dependencies use this copy of it.
    #[serde(default)]
    pub patch: bool,
    /// Which of its test programs the plain `test` runs.
    #[serde(default)]
    pub ci: Vec<String>,
    /// Time limit of one of its programs in seconds.
    pub limit: Option<u64>,
    /// Cases that are not run.
    #[serde(default)]
    pub skip: Vec<String>,
    /// Test programs that cannot be built from the published package, and why.
    #[serde(default)]
    pub leave_out: BTreeMap<String, String>,
    /// The folder with the manifest that names it, if it is not `xtask/test/packages`.
    #[serde(skip)]
    manifest: Option<PathBuf>,
}

impl List {
    /// Reads the list.
    ///
    /// # Errors
    /// It cannot be parsed.
    pub fn read(paths: &Paths) -> Result<List> {
        let file = paths.workspace.join("xtask/test/packages/packages.toml");
        let text = fs::read_to_string(&file).context("cannot read xtask/test/packages/packages.toml")?;
        let mut list: List = toml::from_str(&text).context("in xtask/test/packages/packages.toml")?;
        let manifest = fs::read_to_string(paths.workspace.join("xtask/test/packages/Cargo.toml"));
        let manifest: toml::Table = manifest.context("cannot read xtask/test/packages/Cargo.toml")?.parse()?;
        for package in &mut list.packages {
            let version = manifest["dependencies"].get(&package.name).and_then(toml::Value::as_str);
            let version = version.and_then(|version| version.strip_prefix('='));
            package.version = version
                .with_context(|| format!("xtask/test/packages/Cargo.toml gives no `=` version of {}", package.name))?
                .to_owned();
        }
        Ok(list)
    }
}

/// A package outside of the list: `NAME` or `NAME@VERSION`.
///
/// # Errors
/// The registry does not have it.
pub fn any(paths: &Paths, wanted: &str) -> Result<Package> {
    let (name, version) = wanted.split_once('@').unwrap_or((wanted, "*"));
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')) {
        bail!("`{name}` is not the name of a package");
    }
    let folder = paths.out.join("ecosystem/any").join(name);
    fs::create_dir_all(folder.join("src")).context("cannot make a folder")?;
    fs::write(folder.join("src/lib.rs"), "").context("cannot write a file")?;
    let exact = if version == "*" { version.to_owned() } else { format!("={version}") };
    let manifest = format!(
        "[package]\nname = \"any\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n{name} = \"{exact}\"\n"
    );
    fs::write(folder.join("Cargo.toml"), manifest).context("cannot write a manifest")?;
    let _ = fs::remove_file(folder.join("Cargo.lock"));
    let package = Package { name: name.to_owned(), manifest: Some(folder), ..Package::default() };
    let (_, version) = package.find(paths)?;
    Ok(Package { version, ..package })
}

impl Package {
    /// The lock file of its tests' dependencies.
    fn lock_file(&self, paths: &Paths) -> PathBuf {
        paths.workspace.join("xtask/test/packages/locks").join(format!("{}.lock", self.name))
    }

    /// Copies the package as published, with its lock file; cargo verifies its checksum.
    ///
    /// # Errors
    /// It cannot be fetched.
    pub fn checkout(&self, paths: &Paths) -> Result<PathBuf> {
        let (source, _) = self.find(paths)?;
        let folder = paths.out.join("packages").join(&self.name);
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        copy_folder(&source, &folder)?;
        let lock = self.lock_file(paths);
        if self.manifest.is_none() && lock.is_file() {
            fs::copy(&lock, folder.join("Cargo.lock")).with_context(|| format!("cannot copy {}", lock.display()))?;
        } else {
            self.resolve(paths, &folder)?;
        }
        Ok(folder)
    }

    /// Resolves the dependencies of its tests anew, and stores the lock file.
    ///
    /// # Errors
    /// The dependencies cannot be resolved.
    pub fn lock(&self, paths: &Paths) -> Result<()> {
        let lock = self.lock_file(paths);
        let _ = fs::remove_file(&lock);
        let folder = self.checkout(paths)?;
        fs::create_dir_all(lock.parent().unwrap_or(&lock)).context("cannot make a folder")?;
        fs::copy(folder.join("Cargo.lock"), &lock).with_context(|| format!("cannot write {}", lock.display()))?;
        Ok(())
    }

    fn resolve(&self, paths: &Paths, folder: &Path) -> Result<()> {
        let _ = fs::remove_file(folder.join("Cargo.lock"));
        let mut command = cargo::command(&paths.workspace);
        command.current_dir(folder).arg("generate-lockfile");
        self.add_patch(&mut command, folder);
        said(&mut command).map(drop)
    }

    /// Passes the patch to cargo, if there is one.
    pub fn add_patch(&self, command: &mut Command, folder: &Path) {
        if self.patch {
            let folder = toml::Value::String(folder.display().to_string());
            command.arg("--config").arg(format!("patch.crates-io.{}.path={folder}", self.name));
        }
    }

    /// Its path in cargo's registry, and its version.
    fn find(&self, paths: &Paths) -> Result<(PathBuf, String)> {
        let ours = paths.workspace.join("xtask/test/packages");
        find(paths, self.manifest.as_deref().unwrap_or(&ours), self.manifest.is_none(), &self.name, &self.version)
    }
}

/// The path in cargo's registry of the package that the manifest in this folder names, and its version; an empty
/// version matches any.
///
/// # Errors
/// Cargo cannot fetch it.
pub fn find(paths: &Paths, manifest: &Path, locked: bool, name: &str, version: &str) -> Result<(PathBuf, String)> {
    let cargo = |args: &[&str]| -> Result<Vec<u8>> {
        let mut command: Command = cargo::command(&paths.workspace);
        command.args(args).arg("--manifest-path").arg(manifest.join("Cargo.toml"));
        if locked {
            command.arg("--locked");
        }
        said(&mut command)
    };
    cargo(&["fetch"])?;
    let metadata = cargo(&["metadata", "--format-version", "1"])?;
    let metadata: serde_json::Value = serde_json::from_slice(&metadata).context("cannot read cargo's metadata")?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    // Other packages may depend on another version of it.
    let named =
        |package: &&serde_json::Value| package["name"] == name && (version.is_empty() || package["version"] == version);
    let mut found = packages.filter(named);
    let package = found.next().with_context(|| format!("cargo does not know {name}"))?;
    let manifest = PathBuf::from(package["manifest_path"].as_str().unwrap_or_default());
    let folder = manifest.parent().context("a package without a folder")?.to_path_buf();
    Ok((folder, package["version"].as_str().unwrap_or_default().to_owned()))
}

/// The output of a call of cargo.
fn said(command: &mut Command) -> Result<Vec<u8>> {
    let output = command.output().context("cannot start cargo")?;
    if !output.status.success() {
        let what = command.get_args().next().unwrap_or_default().to_string_lossy().into_owned();
        bail!("cargo {what} failed: {}", tail(&String::from_utf8_lossy(&output.stderr), 10));
    }
    Ok(output.stdout)
}
