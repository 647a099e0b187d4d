//! `check.kernel-entry`: for programs, only the vDSO enters the kernel or knows its messages.
//!
//! Three checks: which packages depend on the kernel's binding; what the sources contain; and which instructions the
//! built programs contain. A check of sources does not find a message label that is written as a plain number, and a
//! check of a program does not find code that the program generates at run time. Code that enters the kernel on purpose
//! is listed in [`EXCEPTIONS`].

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use proc_macro2::{TokenStream, TokenTree};

use super::Context;
use xtask_build::cargo;

/// Directories whose code may enter the kernel, and why.
const ROOMS: [(&str, &str); 5] = [
    ("sel4/", "the binding, and the root task that attacks the kernel"),
    ("server/src/machine/", "the server's machine"),
    ("root/", "the root task"),
    ("runtime/vdso/", "the vDSO, for all programs"),
    ("component/", "the start code of native components, which have no vDSO"),
];

/// Packages that may depend on the kernel's binding. In the server, only the machine uses it.
const PACKAGES: [&str; 7] = [
    "component/Cargo.toml",
    "component/victim/Cargo.toml",
    "root/Cargo.toml",
    "sel4/attack/Cargo.toml",
    "server/Cargo.toml",
    // The host tool uses the binding's generator to read the kernel's interface files.
    "xtask/build/Cargo.toml",
    "xtask/conformance/Cargo.toml",
];
/// The binding, and its generator.
const BINDING: [&str; 2] = ["sel4", "sel4-gen"];

/// What a source can contain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Found {
    /// An instruction that enters the kernel, in assembly.
    Instruction,
    /// The same as bytes of machine code.
    Bytes,
    /// A use of the kernel's binding, which has all labels and numbers.
    Binding,
    /// An access to the IPC buffer, at which GS points.
    Buffer,
}

/// Exceptions elsewhere: the beginning of the path, what the file contains, and why.
const EXCEPTIONS: [(&str, Found, &str); 15] = [
    ("examples/virtual-processor/", Found::Bytes, "code in a sub-domain, whose `syscall` stops it"),
    (
        "objects/src/arch/x86_64/call_stack_pointer.rs",
        Found::Bytes,
        "recognizes the instruction at which a thread waits; runs nothing",
    ),
    (
        "runtime/libc/src/arch/x86_64/wait.rs",
        Found::Bytes,
        "recognizes the instruction at which a thread waits; runs nothing",
    ),
    ("guests/linux/tests/hostile.c", Found::Bytes, "a Linux program, whose calls go to Linux"),
    ("guests/linux/tests/vectors.c", Found::Instruction, "a Linux program, whose calls go to Linux"),
    ("programs/guest/programs/", Found::Instruction, "Linux programs, whose calls go to the guest kernel"),
    ("programs/guest/src/fuchsia/vector.rs", Found::Bytes, "code in a sub-domain, whose `syscall` stops it"),
    ("tests/bench/src/", Found::Bytes, "code in sub-domains, and processes that have no vDSO"),
    ("tests/conformance/src/cases/", Found::Bytes, "code in sub-domains and restricted mode, and cases of odd entries"),
    ("tests/conformance/src/refused.rs", Found::Bytes, "instructions that are refused, `sysenter` among them"),
    ("tests/conformance/src/test_process.rs", Found::Bytes, "processes of a few instructions, which have no vDSO"),
    ("tests/hostile/src/bin/fuzz/", Found::Bytes, "an attacker: code in restricted mode"),
    ("tests/hostile/src/bin/tamper/", Found::Bytes, "attackers that enter the kernel by hand"),
    ("tests/hostile/src/hand.rs", Found::Bytes, "attackers that enter the kernel by hand"),
    ("tests/vproc/src/fuchsia/model.rs", Found::Bytes, "code in sub-domains, whose `syscall` stops it"),
];

/// Instructions that enter the kernel.
const INSTRUCTIONS: [&str; 3] = ["syscall", "sysenter", "int"];
/// The first two as bytes.
const BYTES: [(&str, [&str; 2]); 2] = [("\\x0f\\x05", ["0x0f", "0x05"]), ("\\x0f\\x34", ["0x0f", "0x34"])];
/// Macros whose strings are instructions.
const ASSEMBLY: [&str; 3] = ["asm", "global_asm", "naked_asm"];

