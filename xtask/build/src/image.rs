//! The BOOTFS image of one boot: libraries, programs, and the configuration of `init`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use bootfs::Writer;
use description::services::{self, Service};

use crate::Built;
use crate::devices::{Devices, Model};
use crate::system::{DeviceNeed, ServiceEntry, alternatives};

/// The task of `init`.
#[derive(Clone, Debug)]
pub enum Mode {
    /// Runs a program: path in the image, then its arguments.
    Run(String, Vec<String>),
    /// Runs the demonstration programs; then a shell if requested.
    Tour {
        /// Whether a shell follows.
        shell: bool,
    },
    /// Runs the shell.
    Shell,
    /// Runs the conformance programs.
    Test,
}

/// An image under construction.
#[derive(Debug)]
pub struct Image {
    writer: Writer,
}

impl Image {
    /// Starts an image with libraries, built-in programs, and the services of a machine with these devices.
    ///
    /// # Errors
    /// A built file cannot be read, or two have one name.
    pub fn new(built: &Built, tests: bool, devices: &Devices) -> Result<Image> {
        let mut image = Image { writer: Writer::new() };
        let has = |service: &Service, need: &DeviceNeed| match need {
            DeviceNeed::Terminal => devices.terminal,
            DeviceNeed::Disk => devices.disk.is_some() && !(devices.raw && service.mount.is_some()),
            DeviceNeed::Network => devices.network.is_some(),
            DeviceNeed::VirtioNetPci => devices.has_card(Model::VirtioNetPci),
            DeviceNeed::E1000e => devices.has_card(Model::E1000e),
            DeviceNeed::Switch => devices.switch,
            DeviceNeed::Tests => tests,
        };
        let there =
            |known: &&ServiceEntry| known.needs.is_empty() || known.needs.iter().any(|need| has(&known.service, need));
        let mut services: Vec<Service> =
            built.services.iter().filter(there).map(|known| known.service.clone()).collect();
        // Who uses a service that this machine does not have uses the next one of the alternatives, or does without it.
        let names: Vec<String> = services.iter().map(|service| service.name.clone()).collect();
        let is_there = |used: &&str| names.iter().any(|name| used.split('/').next() == Some(name));
        for service in &mut services {
            let first = |used: &String| alternatives(used).find(is_there).map(str::to_owned);
            service.uses = service.uses.iter().filter_map(first).collect();
        }
        image.add("config/services", services::encode(&services)?)?;
        let trusted: Vec<String> = built.trusted.iter().map(|name| format!("/boot/bin/{name}")).collect();
        image.add("config/trusted", strings(&trusted))?;
        for (path, file) in &built.libraries {
            image.add_file(path, file)?;
        }
        let programs = built.programs.iter().chain(if tests { built.test_programs.as_slice() } else { &[] });
        for (name, file) in programs {
            // The program of an absent device would only lengthen the boot.
            let of = |service: &Service| service.program == *name;
            if built.services.iter().any(|known| of(&known.service)) && !services.iter().any(of) {
                continue;
            }
            image.add_file(&format!("bin/{name}"), file)?;
            for other in built.names.get(name).into_iter().flatten() {
                image.writer.add_name(&format!("bin/{other}"), &format!("bin/{name}"))?;
            }
        }
        Ok(image)
    }

    /// Adds a file under its path in the image.
    ///
    /// # Errors
    /// The path exists already, or it is invalid.
    pub fn add(&mut self, path: &str, bytes: impl Into<Vec<u8>>) -> Result<()> {
        self.writer.add(path, bytes)?;
        Ok(())
    }

    /// Adds the programs that the user installed. A built-in program of the same name takes precedence.
    ///
    /// # Errors
    /// A program cannot be read.
    pub fn add_installed(&mut self, programs: &[(String, PathBuf)]) -> Result<()> {
        for (name, file) in programs {
            let path = format!("bin/{name}");
            if !self.has(&path) {
                self.add_file(&path, file)?;
            }
        }
        Ok(())
    }

    /// Adds all files below a folder, under this path in the image.
    ///
    /// # Errors
    /// A file cannot be read, or has a name that the image cannot hold.
    pub fn add_folder(&mut self, path: &str, folder: &Path) -> Result<()> {
        for entry in fs::read_dir(folder).with_context(|| format!("cannot read the folder {}", folder.display()))? {
            let entry = entry.with_context(|| format!("cannot read the folder {}", folder.display()))?.path();
            let name = entry.file_name().and_then(|name| name.to_str());
            let name = name.with_context(|| format!("{}: its name is not UTF-8", entry.display()))?;
            let path = format!("{path}/{name}");
            if entry.is_file() {
                self.add_file(&path, &entry)?;
            } else if entry.is_dir() && !entry.is_symlink() {
                self.add_folder(&path, &entry)?;
            }
        }
        Ok(())
    }

    /// Names the programs that run beside the main one: for each a name in `bin` and arguments.
    ///
    /// # Errors
    /// They were named before.
    pub fn add_beside(&mut self, commands: &[Vec<String>]) -> Result<()> {
        for (index, command) in commands.iter().enumerate() {
            let words = command.iter().enumerate().map(|(place, word)| match place {
                0 => format!("/boot/bin/{word}"),
                _ => word.clone(),
            });
            self.add(&format!("config/beside/{index}"), strings(&words.collect::<Vec<String>>()))?;
        }
        Ok(())
    }

    /// Names the programs that may use the endpoints of native components.
    ///
    /// # Errors
    /// They were named before.
    pub fn add_trust(&mut self, programs: &[String]) -> Result<()> {
        if programs.is_empty() { Ok(()) } else { self.add("config/endpoints", strings(programs)) }
    }

    fn add_file(&mut self, path: &str, file: &Path) -> Result<()> {
        let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        self.add(path, bytes)
    }

    /// Whether the image contains a file with this path.
    pub fn has(&self, path: &str) -> bool {
        self.writer.files().any(|(name, _)| name == path)
    }

    /// Names of the files in a folder of the image.
    pub fn names<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a str> {
        self.writer.files().filter_map(move |(name, _)| name.strip_prefix(folder)?.strip_prefix('/'))
    }

    /// Adds the configuration of `init`, and returns the image's bytes.
    ///
    /// # Errors
    /// The image is too large for its format.
    pub fn finish(mut self, mode: &Mode, variables: &[(String, String)]) -> Result<Vec<u8>> {
        let name = match mode {
            Mode::Run(..) => "run",
            Mode::Tour { shell: true } => "tour+shell",
            Mode::Tour { shell: false } => "tour",
            Mode::Shell => "shell",
            Mode::Test => "test",
        };
        self.add("config/mode", name)?;
        if let Mode::Run(program, args) = mode {
            self.add("config/run", strings([program].into_iter().chain(args)))?;
        }
        let pairs: Vec<String> = variables.iter().map(|(key, value)| format!("{key}={value}")).collect();
        self.add("config/env", strings(&pairs))?;
        Ok(self.writer.to_bytes()?)
    }
}

/// Strings, each terminated by a NUL.
fn strings<'a>(all: impl IntoIterator<Item = &'a String>) -> Vec<u8> {
    all.into_iter().flat_map(|text| text.bytes().chain([0])).collect()
}
