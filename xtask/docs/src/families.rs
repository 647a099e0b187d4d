//! The families of `objects`: which family uses which, read from the sources.
//!
//! A family is a folder of `objects/src`. [`ORDER`] lists them from the base to the top, and a family uses only those
//! before it. [`AGAINST`] lists the exceptions to this order, name by name. Any other use of a later family is a fault,
//! and so is an exception that is no longer needed. `docs/architecture.md` contains the graph.
//!
//! The graph comes from paths: imports, and paths in code and in macros. Tests do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree};

use xtask_common::paths::Paths;

/// The crate.
const ROOT: &str = "objects/src";

/// The families, from the base to the top.
const ORDER: &[&str] =
    &["containers", "arch", "machine", "core", "memory", "time", "ipc", "task", "device", "guest", "kernel"];

/// An exception: a name that families use although it belongs to a family above them.
struct OrderException {
    from: &'static [&'static str],
    /// The family that defines the name, and the name's path there.
    name: &'static str,
    why: &'static str,
}

/// All families that define operations on objects.
const OPERATIONS: &[&str] = &["core", "memory", "time", "ipc", "task", "device", "guest"];

const AGAINST: &[OrderException] = &[
    OrderException {
        from: OPERATIONS,
        name: "kernel::Kernel",
        why: "Operations are methods of `Kernel`, which holds the state of all families.",
    },
    OrderException {
        from: &["core"],
        name: "kernel::nouns::Body",
        why: "An object contains a `Body`: an enum of all nouns, because a look-up must not cost an indirect call.",
    },
];

/// A use of a name: the using family, and the name as a path that begins with the family that defines it.
type Use = (String, Vec<String>);

/// The uses between families, each with a file that contains it.
#[derive(Default)]
struct Graph {
    uses: BTreeMap<Use, PathBuf>,
    /// The content of each family: the first sentence of its description.
    holds: BTreeMap<String, String>,
}

/// Checks the families. Returns a line per fault; none if the order holds.
///
/// # Errors
/// A source cannot be read.
pub fn faults(paths: &Paths) -> Result<Vec<String>> {
    let (graph, mut faults) = read(&paths.workspace.join(ROOT), ORDER)?;
    faults.extend(graph.judge(ORDER, AGAINST));
    Ok(faults)
}

/// The part of the page: the drawing, and the tables.
///
/// # Errors
/// A source cannot be read.
pub fn part(paths: &Paths) -> Result<String> {
    let (graph, _) = read(&paths.workspace.join(ROOT), ORDER)?;
    Ok(graph.drawing(ORDER, AGAINST))
}

/// Reads a crate whose top-level modules are families. Also returns faults in its structure.
fn read(root: &Path, order: &[&str]) -> Result<(Graph, Vec<String>)> {
    let (mut graph, mut faults) = (Graph::default(), Vec::new());
    let lib = parse(&root.join("lib.rs"))?;
    let mut reader = Reader { root: root.to_path_buf(), ..Reader::default() };
    for item in &lib.items {
        if let Item::Use(item) = item {
            // A name that the crate root re-exports belongs to the family that defines it.
            for path in flat(&item.tree) {
                if let (Some(name), [krate, home @ ..]) = (path.last().cloned(), path.as_slice())
                    && krate == "crate"
                {
                    reader.shown.insert(name, home.to_vec());
                }
            }
        }
    }
    for item in &lib.items {
        let Item::Mod(item) = item else { continue };
        let name = item.ident.to_string();
        if of_tests(&item.attrs) {
            continue;
        }
        let file = root.join(&name).join("mod.rs");
        if !order.contains(&name.as_str()) || !file.exists() {
            faults
                .push(format!("the module `{name}` is in no family: families are folders, and listed in their order"));
            continue;
        }
        graph.holds.insert(name.clone(), description(&parse(&file)?.attrs));
        reader.module(&file, &[name])?;
    }
    for family in order.iter().filter(|family| !graph.holds.contains_key(**family)) {
        faults.push(format!("there is no family `{family}`"));
    }
    graph.uses = reader.uses;
    Ok((graph, faults))
}

/// Reads all modules of a crate, file by file.
#[derive(Default)]
struct Reader {
    root: PathBuf,
    shown: BTreeMap<String, Vec<String>>,
    uses: BTreeMap<Use, PathBuf>,
    /// The current module's path, and its file.
    module: Vec<String>,
    file: PathBuf,
}

