//! The C headers that 5.0.0's own build generates from its XML files: plain lists, with conditions for the
//! preprocessor.

use std::fmt::Write;

use crate::error::Error;
use crate::kernel::{source_interfaces, source_syscalls};
use roxmltree::{Document, Node};
use std::path::Path;

/// A header's path below the build's include directory, and its text.
pub type Header = (&'static str, String);

/// All headers that the kernel's C code expects from the XML files of its tree.
pub fn headers(tree: &Path) -> Result<Vec<Header>, Error> {
    let [object, sel4_arch, arch] = source_interfaces(tree);
    Ok(vec![
        (
            "api/invocation.h",
            invocations(&Labels {
                entries: methods(&object)?,
                guard: "__API_INVOCATION_H",
                include: None,
                name: "invocation_label",
                // Label 0 belongs to no method.
                first: "InvalidInvocation = 0",
                last: "nInvocationLabels",
            }),
        ),
        (
            "arch/api/sel4_invocation.h",
            invocations(&Labels {
                entries: methods(&sel4_arch)?,
                guard: "__API_SEL4_ARCH_INVOCATION_H",
                include: Some("api/invocation.h"),
                name: "sel4_arch_invocation_label",
                first: "sel4ArchInvocationBase = nInvocationLabels - 1",
                last: "nSeL4ArchInvocationLabels",
            }),
        ),
        (
            "arch/api/invocation.h",
            invocations(&Labels {
                entries: methods(&arch)?,
                guard: "__API_ARCH_INVOCATION_H",
                include: Some("arch/api/sel4_invocation.h"),
                name: "arch_invocation_label",
                first: "archInvocationBase = nSeL4ArchInvocationLabels - 1",
                last: "nArchInvocationLabels",
            }),
        ),
        ("arch/api/syscall.h", syscalls(&source_syscalls(tree))?),
    ])
}

/// An entry that exists under a C condition (empty: always).
struct Entry {
    name: String,
    condition: String,
}

struct Labels {
    entries: Vec<Entry>,
    guard: &'static str,
    include: Option<&'static str>,
    name: &'static str,
    first: &'static str,
    last: &'static str,
}

fn invocations(labels: &Labels) -> String {
    let mut out = open(labels.guard);
    if let Some(include) = labels.include {
        let _ = writeln!(out, "#include <{include}>");
    }
    let _ = writeln!(out, "enum {} {{\n    {},", labels.name, labels.first);
    for entry in &labels.entries {
        conditional(&mut out, &entry.condition, &format!("    {},\n", entry.name));
    }
    let _ = writeln!(out, "    {}\n}};\n#endif", labels.last);
    out
}

fn syscalls(path: &Path) -> Result<String, Error> {
    let text = crate::error::read(path)?;
    let document = parse(path, &text)?;
    let api = group(path, &document, "api")?;
    let debug = group(path, &document, "debug")?;

    let mut out = open("__ARCH_API_SYSCALL_H");
    out.push_str("#ifdef __ASSEMBLER__\n");
    for (entry, number) in api.iter().zip(1..) {
        let _ = writeln!(out, "#define SYSCALL_{} (-{number})", shout(&entry.name));
    }
    let _ =
        writeln!(out, "#endif\n#define SYSCALL_MAX (-1)\n#define SYSCALL_MIN (-{})\n#ifndef __ASSEMBLER__", api.len());
    out.push_str("enum syscall {\n");
    for (entry, number) in api.iter().chain(&debug).zip(1..) {
        conditional(&mut out, &entry.condition, &format!("    Sys{} = -{number},\n", entry.name));
    }
    out.push_str("};\ntypedef word_t syscall_t;\n#ifdef CONFIG_DEBUG_BUILD\nstatic char *syscall_names[] UNUSED = {\n");
    for (entry, number) in api.iter().zip(1..) {
        let _ = writeln!(out, "    [{number}] = \"{}\",", entry.name);
    }
    out.push_str("};\n#endif\n#endif\n#endif\n");
    Ok(out)
}

fn open(guard: &str) -> String {
    format!("/* Generated from the kernel's XML files. */\n#ifndef {guard}\n#define {guard}\n")
}

fn conditional(out: &mut String, condition: &str, text: &str) {
    if condition.is_empty() {
        out.push_str(text);
    } else {
        let _ = write!(out, "#if {condition}\n{text}#endif\n");
    }
}

/// `NBSend` becomes `NB_SEND`: a new word starts at each capital that is next to a small letter.
fn shout(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut out = String::new();
    for (i, letter) in letters.iter().enumerate() {
        let after_small = i > 0 && letters[i - 1].is_ascii_lowercase();
        let before_small = i > 0 && letters.get(i + 1).is_some_and(char::is_ascii_lowercase);
        if letter.is_ascii_uppercase() && (after_small || before_small) {
            out.push('_');
        }
        out.push(letter.to_ascii_uppercase());
    }
    out
}

fn methods(path: &Path) -> Result<Vec<Entry>, Error> {
    let text = crate::error::read(path)?;
    let document = parse(path, &text)?;
    Ok(document
        .descendants()
        .filter(|node| node.has_tag_name("method"))
        .map(|method| Entry { name: text_of(method, "id"), condition: text_of(method, "condition") })
        .collect())
}

fn group(path: &Path, document: &Document<'_>, tag: &str) -> Result<Vec<Entry>, Error> {
    let group = document.root_element().children().find(|node| node.has_tag_name(tag));
    let group = group.ok_or_else(|| Error::Xml { path: path.into(), what: format!("no element <{tag}>") })?;
    let mut out = Vec::new();
    for config in group.children().filter(|node| node.has_tag_name("config")) {
        for call in config.children().filter(|node| node.has_tag_name("syscall")) {
            out.push(Entry { name: text_of(call, "name"), condition: text_of(config, "condition") });
        }
    }
    Ok(out)
}

fn text_of(node: Node<'_, '_>, attribute: &str) -> String {
    node.attribute(attribute).unwrap_or_default().to_owned()
}

fn parse<'t>(path: &Path, text: &'t str) -> Result<Document<'t>, Error> {
    Document::parse(text).map_err(|e| Error::Xml { path: path.into(), what: e.to_string() })
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_of_system_calls_for_assembly() {
        for (name, want) in
            [("Call", "CALL"), ("ReplyRecv", "REPLY_RECV"), ("NBSend", "NB_SEND"), ("NBRecv", "NB_RECV")]
        {
            assert_eq!(super::shout(name), want);
        }
    }
}
