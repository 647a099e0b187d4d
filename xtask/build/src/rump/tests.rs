//! Prefixes that nobody built: archives with the symbols and sections that `rump check` and the plan of a link look at.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use object::write::{Object as File, Relocation, StandardSection, Symbol, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, Object as _, ObjectSymbol as _, RelocationFlags, SectionKind, SymbolFlags,
    SymbolKind, SymbolScope, elf,
};
use proptest::prelude::*;
use tempfile::TempDir;

use super::plan::{Plan, Planner};
use super::prefix::{self, Kind};
use super::report::report;
use super::{link, objects};

/// A member of an archive that a test makes.
#[derive(Clone, Debug, Default)]
struct Made {
    name: &'static str,
    defined: Vec<&'static str>,
    wanted: Vec<&'static str>,
    sections: Vec<&'static str>,
    /// Instructions; with a revision, the call of `rumpuser_init` follows.
    code: Vec<u8>,
    revision: Option<u32>,
}

const SAFE_STACK: [u8; 9] = [0x64, 0x48, 0x8b, 0x04, 0x25, 0x18, 0, 0, 0];

impl Made {
    fn bytes(&self) -> Vec<u8> {
        let mut file = File::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
        let text = file.section_id(StandardSection::Text);
        file.append_section_data(text, &self.code, 16);
        let symbol = |name: &str, section| Symbol {
            name: name.as_bytes().to_vec(),
            value: 0,
            size: 0,
            kind: SymbolKind::Text,
            scope: SymbolScope::Linkage,
            weak: false,
            section,
            flags: SymbolFlags::None,
        };
        for name in &self.defined {
            file.add_symbol(symbol(name, SymbolSection::Section(text)));
        }
        for name in &self.wanted {
            file.add_symbol(symbol(name, SymbolSection::Undefined));
        }
        for name in &self.sections {
            let section = file.add_section(Vec::new(), name.as_bytes().to_vec(), SectionKind::Data);
            file.append_section_data(section, b"GCC: (made up) 1.0\0", 8);
        }
        if let Some(revision) = self.revision {
            let init = file.add_symbol(symbol("rumpuser_init", SymbolSection::Undefined));
            let mut call = vec![0xbf];
            call.extend(revision.to_le_bytes());
            call.extend([0x55, 0xe8, 0, 0, 0, 0]);
            let at = file.append_section_data(text, &call, 1);
            let flags = RelocationFlags::Elf { r_type: elf::R_X86_64_PLT32 };
            file.add_relocation(text, Relocation { offset: at + 7, symbol: init, addend: -4, flags })
                .expect("a relocation");
        }
        file.write().expect("an object file")
    }
}

/// An archive, as `ar` writes it.
fn archive(members: &[Made]) -> Vec<u8> {
    let mut bytes = b"!<arch>\n".to_vec();
    for member in members {
        let data = member.bytes();
        let name = format!("{}/", member.name);
        bytes.extend(format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 644, data.len()).into_bytes());
        bytes.extend(&data);
        bytes.resize(bytes.len().next_multiple_of(2), b'\n');
    }
    bytes
}

fn member(name: &'static str, defined: &[&'static str], wanted: &[&'static str]) -> Made {
    Made { name, defined: defined.to_vec(), wanted: wanted.to_vec(), sections: vec![".comment"], ..Made::default() }
}

/// The base library of a prefix of this kind.
fn base(kind: Kind, revision: Option<u32>) -> Made {
    let mut base = member("rump.o", &["rump_init", "rumpns_malloc"], &["rumpuser_malloc", "__start_link_set_x"]);
    base.revision = revision;
    base.sections.push(if kind == Kind::Constructors { ".init_array" } else { "link_set_rump_components" });
    if kind == Kind::Rumprun {
        base.defined.extend(["open", "read"]);
    }
    base
}

