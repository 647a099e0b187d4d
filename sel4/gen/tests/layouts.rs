//! Both layouts, read as a whole: 5.0.0 from the package that the kernel is built from, 16 from the made-up prefix.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use sel4_gen::{Config, Error, Family, Kernel, Location, emit, headers};

fn project() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The unpatched tree of 5.0.0: our patches change no interface.
fn tree() -> &'static Path {
    static TREE: OnceLock<PathBuf> = OnceLock::new();
    TREE.get_or_init(|| {
        let manifest = project().join("kernel/Cargo.toml");
        let mut cargo = Command::new(env!("CARGO"));
        let out =
            cargo.args(["metadata", "--locked", "--format-version", "1", "--manifest-path"]).arg(manifest).output();
        let text = String::from_utf8(out.expect("cargo runs").stdout).expect("JSON is UTF-8");
        let end = text.find("sel4-sys-0.0.28/Cargo.toml").expect("the package is named") + "sel4-sys-0.0.28".len();
        let start = text[..end].rfind('"').expect("a string starts") + 1;
        Path::new(&text[start..end]).join("seL4")
    })
}

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("scratch space");
    folder
}

const V5_CONFIG: &str = "#define CONFIG_ARCH_X86_64 1\n#define CONFIG_SYSCALL 1\n#define CONFIG_MAX_NUM_NODES 1\n\
    #define CONFIG_MAX_NUM_BOOTINFO_UNTYPED_CAPS 230\n#define CONFIG_ROOT_CNODE_SIZE_BITS 16\n\
    #define CONFIG_RETYPE_FAN_OUT_LIMIT 256\n#define CONFIG_NUM_PRIORITIES 256\n";

fn v5(name: &str, more: &str) -> Result<Kernel, Error> {
    let autoconf = scratch(name).join("autoconf.h");
    fs::write(&autoconf, format!("{V5_CONFIG}{more}")).expect("writable");
    Kernel::load(&Location::Source { tree: tree().into(), autoconf })
}

fn fixture() -> PathBuf {
    project().join("sel4/fixtures/prefix-16")
}

/// A copy of the prefix with one of its files changed.
fn changed(name: &str, file: &str, change: impl Fn(String) -> String) -> PathBuf {
    let to = scratch(name);
    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).expect("writable");
        for entry in fs::read_dir(from).expect("readable").map(|entry| entry.expect("readable")) {
            let target = to.join(entry.file_name());
            if entry.path().is_dir() {
                copy(&entry.path(), &target);
            } else {
                fs::copy(entry.path(), target).expect("writable");
            }
        }
    }
    copy(&fixture(), &to);
    let file = to.join("libsel4/include").join(file);
    let text = fs::read_to_string(&file).expect("readable");
    fs::write(&file, change(text)).expect("writable");
    to
}

fn label(kernel: &Kernel, id: &str) -> usize {
    kernel.label(id).unwrap_or_else(|| panic!("{id} does not exist"))
}

#[test]
fn labels_of_5_0_0() {
    let kernel = v5("v5-labels", "").unwrap();
    assert_eq!(kernel.family, Family::V5);
    for (id, number) in [
        ("UntypedRetype", 1),
        ("TCBSetSpace", 9),
        ("CNodeCopy", 17),
        ("DomainSetSet", 27),
        ("X86PDPTMap", 28),
        ("X86PageMap", 37),
        ("X86ASIDPoolAssign", 43),
        ("X86IOPortIn8", 44),
    ] {
        assert_eq!(label(&kernel, id), number, "{id}");
    }
    assert_eq!(kernel.methods.len(), 51);
}

#[test]
fn labels_of_5_0_0_shift_with_the_configuration() {
    let kernel = v5("v5-smp", "#define CONFIG_MAX_NUM_NODES 2\n").unwrap();
    assert_eq!(label(&kernel, "TCBSetAffinity"), 14);
    assert_eq!(label(&kernel, "X86PageMap"), 38);
    let kernel = v5("v5-debug", "#define CONFIG_HARDWARE_DEBUG_API 1\n").unwrap();
    assert_eq!(label(&kernel, "CNodeCopy"), 21);
}

#[test]
fn labels_of_16() {
    let kernel = Kernel::load(&Location::Prefix(fixture())).unwrap();
    assert_eq!(kernel.family, Family::V16);
    for (id, number) in [
        ("TCBSetSpace", 10),
        ("CNodeCopy", 20),
        ("X86PDPTMap", 33),
        ("X86PageMap", 41),
        ("X86ASIDPoolAssign", 46),
        ("X86IOPortIn8", 48),
    ] {
        assert_eq!(label(&kernel, id), number, "{id}");
    }
    assert_eq!(kernel.methods.len(), 55);
    assert_eq!(kernel.label("X86PageRemap"), None);
}

#[test]
fn system_calls() {
    let debug = "#define CONFIG_DEBUG_BUILD 1\n";
    for kernel in [v5("v5-calls", debug).unwrap(), Kernel::load(&Location::Prefix(fixture())).unwrap()] {
        for (name, number) in [("Call", -1), ("ReplyRecv", -2), ("Recv", -5), ("NBRecv", -8), ("DebugPutChar", -9)] {
            assert_eq!(kernel.syscall(name), Some(number), "{name}");
        }
    }
    let kernel = v5("v5-release", "").unwrap();
    assert_eq!(kernel.syscall("DebugPutChar"), None);
    let kernel = Kernel::load(&Location::Prefix(fixture())).unwrap();
    assert_eq!(kernel.syscall("DebugHalt"), Some(-11));
    assert_eq!(kernel.syscall("NBSendRecv"), None);
}

