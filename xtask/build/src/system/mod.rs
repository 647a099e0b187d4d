//! Reads and checks `system.toml`. The instances may be in a separate file ([`instances`]).

pub mod components;
pub mod instances;
pub mod rules;
mod switch;

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, bail};
use description::Range;
use description::services::{Resource, Service};
use serde::{Deserialize, Deserializer, Serialize};

use components::ComponentText;
use instances::{InstanceText, Instances};
use rules::RuleText;
use switch::PortText;
use xtask_common::paths::Paths;
use xtask_common::size::parse_size;

/// `system.toml`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct System {
    instance: Vec<InstanceText>,
    #[serde(default)]
    component: Vec<ComponentText>,
    #[serde(default)]
    service: Vec<ServiceText>,
    #[serde(default)]
    driver: Vec<DriverText>,
    /// The content of the image.
    pub image: Image,
}

/// The content of the BOOTFS image in addition to the libraries.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Image {
    /// Packages whose programs are in every image.
    pub programs: Vec<String>,
    /// Packages whose programs are in images with a shell.
    #[serde(default)]
    pub shell_programs: Vec<String>,
    /// Packages whose programs are in the image of the conformance tests.
    #[serde(default)]
    pub test_programs: Vec<String>,
    /// Additional names of programs.
    #[serde(default)]
    pub names: BTreeMap<String, Vec<String>>,
    /// Programs that may inspect and kill all tasks if the system was booted for them.
    #[serde(default)]
    pub trusted: Vec<String>,
}

/// A service, and what the machine must have for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServiceEntry {
    /// The devices, of which it needs one; none: every machine has it.
    pub needs: Vec<DeviceNeed>,
    /// The description for `init`.
    pub service: Service,
}

/// Devices that only some machines have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceNeed {
    /// The third serial port.
    Terminal,
    /// A disk.
    Disk,
    /// A network card.
    Network,
    /// A network card of this model.
    VirtioNetPci,
    /// A network card of this model.
    #[serde(rename = "e1000e")]
    E1000e,
    /// No device, but the switch was asked for.
    Switch,
    /// No device, but the image must contain the test programs.
    Tests,
}

impl DeviceNeed {
    /// Whether no machine has both: a machine has one network card.
    fn excludes(self, other: DeviceNeed) -> bool {
        let is_model = |need| matches!(need, DeviceNeed::VirtioNetPci | DeviceNeed::E1000e);
        self != other && is_model(self) && is_model(other)
    }
}

impl ServiceEntry {
    /// Whether no machine has both services.
    fn excludes(&self, other: &ServiceEntry) -> bool {
        let both = |one: &DeviceNeed| other.needs.iter().all(|two| one.excludes(*two));
        !self.needs.is_empty() && !other.needs.is_empty() && self.needs.iter().all(both)
    }
}

/// One need, or a list of which one is enough.
fn one_or_more<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<DeviceNeed>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Text {
        One(DeviceNeed),
        More(Vec<DeviceNeed>),
    }
    Ok(match Text::deserialize(from)? {
        Text::One(need) => vec![need],
        Text::More(needs) => needs,
    })
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct ServiceText {
    name: String,
    program: String,
    #[serde(default)]
    arguments: Vec<String>,
    #[serde(default, deserialize_with = "one_or_more")]
    needs: Vec<DeviceNeed>,
    #[serde(default)]
    public: bool,
    #[serde(default)]
    programs: Vec<String>,
    mount: Option<String>,
    memory: Option<String>,
    #[serde(default)]
    uses: Vec<String>,
    #[serde(default)]
    rules: BTreeMap<String, RuleText>,
    #[serde(default)]
    ports: BTreeMap<String, PortText>,
}

/// A service with parts of the machine.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct DriverText {
    name: String,
    program: String,
    #[serde(default)]
    arguments: Vec<String>,
    #[serde(default, deserialize_with = "one_or_more")]
    needs: Vec<DeviceNeed>,
    #[serde(default)]
    public: bool,
    #[serde(default)]
    programs: Vec<String>,
    memory: Option<String>,
    #[serde(default)]
    ports: Vec<String>,
    #[serde(default)]
    pins: Vec<u8>,
    #[serde(default)]
    windows: Vec<String>,
    #[serde(default)]
    facilities: Vec<FacilityText>,
    #[serde(default)]
    uses: Vec<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FacilityText {
    Iommu,
    Msi,
}

impl System {
    /// Reads the tree's `system.toml`.
    ///
    /// # Errors
    /// It cannot be read, or it is invalid.
    pub fn read(paths: &Paths) -> Result<System> {
        let path = paths.workspace.join("system.toml");
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut system = System::parse(&text).with_context(|| format!("in {}", path.display()))?;
        system.component.iter_mut().for_each(|component| component.seen_from(&paths.workspace));
        Ok(system)
    }