impl Reader {
    /// Reads a module that has a file, and all modules below it.
    fn module(&mut self, file: &Path, path: &[String]) -> Result<()> {
        let parsed = parse(file)?;
        let before =
            (std::mem::replace(&mut self.module, path.to_vec()), std::mem::replace(&mut self.file, file.into()));
        self.visit_file(&parsed);
        let folder = match file.file_name().and_then(|name| name.to_str()) {
            Some("mod.rs") => file.parent().unwrap_or(&self.root).to_path_buf(),
            _ => file.with_extension(""),
        };
        for item in &parsed.items {
            let Item::Mod(item) = item else { continue };
            if item.content.is_some() || of_tests(&item.attrs) {
                continue;
            }
            let name = item.ident.to_string();
            let files = [folder.join(format!("{name}.rs")), folder.join(&name).join("mod.rs")];
            let Some(file) = files.iter().find(|file| file.exists()) else {
                bail!("{}: the module `{name}` has no file", file.display());
            };
            self.module(file, &[path, &[name]].concat())?;
        }
        (self.module, self.file) = before;
        Ok(())
    }

    /// Records a path in the code if it leads to another family.
    fn path(&mut self, path: &[String]) {
        let supers = path.iter().take_while(|part| *part == "super").count();
        let absolute: Vec<String> = match path.first().map(String::as_str) {
            Some("crate") => path[1..].to_vec(),
            Some("super") => {
                let above = self.module.len().saturating_sub(supers);
                [&self.module[..above], &path[supers..]].concat()
            }
            _ => return,
        };
        let home = absolute.first().and_then(|first| self.shown.get(first));
        let absolute = home.map_or(absolute.clone(), |home| [home, &absolute[1..]].concat());
        // The path is cut after the item: its variants and functions do not count.
        let is_item = |part: &String| part.starts_with(char::is_uppercase);
        let end = absolute.iter().position(is_item).map_or(absolute.len(), |item| item + 1);
        let (Some(family), Some(own)) = (absolute.first(), self.module.first()) else { return };
        if family != own {
            let file = self.file.strip_prefix(&self.root).unwrap_or(&self.file).to_path_buf();
            self.uses.entry((own.clone(), absolute[..end].to_vec())).or_insert(file);
        }
    }

