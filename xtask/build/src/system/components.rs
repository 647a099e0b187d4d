//! The components of a system description: native programs beside the instances (`docs/native.md`).

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use description::{COMPONENTS, Component, Instance, Memory, OFFERS, Restart};
use serde::Deserialize;

use super::instances::{RestartText, TrialText, memory, restart, trial};
use crate::elf;

/// A `[[component]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ComponentText {
    name: String,
    /// The program's file.
    pub program: PathBuf,
    memory: String,
    #[serde(default)]
    offers: Vec<String>,
    #[serde(default)]
    offers_to: Vec<String>,
    /// The programs that may use its endpoint, in the instances that it is offered to.
    #[serde(default)]
    programs: Vec<String>,
    client_of: Option<String>,
    restart: Option<RestartText>,
    trial: Option<TrialText>,
}

/// A component's name, and its program's bytes.
#[derive(Clone, Debug)]
pub struct Native {
    /// Its name.
    pub name: String,
    /// The file, without the parts that a start does not read.
    pub program: Vec<u8>,
}

/// Checks components against each other and against the instances.
///
/// # Errors
/// The description is invalid.
pub fn check<'a>(texts: &'a [ComponentText], instances: &[Instance<'_>]) -> Result<Vec<Component<'a>>> {
    if texts.len() > COMPONENTS {
        bail!("more than {COMPONENTS} components");
    }
    let mut all: Vec<Component<'a>> = Vec::new();
    for text in texts {
        let component = text.check(instances).with_context(|| format!("component `{}`", text.name))?;
        if all.iter().any(|other| other.name == component.name) {
            bail!("two components are named `{}`", component.name);
        }
        for name in component.offers.iter().flatten() {
            if let Some(other) = all.iter().find(|other| other.offers.contains(&Some(name))) {
                bail!("components `{}` and `{}` both offer `{name}`", other.name, component.name);
            }
        }
        all.push(component);
    }
    Ok(all)
}

/// Reads the components' programs.
///
/// # Errors
/// A program is missing, or the root task cannot start it.
pub fn programs(texts: &[ComponentText]) -> Result<Vec<Native>> {
    let read = |text: &ComponentText| -> Result<Native> {
        let program = elf::component(&text.program).with_context(|| format!("component `{}`", text.name))?;
        Ok(Native { name: text.name.clone(), program })
    };
    texts.iter().map(read).collect()
}

/// Names, and the files of their programs.
pub fn files(texts: &[ComponentText]) -> Vec<(String, PathBuf)> {
    texts.iter().map(|text| (text.name.clone(), text.program.clone())).collect()
}

/// The programs of an instance that may use endpoints of components.
pub fn trusted(texts: &[ComponentText], instance: &str) -> Vec<String> {
    let offered = texts.iter().filter(|text| text.offers_to.iter().any(|to| to == instance));
    let mut programs: Vec<String> = offered.flat_map(|text| text.programs.iter().cloned()).collect();
    programs.sort();
    programs.dedup();
    programs
}

impl ComponentText {
    /// The path of a program is relative to the file that names it.
    pub fn seen_from(&mut self, folder: &Path) {
        self.program = folder.join(&self.program);
    }

    fn check(&self, instances: &[Instance<'_>]) -> Result<Component<'_>> {
        name(&self.name)?;
        let number = |name: &String| {
            let known = instances.iter().position(|instance| instance.name == name);
            known.with_context(|| format!("there is no instance `{name}`"))
        };
        if instances.iter().any(|instance| instance.name == self.name) {
            bail!("an instance has that name, too");
        }
        if self.offers.len() > OFFERS {
            bail!("it offers more than {OFFERS} names");
        }
        let mut offers = [None; OFFERS];
        for (place, offer) in offers.iter_mut().zip(&self.offers) {
            name(offer).context("offers")?;
            *place = Some(offer.as_str());
        }
        let mut offers_to = 0;
        for to in &self.offers_to {
            offers_to |= 1 << number(to).context("offers-to")?;
        }
        if self.offers.is_empty() != self.offers_to.is_empty() {
            bail!("`offers` says what it offers, `offers-to` to which instances: one without the other means nothing");
        }
        if self.offers.is_empty() && !self.programs.is_empty() {
            bail!("`programs` are those that may find what it offers, and it offers nothing");
        }
        if let Some(odd) = self.programs.iter().find(|program| program.is_empty() || program.contains('/')) {
            bail!("programs: `{odd}` is no name of a program");
        }
        let Memory::Bytes(memory) = memory(&self.memory)? else { bail!("memory `{}`: a size is wanted", self.memory) };
        const MOST: u64 = 32 << 20;
        if memory > MOST {
            bail!("memory `{}`: a component has {} MiB at most", self.memory, MOST >> 20);
        }
        Ok(Component {
            name: &self.name,
            memory,
            offers,
            offers_to,
            client_of: self.client_of.as_ref().map(number).transpose().context("client-of")?.map(|n| n as u8),
            restart: self.restart.as_ref().map_or(Ok(Restart::DEFAULT), restart).context("restart")?,
            trial: self.trial.as_ref().map(trial).transpose().context("trial")?,
        })
    }
}

/// Checks a name.
fn name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > description::NAME || name.contains('/') {
        bail!("`{name}`: a name has 1 to {} bytes, and no `/`", description::NAME);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::system::instances::Instances;

    const MAIN: &str = "[[instance]]\nname = 'main'\ntimer = 'hpet'\nconsole = 'com1'\nlink = 'com2'\nmemory = '50%'\n";

    fn component(name: &str, rest: &str) -> String {
        format!("[[component]]\nname = '{name}'\nprogram = 'p'\nmemory = '64K'\n{rest}\n")
    }

    fn error(components: &str) -> String {
        format!("{:#}", Instances::parse(&format!("{MAIN}{components}")).expect_err("it was accepted"))
    }

    #[test]
    fn components_are_read() {
        let rest = "offers = ['keys']\noffers-to = ['main']\nprograms = ['ask']\nclient-of = 'main'\nrestart = 'never'";
        let text = format!("{MAIN}{}", component("vault", rest));
        let instances = Instances::parse(&text).unwrap();
        assert_eq!(instances.trusted("main"), ["ask"]);
        assert!(instances.trusted("other").is_empty());
        let bytes = instances.encode().unwrap();
        let vault = description::System::decode(&bytes).unwrap().components().next().unwrap();
        assert_eq!((vault.name, vault.memory, vault.client_of), ("vault", 65_536, Some(0)));
        assert_eq!((vault.offer("keys", 0), vault.offer("keys", 1), vault.offer("key", 0)), (Some(0), None, None));
    }

    #[test]
    fn mistakes_are_named() {
        let twice = |one: &str, two: &str| error(&format!("{}{}", component("a", one), component("b", two)));
        let offer = "offers = ['x']\noffers-to = ['main']";
        assert!(twice(offer, offer).contains("both offer `x`"));
        assert!(error(&component("a", "").repeat(2)).contains("two components are named `a`"));
        assert!(error(&component("main", "")).contains("an instance has that name"));
        assert!(error(&component("a/b", "")).contains("no `/`"));
        assert!(error(&component("a", "offers = ['x']")).contains("one without the other"));
        assert!(error(&component("a", "offers-to = ['main']")).contains("one without the other"));
        assert!(error(&component("a", "offers = ['x']\noffers-to = ['b']")).contains("no instance `b`"));
        assert!(error(&component("a", "client-of = 'b'")).contains("no instance `b`"));
        assert!(error(&component("a", "programs = ['p']")).contains("it offers nothing"));
        assert!(error(&component("a", "offers = ['1', '2', '3', '4', '5']")).contains("more than 4 names"));
        assert!(error(&component("a", "").replace("64K", "10%")).contains("a size is wanted"));
        assert!(error(&component("a", "").replace("64K", "33M")).contains("32 MiB at most"));
        assert!(error(&component("a", "").replace("64K", "6K")).contains("multiple of 4096"));
        assert!(error(&component("a", "speed = 9")).contains("unknown field"));
    }
}
