//! What `rump check` prints about a prefix.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::components;
use super::plan::{Plan, Planner};
use super::prefix::{Facts, Kind, Prefix};

/// Width of the text.
const WIDTH: usize = 110;
/// Width of the names of its lines.
const LABEL: usize = 13;

/// The text, and whether programs can be linked with the prefix.
///
/// `answered` are the calls that `librumpuser.a` defines; none if it is not built yet.
pub fn report(prefix: &Prefix, answered: Option<&BTreeSet<String>>) -> (String, bool) {
    let mut text = String::new();
    let facts = match prefix.facts() {
        Ok(facts) => facts,
        Err(why) => {
            line(&mut text, "unusable", &why);
            return (text, false);
        }
    };
    line(&mut text, "kind", kind(&facts));
    line(&mut text, "compiler", &compiler(&facts));
    line(&mut text, "build", &build(&facts));
    let revision = facts.check_revision();
    match &revision {
        Ok(()) => line(&mut text, "hypercalls", &format!("revision {}", super::prefix::REVISION)),
        Err(why) => line(&mut text, "hypercalls", &format!("unusable: {why}")),
    }
    let answered_or_none = BTreeSet::new();
    let planner = Planner::new(prefix, answered.unwrap_or(&answered_or_none));
    let components = Components::of(prefix, &planner);
    components.print(&mut text, answered.is_some());
    if prefix.headers.is_none() {
        line(&mut text, "headers", "missing: include/rump/rump.h; programs that call the kernel do not compile");
    }
    (text, revision.is_ok() && components.has_base)
}

/// The components of a prefix, each planned alone.
struct Components<'a> {
    /// Short names of those that can be linked, and of libraries without a short name.
    there: Vec<&'a str>,
    /// Those of the table that the prefix lacks.
    missing: Vec<&'a str>,
    /// Those that cannot be linked, and why.
    unusable: BTreeMap<String, BTreeSet<&'a str>>,
    /// Object files that are left out.
    left_out: BTreeSet<(String, String)>,
    /// Calls that nothing answers, by the components that make them themselves.
    unmet: BTreeMap<&'a str, Vec<String>>,
    has_base: bool,
}

impl<'a> Components<'a> {
    fn of(prefix: &'a Prefix, planner: &Planner<'_>) -> Components<'a> {
        let mut of = Components {
            there: Vec::new(),
            missing: Vec::new(),
            unusable: BTreeMap::new(),
            left_out: BTreeSet::new(),
            unmet: BTreeMap::new(),
            has_base: false,
        };
        for library in prefix.libraries.keys() {
            let name = components::name(library);
            match planner.plan(&[name.to_string()]) {
                Ok(plan) => of.take(library, name, plan),
                Err(why) => {
                    of.unusable.entry(why).or_default().insert(name);
                }
            }
        }
        let is_missing = |library: &String| !prefix.libraries.contains_key(library);
        let missing = components::all().iter().filter(|(_, component)| is_missing(&component.library));
        of.missing = missing.map(|(name, _)| name.as_str()).collect();
        of.there.sort_unstable();
        of
    }

    fn take(&mut self, library: &'a str, name: &'a str, plan: Plan) {
        self.there.push(name);
        self.has_base |= library == super::prefix::BASE;
        self.left_out.extend(plan.left_out);
        let own = plan.unmet.into_iter().filter(|(_, by)| by.contains(library)).map(|(symbol, _)| symbol);
        let own: Vec<String> = own.collect();
        if !own.is_empty() {
            self.unmet.insert(name, own);
        }
    }

    fn print(&self, text: &mut String, is_answered_known: bool) {
        line(text, "components", &format!("{}: {}", self.there.len(), self.there.join(" ")));
        if !self.missing.is_empty() {
            line(text, "not in it", &self.missing.join(" "));
        }
        for (why, names) in &self.unusable {
            let names: Vec<&str> = names.iter().copied().collect();
            line(text, "unusable", &format!("{}: {why}", names.join(" ")));
        }
        if !self.left_out.is_empty() {
            let names: Vec<&str> = self.left_out.iter().map(|(_, member)| member.as_str()).collect();
            let why = "calls functions of the system that the prefix was built for";
            line(text, "left out", &format!("{}: {why}", names.join(" ")));
        }
        if !is_answered_known {
            line(text, "calls", "not checked, because librumpuser.a is not built yet: `./hafnon build` builds it");
            return;
        }
        if self.unmet.is_empty() {
            line(text, "calls", "all answered by this system");
        }
        for (name, symbols) in &self.unmet {
            line(text, "not answered", &format!("{name}: {}", symbols.join(" ")));
        }
    }
}

fn kind(facts: &Facts) -> &'static str {
    match facts.kind {
        Kind::Constructors => "for POSIX systems: components in constructors",
        Kind::LinkSets => "kernel only: components in link sets",
        Kind::Rumprun => "rumprun's: components in link sets; it defines open, read, … itself, which are made local",
    }
}

fn compiler(facts: &Facts) -> String {
    let name = facts.compiler.as_deref().unwrap_or("unknown");
    match facts.has_safe_stack {
        true => format!("{name}, for Fuchsia's target: with SafeStack"),
        false => name.to_string(),
    }
}

fn build(facts: &Facts) -> String {
    let checks = if facts.has_diagnostic { "with DIAGNOSTIC: assertions are checked" } else { "release" };
    let debug = if facts.has_debug_information { "with debug information" } else { "no debug information" };
    format!("{checks}; {debug}")
}

/// Adds a line with a name, wrapped at blanks.
fn line(text: &mut String, label: &str, words: &str) {
    let mut current = format!("{label:<LABEL$}");
    let mut is_empty = true;
    for word in words.split_whitespace() {
        if !is_empty && current.chars().count() + word.chars().count() >= WIDTH {
            let _ = writeln!(text, "{}", current.trim_end());
            current = " ".repeat(LABEL);
        }
        let _ = write!(current, "{word} ");
        is_empty = false;
    }
    let _ = writeln!(text, "{}", current.trim_end());
}
