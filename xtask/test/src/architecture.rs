//! `check.architecture`: what belongs to a processor stands in folders named `arch`.
//!
//! The check looks for the names of registers, of instructions and of instruction-set extensions in code: Rust, C and
//! assembly. Comments do not count, and neither do tests. It cannot see a number that means something only on one
//! processor. [`ALLOWED`] lists the other places with the reason for each; an entry that nothing needs is a fault, too.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use super::Context;
use xtask_build::cargo;

/// The folders that hold what belongs to a processor: `arch/x86_64` and its like, anywhere in the tree.
const FOLDER: &str = "arch";

/// Words of the 64-bit x86 processors, in lower case. A word in code is the longest run of letters, digits and
/// underscores. `r8` to `r15` with their parts, the vector registers and the control registers are in [`is_word`].
const WORDS: [&str; 63] = [
    // General registers, instruction pointer, flags.
    "rax",
    "rbx",
    "rcx",
    "rdx",
    "rsi",
    "rdi",
    "rbp",
    "rsp",
    "rip",
    "eax",
    "ebx",
    "ecx",
    "edx",
    "esi",
    "edi",
    "ebp",
    "esp",
    "eip",
    "rflags",
    "eflags",
    "fs_base",
    "gs_base",
    "fsbase",
    "gsbase",
    // Floating point and vectors.
    "x87",
    "fcw",
    "fsw",
    "mxcsr",
    "mxcsr_mask",
    "ldmxcsr",
    "stmxcsr",
    "fxsave",
    "fxsave64",
    "fxrstor",
    "fxrstor64",
    "xsave",
    "xsave64",
    "xrstor",
    "xrstor64",
    "xgetbv",
    // Instructions.
    "cpuid",
    "__cpuid",
    "__cpuid_count",
    "rdtsc",
    "_rdtsc",
    "rdtscp",
    "rdmsr",
    "wrmsr",
    "msr",
    "rdrand",
    "rdseed",
    "rdfsbase",
    "wrfsbase",
    "rdgsbase",
    "wrgsbase",
    "swapgs",
    "iretq",
    "sysret",
    "inb",
    "outb",
    "inl",
    "outl",
    "ioport",
];

/// Places outside those folders: the beginning of the path, and why.
const ALLOWED: [(&str, &str); 5] = [
    ("examples/virtual-processor/", "owns code of an x86 program, whose registers are its interface"),
    ("programs/guest/", "a kernel for x86 Linux programs, whose registers are its interface"),
    ("runtime/libc/probe/", "looks at a thread's registers for tests"),
    ("sel4/", "the binding to the kernel for x86, and a root task that attacks it"),
    ("xtask/", "options of compiler and QEMU, and what the checks look for"),
];

/// Files that are no code of this system: tests, whose cases try the processor itself.
pub fn is_test(path: &str) -> bool {
    path.starts_with("tests/") || path.split('/').any(|part| part == "tests" || part == "tests.rs")
}

/// Fails if code outside the folders names what belongs to a processor.
///
/// # Errors
/// There is such code, or a source cannot be read.
pub fn check(context: &Context<'_>) -> Result<()> {
    let wrong = tree(&context.paths.workspace, &ALLOWED)?;
    if wrong.is_empty() { Ok(()) } else { bail!("{}", wrong.join("\n")) }
}

/// Faults, one per line.
fn tree(workspace: &Path, allowed: &[(&str, &str)]) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    let mut used = vec![false; allowed.len()];
    for path in cargo::sources(workspace)? {
        let short = path.strip_prefix(workspace).unwrap_or(&path).to_string_lossy().into_owned();
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        if !["rs", "s", "S", "c", "h"].contains(&extension) || is_test(&short) {
            continue;
        }
        if short.split('/').any(|part| part == FOLDER) {
            continue;
        }
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let found = words(&text, extension == "rs");
        if let (false, Some(entry)) = (found.is_empty(), allowed.iter().position(|(place, _)| short.starts_with(place)))
        {
            used[entry] = true;
            continue;
        }
        for (line, word) in found {
            wrong.push(format!("{short}:{line}: `{word}` belongs in a folder `{FOLDER}/<architecture>`"));
        }
    }
    for ((place, _), _) in allowed.iter().zip(used).filter(|(_, used)| !used) {
        wrong.push(format!("{place}: nothing there needs its exception any more; take it out"));
    }
    Ok(wrong)
}

/// The words in a file, each with its line: the first of each line.
fn words(text: &str, rust: bool) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, code) in code_lines(text, rust) {
        let mut all = code.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        if let Some(word) = all.find(|word| is_word(&word.to_ascii_lowercase())) {
            found.push((line, word.to_owned()));
        }
    }
    found
}