    /// Records the paths in a macro's arguments, which need not be valid code.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.path(&std::mem::take(&mut path));
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() => colons += 1,
                other => {
                    self.path(&std::mem::take(&mut path));
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.path(&path);
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Const(item) => &item.attrs,
            Item::Enum(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Macro(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            Item::Static(item) => &item.attrs,
            Item::Struct(item) => &item.attrs,
            Item::Trait(item) => &item.attrs,
            Item::Type(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !of_tests(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.module.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        if !matches!(item, syn::ImplItem::Fn(function) if of_tests(&function.attrs)) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        flat(&item.tree).iter().for_each(|path| self.path(path));
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.path(&path.segments.iter().map(|part| part.ident.to_string()).collect::<Vec<_>>());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.tokens(item.tokens.clone());
        visit::visit_macro(self, item);
    }
}

impl Graph {
    /// The families that each family uses, without the exceptions.
    fn families(&self, against: &[OrderException]) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut families: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (from, name) in self.uses.keys() {
            if !against.iter().any(|entry| entry.allows(from, name)) {
                families.entry(from).or_default().insert(&name[0]);
            }
        }
        families
    }

    /// The faults: uses against the order, each with the cycle that it closes, and exceptions that are not needed.
    fn judge(&self, order: &[&str], against: &[OrderException]) -> Vec<String> {
        let place = |family: &str| order.iter().position(|other| *other == family);
        let families = self.families(against);
        let mut faults = Vec::new();
        for ((from, name), file) in &self.uses {
            let (Some(own), Some(other)) = (place(from), place(&name[0])) else { continue };
            if other < own || against.iter().any(|entry| entry.allows(from, name)) {
                continue;
            }
            let cycle = way(&families, &name[0], from);
            let cycle = cycle.map(|way| format!(" This closes a cycle: {from} -> {}.", way.join(" -> ")));
            faults.push(format!(
                "{}: `{from}` uses `{}`, and `{}` is above it.{}",
                file.display(),
                name.join("::"),
                name[0],
                cycle.unwrap_or_default()
            ));
        }
        for entry in against {
            for from in entry.from {
                if !self.uses.keys().any(|(user, name)| user == from && entry.allows(user, name)) {
                    let name = entry.name;
                    faults.push(format!("`{from}` does not use `{name}` any more: take it off the list of exceptions"));
                }
            }
        }
        faults
    }

    /// The graph and the tables, in the form of `docs/architecture.md`.
    fn drawing(&self, order: &[&str], against: &[OrderException]) -> String {
        let families = self.families(against);
        let mut text = String::from("```mermaid\ngraph TD\n");
        for family in order.iter().rev() {
            let Some(uses) = families.get(family) else { continue };
            for used in order.iter().rev().filter(|used| uses.contains(**used)) {
                // An edge that other edges imply is left out, so that the graph stays readable.
                let leads = |other: &&str| other != used && way(&families, other, used).is_some();
                if !uses.iter().any(leads) {
                    let _ = writeln!(text, "    {family} --> {used}");
                }
            }
        }
        text.push_str("```\n\n| family | holds | uses |\n|---|---|---|\n");
        for family in order {
            let uses = families.get(family).cloned().unwrap_or_default();
            let uses: Vec<&str> = order.iter().copied().filter(|used| uses.contains(used)).collect();
            let holds = self.holds.get(*family).map_or("", String::as_str);
            let uses = if uses.is_empty() { "nothing".to_owned() } else { uses.join(", ") };
            let _ = writeln!(text, "| `{family}` | {holds} | {uses} |");
        }
        text.push_str("\nThese names go against the order:\n\n| name | used by | why |\n|---|---|---|\n");
        for OrderException { from, name, why } in against {
            let _ = writeln!(text, "| `{name}` | {} | {why} |", from.join(", "));
        }
        text
    }
}

impl OrderException {
    fn allows(&self, from: &str, name: &[String]) -> bool {
        self.from.contains(&from) && self.name.split("::").eq(name.iter().map(String::as_str))
    }
}

/// A path from one family to another along uses.
fn way<'a>(families: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &str, to: &str) -> Option<Vec<String>> {
    let mut ways = vec![vec![from.to_owned()]];
    let mut seen = BTreeSet::from([from.to_owned()]);
    while let Some(way) = ways.pop() {
        let last = way.last()?;
        if last == to {
            return Some(way);
        }
        for next in families.get(last.as_str()).into_iter().flatten() {
            if seen.insert((*next).to_owned()) {
                ways.push([way.as_slice(), &[(*next).to_owned()]].concat());
            }
        }
    }
    None
}

/// The paths that a `use` item names.
fn flat(tree: &UseTree) -> Vec<Vec<String>> {
    let below = |first: String, tree: &UseTree| {
        flat(tree).into_iter().map(|path| [vec![first.clone()], path].concat()).collect::<Vec<_>>()
    };
    match tree {
        UseTree::Path(path) => below(path.ident.to_string(), &path.tree),
        UseTree::Group(group) => group.items.iter().flat_map(flat).collect(),
        UseTree::Name(name) if name.ident == "self" => vec![Vec::new()],
        UseTree::Name(name) => vec![vec![name.ident.to_string()]],
        UseTree::Rename(name) if name.ident == "self" => vec![Vec::new()],
        UseTree::Rename(name) => vec![vec![name.ident.to_string()]],
        UseTree::Glob(_) => vec![vec!["*".to_owned()]],
    }
}

/// Whether an item exists only for tests.
fn of_tests(attributes: &[Attribute]) -> bool {
    let is_test = |attribute: &&Attribute| {
        let list = attribute.meta.require_list();
        attribute.path().is_ident("cfg")
            && list.is_ok_and(|list| {
                let words: Vec<String> =
                    list.tokens.to_string().split(|c: char| !c.is_alphanumeric()).map(str::to_owned).collect();
                words.iter().any(|word| word == "test") && !words.iter().any(|word| word == "not")
            })
    };
    attributes.iter().any(|attribute| is_test(&attribute))
}

/// The first sentence of a module's description.
fn description(attributes: &[Attribute]) -> String {
    let line = attributes.iter().find_map(|attribute| {
        let pair = attribute.meta.require_name_value().ok().filter(|pair| pair.path.is_ident("doc"))?;
        match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        }
    });
    line.unwrap_or_default().trim().trim_end_matches('.').to_owned()
}

fn parse(file: &Path) -> Result<syn::File> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    syn::parse_file(&text).with_context(|| format!("in {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &[&str] = &["low", "high"];
    const LIB: &str = "pub mod high;\npub mod low;\n#[cfg(test)]\nmod tests;\npub use crate::high::thing::Thing;\n";

    /// Creates a crate with these files beside its root; returns its graph and its faults.
    fn crate_with(lib: &str, files: &[(&str, &str)], against: &[OrderException]) -> (Graph, Vec<String>) {
        let folder = tempfile::tempdir().expect("a folder");
        let all = [
            ("lib.rs", lib),
            ("low/mod.rs", "//! Low things.\npub mod item;\n"),
            ("low/item.rs", "pub struct Item;\n"),
        ];
        let high = [
            ("high/mod.rs", "pub mod thing;\n"),
            ("high/thing.rs", "use crate::low::item::Item;\npub struct Thing(Item);\n"),
        ];
        for (name, text) in all.iter().chain(&high).chain(files) {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        }
        let (graph, mut faults) = read(folder.path(), TWO).expect("read");
        faults.extend(graph.judge(TWO, against));
        (graph, faults)
    }

    fn faults(item: &str, against: &[OrderException]) -> Vec<String> {
        crate_with(LIB, &[("low/item.rs", item)], against).1
    }

    #[test]
    fn families_in_order_are_drawn() {
        let (graph, faults) = crate_with(LIB, &[], &[]);
        assert_eq!(faults, Vec::<String>::new());
        let drawing = graph.drawing(TWO, &[]);
        assert!(drawing.contains("    high --> low\n"), "{drawing}");
        assert!(drawing.contains("| `low` | Low things | nothing |\n"), "{drawing}");
    }

    #[test]
    fn a_cycle_is_a_fault() {
        let faults = faults("use crate::high::thing::Thing;\npub struct Item;\n", &[]);
        assert_eq!(
            faults,
            [
                "low/item.rs: `low` uses `high::thing::Thing`, and `high` is above it. This closes a cycle: low -> high -> low."
            ]
        );
    }

    #[test]
    fn each_way_to_name_something_counts() {
        for item in [
            "use crate::{high::{thing::Thing}};",
            "use crate::high::thing::{self as other, Thing as Other};",
            "use crate::Thing;",
            "use super::super::high::thing::Thing;",
            "fn f(_: &crate::high::thing::Thing) {}",
            "fn f() { let _ = crate::high::thing::Thing::new(1); }",
            "fn f() { g(|| matches!(x, (1, crate::high::thing::Thing { .. }))) }",
            "macro_rules! m { () => { $crate::high::thing::Thing } }",
            "mod inner { use crate::high::thing::Thing; }",
            "mod inner { use super::super::super::high::thing::Thing; }",
            "impl X { #[inline]\n fn f(&self) -> Option<crate::high::thing::Thing> { None } }",
        ] {
            let faults = faults(item, &[]);
            assert!(
                !faults.is_empty() && faults.iter().all(|fault| fault.contains("closes a cycle")),
                "{item}: {faults:?}"
            );
        }
    }

    #[test]
    fn tests_do_not_count() {
        for item in [
            "#[cfg(test)]\nmod tests { use crate::high::thing::Thing; }",
            "#[cfg(any(test, feature = \"fake\"))]\nuse crate::high::thing::Thing;",
            "impl X { #[cfg(test)]\n fn f(_: crate::high::thing::Thing) {} }",
            "/// See [`crate::high::thing::Thing`].\nstruct X;",
        ] {
            assert_eq!(faults(item, &[]), Vec::<String>::new(), "{item}");
        }
        assert!(!faults("#[cfg(not(test))]\nuse crate::high::thing::Thing;", &[]).is_empty());
    }

    #[test]
    fn modules_below_modules_count() {
        let files = [("low/item.rs", "mod deep;\n"), ("low/item/deep.rs", "use crate::high::thing::Thing;\n")];
        let faults = crate_with(LIB, &files, &[]).1;
        assert!(faults.len() == 1 && faults[0].starts_with("low/item/deep.rs: "), "{faults:?}");
    }

    #[test]
    fn a_module_outside_a_family_is_a_fault() {
        let lib = format!("{LIB}mod alone;\n");
        let faults = crate_with(&lib, &[("alone.rs", "")], &[]).1;
        assert!(faults.len() == 1 && faults[0].contains("the module `alone` is in no family"), "{faults:?}");
        let faults = crate_with("pub mod low;\n", &[], &[]).1;
        assert_eq!(faults, ["there is no family `high`"]);
    }

    #[test]
    fn an_exception_is_exact() {
        let list = [OrderException { from: &["low"], name: "high::thing::Thing", why: "" }];
        assert_eq!(faults("use crate::high::thing::Thing;", &list), Vec::<String>::new());
        let others = faults("use crate::high::thing::{Other, Thing};", &list);
        assert!(others.len() == 1 && others[0].contains("high::thing::Other"), "{others:?}");
        let gone = faults("", &list);
        assert!(gone.len() == 1 && gone[0].contains("take it off the list"), "{gone:?}");
    }
}
