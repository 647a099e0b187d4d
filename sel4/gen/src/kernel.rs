//! A kernel as the binding needs to know it: its configuration, and what exists in it, numbered.

use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::error::Error;
use crate::interfaces::{Interfaces, Method, Struct, Syscalls};

/// Which of the two families a kernel belongs to. What C headers alone say is written by hand in the binding, once a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// 5.0.0, from its source tree.
    V5,
    /// 13 to 16 without MCS, from an installed prefix.
    V16,
}

/// Where a kernel's definitions lie.
#[derive(Debug, Clone)]
#[allow(missing_docs)] // the names of the fields say it
pub enum Location {
    /// A source tree of 5.0.0, and the `autoconf.h` that it was built with.
    Source { tree: PathBuf, autoconf: PathBuf },
    /// The prefix that a kernel from 13 on was installed to by `cmake --install`.
    Prefix(PathBuf),
}

/// A kernel's definitions.
#[derive(Debug, Clone)]
pub struct Kernel {
    /// Its family.
    pub family: Family,
    /// Its configuration.
    pub config: Config,
    /// The methods that exist, in the order of their labels. The first one has label 1.
    pub methods: Vec<Method>,
    /// The structures that methods pass.
    pub structs: Vec<Struct>,
    /// The system calls that exist, with their numbers.
    pub syscalls: Vec<(String, i64)>,
    /// The files that all this was read from.
    pub files: Vec<PathBuf>,
}

/// The three interface files of a 5.0.0 tree, in the order in which their labels count on.
pub fn source_interfaces(tree: &Path) -> [PathBuf; 3] {
    let libsel4 = tree.join("libsel4");
    [
        libsel4.join("include/interfaces/sel4.xml"),
        libsel4.join("sel4_arch_include/x86_64/interfaces/sel4arch.xml"),
        libsel4.join("arch_include/x86/interfaces/sel4arch.xml"),
    ]
}

/// The file of system calls of a 5.0.0 tree.
pub fn source_syscalls(tree: &Path) -> PathBuf {
    tree.join("include/api/syscall.xml")
}

impl Kernel {
    /// Reads a kernel's definitions and checks that Hafnon can run on it.
    pub fn load(location: &Location) -> Result<Self, Error> {
        let (root, family, configs, interfaces, syscalls) = match location {
            Location::Source { tree, autoconf } => {
                (autoconf, Family::V5, vec![autoconf.clone()], source_interfaces(tree), source_syscalls(tree))
            }
            Location::Prefix(prefix) => {
                let include = prefix.join("libsel4/include");
                if !include.is_dir() {
                    return Err(Error::Unsuitable {
                        path: prefix.clone(),
                        why: "it has no libsel4/include; SEL4_PREFIX must name the directory that `cmake --install` filled \
                              (seL4 13 or later)"
                            .into(),
                    });
                }
                let interfaces =
                    ["", "-sel4-arch", "-arch"].map(|part| include.join(format!("interfaces/object-api{part}.xml")));
                let configs = vec![include.join("kernel/gen_config.h"), include.join("sel4/gen_config.h")];
                (prefix, Family::V16, configs, interfaces, include.join("api/syscall.xml"))
            }
        };

        let mut config = Config::default();
        for file in &configs {
            config.extend(Config::from_file(file)?);
        }
        check(root, &config)?;

        let (mut methods, mut structs) = (Vec::new(), Vec::new());
        for file in &interfaces {
            let read = Interfaces::from_file(file)?;
            methods.extend(read.methods.into_iter().filter(|method| method.condition.holds(&config)));
            structs.extend(read.structs);
        }
        let calls = number(&Syscalls::from_file(&syscalls)?, &config);

        let mut files = configs;
        files.extend(interfaces);
        files.push(syscalls);
        Ok(Self { family, config, methods, structs, syscalls: calls, files })
    }

    /// The label of a method.
    pub fn label(&self, id: &str) -> Option<usize> {
        self.methods.iter().position(|method| method.id == id).map(|index| index + 1)
    }

    /// The number of a system call.
    pub fn syscall(&self, name: &str) -> Option<i64> {
        self.syscalls.iter().find(|(n, _)| n == name).map(|(_, number)| *number)
    }
}

/// Numbers the system calls that exist, from -1 downwards.
pub fn number(syscalls: &Syscalls, config: &Config) -> Vec<(String, i64)> {
    let groups = syscalls.api.iter().chain(&syscalls.debug);
    let names = groups.filter(|group| group.condition.holds(config)).flat_map(|group| group.names.iter().cloned());
    names.zip(1_i64..).map(|(name, n)| (name, -n)).collect()
}

fn check(root: &Path, config: &Config) -> Result<(), Error> {
    let unsuitable = |why: &str| Err(Error::Unsuitable { path: root.into(), why: why.into() });
    if !config.is_set("ARCH_X86_64") {
        return unsuitable("it is not built for x86_64 (-DKernelSel4Arch=x86_64)");
    }
    if config.is_set("KERNEL_MCS") {
        return unsuitable("it is an MCS kernel, which is not supported yet; build it with -DKernelIsMCS=OFF");
    }
    if !config.is_set("SYSCALL") {
        return unsuitable("it is entered by `sysenter`; build it with -DKernelX86Syscall=syscall");
    }
    for needed in ["MAX_NUM_BOOTINFO_UNTYPED_CAPS", "ROOT_CNODE_SIZE_BITS", "RETYPE_FAN_OUT_LIMIT", "NUM_PRIORITIES"] {
        if config.number(needed).is_none() {
            return unsuitable(&format!("its configuration does not say CONFIG_{needed}"));
        }
    }
    Ok(())
}
