//! A kernel as the binding needs it: its configuration, and its numbered methods and system calls.

use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::error::Error;
use crate::interfaces::{Interfaces, Method, Struct, Syscalls};

/// The two families of kernels. The binding contains by hand, once per family, what only the kernel's C headers define.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// 5.0.0, from its source tree.
    V5,
    /// 13 to 16 without MCS, from an installed prefix.
    V16,
}

/// The location of a kernel's definitions.
#[derive(Debug, Clone)]
#[allow(missing_docs)] // the names of the fields say it
pub enum Location {
    /// A source tree of 5.0.0, and the `autoconf.h` that it was built with.
    Source { tree: PathBuf, autoconf: PathBuf },
    /// The prefix to which `cmake --install` installed a kernel from 13 on.
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
    /// The structures that methods use.
    pub structs: Vec<Struct>,
    /// The system calls that exist, with their numbers.
    pub syscalls: Vec<(String, i64)>,
    /// The files that were read.
    pub files: Vec<PathBuf>,
}

/// The three interface files of a 5.0.0 tree, in the order of their labels.
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
                if include.join("interfaces/sel4.xml").exists() {
                    return Err(Error::Unsuitable {
                        path: prefix.clone(),
                        why: "it is older than seL4 13: SEL4_PREFIX takes 13 to 16".into(),
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

/// A setting that does not fit: how to detect it, and what to change.
type Wrong = (fn(&Config) -> bool, &'static str);

/// Whether a number is defined and below a limit.
fn below(config: &Config, name: &str, least: i64) -> bool {
    config.number(name).is_some_and(|number| number < least)
}

const WRONG: &[Wrong] = &[
    (|c| !c.is_set("ARCH_X86_64"), "it is not built for x86_64 (-DKernelSel4Arch=x86_64)"),
    (|c| c.is_set("KERNEL_MCS"), "it is an MCS kernel, which is not supported yet; build it with -DKernelIsMCS=OFF"),
    (|c| !c.is_set("SYSCALL"), "it is entered by `sysenter`; build it with -DKernelX86Syscall=syscall"),
    (
        |c| c.is_set("SUPPORT_PCID"),
        "it wants a processor with PCIDs, which QEMU's has not; build it with -DKernelSupportPCID=OFF",
    ),
    (
        |c| c.is_set("XSAVE_XSAVEC") || c.is_set("XSAVE_XSAVES"),
        "it wants a processor with XSAVEC or XSAVES, which QEMU's has not; build it with -DKernelXSave=XSAVEOPT",
    ),
    (
        |c| c.number("XSAVE_FEATURE_SET").is_some_and(|features| features & !7 != 0),
        "it saves registers beyond those of x87, SSE and AVX, which QEMU's processor has not; build it with \
         -DKernelXSaveFeatureSet=7 -DKernelXSaveSize=832",
    ),
    (
        |c| c.is_set("X2APIC"),
        "it wants a processor with an x2APIC, which QEMU's has not; build it with -DKernelLAPICMode=XAPIC",
    ),
    (
        |c| c.is_set("IRQ_PIC"),
        "it takes interrupts from the old controller; build it with -DKernelIRQController=IOAPIC",
    ),
    (
        |c| c.is_set("DANGEROUS_CODE_INJECTION"),
        "any program may have it run code of its own; build it with -DKernelDangerousCodeInjection=OFF",
    ),
    (
        |c| c.is_set("KERNEL_X86_DANGEROUS_MSR"),
        "any program may write the processor's registers by it; build it with -DKernelX86DangerousMSR=OFF",
    ),
    (|c| below(c, "NUM_PRIORITIES", 256), "it has too few priorities; build it with -DKernelNumPriorities=256"),
    (|c| c.is_set("VTX"), "it wants a processor with VT-x, which QEMU's has not; build it with -DKernelVTX=OFF"),
    (
        |c| below(c, "ROOT_CNODE_SIZE_BITS", 12),
        "it has too few slots to start the root task; build it with -DKernelRootCNodeSizeBits=12",
    ),
    (
        |c| below(c, "MAX_NUM_BOOTINFO_UNTYPED_CAPS", 230),
        "it names too few pieces of memory, those of devices first; build it with -DKernelMaxNumBootinfoUntypedCaps=230",
    ),
    (
        |c| below(c, "RETYPE_FAN_OUT_LIMIT", 256),
        "it makes too few objects at once; build it with -DKernelRetypeFanOutLimit=256",
    ),
];

fn check(root: &Path, config: &Config) -> Result<(), Error> {
    let unsuitable = |why: &str| Err(Error::Unsuitable { path: root.into(), why: why.into() });
    if let Some((_, why)) = WRONG.iter().find(|(has, _)| has(config)) {
        return unsuitable(why);
    }
    for needed in ["MAX_NUM_BOOTINFO_UNTYPED_CAPS", "ROOT_CNODE_SIZE_BITS", "RETYPE_FAN_OUT_LIMIT", "NUM_PRIORITIES"] {
        if config.number(needed).is_none() {
            return unsuitable(&format!("its configuration does not say CONFIG_{needed}"));
        }
    }
    Ok(())
}
