//! The plan of a link: which object files of which libraries, and which calls nothing answers. It is made of a prefix's
//! facts alone, so tests make it of prefixes that nobody built.

use std::collections::{BTreeMap, BTreeSet};

use super::components;
use super::objects::Object;
use super::prefix::Prefix;

/// What is linked into a rump kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Libraries that are linked whole.
    pub whole: Vec<String>,
    /// Libraries of which only these object files are linked (their places in the library).
    pub parts: BTreeMap<String, Vec<usize>>,
    /// Object files that are left out because they call the system that the prefix was built for: library and member.
    pub left_out: Vec<(String, String)>,
    /// Calls that neither the kernel nor this system answers, with the libraries that make them.
    pub unmet: BTreeMap<String, BTreeSet<String>>,
}

/// How often libraries that the table does not name may ask for further ones. A plan costs as much as this, and `check`
/// makes one for each library.
const ROUNDS: usize = 16;

/// Whether a kernel may have the symbol from outside of the prefix: hypercalls, and what the linker and the C library
/// define.
fn is_from_outside(symbol: &str) -> bool {
    ["rump", "RUMP", "__start_link_set_", "__stop_link_set_"].iter().any(|begin| symbol.starts_with(begin))
        || matches!(symbol, "_GLOBAL_OFFSET_TABLE_" | "__stack_chk_fail" | "__tls_get_addr")
}

/// Whether an object file belongs to the system that the prefix was built for: it wants functions of a C library
/// or of a layer of rumprun's.
pub fn is_of_host(object: &Object, defined: &BTreeMap<&str, BTreeSet<&str>>) -> bool {
    object.wanted.iter().any(|symbol| !is_from_outside(symbol) && !defined.contains_key(symbol.as_str()))
}

/// Plans rump kernels from one prefix.
#[derive(Debug)]
pub struct Planner<'a> {
    prefix: &'a Prefix,
    defined: BTreeMap<&'a str, BTreeSet<&'a str>>,
    answered: &'a BTreeSet<String>,
}

impl<'a> Planner<'a> {
    /// `answered` are the calls that `librumpuser.a` defines.
    pub fn new(prefix: &'a Prefix, answered: &'a BTreeSet<String>) -> Planner<'a> {
        Planner { prefix, defined: prefix.definitions(), answered }
    }

    /// Plans a rump kernel with these components.
    ///
    /// # Errors
    /// A component is unknown, missing or cannot be used; the error says what to do.
    pub fn plan(&self, wanted: &[String]) -> Result<Plan, String> {
        let known = self.prefix.libraries.keys().map(String::as_str).collect();
        let mut chosen = components::closure(wanted, &known)?;
        for _ in 0..ROUNDS {
            usable(self.prefix, &chosen)?;
            let mut plan = objects(self.prefix, &chosen, &self.defined);
            let missing = missing(self.prefix, &plan);
            // A library that the table does not name, in a newer prefix: the symbols tell.
            let more = missing.keys().filter_map(|symbol| only(self.defined.get(symbol.as_str())?));
            let more: BTreeSet<String> = more.filter(|library| !chosen.contains(*library)).map(String::from).collect();
            if !more.is_empty() {
                chosen.extend(more);
                continue;
            }
            plan.unmet = missing.into_iter().filter(|(symbol, _)| !self.answered.contains(symbol)).collect();
            return match plan.unmet.iter().find(|(symbol, _)| symbol.starts_with("rumpns_")) {
                None => Ok(plan),
                Some((symbol, by)) => Err(self.not_defined(symbol, by)),
            };
        }
        Err(format!(
            "{} wants others, these want others, and so on: name the components that you need",
            wanted.join(", ")
        ))
    }

    fn not_defined(&self, symbol: &str, by: &BTreeSet<String>) -> String {
        let names = |libraries: &mut dyn Iterator<Item = &str>| {
            libraries.map(|library| components::name(library).to_string()).collect::<Vec<_>>().join(", ")
        };
        let by = names(&mut by.iter().map(String::as_str));
        match self.defined.get(symbol) {
            Some(others) => {
                let others = names(&mut others.iter().copied());
                format!("{by} wants `{symbol}`, which several components define: add one of {others}")
            }
            None => format!("{by} wants `{symbol}`, which nothing in the prefix defines"),
        }
    }
}

fn only<'a>(libraries: &BTreeSet<&'a str>) -> Option<&'a str> {
    if libraries.len() == 1 { libraries.first().copied() } else { None }
}

/// Every chosen library is there and can be read.
fn usable(prefix: &Prefix, chosen: &BTreeSet<String>) -> Result<(), String> {
    let missing: Vec<String> = chosen
        .iter()
        .filter(|library| !prefix.libraries.contains_key(*library))
        .map(|library| format!("{} (lib{library}.a)", components::name(library)))
        .collect();
    if !missing.is_empty() {
        return Err(format!("not in this prefix: {}; docs/rump.md tells how its parts are built", missing.join(", ")));
    }
    for library in chosen {
        if let Some(fault) = &prefix.libraries[library].fault {
            return Err(format!("lib{library}.a cannot be used: {fault}; build the prefix again"));
        }
    }
    Ok(())
}

/// The chosen libraries without the object files of another system.
fn objects(prefix: &Prefix, chosen: &BTreeSet<String>, defined: &BTreeMap<&str, BTreeSet<&str>>) -> Plan {
    let mut plan = Plan::default();
    for library in chosen {
        let all = &prefix.libraries[library].objects;
        let kept: Vec<usize> = (0..all.len()).filter(|&at| !is_of_host(&all[at], defined)).collect();
        if kept.len() == all.len() {
            plan.whole.push(library.clone());
            continue;
        }
        let left = all.iter().filter(|object| is_of_host(object, defined));
        plan.left_out.extend(left.map(|object| (library.clone(), object.name.clone())));
        plan.parts.insert(library.clone(), kept);
    }
    plan
}

impl Plan {
    /// The object files of the plan, each with its library.
    fn objects<'a>(&'a self, prefix: &'a Prefix) -> impl Iterator<Item = (&'a str, &'a Object)> {
        let whole = self.whole.iter().flat_map(move |library| {
            prefix.libraries[library].objects.iter().map(move |object| (library.as_str(), object))
        });
        let parts = self.parts.iter().flat_map(move |(library, kept)| {
            kept.iter().map(move |&at| (library.as_str(), &prefix.libraries[library].objects[at]))
        });
        whole.chain(parts)
    }

    /// Short names of all components, in order.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> =
            self.whole.iter().chain(self.parts.keys()).map(|library| components::name(library)).collect();
        names.sort_unstable();
        names
    }
}

/// The symbols that the plan's object files want and none of them defines, with the libraries that want them.
fn missing(prefix: &Prefix, plan: &Plan) -> BTreeMap<String, BTreeSet<String>> {
    let defined: BTreeSet<&str> =
        plan.objects(prefix).flat_map(|(_, object)| object.defined.iter().map(String::as_str)).collect();
    let mut missing: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (library, object) in plan.objects(prefix) {
        for symbol in &object.wanted {
            let of_others = !symbol.starts_with("rump") && is_from_outside(symbol);
            if !of_others && !defined.contains(symbol.as_str()) {
                missing.entry(symbol.clone()).or_default().insert(library.to_string());
            }
        }
    }
    missing
}