/// The lines of a file without comments, each with its number, and without the test modules of Rust.
pub fn code_lines(text: &str, rust: bool) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    // The indentation of a test module that is being skipped, and whether the next line may begin one.
    let (mut skipped, mut marked) = (None, false);
    let mut in_comment = false;
    for (index, line) in text.lines().enumerate() {
        let indentation = line.len() - line.trim_start().len();
        if let Some(outer) = skipped {
            if indentation == outer && line.trim_end().ends_with('}') {
                skipped = None;
            }
            continue;
        }
        let code = without_comment(line, &mut in_comment);
        if rust {
            if marked && code.trim_end().ends_with('{') {
                (skipped, marked) = (Some(indentation), false);
                continue;
            }
            marked = code.trim() == "#[cfg(test)]" || marked && code.trim().starts_with("#[");
        }
        lines.push((index + 1, code));
    }
    lines
}

/// A line without its comments. `inside` says whether it begins in a block comment.
fn without_comment(line: &str, inside: &mut bool) -> String {
    let mut code = String::new();
    let mut rest = line;
    loop {
        if *inside {
            let Some((_, after)) = rest.split_once("*/") else { return code };
            (rest, *inside) = (after, false);
        }
        match (rest.find("//"), rest.find("/*")) {
            (Some(to_end), block) if block.is_none_or(|block| to_end < block) => return code + &rest[..to_end],
            (_, Some(block)) => {
                code.push_str(&rest[..block]);
                (rest, *inside) = (&rest[block + 2..], true);
            }
            _ => return code + rest,
        }
    }
}

/// Whether a word in lower case belongs to a processor.
fn is_word(word: &str) -> bool {
    let number = |prefix: &str, most: u32| {
        let rest = word.strip_prefix(prefix).unwrap_or_default();
        rest.parse::<u32>().is_ok_and(|number| number <= most && rest == number.to_string())
    };
    let general = |word: &str| {
        let number = word.strip_prefix('r').and_then(|rest| rest.trim_end_matches(['d', 'w', 'b']).parse().ok());
        number.is_some_and(|number: u32| (8..16).contains(&number)) && word.len() <= 4
    };
    WORDS.contains(&word)
        || general(word)
        || ["xmm", "ymm", "zmm"].iter().any(|prefix| number(prefix, 31))
        || ["cr", "dr"].iter().any(|prefix| number(prefix, 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(path: &str, text: &str, allowed: &[(&str, &str)]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
        tree(folder.path(), allowed).unwrap()
    }

    #[test]
    fn a_planted_word_is_found_with_its_line() {
        for (path, text, told) in [
            ("objects/src/x.rs", "fn f() {\n    registers.rip = 0;\n}\n", "objects/src/x.rs:2: `rip`"),
            ("server/src/x.rs", "fn f() { asm!(\"mov r15, {}\", in(reg) 1) }\n", "server/src/x.rs:1: `r15`"),
            ("server/src/x.rs", "const XSAVE: u64 = 1;\n", "server/src/x.rs:1: `XSAVE`"),
            ("runtime/x/src/x.s", "    /* a\n rax */ nop\n    mov %eax, %ecx\n", "runtime/x/src/x.s:3: `eax`"),
            ("abi/src/x.rs", "struct S {\n    cr3: u64, // a\n    dr7: u64,\n}\n", "abi/src/x.rs:2: `cr3`"),
            ("runtime/x/c.c", "__asm__(\"rdtsc\");\n", "runtime/x/c.c:1: `rdtsc`"),
            ("objects/src/x.rs", "fn f() { g(\"xmm15\", r8d) }\n", "objects/src/x.rs:1: `xmm15`"),
        ] {
            let found = faults(path, text, &[]);
            assert!(found.first().is_some_and(|fault| fault.starts_with(told)), "{path}: {found:?}");
        }
    }

    #[test]
    fn others_are_left_alone() {
        for (path, text) in [
            ("objects/src/arch/x86_64/x.rs", "fn f() { registers.rip = 0; }\n"),
            ("objects/src/x.rs", "/// The register `rax`.\nfn f() {} // rbx\n"),
            ("objects/src/x.rs", "fn f() {}\n\n#[cfg(test)]\nmod tests {\n    fn g() { r.rip = 0; }\n}\n"),
            ("tests/conformance/src/x.rs", "fn f() { registers.rip = 0; }\n"),
            ("server/tests/x.rs", "fn f() { registers.rip = 0; }\n"),
            ("docs/x.md", "rax\n"),
            ("objects/src/x.rs", "fn script() { ripe(r16, r7, cr9, xmm32, dr, brax, r8_of) }\n"),
        ] {
            assert!(faults(path, text, &[]).is_empty(), "{path}: {text}");
        }
    }

    #[test]
    fn code_after_a_test_module_counts() {
        let text = "#[cfg(test)]\nmod tests {\n    fn g() {}\n}\n\nfn f() { rax() }\n";
        assert_eq!(faults("objects/src/x.rs", text, &[]).len(), 1);
    }

    #[test]
    fn an_exception_holds_for_its_place_and_only_as_long_as_it_is_needed() {
        let allowed = [("root/", "the root task")];
        assert!(faults("root/src/x.rs", "fn f() { rax() }\n", &allowed).is_empty());
        assert_eq!(faults("server/src/x.rs", "fn f() { rax() }\n", &allowed).len(), 2);
        assert_eq!(faults("root/src/x.rs", "fn f() {}\n", &allowed).len(), 1);
    }
}