/// Fails if any other code enters the kernel.
///
/// # Errors
/// Other code enters the kernel, or something cannot be read or built.
pub fn check(context: &Context<'_>) -> Result<()> {
    let mut wrong = tree(&context.paths.workspace)?;
    let vdso = context.paths.sysroot_lib().join("libzircon.so");
    let (shell, tests) = (context.built_with_shell()?, context.built_with_tests()?);
    let all = [shell, tests].into_iter().flat_map(|built| [&built.libraries, &built.programs, &built.test_programs]);
    let mut programs: BTreeSet<_> = all.flatten().map(|(_, file)| file.clone()).collect();
    programs.insert(context.paths.out.join("userboot/userboot"));
    programs.remove(&vdso);
    for program in programs {
        let entries = entries(&program)?;
        if let Some(first) = entries.first() {
            let file = context.paths.short(&program).display();
            wrong.push(format!("{file}: {} instructions that enter the kernel: {first}", entries.len()));
        }
    }
    if entries(&vdso)?.is_empty() {
        wrong.push("the vDSO has no such instruction, so nothing would be found elsewhere either".into());
    }
    if wrong.is_empty() { Ok(()) } else { bail!("{}", wrong.join("\n")) }
}

/// Faults in manifests and sources, one per line.
fn tree(workspace: &Path) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    let mut used = [false; EXCEPTIONS.len()];
    for path in cargo::sources(workspace)? {
        let short = path.strip_prefix(workspace).unwrap_or(&path).to_string_lossy().into_owned();
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let manifest = short.ends_with("Cargo.toml");
        if !manifest && !["rs", "s", "S", "c", "h"].contains(&extension) {
            continue;
        }
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        if manifest {
            let binding = depends(&text).with_context(|| format!("in {short}"))?;
            if let Some(name) = binding.filter(|_| !PACKAGES.contains(&short.as_str()) && !short.starts_with("sel4/")) {
                wrong.push(format!("{short}: depends on {name}"));
            }
            continue;
        }
        if ROOMS.iter().any(|(room, _)| short.starts_with(room)) {
            continue;
        }
        let found = match extension {
            "rs" => rust(&text).with_context(|| format!("in {short}"))?,
            "c" | "h" => c(&text),
            _ => assembly(&text),
        };
        for found in found {
            match EXCEPTIONS.iter().position(|(prefix, what, _)| short.starts_with(prefix) && *what == found) {
                Some(exception) => used[exception] = true,
                None => wrong.push(format!("{short}: {}", found.told())),
            }
        }
    }
    for ((prefix, what, _), _) in EXCEPTIONS.iter().zip(used).filter(|(_, used)| !used) {
        wrong.push(format!("{prefix}: nothing there has what its exception allows ({}); take it out", what.told()));
    }
    Ok(wrong)
}

impl Found {
    fn told(self) -> &'static str {
        match self {
            Found::Instruction => "an instruction that enters the kernel; programs call the vDSO (docs/native.md)",
            Found::Bytes => "machine code that enters the kernel; programs call the vDSO (docs/native.md)",
            Found::Binding => "uses the kernel's binding",
            Found::Buffer => "accesses the IPC buffer, which is the vDSO's",
        }
    }
}

/// The part of the binding that a manifest's package depends on.
fn depends(manifest: &str) -> Result<Option<&'static str>> {
    fn within(table: &toml::Table) -> Option<&'static str> {
        table.iter().find_map(|(key, value)| {
            let inner = value.as_table()?;
            if !key.ends_with("dependencies") {
                return within(inner);
            }
            inner.iter().find_map(|(name, how)| {
                let package = how.get("package").and_then(toml::Value::as_str).unwrap_or(name);
                BINDING.into_iter().find(|binding| *binding == package)
            })
        })
    }
    Ok(within(&manifest.parse()?))
}

/// Scans Rust code.
fn rust(text: &str) -> Result<BTreeSet<Found>> {
    let tokens: TokenStream = text.parse().map_err(|error| anyhow::anyhow!("no Rust: {error}"))?;
    let mut look = TokenScan::default();
    look.at(tokens);
    if look.has_assembly {
        look.found.extend(look.strings.iter().flat_map(|string| assembly(&unescaped(string))));
    }
    Ok(look.found)
}