    fn parse(text: &str) -> Result<System> {
        let system: System = toml::from_str(text)?;
        system.instances()?;
        system.services()?;
        Ok(system)
    }

    /// The instances.
    ///
    /// # Errors
    /// Their description is invalid.
    pub fn instances(&self) -> Result<Instances> {
        Instances::new(self.instance.clone(), self.component.clone())
    }

    /// The services, the drivers first.
    ///
    /// # Errors
    /// Their description is invalid: two have the same name or mount path, one uses a service that does not exist, or a
    /// range is empty or overlaps another. Two that no machine has both may share what they like.
    pub fn services(&self) -> Result<Vec<ServiceEntry>> {
        let mut all: Vec<ServiceEntry> = Vec::new();
        let drivers = self.driver.iter().map(|text| (&text.name, &text.needs, text.check()));
        let services = self.service.iter().map(|text| (&text.name, &text.needs, text.check()));
        for (name, needs, service) in drivers.chain(services) {
            let service = service.with_context(|| format!("service `{name}`"))?;
            let entry = ServiceEntry { needs: needs.clone(), service };
            let service = &entry.service;
            for ServiceEntry { service: other, .. } in all.iter().filter(|other| !entry.excludes(other)) {
                if other.name == service.name {
                    bail!("two services are named `{}`", service.name);
                }
                if service.mount.is_some() && service.mount == other.mount {
                    bail!("services `{}` and `{}` both are at one path", other.name, service.name);
                }
                let shared = service.resources.iter().find(|one| other.resources.iter().any(|two| overlap(one, two)));
                if let Some(resource) = shared {
                    bail!("drivers `{}` and `{}` both have {}", other.name, service.name, said(resource));
                }
            }
            for used in service.uses.iter().flat_map(|used| alternatives(used)) {
                // A service can use only services above it, so none waits for itself.
                let used = used.split_once('/').map_or(used, |(used, _)| used);
                if !all.iter().any(|known| known.service.name == used) {
                    bail!("service `{name}` uses `{used}`, and no service above it has that name");
                }
            }
            all.push(entry);
        }
        Ok(all)
    }
}

impl ServiceText {
    fn check(&self) -> Result<Service> {
        if let Some(path) = &self.mount
            && (!path.starts_with('/')
                || path[1..].is_empty()
                || path[1..].contains('/')
                || path == "/boot"
                || path == "/svc")
        {
            bail!("mount `{path}`: a path of one part, such as /tmp, and neither /boot nor /svc");
        }
        let (ports, of_ports) = switch::ports(&self.ports).context("ports")?;
        Ok(Service {
            name: service_name(&self.name)?,
            program: self.program.clone(),
            arguments: [self.arguments.as_slice(), &ports].concat(),
            public: self.public,
            programs: self.programs.clone(),
            mount: self.mount.clone(),
            memory: limit(self.memory.as_deref())?,
            resources: Vec::new(),
            uses: self.uses.clone(),
            rules: [rules::check(&self.name, &self.rules)?, of_ports].concat(),
        })
    }
}

impl DriverText {
    fn check(&self) -> Result<Service> {
        let mut resources = Vec::new();
        for text in &self.ports {
            let Range { first, last } = range(text, 0xffff).context("ports")?;
            // The bounds were checked above.
            resources.push(Resource::Ports { first: first as u16, last: last as u16 });
        }
        resources.extend(self.pins.iter().map(|pin| Resource::Pin(*pin)));
        for text in &self.windows {
            let Range { first, last } = range(text, u64::MAX).context("windows")?;
            resources.push(Resource::Memory { first, last });
        }
        resources.extend(self.facilities.iter().map(|facility| match facility {
            FacilityText::Iommu => Resource::Iommu,
            FacilityText::Msi => Resource::Msi,
        }));
        Ok(Service {
            name: service_name(&self.name)?,
            program: self.program.clone(),
            arguments: self.arguments.clone(),
            public: self.public,
            programs: self.programs.clone(),
            mount: None,
            memory: limit(self.memory.as_deref())?,
            resources,
            uses: self.uses.clone(),
            rules: Vec::new(),
        })
    }
}

/// The services of which one that is used is the first that a machine has: `switch/system | net0`.
pub fn alternatives(used: &str) -> impl Iterator<Item = &str> {
    used.split('|').map(str::trim)
}

fn service_name(name: &str) -> Result<String> {
    if name.is_empty() || name.contains(['/', '|', ':']) {
        bail!("a name has at least one character, and neither `/`, `|` nor `:`");
    }
    Ok(name.to_owned())
}