/// A prefix with the libraries that most tests want: base, vfs, tmpfs, the socket layer, and shmif with a part for
/// another system.
fn made(kind: Kind) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "rump", &[base(kind, Some(17))]);
    write(folder.path(), "rumpvfs", &[member("vfs.o", &["rumpns_vnode"], &["rumpns_malloc", "rumpuser_open"])]);
    write(folder.path(), "rumpfs_tmpfs", &[member("tmpfs.o", &["rumpns_tmpfs"], &["rumpns_vnode"])]);
    write(folder.path(), "rumpnet", &[member("net.o", &["rumpns_socket"], &["rumpns_malloc"])]);
    write(folder.path(), "rumpnet_config", &[member("config.o", &["rump_pub_config"], &["rumpns_socket"])]);
    write(folder.path(), "rumpnet_net", &[member("if.o", &["rumpns_if"], &["rumpns_socket"])]);
    let kernel = member("if_shmem.o", &["rumpns_shmif"], &["rumpns_if", "rumpcomp_shmif_mmap"]);
    let host = member("shmif_user.o", &["rumpcomp_shmif_mmap"], &["open", "mmap", "rumpuser_malloc"]);
    // A prefix for rumprun defines `open` itself.
    let host = if kind == Kind::Rumprun { vec![kernel] } else { vec![kernel, host] };
    write(folder.path(), "rumpnet_shmif", &host);
    // Not part of the kernel.
    write(folder.path(), "rumpuser", &[member("rumpuser.o", &["rumpuser_malloc"], &["malloc"])]);
    folder
}

fn write(folder: &Path, library: &str, members: &[Made]) {
    fs::create_dir_all(folder.join("lib")).expect("a folder");
    fs::write(folder.join(format!("lib/lib{library}.a")), archive(members)).expect("a library");
}

fn answered() -> BTreeSet<String> {
    ["rumpuser_malloc", "rumpuser_open", "rumpuser_init"].map(String::from).into()
}

fn planned(folder: &Path, wanted: &[&str]) -> Result<Plan, String> {
    let prefix = prefix::read(folder).expect("a prefix");
    let wanted: Vec<String> = wanted.iter().map(ToString::to_string).collect();
    Planner::new(&prefix, &answered()).plan(&wanted)
}

fn reported(folder: &Path) -> (String, bool) {
    let (text, usable) = report(&prefix::read(folder).expect("a prefix"), Some(&answered()));
    // As one line, so that wrapping does not matter.
    (text.split_whitespace().collect::<Vec<_>>().join(" "), usable)
}

#[test]
fn the_kinds_of_prefixes() {
    let says =
        [(Kind::Constructors, "for POSIX systems"), (Kind::LinkSets, "kernel only"), (Kind::Rumprun, "rumprun's")];
    for (kind, part) in says {
        let folder = made(kind);
        let facts = prefix::read(folder.path()).expect("a prefix").facts().expect("facts");
        assert_eq!((facts.kind, facts.revision, facts.has_safe_stack), (kind, Some(17), false));
        assert_eq!(facts.compiler.as_deref(), Some("GCC: (made up) 1.0"));
        let (text, usable) = reported(folder.path());
        assert!(usable && text.contains(part) && text.contains("revision 17"), "{text}");
        assert!(text.contains("components 7: base config net shmif socket tmpfs vfs not in it"), "{text}");
    }
}

#[test]
fn traits_of_a_build() {
    let folder = made(Kind::LinkSets);
    let (text, _) = reported(folder.path());
    assert!(text.contains("release; no debug information"), "{text}");
    let mut object = base(Kind::LinkSets, Some(17));
    object.code = [&[0x90; 5][..], &SAFE_STACK].concat();
    object.sections.push(".debug_info");
    object.wanted.push("rumpns_kern_assert");
    write(folder.path(), "rump", &[object]);
    let (text, _) = reported(folder.path());
    assert!(text.contains("with SafeStack") && text.contains("with DIAGNOSTIC"), "{text}");
    assert!(text.contains("with debug information"), "{text}");
}

#[test]
fn another_revision_is_refused() {
    let folder = made(Kind::LinkSets);
    for (revision, part) in [(Some(16), "revision 16, and this system has revision 17"), (None, "in neither librump.a")]
    {
        write(folder.path(), "rump", &[base(Kind::LinkSets, revision)]);
        let (text, usable) = reported(folder.path());
        assert!(!usable && text.contains(part), "{text}");
    }
    // The header's number counts where the code has none.
    fs::create_dir_all(folder.path().join("include/rump")).expect("a folder");
    fs::write(folder.path().join("include/rump/rump.h"), "").expect("a header");
    fs::write(folder.path().join("include/rump/rumpuser.h"), "#define RUMPUSER_VERSION 17\n").expect("a header");
    assert!(reported(folder.path()).1);
}

