//! Markdown pages: one for each call, an index, and a support table.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use crate::header;
use crate::model::{Arg, Dir, Support, Syscall, Via};

/// Writes the reference into a folder, which is created if necessary: `<call>.md` for each call, and `index.md`.
/// Returns the names of the files.
pub fn write(calls: &[Syscall], dir: &Path) -> io::Result<Vec<String>> {
    fs::create_dir_all(dir)?;
    let mut names = Vec::new();
    let mut put = |name: String, text: String| {
        fs::write(dir.join(&name), text)?;
        names.push(name);
        Ok::<(), io::Error>(())
    };
    put("index.md".into(), index(calls))?;
    for call in calls {
        put(format!("{}.md", call.name), page(call))?;
    }
    Ok(names)
}

/// The page of one call.
pub fn page(call: &Syscall) -> String {
    let mut out = format!("# zx_{}\n\n{}\n\n", call.name, call.doc);
    let _ = writeln!(out, "```c\n#include <zircon/syscalls.h>\n\n{}\n```\n", header::prototype("zx_", call));
    if !call.args.is_empty() {
        out.push_str("| argument | direction | type |\n|---|---|---|\n");
        for arg in &call.args {
            let _ = writeln!(out, "| `{}` | {} | {} |", arg.name, direction(arg), what(arg));
        }
        out.push('\n');
    }
    out.push_str("## Rights\n\n");
    if call.rights.is_empty() {
        out.push_str("No argument needs a particular right in every case.\n");
    }
    for right in &call.rights {
        let needs: Vec<String> = right.needs.iter().map(|name| format!("`ZX_RIGHT_{name}`")).collect();
        let object = match right.object.as_str() {
            "any" => "an object of any type".to_owned(),
            "task" => "a job, process or thread".to_owned(),
            noun => format!("of type {noun}"),
        };
        let needs = if needs.is_empty() { "no right in particular".to_owned() } else { needs.join(" and ") };
        let _ = writeln!(out, "- `{}`: {object}, with {needs}.", right.arg);
    }
    out.push_str("\n## Result\n\n");
    out.push_str(match call.returns.as_str() {
        "status" => "`ZX_OK`, or an error.\n",
        "void" if call.noreturn => "The call does not return.\n",
        "void" => "Nothing.\n",
        _ => "The value. The call cannot fail.\n",
    });
    if !call.errors.is_empty() {
        out.push_str("\n## Errors\n\n");
        for error in &call.errors {
            let _ = writeln!(out, "- `ZX_ERR_{}`: {}", error.status, error.when);
        }
    }
    out.push_str("\n## Implementation\n\n");
    let _ = writeln!(out, "- {}", built(&call.support));
    let _ = writeln!(
        out,
        "- {}",
        match (call.via, call.wrapper) {
            (Via::Vdso, _) => "The vDSO answers it.",
            (Via::Server, true) => "Code in the vDSO calls the server.",
            (Via::Server, false) => "The server answers it.",
        }
    );
    if call.blocking {
        out.push_str("- The call can block.\n");
    }
    let _ = writeln!(out, "- Number {}; in Zircon's interface {}.", call.number, since(&call.since));
    let _ = writeln!(out, "\n[All calls](index.md)");
    out
}

/// All calls by noun.
pub fn index(calls: &[Syscall]) -> String {
    let mut out = String::from("# System calls\n");
    for (noun, calls) in by_noun(calls) {
        let _ = writeln!(out, "\n## {noun}\n");
        for call in calls {
            let level = match &call.support {
                Support::Supported => "",
                Support::Partial(_) => " (in part)",
                Support::Unsupported(_) => " (not implemented)",
            };
            let _ = writeln!(out, "- [zx_{0}]({0}.md){level}: {1}", call.name, first_sentence(&call.doc));
        }
    }
    out
}

/// The support of each call: the page `docs/compatibility.md`, which is in the tree beside the definitions.
pub fn compatibility(calls: &[Syscall]) -> String {
    let zircons = || calls.iter().filter(|call| !call.is_ours());
    let count = |level: &str| zircons().filter(|call| call.support.level() == level).count();
    let mut out = format!(
        "<!-- Made from abi/syscalls/*.toml by `./hafnon docs`. Do not edit. -->\n# Compatibility\n\n\
         This page is for programmers who want to know whether Hafnon has a system call of Zircon. It lists all calls, and what is missing.\n\n\
         Of Zircon's {} system calls, Hafnon implements {} in full and {} in part; {} return `ZX_ERR_NOT_SUPPORTED`. \
         {} more calls are Hafnon's own ([native.md](native.md), [virtual-processors.md](virtual-processors.md)).\n\n\
         The table is generated from the calls' definitions, to which the headings link. The build of the server fails if its \
         dispatch table disagrees with the definitions, and the conformance group `support` makes each call. `./hafnon docs` writes a \
         reference page for each call.\n\n\
         | level | means |\n|---|---|\n\
         | supported | as Zircon documents it; the reference page says what Hafnon does where the documentation leaves it open |\n\
         | partial | the named functions are missing; the rest is as Zircon documents it |\n\
         | unsupported | the call returns `ZX_ERR_NOT_SUPPORTED` for all arguments |\n",
        zircons().count(),
        count("supported"),
        count("partial"),
        count("unsupported"),
        calls.iter().filter(|call| call.is_ours()).count(),
    );
    for (noun, calls) in by_noun(calls) {
        let _ = writeln!(
            out,
            "\n## [{noun}](../abi/syscalls/{noun}.toml)\n\n| call | level | what is missing, or why |\n|---|---|---|"
        );
        for call in calls {
            let note = call.support.note().split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
            let _ = writeln!(out, "| `zx_{}` | {} | {note} |", call.name, call.support.level());
        }
    }
    out
}

fn by_noun(calls: &[Syscall]) -> BTreeMap<&str, Vec<&Syscall>> {
    let mut nouns: BTreeMap<&str, Vec<&Syscall>> = BTreeMap::new();
    for call in calls {
        nouns.entry(&call.noun).or_default().push(call);
    }
    nouns
}

fn first_sentence(doc: &str) -> String {
    let text = doc.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.split_once(". ") {
        Some((first, _)) => format!("{first}."),
        None => text,
    }
}

fn built(support: &Support) -> String {
    match support {
        Support::Supported => "Implemented in full.".into(),
        Support::Partial(note) => format!("Implemented in part. {note}"),
        Support::Unsupported(note) => format!("Not implemented: it returns `ZX_ERR_NOT_SUPPORTED`. {note}"),
    }
}

fn since(vintage: &str) -> String {
    match vintage {
        "newest" => "since a version after July 2020".into(),
        "2018-03" => "since March 2018 or before".into(),
        other => format!("since {other} or shortly before"),
    }
}

fn direction(arg: &Arg) -> &'static str {
    match arg.dir {
        None | Some(Dir::In) => "in",
        Some(Dir::Out) => "out",
        Some(Dir::InOut) => "in and out",
    }
}

fn what(arg: &Arg) -> String {
    let mut text = match (arg.is_pointer(), arg.array, arg.ty.as_str()) {
        (false, _, ty) => format!("`{}`", crate::model::c_type(ty)),
        (true, true, "void") => "address of bytes".into(),
        (true, true, ty) => format!("address of `{}`s", crate::model::c_type(ty)),
        (true, false, "void") => "address of a structure".into(),
        (true, false, ty) => format!("address of a `{}`", crate::model::c_type(ty)),
    };
    if let Some(len) = &arg.len {
        let _ = write!(text, ", counted by `{len}`");
    }
    if arg.optional {
        text.push_str(", or null");
    }
    text
}