#[test]
fn parameters_are_packed_as_the_kernel_unpacks_them() {
    let code = emit(&v5("v5-emit", "").unwrap()).unwrap();
    // A boolean and a byte share the first word; the register set follows the count.
    assert!(code.contains("call.word::<0>(resume_target.into() & 0x1 | (arch_flags.into() & 0xff) << 8);"), "{code}");
    assert!(code.contains("call.word::<2>(regs[0]);") && code.contains("call.word::<20>(regs[18]);"));
    assert!(code.contains("Invocation::new(service.cptr(), label::TCBWRITE_REGISTERS, 21, 0)"));
    // Capabilities are passed beside the numbers, in their order.
    assert!(
        code.contains("call.cap::<0>(cspace_root.into());") && code.contains("call.cap::<2>(buffer_frame.into());")
    );
    assert!(code.contains("pub(crate) const USER_CONTEXT_WORDS: usize = 19;"));
    let code = emit(&Kernel::load(&Location::Prefix(fixture())).unwrap()).unwrap();
    assert!(code.contains("pub(crate) const USER_CONTEXT_WORDS: usize = 20;"));
}

#[test]
fn headers_of_5_0_0_number_like_the_binding() {
    let all = headers::headers(tree()).unwrap();
    let text = |name: &str| &all.iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("{name}")).1;
    assert!(text("api/invocation.h").contains("InvalidInvocation = 0,\n    UntypedRetype,\n"));
    assert!(text("api/invocation.h").contains("#if CONFIG_MAX_NUM_NODES > 1\n    TCBSetAffinity,\n#endif\n"));
    assert!(text("arch/api/syscall.h").contains("#define SYSCALL_REPLY_RECV (-2)\n"));
    assert!(text("arch/api/syscall.h").contains("SysNBRecv = -8,\n"));
    assert!(text("arch/api/syscall.h").contains("#if defined CONFIG_DEBUG_BUILD\n    SysDebugPutChar = -9,\n#endif\n"));
}

#[test]
fn unsuitable_kernels_say_what_to_do() {
    let config = "kernel/gen_config.h";
    let error = |prefix: PathBuf| Kernel::load(&Location::Prefix(prefix)).unwrap_err().to_string();
    let mcs = changed("mcs", config, |text| text + "#define CONFIG_KERNEL_MCS 1\n");
    assert!(error(mcs).contains("-DKernelIsMCS=OFF"));
    let arm = changed("arm", config, |text| text.replace("ARCH_X86_64 1", "ARCH_AARCH64 1"));
    assert!(error(arm).contains("not built for x86_64"));
    let sysenter = changed("sysenter", config, |text| text.replace("CONFIG_SYSCALL 1", "CONFIG_SYSENTER 1"));
    assert!(error(sysenter).contains("-DKernelX86Syscall=syscall"));
    for (name, line, part) in [
        ("pcid", "SUPPORT_PCID 1", "-DKernelSupportPCID=OFF"),
        ("xsavec", "XSAVE_XSAVEC 1", "-DKernelXSave=XSAVEOPT"),
        ("xsaves", "XSAVE_XSAVES 1", "-DKernelXSave=XSAVEOPT"),
        ("features", "XSAVE_FEATURE_SET 231", "-DKernelXSaveFeatureSet=7"),
        ("x2apic", "X2APIC 1", "-DKernelLAPICMode=XAPIC"),
        ("pic", "IRQ_PIC 1", "-DKernelIRQController=IOAPIC"),
        ("injection", "DANGEROUS_CODE_INJECTION 1", "-DKernelDangerousCodeInjection=OFF"),
        ("msr", "KERNEL_X86_DANGEROUS_MSR 1", "-DKernelX86DangerousMSR=OFF"),
        ("priorities", "NUM_PRIORITIES 64", "-DKernelNumPriorities=256"),
        ("vtx", "VTX 1", "-DKernelVTX=OFF"),
        ("untypeds", "MAX_NUM_BOOTINFO_UNTYPED_CAPS 50", "-DKernelMaxNumBootinfoUntypedCaps=230"),
        ("slots", "ROOT_CNODE_SIZE_BITS 11", "-DKernelRootCNodeSizeBits=12"),
        ("retype", "RETYPE_FAN_OUT_LIMIT 64", "-DKernelRetypeFanOutLimit=256"),
    ] {
        let prefix = changed(name, config, |text| format!("{text}#define CONFIG_{line}\n"));
        assert!(error(prefix).contains(part), "{name}");
    }
    let old = changed("old", config, |text| text);
    fs::write(old.join("libsel4/include/interfaces/sel4.xml"), "").expect("writable");
    assert!(error(old).contains("older than seL4 13"));
    let odd = changed("odd", "interfaces/object-api.xml", |text| text.replace("seL4_Bool", "seL4_Odd"));
    let kernel = Kernel::load(&Location::Prefix(odd)).unwrap();
    assert!(emit(&kernel).unwrap_err().to_string().contains("seL4_Odd"));
    let empty = scratch("empty");
    assert!(error(empty).contains("cmake --install"));
    let partial = changed("partial", "api/syscall.xml", |_| "<syscalls/>".into());
    assert!(error(partial).contains("syscall.xml"));
    let missing = changed("missing", config, |text| text);
    fs::remove_file(missing.join("libsel4/include/interfaces/object-api-arch.xml")).expect("removable");
    assert!(error(missing).contains("object-api-arch.xml"));
}

#[test]
fn a_configuration_is_read_from_either_header() {
    let config = Config::from_file(&fixture().join("libsel4/include/kernel/gen_config.h")).unwrap();
    assert_eq!(config.number("XSAVE_SIZE"), Some(576));
    assert!(!config.is_set("KERNEL_MCS"));
}