#[test]
fn no_prefix() {
    let folder = tempfile::tempdir().expect("a folder");
    let why = format!("{:#}", prefix::read(folder.path()).expect_err("empty"));
    assert!(why.contains("no lib/librump.a"), "{why}");
    let why = format!("{:#}", prefix::read(&folder.path().join("no")).expect_err("none"));
    assert!(why.contains("no such folder"), "{why}");
    write(folder.path(), "rump", &[member("other.o", &["x"], &[])]);
    let (text, usable) = reported(folder.path());
    assert!(!usable && text.contains("announces no component"), "{text}");
    fs::write(folder.path().join("lib/librump.a"), "no archive").expect("a file");
    let (text, usable) = reported(folder.path());
    assert!(!usable && text.contains("librump.a cannot be used"), "{text}");
}

#[test]
fn a_plan_has_what_the_components_need() {
    let folder = made(Kind::LinkSets);
    let plan = planned(folder.path(), &["tmpfs"]).expect("a plan");
    assert_eq!(plan.names(), ["base", "tmpfs", "vfs"]);
    assert!(plan.unmet.is_empty() && plan.left_out.is_empty());
    // A library that the table does not know, and the one that defines what it wants.
    write(folder.path(), "rumpfs_new", &[member("new.o", &["rumpns_new"], &["rumpns_vnode"])]);
    assert_eq!(planned(folder.path(), &["rumpfs_new"]).expect("a plan").names(), ["base", "rumpfs_new", "vfs"]);
}

#[test]
fn the_hosts_object_files_are_left_out() {
    for (kind, left) in [(Kind::Constructors, 1), (Kind::LinkSets, 1), (Kind::Rumprun, 0)] {
        let folder = made(kind);
        let plan = planned(folder.path(), &["shmif"]).expect("a plan");
        assert_eq!(plan.left_out.len(), left, "{kind:?}");
        assert_eq!(plan.parts.get("rumpnet_shmif"), (left == 1).then_some(&vec![0]));
        assert_eq!(plan.unmet.keys().collect::<Vec<_>>(), ["rumpcomp_shmif_mmap"]);
        let notes = plan.notes().join("\n");
        assert!(notes.contains("does not answer `rumpcomp_shmif_mmap` of shmif"), "{notes}");
        assert_eq!(notes.contains("shmif_user.o is left out"), left == 1, "{notes}");
    }
}

/// Each library wants the next one. Such a prefix must not keep the tool busy.
#[test]
fn a_chain_of_libraries_ends() {
    const CHAIN: usize = 200;
    let folder = made(Kind::LinkSets);
    let symbols: Vec<&'static str> = (0..=CHAIN).map(|at| &*format!("rumpns_link{at}").leak()).collect();
    for at in 0..CHAIN {
        let link = member("link.o", &[symbols[at]], &[symbols[at + 1]]);
        write(folder.path(), &format!("rumpfs_link{at}"), &[link]);
    }
    let why = planned(folder.path(), &["rumpfs_link0"]).expect_err("too long");
    assert!(why.contains("name the components that you need"), "{why}");
    assert!(reported(folder.path()).0.contains("unusable"));
}

#[test]
fn what_is_no_file_is_not_read() {
    let folder = made(Kind::LinkSets);
    symlink("/dev/zero", folder.path().join("lib/librumpfs_zero.a")).expect("a link");
    let pipe = folder.path().join("lib/librumpfs_pipe.a");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    for library in ["rumpfs_zero", "rumpfs_pipe"] {
        let why = planned(folder.path(), &[library]).expect_err("no file");
        assert!(why.contains("cannot be used: is no file"), "{why}");
    }
}

#[test]
fn a_missing_component_is_named() {
    let folder = made(Kind::LinkSets);
    let why = planned(folder.path(), &["inet"]).expect_err("missing");
    assert!(why.contains("not in this prefix: inet (librumpnet_netinet.a)"), "{why}");
    let why = planned(folder.path(), &["tmpfs", "nothing"]).expect_err("unknown");
    assert!(why.contains("no component `nothing`"), "{why}");
    fs::write(folder.path().join("lib/librumpfs_tmpfs.a"), b"!<arch>\nhalf").expect("a file");
    let why = planned(folder.path(), &["tmpfs"]).expect_err("damaged");
    assert!(why.contains("librumpfs_tmpfs.a cannot be used"), "{why}");
    assert!(reported(folder.path()).0.contains("unusable tmpfs"));
}