/// The memory limit of a service.
fn limit(text: Option<&str>) -> Result<Option<u64>> {
    let size = |text| parse_size(text).map_err(|why| anyhow::anyhow!("memory `{text}`: {why}"));
    text.map(size).transpose()
}

/// Whether two resources overlap, so that two drivers cannot have both.
fn overlap(one: &Resource, two: &Resource) -> bool {
    let meet = |(a, a_last): (u64, u64), (b, b_last): (u64, u64)| a <= b_last && b <= a_last;
    match (*one, *two) {
        (Resource::Ports { first: a, last: a_last }, Resource::Ports { first: b, last: b_last }) => {
            meet((a.into(), a_last.into()), (b.into(), b_last.into()))
        }
        (Resource::Memory { first: a, last: a_last }, Resource::Memory { first: b, last: b_last }) => {
            meet((a, a_last), (b, b_last))
        }
        (Resource::Pin(a), Resource::Pin(b)) => a == b,
        _ => false,
    }
}

fn said(resource: &Resource) -> String {
    match resource {
        Resource::Ports { first, last } => format!("the ports {first:#x}-{last:#x}"),
        Resource::Pin(pin) => format!("the interrupt at pin {pin}"),
        Resource::Memory { first, last } => format!("the memory {first:#x}-{last:#x}"),
        Resource::Iommu => "the IOMMU".into(),
        Resource::Msi => "message-signalled interrupts".into(),
    }
}

fn range(text: &str, highest: u64) -> Result<Range> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(first)?, number(last)?);
    if first > last || last > highest {
        bail!("`{text}` is no range up to {highest:#x}");
    }
    Ok(Range { first, last })
}

fn number(text: &str) -> Result<u64> {
    let text = text.trim();
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.with_context(|| format!("`{text}` is no number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "[image]\nprograms = []\n[[instance]]\nname = 'main'\ntimer = 'hpet'\nconsole = 'com1'\nlink = 'com2'\n";

    fn error(text: &str) -> String {
        format!("{:#}", System::parse(text).expect_err("it was accepted"))
    }

    #[test]
    fn mistakes_in_drivers_are_named() {
        let driver = |name: &str, rest: &str| format!("[[driver]]\nname = '{name}'\nprogram = 'p'\n{rest}\n");
        let error = |drivers: &[String]| error(&format!("{HEAD}memory = '1M'\n{}", drivers.concat()));
        assert!(error(&[driver("a", "uses = ['b/c']"), driver("b", "")]).contains("no service above it"));
        assert!(error(&[driver("a", ""), driver("a", "")]).contains("named `a`"));
        assert!(error(&[driver("a/b", "")]).contains("neither `/`"));
        assert!(error(&[driver("a", "uses = ['b | c']"), driver("b", "")]).contains("uses `b`"));
        assert!(error(&[driver("a", "ports = ['0xffff-0x10000']")]).contains("no range"));
        let ports = [driver("a", "ports = ['8-15']"), driver("b", "ports = ['15']")];
        assert!(error(&ports).contains("both have the ports 0xf-0xf"));
        assert!(error(&[driver("a", "pins = [5]"), driver("b", "pins = [5]")]).contains("pin 5"));
        let tmp = "[[service]]\nname = 'tmp'\nprogram = 'p'\nmount = '/tmp'\n".to_owned();
        assert!(error(&[tmp.clone(), tmp.replace("'tmp'", "'t'")]).contains("at one path"));
        assert!(error(&[tmp.replace("'/tmp'", "'/a/b'")]).contains("one part"));
        assert!(error(&[tmp.replace("mount = '/tmp'", "memory = '1X'")]).contains("memory"));
        // The drivers of two cards may have one name, as a machine has one card; but only those.
        let cards =
            |one: &str, two: &str| [driver("a", &format!("needs = {one}")), driver("a", &format!("needs = {two}"))];
        assert!(error(&cards("'e1000e'", "'e1000e'")).contains("named `a`"));
        assert!(error(&cards("'e1000e'", "'network'")).contains("named `a`"));
        assert!(error(&cards("'e1000e'", "'disk'")).contains("named `a`"));
        assert!(error(&cards("'e1000e'", "['virtio-net-pci', 'disk']")).contains("named `a`"));
        assert!(error(&cards("'e1000e'", "[]")).contains("named `a`"));
        let both = format!("{HEAD}memory = '1M'\n{}", cards("'e1000e'", "'virtio-net-pci'").concat());
        assert_eq!(System::parse(&both).unwrap().services().unwrap().len(), 2);
        let fine = [driver("a", "ports = ['8-15']"), driver("b", "ports = ['16']\nuses = ['a']")].concat();
        assert_eq!(System::parse(&format!("{HEAD}memory = '1M'\n{fine}")).unwrap().services().unwrap().len(), 2);
    }
}