/// What a file contains.
#[derive(Default)]
struct TokenScan {
    has_assembly: bool,
    strings: Vec<String>,
    found: BTreeSet<Found>,
}

impl TokenScan {
    fn at(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for (index, token) in tokens.iter().enumerate() {
            let next = |n: usize| tokens.get(index + n).map(ToString::to_string).unwrap_or_default();
            match token {
                TokenTree::Group(group) => self.at(group.stream()),
                TokenTree::Ident(name) if ASSEMBLY.iter().any(|assembly| name == assembly) => {
                    self.has_assembly |= next(1) == "!";
                }
                TokenTree::Ident(name) if name == "sel4" => {
                    let before = index.checked_sub(1).map(|before| tokens[before].to_string()).unwrap_or_default();
                    if next(1) == ":" && next(2) == ":" || ["use", "crate"].contains(&before.as_str()) {
                        self.found.insert(Found::Binding);
                    }
                }
                TokenTree::Literal(literal) => {
                    let text = literal.to_string();
                    let pair = |first: &str, second: &str| text == first && next(1) == "," && next(2) == second;
                    if BYTES.iter().any(|(string, [first, second])| text.contains(string) || pair(first, second)) {
                        self.found.insert(Found::Bytes);
                    }
                    if let Some(string) = text.split_once('"').and_then(|(_, rest)| rest.rsplit_once('"')) {
                        self.strings.push(string.0.to_owned());
                    }
                }
                _ => {}
            }
        }
    }
}

/// Scans C code, whose assembly is in strings.
fn c(text: &str) -> BTreeSet<Found> {
    let mut found = BTreeSet::new();
    if BYTES
        .iter()
        .any(|(string, [first, second])| text.contains(string) || text.contains(&format!("{first}, {second}")))
    {
        found.insert(Found::Bytes);
    }
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut words = text.split(|c| !is_word(c));
    if words.any(|word| matches!(word, "asm" | "__asm" | "__asm__")) {
        let strings = text.lines().flat_map(|line| line.split('"').skip(1).step_by(2));
        found.extend(strings.flat_map(|string| assembly(&unescaped(string))));
    }
    found
}

/// The text of a string literal; resolves only the escapes that matter here.
fn unescaped(string: &str) -> String {
    string.replace("\\n", "\n").replace("\\t", "\t")
}

/// Scans assembly code.
fn assembly(text: &str) -> BTreeSet<Found> {
    let mut found = BTreeSet::new();
    for statement in text.split(['\n', ';']) {
        let statement = statement.split("//").next().unwrap_or_default();
        if statement.contains("gs:") {
            found.insert(Found::Buffer);
        }
        // Labels come first.
        let instruction = statement.rsplit(": ").next().unwrap_or_default();
        if instruction.split_whitespace().next().is_some_and(|name| INSTRUCTIONS.contains(&name)) {
            found.insert(Found::Instruction);
        }
    }
    found
}

/// The instructions of a program that enter the kernel, as objdump writes them. Compilers put only instructions into
/// code sections, so objdump stays in step.
fn entries(program: &Path) -> Result<Vec<String>> {
    let output = Command::new("objdump").args(["-d", "--no-show-raw-insn"]).arg(program).output();
    let output = output.context("cannot start objdump")?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || !text.lines().any(|line| line.contains(":\t")) {
        bail!("objdump finds no code in {}", program.display());
    }
    Ok(text.lines().filter(|line| enters(line)).map(|line| line.trim().to_owned()).collect())
}

