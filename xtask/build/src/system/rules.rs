//! What programs get of the network: the rules of the service `network` in `system.toml`, and of `run --net-rule`.

use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow, bail};
use description::network::Rule;
use description::services::{Access, OTHERS, ProgramRule};
use serde::Deserialize;

use super::ServiceEntry;

/// The service whose rules these are.
const NETWORK: &str = "network";

/// A program's rule.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "a rule is \"all\", \"none\" or { connect = [...], listen = [...], names = true }")]
pub enum RuleText {
    /// `all` or `none`.
    Word(String),
    /// Addresses and ports.
    Part(PartText),
}

/// What a program may do. Without a key: nothing of that kind.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PartText {
    #[serde(default)]
    connect: Vec<String>,
    #[serde(default)]
    listen: Vec<PortsText>,
    #[serde(default)]
    names: bool,
}

/// A port, or a text with ports.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum PortsText {
    Port(u16),
    Text(String),
}

impl RuleText {
    fn check(&self) -> Result<Access> {
        match self {
            RuleText::Word(word) if word == "all" => Ok(Access::All),
            RuleText::Word(word) if word == "none" => Ok(Access::Nothing),
            RuleText::Word(word) => bail!("`{word}` is neither `all` nor `none`"),
            RuleText::Part(PartText { connect, listen, names }) => {
                let text = |ports: &PortsText| match ports {
                    PortsText::Port(port) => port.to_string(),
                    PortsText::Text(text) => text.clone(),
                };
                let listen: Vec<String> = listen.iter().map(text).collect();
                let rule = Rule::parse(connect, &listen, *names).map_err(|why| anyhow!(why))?;
                Ok(Access::Part(rule.encode()?))
            }
        }
    }
}

/// Checks a name of programs.
///
/// # Errors
/// It is none.
pub fn check_program(program: &str) -> Result<()> {
    let name = program.strip_prefix("run/").unwrap_or(program);
    if name.is_empty() || name.contains(['/', '*', ' ']) && program != OTHERS {
        bail!("`{program}` is neither a program's NAME, nor `run/NAME` (if `hafnon run` is told its file), nor `*`");
    }
    Ok(())
}

/// Checks the rules of a service.
///
/// # Errors
/// One is invalid; or the service has no rules for its clients.
pub fn check(service: &str, rules: &BTreeMap<String, RuleText>) -> Result<Vec<ProgramRule>> {
    if service != NETWORK && !rules.is_empty() {
        bail!("only the service `{NETWORK}` has rules");
    }
    let rule = |(program, text): (&String, &RuleText)| -> Result<ProgramRule> {
        check_program(program)?;
        let access = text.check().with_context(|| format!("the rule for `{program}`"))?;
        Ok(ProgramRule { program: program.clone(), access })
    };
    if !rules.is_empty() && !rules.contains_key(OTHERS) {
        bail!("a rule for `{OTHERS}` is needed, too: it says what all other programs get (`\"all\"`, `\"none\"`, ...)");
    }
    rules.iter().map(rule).collect()
}

/// Reads the text of `--net-rule`: `all`, `none`, or of `connect=ADDRESS:PORTS`, `listen=PORTS` and `names` what the
/// program needs, with commas between them.
///
/// # Errors
/// It is something else.
pub fn parse(text: &str) -> Result<Access, String> {
    let rule = match text {
        "all" | "none" => RuleText::Word(text.to_owned()),
        _ => {
            let mut part = PartText::default();
            for word in text.split(',') {
                match word.split_once('=') {
                    Some(("connect", range)) => part.connect.push(range.to_owned()),
                    Some(("listen", ports)) => part.listen.push(PortsText::Text(ports.to_owned())),
                    None if word == "names" => part.names = true,
                    _ => {
                        return Err(format!(
                            "`{word}`: a rule is `all`, `none`, or a list of connect=ADDRESS:PORTS, listen=PORTS and names"
                        ));
                    }
                }
            }
            RuleText::Part(part)
        }
    };
    rule.check().map_err(|error| format!("{error:#}"))
}

/// Gives a program this rule, in place of the one that it has.
///
/// # Errors
/// The description has no service `network`.
pub fn set(services: &mut [ServiceEntry], program: &str, access: Access) -> Result<()> {
    let entry = services.iter_mut().find(|entry| entry.service.name == NETWORK);
    let rules = &mut entry.with_context(|| format!("the system has no service `{NETWORK}`"))?.service.rules;
    rules.retain(|rule| rule.program != program);
    rules.push(ProgramRule { program: program.to_owned(), access });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Result<Vec<ProgramRule>> {
        check(NETWORK, &toml::from_str(text)?)
    }

    fn part(connect: &[&str], listen: &[&str], names: bool) -> Access {
        Access::Part(Rule::parse(connect, listen, names).unwrap().encode().unwrap())
    }

    #[test]
    fn rules_of_the_description() {
        let text = "'*' = 'none'\nsh = 'all'\nweb = { connect = ['10.0.2.0/24:443'], listen = [80, '8000-8100'] }";
        let found = rules(text).unwrap();
        let of = |name: &str| &found.iter().find(|rule| rule.program == name).unwrap().access;
        assert_eq!((of("*"), of("sh")), (&Access::Nothing, &Access::All));
        assert_eq!(of("web"), &part(&["10.0.2.0/24:443"], &["80", "8000-8100"], false));
        let error = |text: &str| format!("{:#}", rules(&format!("'*' = 'all'\n{text}")).unwrap_err());
        assert!(rules("sh = 'none'").unwrap_err().to_string().contains("a rule for `*` is needed"));
        for name in ["run/*", "web ", "w*", "run/", ""] {
            assert!(error(&format!("'{name}' = 'none'")).contains("is neither a program's NAME"), "{name}");
        }
        assert!(error("sh = 'some'").contains("the rule for `sh`: `some` is neither"));
        assert!(error("sh = { listen = [0] }").contains("ports are like 80"));
        assert!(error("sh = { connect = ['example.com:80'] }").contains("an address is like"));
        assert!(error("'/bin/sh' = 'all'").contains("is neither a program's NAME"));
        assert!(error("sh = { conect = [] }").contains("a rule is \"all\""));
        assert!(error("sh = { listen = [70000] }").contains("a rule is \"all\""));
        let other = check("tmp", &toml::from_str("sh = 'all'").unwrap()).unwrap_err();
        assert!(other.to_string().contains("only the service `network`"));
    }

    #[test]
    fn rules_of_the_command_line() {
        assert_eq!((parse("all"), parse("none")), (Ok(Access::All), Ok(Access::Nothing)));
        let both = parse("connect=10.0.2.2:*,listen=80,names,listen=127.0.0.1:90");
        assert_eq!(both, Ok(part(&["10.0.2.2:*"], &["80", "127.0.0.1:90"], true)));
        for wrong in ["", "some", "connect", "connect=", "connect=10.0.2.2", "listen=http", "names=no", "all,names"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
