//! Reads `system.toml` and checks it.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, bail};
use description::services::{Resource, Service};
use description::{Devices, Instance, Level, Memory, RANGES, Range, Ranges, Serial, Timer};
use serde::{Deserialize, Serialize};

use crate::cli::parse_size;
use crate::paths::Paths;

/// `system.toml`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct System {
    instance: Vec<InstanceText>,
    #[serde(default)]
    service: Vec<ServiceText>,
    #[serde(default)]
    driver: Vec<DriverText>,
    /// What stands in the image.
    pub image: Image,
}

/// What stands in the BOOTFS image beside the libraries.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Image {
    /// Packages whose binaries stand in every image.
    pub programs: Vec<String>,
    /// Packages whose binaries stand in images with a shell.
    #[serde(default)]
    pub shell_programs: Vec<String>,
    /// Packages whose binaries stand in the image of the conformance tests.
    #[serde(default)]
    pub test_programs: Vec<String>,
    /// Further names of programs.
    #[serde(default)]
    pub names: BTreeMap<String, Vec<String>>,
    /// Programs that may look at all tasks and end all, when the system was booted for them.
    #[serde(default)]
    pub trusted: Vec<String>,
}

/// A service, and what the machine must have for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Known {
    /// The device; `None`: every machine has it.
    pub needs: Option<Need>,
    /// What `init` is told.
    pub service: Service,
}

/// Devices that only some machines have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// The third serial port.
    Terminal,
    /// A disk.
    Disk,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct ServiceText {
    name: String,
    program: String,
    #[serde(default)]
    arguments: Vec<String>,
    needs: Option<Need>,
    #[serde(default)]
    public: bool,
    mount: Option<String>,
    memory: Option<String>,
    #[serde(default)]
    uses: Vec<String>,
}