/// Whether a line of objdump's is an instruction that enters the kernel.
fn enters(line: &str) -> bool {
    let instruction = line.split_once(":\t").and_then(|(_, instruction)| instruction.split_whitespace().next());
    instruction.is_some_and(|name| INSTRUCTIONS.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use xtask_common::files::write_if_changed;

    /// The check's result for a tree in which all exceptions are needed, plus this file.
    fn with(file: &str, text: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| write_if_changed(&folder.path().join(file), text.as_bytes()).unwrap();
        for (prefix, what, _) in EXCEPTIONS {
            let (name, text) = match what {
                Found::Instruction => ("x.h", "asm(\"syscall\");"),
                _ if prefix.starts_with("examples/") => ("x.c", "char code[] = { 0x0f, 0x05 };"),
                _ => ("x.rs", "const CODE: [u8; 2] = [0x0f, 0x05];"),
            };
            write(&if prefix.ends_with('/') { format!("{prefix}{name}") } else { prefix.to_owned() }, text);
        }
        write(file, text);
        tree(folder.path()).unwrap()
    }

    fn is_wrong(file: &str, text: &str) {
        let wrong = with(file, text);
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(wrong[0].starts_with(file), "{wrong:?}");
    }

    fn is_right(file: &str, text: &str) {
        assert_eq!(with(file, text), Vec::<String>::new());
    }

    #[test]
    fn whoever_else_enters_the_kernel_is_found() {
        let rust = "fn f() { unsafe { asm!(\"mov rbx, rsp\", \"syscall\", \"mov rsp, rbx\") } }";
        is_wrong("runtime/zx/src/endpoint.rs", rust);
        is_wrong("services/x/src/main.rs", "global_asm!(\"f: nop; 1: sysenter\\nret\");");
        is_wrong("runtime/libc/src/x.rs", "macro_rules! enter { () => { naked_asm!(\"int 0x80\") } }");
        is_wrong("runtime/libc/src/x.s", "f:\n    mov eax, 1\n    syscall // here\n");
        is_wrong(
            "runtime/libc/c/src/x.c",
            "void f(void) { __asm__ volatile(\"mov %0, %%rax\\n\\tsyscall\" :: \"r\"(1)); }",
        );
        is_wrong("tests/conformance/src/cases/y.rs", rust);
        is_wrong("services/x/src/code.rs", "const CODE: &[u8] = &[0x90, 0x0f, 0x05, 0xc3];");
        is_wrong("services/x/src/code.rs", "const CODE: &[u8] = b\"\\x0f\\x05\\xc3\";");
    }

    #[test]
    fn whoever_else_knows_its_messages_is_found() {
        is_wrong("server/src/lib.rs", "use sel4::MessageInfo;");
        is_wrong("server/src/lib.rs", "use sel4 as kernel;");
        is_wrong("server/src/fault.rs", "fn f() -> u64 { sel4::fault::LABEL }");
        is_wrong("services/x/Cargo.toml", "[dependencies]\nsel4 = { path = \"../../sel4\" }\n");
        is_wrong("services/x/Cargo.toml", "[dependencies]\nkernel = { package = \"sel4\", path = \"../../sel4\" }\n");
        is_wrong("services/x/Cargo.toml", "[target.'cfg(unix)'.build-dependencies]\nsel4-gen = \"1\"\n");
        is_wrong(
            "runtime/zx/src/x.rs",
            "fn f() { unsafe { asm!(\"mov gs:[{at}], {word}\", at = in(reg) 8, word = in(reg) 1) } }",
        );
    }

    #[test]
    fn others_are_left_alone() {
        is_right("server/src/machine/sys.rs", "use sel4::MessageInfo; fn f() { asm!(\"syscall\") }");
        is_right("runtime/vdso/src/macros.s", "    syscall\n");
        is_right("server/Cargo.toml", "[dependencies]\nsel4 = { path = \"../sel4\" }\n");
        is_right("runtime/zx/src/x.rs", "// asm!(\"syscall\")\nfn f() { asm!(\"int3\", \"ud2\") }");
        is_right("runtime/fxt/src/x.rs", "const CATEGORY: &str = \"syscall\";");
        is_right("runtime/libc/c/src/x.c", "#include \"syscall.h\"\nconst char* name = \"x syscall\";");
    }

    #[test]
    fn an_exception_that_nothing_needs_is_found() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(tree(folder.path()).unwrap().len(), EXCEPTIONS.len());
    }

    #[test]
    fn instructions_of_a_program_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let made = |instruction: &str| {
            let (source, object) = (folder.path().join("x.s"), folder.path().join("x.o"));
            fs::write(&source, format!("movl $0xcd050f, %eax\n{instruction}\nret\n")).unwrap();
            let status = Command::new("as").arg("-o").args([&object, &source]).status().unwrap();
            assert!(status.success());
            entries(&object).unwrap()
        };
        // The bytes in the first instruction are no instruction.
        assert!(made("int3").is_empty());
        for instruction in ["syscall", "sysenter", "int $0x80"] {
            assert_eq!(made(instruction).len(), 1, "{instruction}");
        }
    }
}
