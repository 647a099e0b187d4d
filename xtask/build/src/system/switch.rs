//! The ports of a switch: `[service.ports]` in `system.toml`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, anyhow, bail};
use description::services::{Access, OTHERS, ProgramRule};
use description::switch::{Grant, Port, PortKind, check};
use serde::Deserialize;

use super::rules::check_program;

/// A port.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PortText {
    /// What is at it.
    #[serde(default)]
    kind: PortKind,
    /// Its hardware address; a card's port has none.
    mac: Option<String>,
    /// The programs that may have it; `*` for all. Services that use it need not stand here.
    #[serde(default)]
    programs: Vec<String>,
    /// The ports to which it may send. Without this: all.
    sends_to: Option<Vec<String>>,
}

/// What the ports of a service add to its description: arguments for the switch, and the rules for programs.
///
/// # Errors
/// They are invalid.
pub fn ports(texts: &BTreeMap<String, PortText>) -> Result<(Vec<String>, Vec<ProgramRule>)> {
    if texts.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let port = |(name, text): (&String, &PortText)| {
        let port = Port::new(name, text.kind, text.mac.as_deref(), text.sends_to.clone()).map_err(|why| anyhow!(why));
        port.with_context(|| format!("port `{name}`"))
    };
    let ports = texts.iter().map(port).collect::<Result<Vec<Port>>>()?;
    check(&ports).map_err(|why| anyhow!(why))?;
    if let Some((name, _)) = texts.iter().find(|(_, text)| text.kind != PortKind::Guest && !text.programs.is_empty()) {
        bail!("port `{name}`: only a guest's port is for programs");
    }
    let programs: BTreeSet<&String> = texts.values().flat_map(|text| &text.programs).collect();
    let mut rules = Vec::new();
    for program in &programs {
        check_program(program).context("a program of a port")?;
        let may = |text: &PortText| text.programs.iter().any(|other| other == *program || other == OTHERS);
        let names = texts.iter().filter(|(_, text)| may(text)).map(|(name, _)| name.clone()).collect();
        let access = Access::Part(Grant { ports: names }.encode()?);
        rules.push(ProgramRule { program: (*program).clone(), access });
    }
    if !programs.iter().any(|program| *program == OTHERS) {
        rules.push(ProgramRule { program: OTHERS.to_owned(), access: Access::Nothing });
    }
    Ok((ports.iter().map(Port::to_argument).collect(), rules))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<(Vec<String>, Vec<ProgramRule>)> {
        ports(&toml::from_str(text)?)
    }

    #[test]
    fn ports_become_arguments_and_rules() {
        let text = "a = { mac = '02:00:00:00:00:01', programs = ['linux'], sends-to = ['b'] }\n\
                    b = { mac = '02:00:00:00:00:02', programs = ['linux', 'run/x'] }\nc = { mac = '02:00:00:00:00:03' }";
        let (arguments, rules) = of(text).unwrap();
        assert_eq!(arguments[0], "port=a,mac=02:00:00:00:00:01,to=b");
        assert_eq!(arguments[2], "port=c,mac=02:00:00:00:00:03");
        let (others, _) = of("a = { kind = 'card' }\nb = { kind = 'service', mac = '02:00:00:00:00:01' }").unwrap();
        assert_eq!(others, ["port=a,kind=card", "port=b,kind=service,mac=02:00:00:00:00:01"]);
        let rule = |name: &str| rules.iter().find(|rule| rule.program == name).map(|rule| rule.access.clone());
        let part = |names: &[&str]| {
            let ports = names.iter().map(ToString::to_string).collect();
            Some(Access::Part(Grant { ports }.encode().unwrap()))
        };
        assert_eq!((rule("linux"), rule("run/x")), (part(&["a", "b"]), part(&["b"])));
        assert_eq!(rule("*"), Some(Access::Nothing));
        // What all programs may have, a program with more may have, too.
        let (_, rules) = of(&text.replace("'run/x'", "'*'")).unwrap();
        let rule = |name: &str| rules.iter().find(|rule| rule.program == name).map(|rule| rule.access.clone());
        assert_eq!((rule("linux"), rule("*"), rules.len()), (part(&["a", "b"]), part(&["b"]), 2));
    }

    #[test]
    fn mistakes_are_named() {
        let error = |text: &str| format!("{:#}", of(text).unwrap_err());
        assert!(error("a = { mac = '2' }").contains("port `a`: `2` is no hardware address"));
        assert!(error("'a/b' = { mac = '02:00:00:00:00:01' }").contains("is no name of a port"));
        assert!(error("a = { mac = '02:00:00:00:00:01', sends-to = ['b'] }").contains("sends to `b`"));
        assert!(error("a = { mac = '02:00:00:00:00:01', programs = ['/bin/x'] }").contains("neither a program's NAME"));
        assert!(error("a = { mac = '02:00:00:00:00:01', vlan = 1 }").contains("unknown field"));
        assert!(error("a = { mac = '02:00:00:00:00:01', kind = 'hub' }").contains("unknown variant"));
        assert!(error("a = { kind = 'service' }").contains("no hardware address"));
        assert!(error("a = { kind = 'card', programs = ['*'] }").contains("only a guest's port"));
    }
}