#[test]
fn a_symbol_of_the_kernel_must_be_defined() {
    let folder = made(Kind::LinkSets);
    write(folder.path(), "rumpfs_one", &[member("one.o", &["rumpns_same"], &[])]);
    write(folder.path(), "rumpfs_two", &[member("two.o", &["rumpns_same"], &[])]);
    write(folder.path(), "rumpfs_new", &[member("new.o", &[], &["rumpns_same"])]);
    let why = planned(folder.path(), &["rumpfs_new"]).expect_err("two define it");
    assert!(why.contains("add one of rumpfs_one, rumpfs_two"), "{why}");
    assert!(planned(folder.path(), &["rumpfs_new", "rumpfs_one"]).is_ok());
    write(folder.path(), "rumpfs_new", &[member("new.o", &[], &["rumpns_nobody"])]);
    let why = planned(folder.path(), &["rumpfs_new"]).expect_err("nothing defines it");
    assert!(why.contains("nothing in the prefix defines"), "{why}");
}

/// Global symbols that an object file defines.
fn globals(file: &Path) -> BTreeSet<String> {
    let bytes = fs::read(file).expect("an object file");
    let file = object::File::parse(&*bytes).expect("an object file");
    let symbols = file.symbols().filter(|symbol| symbol.is_global() && !symbol.is_undefined());
    symbols.map(|symbol| symbol.name().expect("a name").to_string()).collect()
}

#[test]
fn the_link_has_all_components_and_none_of_the_hosts_names() {
    let folder = made(Kind::Constructors);
    let prefix = prefix::read(folder.path()).expect("a prefix");
    let plan = planned(folder.path(), &["tmpfs", "shmif"]).expect("a plan");
    let work = tempfile::tempdir().expect("a folder");
    let linked = globals(&link::kernel(&prefix, &plan, work.path()).expect("ld and objcopy"));
    // Nothing refers to tmpfs. The part of shmif that calls another system is not there.
    for (symbol, is_there) in
        [("rump_init", true), ("rumpns_tmpfs", true), ("rumpns_shmif", true), ("rumpcomp_shmif_mmap", false)]
    {
        assert_eq!(linked.contains(symbol), is_there, "{symbol}: {linked:?}");
    }
    let folder = made(Kind::Rumprun);
    let prefix = prefix::read(folder.path()).expect("a prefix");
    let plan = planned(folder.path(), &[]).expect("a plan");
    let linked = globals(&link::kernel(&prefix, &plan, work.path()).expect("ld and objcopy"));
    assert_eq!(linked, ["rump_init", "rumpns_malloc"].map(String::from).into());
}

#[test]
fn damaged_archives_are_refused() {
    let whole = archive(&[base(Kind::LinkSets, Some(17)), member("b.o", &["b"], &["a"])]);
    assert_eq!(objects::read(&whole).expect("an archive").len(), 2);
    for (bytes, part) in [
        (b"".to_vec(), "no archive"),
        (b"!<thin>\n".to_vec(), "thin"),
        (b"!<arch>\nrump.o".to_vec(), "no archive"),
        (whole[..whole.len() - 300].to_vec(), "b.o: "),
    ] {
        let why = objects::read(&bytes).expect_err("damaged");
        assert!(why.contains(part), "{why}");
    }
    let mut other = whole.clone();
    // The processor of the first member.
    other[8 + 60 + 18] = 183;
    assert!(objects::read(&other).expect_err("another processor").contains("no object file for x86-64"));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = objects::read(&bytes);
        let _ = objects::read(&[b"!<arch>\n", &bytes[..]].concat());
    }

    #[test]
    fn no_damage_makes_it_panic(
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
    ) {
        let mut object = base(Kind::Rumprun, Some(17));
        object.code = SAFE_STACK.to_vec();
        let mut bytes = archive(&[object, member("b.o", &["b"], &["a"])]);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(objects) = objects::read(&bytes) {
            // What is read lies in the file.
            for object in objects {
                prop_assert!(object.range.0.saturating_add(object.range.1) <= bytes.len() as u64);
            }
        }
    }
}