/// A service with parts of the machine.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct DriverText {
    name: String,
    program: String,
    #[serde(default)]
    arguments: Vec<String>,
    needs: Option<Need>,
    #[serde(default)]
    public: bool,
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

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct InstanceText {
    name: String,
    memory: String,
    timer: TimerText,
    console: Option<SerialText>,
    link: Option<SerialText>,
    #[serde(default)]
    log: LevelText,
    #[serde(default)]
    power: bool,
    #[serde(default)]
    boot_files: bool,
    devices: Option<DevicesText>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum DevicesText {
    Name(String),
    List(DeviceList),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct DeviceList {
    #[serde(default)]
    memory: Vec<String>,
    #[serde(default)]
    ports: Vec<String>,
    #[serde(default)]
    pins: Vec<u8>,
    #[serde(default)]
    messages: u8,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum TimerText {
    Hpet,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum LevelText {
    Debug,
    #[default]
    Info,
    Warning,
    Error,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum SerialText {
    Name(String),
    Ports { port: u16, irq: u8 },
}

impl System {
    /// Reads the tree's `system.toml`.
    ///
    /// # Errors
    /// It cannot be read or says something that cannot be.
    pub fn read(paths: &Paths) -> Result<System> {
        let path = paths.workspace.join("system.toml");
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        System::parse(&text).with_context(|| format!("in {}", path.display()))
    }

    fn parse(text: &str) -> Result<System> {
        let system: System = toml::from_str(text)?;
        system.encode()?;
        system.services()?;
        Ok(system)
    }

    /// The bytes for the root task.
    ///
    /// # Errors
    /// Something in the description cannot be: a memory share over 100 %, two instances with one device or name.
    pub fn encode(&self) -> Result<Vec<u8>> {
        if self.instance.is_empty() {
            bail!("there is no [[instance]]: nothing would run");
        }
        let mut instances: Vec<Instance<'_>> = Vec::new();
        for text in &self.instance {
            let instance = text.check().with_context(|| format!("instance `{}`", text.name))?;
            for other in &instances {
                instance_fits(&instance, other)?;
            }
            instances.push(instance);
        }
        let shares: u32 =
            instances.iter().map(|i| if let Memory::Percent(share) = i.memory { share.into() } else { 0 }).sum();
        if shares > 100 {
            bail!("the instances' memory shares add up to {shares}%");
        }
        Ok(description::encode(&instances)?)
    }
}

impl System {
    /// The services, the drivers first.
    ///
    /// # Errors
    /// Something in their description cannot be: two of one name or at one place, one that uses what there is not, a
    /// range that is none or that is another's.
    pub fn services(&self) -> Result<Vec<Known>> {
        let mut all: Vec<Known> = Vec::new();
        let drivers = self.driver.iter().map(|text| (&text.name, text.needs, text.check()));
        let services = self.service.iter().map(|text| (&text.name, text.needs, text.check()));
        for (name, needs, service) in drivers.chain(services) {
            let service = service.with_context(|| format!("service `{name}`"))?;
            for Known { service: other, .. } in &all {
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
            for used in &service.uses {
                // Only what stands above it: so none can wait for itself.
                let used = used.split_once('/').map_or(used.as_str(), |(used, _)| used);
                if !all.iter().any(|known| known.service.name == used) {
                    bail!("service `{name}` uses `{used}`, and no service above it has that name");
                }
            }
            all.push(Known { needs, service });
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
        Ok(Service {
            name: service_name(&self.name)?,
            program: self.program.clone(),
            arguments: self.arguments.clone(),
            public: self.public,
            mount: self.mount.clone(),
            memory: limit(self.memory.as_deref())?,
            resources: Vec::new(),
            uses: self.uses.clone(),
        })
    }
}

impl DriverText {
    fn check(&self) -> Result<Service> {
        let mut resources = Vec::new();
        for text in &self.ports {
            let Range { first, last } = range(text, 0xffff).context("ports")?;
            // Bounded just now.
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
            mount: None,
            memory: limit(self.memory.as_deref())?,
            resources,
            uses: self.uses.clone(),
        })
    }
}

fn service_name(name: &str) -> Result<String> {
    if name.is_empty() || name.contains('/') {
        bail!("a name has at least one character and no `/`");
    }
    Ok(name.to_owned())
}

/// Memory of a service.
fn limit(text: Option<&str>) -> Result<Option<u64>> {
    let size = |text| parse_size(text).map_err(|why| anyhow::anyhow!("memory `{text}`: {why}"));
    text.map(size).transpose()
}

/// Whether two drivers cannot both have these.
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

/// Devices belong to one instance.
fn instance_fits(one: &Instance<'_>, other: &Instance<'_>) -> Result<()> {
    if one.name == other.name {
        bail!("two instances are named `{}`", one.name);
    }
    let ports = |i: &Instance<'_>| [i.console, i.link];
    for port in ports(one).into_iter().flatten() {
        if ports(other).contains(&Some(port)) {
            bail!("instances `{}` and `{}` both have the serial port at {:#x}", one.name, other.name, port.port);
        }
    }
    let (own, others) = (&one.devices, &other.devices);
    for (what, both) in [
        ("device memory", meet(&own.memory, &others.memory)),
        ("I/O ports", meet(&own.ports, &others.ports)),
        ("interrupt pins", own.pins & others.pins != 0),
        ("the HPET", one.timer == other.timer),
        ("the boot files", one.boot_files && other.boot_files),
        ("the power ports", one.power && other.power),
    ] {
        if both {
            bail!("instances `{}` and `{}` both have {what}", one.name, other.name);
        }
    }
    Ok(())
}

fn meet(one: &Ranges, other: &Ranges) -> bool {
    one.iter().flatten().any(|a| other.iter().flatten().any(|b| a.meets(b)))
}

impl InstanceText {
    fn check(&self) -> Result<Instance<'_>> {
        let (console, link) = (self.console.as_ref(), self.link.as_ref());
        let instance = Instance {
            name: &self.name,
            memory: memory(&self.memory)?,
            timer: match self.timer {
                TimerText::Hpet => Timer::Hpet,
            },
            console: console.map(serial).transpose().context("console")?,
            link: link.map(serial).transpose().context("link")?,
            log: match self.log {
                LevelText::Debug => Level::Debug,
                LevelText::Info => Level::Info,
                LevelText::Warning => Level::Warning,
                LevelText::Error => Level::Error,
            },
            power: self.power,
            boot_files: self.boot_files,
            devices: self.devices.as_ref().map_or(Ok(Devices::NONE), devices).context("devices")?,
        };
        if instance.console.is_some() && instance.console == instance.link {
            bail!("console and link are the same serial port");
        }
        Ok(instance)
    }
}

fn memory(text: &str) -> Result<Memory> {
    if let Some(share) = text.strip_suffix('%') {
        return match share.trim().parse() {
            Ok(share @ 1..=100) => Ok(Memory::Percent(share)),
            _ => bail!("memory `{text}`: a share is 1% to 100%"),
        };
    }
    let bytes = parse_size(text).map_err(|why| anyhow::anyhow!("memory `{text}`: {why}"))?;
    if bytes % 4096 != 0 {
        bail!("memory `{text}`: not a multiple of 4096 bytes");
    }
    Ok(Memory::Bytes(bytes))
}

fn serial(text: &SerialText) -> Result<Serial> {
    match text {
        SerialText::Ports { port, irq } => Ok(Serial { port: *port, irq: *irq }),
        SerialText::Name(name) => match name.as_str() {
            "com1" => Ok(Serial::COM1),
            "com2" => Ok(Serial::COM2),
            _ => bail!("`{name}` is no serial port: com1, com2, or {{ port = …, irq = … }}"),
        },
    }
}

fn devices(text: &DevicesText) -> Result<Devices> {
    let list = match text {
        DevicesText::Name(name) if name == "all" => return Ok(Devices::ALL),
        DevicesText::Name(name) => bail!("`{name}`: \"all\", or a table"),
        DevicesText::List(list) => list,
    };
    let mut pins = 0;
    for pin in &list.pins {
        pins |= 1u32.checked_shl((*pin).into()).with_context(|| format!("there is no pin {pin}"))?;
    }
    let memory = ranges(&list.memory, u64::MAX).context("memory")?;
    if let Some(odd) = memory.iter().flatten().find(|r| r.first % 4096 != 0 || r.last % 4096 != 4095) {
        bail!("memory {:#x}-{:#x}: not whole pages", odd.first, odd.last);
    }
    Ok(Devices { memory, ports: ranges(&list.ports, 0xffff).context("ports")?, pins, messages: list.messages })
}

fn ranges(texts: &[String], highest: u64) -> Result<Ranges> {
    let mut ranges = [None; RANGES];
    if texts.len() > RANGES {
        bail!("more than {RANGES} ranges");
    }
    for (place, text) in ranges.iter_mut().zip(texts) {
        *place = Some(range(text, highest)?);
    }
    Ok(ranges)
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

    const HEAD: &str = "[image]\nprograms = []\n[[instance]]\nname = 'a'\ntimer = 'hpet'\n";

    fn error(text: &str) -> String {
        format!("{:#}", System::parse(text).expect_err("it was accepted"))
    }

    #[test]
    fn the_projects_description_is_accepted() {
        let system = System::parse(include_str!("../../system.toml")).unwrap();
        let bytes = system.encode().unwrap();
        let main = description::System::decode(&bytes).unwrap().instances().next().unwrap();
        assert_eq!((main.name, main.console, main.link), ("main", Some(Serial::COM1), Some(Serial::COM2)));
        assert_eq!(main.devices, Devices::ALL);
    }

    #[test]
    fn devices_are_named_by_range() {
        let list = "{ memory = ['0xfe000000-0xfe000fff'], ports = ['0x70-0x71', '128'], pins = [8, 20], messages = 4 }";
        let system = System::parse(&format!("{HEAD}memory = '1M'\ndevices = {list}\n")).unwrap();
        let bytes = system.encode().unwrap();
        let devices = description::System::decode(&bytes).unwrap().instances().next().unwrap().devices;
        assert_eq!(devices.memory[0], Some(Range { first: 0xfe00_0000, last: 0xfe00_0fff }));
        assert_eq!(
            devices.ports[..3],
            [Some(Range { first: 0x70, last: 0x71 }), Some(Range { first: 128, last: 128 }), None]
        );
        assert_eq!((devices.pins, devices.messages), (1 << 8 | 1 << 20, 4));
        for (list, why) in [
            ("'some'", "or a table"),
            ("{ memory = ['0x1000-0x1800'] }", "whole pages"),
            ("{ ports = ['0x71-0x70'] }", "no range"),
            ("{ ports = ['0-0x10000'] }", "no range"),
            ("{ ports = ['x'] }", "no number"),
            ("{ pins = [32] }", "no pin"),
        ] {
            let error = error(&format!("{HEAD}memory = '1M'\ndevices = {list}\n"));
            assert!(error.contains(why), "{list}: {error}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        assert!(error(&format!("{HEAD}memory = '101%'\n")).contains("1% to 100%"));
        assert!(error(&format!("{HEAD}memory = '12Q'\n")).contains("no unit"));
        assert!(error(&format!("{HEAD}memory = '1M'\nconsole = 'com9'\n")).contains("no serial port"));
        assert!(error(&format!("{HEAD}memory = '1M'\nconsole = 'com1'\nlink = 'com1'\n")).contains("same serial port"));
        assert!(error(&format!("{HEAD}memory = '1M'\nspeed = 9\n")).contains("unknown field"));
        let twice = format!("{HEAD}memory = '60%'\n[[instance]]\nname = 'b'\ntimer = 'hpet'\nmemory = '60%'\n");
        assert!(error(&twice).contains("HPET"));
    }

    #[test]
    fn mistakes_in_drivers_are_named() {
        let driver = |name: &str, rest: &str| format!("[[driver]]\nname = '{name}'\nprogram = 'p'\n{rest}\n");
        let error = |drivers: &[String]| error(&format!("{HEAD}memory = '1M'\n{}", drivers.concat()));
        assert!(error(&[driver("a", "uses = ['b/c']"), driver("b", "")]).contains("no service above it"));
        assert!(error(&[driver("a", ""), driver("a", "")]).contains("named `a`"));
        assert!(error(&[driver("a/b", "")]).contains("no `/`"));
        assert!(error(&[driver("a", "ports = ['0xffff-0x10000']")]).contains("no range"));
        let ports = [driver("a", "ports = ['8-15']"), driver("b", "ports = ['15']")];
        assert!(error(&ports).contains("both have the ports 0xf-0xf"));
        assert!(error(&[driver("a", "pins = [5]"), driver("b", "pins = [5]")]).contains("pin 5"));
        let tmp = "[[service]]\nname = 'tmp'\nprogram = 'p'\nmount = '/tmp'\n".to_owned();
        assert!(error(&[tmp.clone(), tmp.replace("'tmp'", "'t'")]).contains("at one path"));
        assert!(error(&[tmp.replace("'/tmp'", "'/a/b'")]).contains("one part"));
        assert!(error(&[tmp.replace("mount = '/tmp'", "memory = '1X'")]).contains("memory"));
        let fine = [driver("a", "ports = ['8-15']"), driver("b", "ports = ['16']\nuses = ['a']")].concat();
        assert_eq!(System::parse(&format!("{HEAD}memory = '1M'\n{fine}")).unwrap().services().unwrap().len(), 2);
    }
}
