//! The instances of a system description, which are passed to the root task.
//!
//! They are in `system.toml`, or in a separate file for a run (`./hafnon run --system FILE`). The tool is connected to
//! one of them, [`MAIN`]. The others run beside it, each with its own boot file that says what it runs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use description::{Devices, Instance, Level, Memory, RANGES, Ranges, Restart, Serial, Timer, Trial};
use object::{Object, ObjectSection};
use serde::Deserialize;

use super::components::{self, ComponentText, Native};
use super::range;
use xtask_common::files::write_if_changed;
use xtask_common::size::parse_size;

/// The name of the instance that the tool is connected to.
pub const MAIN: &str = "main";

/// See the description of the module.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Instances {
    instance: Vec<InstanceText>,
    #[serde(default)]
    component: Vec<ComponentText>,
}

impl Instances {
    /// Reads a file with instances.
    ///
    /// # Errors
    /// It cannot be read, or it is invalid.
    pub fn read(path: &Path) -> Result<Instances> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut instances = Instances::parse(&text).with_context(|| format!("in {}", path.display()))?;
        // The path of a program is relative to the file that names it.
        let folder = path.parent().unwrap_or(Path::new(""));
        instances.component.iter_mut().for_each(|component| component.seen_from(folder));
        for program in instances.instance.iter_mut().filter_map(|instance| instance.program.first_mut()) {
            if program.contains('/') {
                *program = folder.join(&*program).to_string_lossy().into_owned();
            }
        }
        Ok(instances)
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// As [`Instances::new`].
    pub fn parse(text: &str) -> Result<Instances> {
        let Instances { instance, component } = toml::from_str(text)?;
        Instances::new(instance, component)
    }

    /// Checks them.
    ///
    /// # Errors
    /// The description is invalid, for example memory shares above 100 %, or two instances with the same device or
    /// name.
    pub(super) fn new(instance: Vec<InstanceText>, component: Vec<ComponentText>) -> Result<Instances> {
        let instances = Instances { instance, component };
        instances.encode()?;
        Ok(instances)
    }

    /// Encodes the description for the root task.
    ///
    /// # Errors
    /// As [`Instances::new`].
    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut instances: Vec<Instance<'_>> = Vec::new();
        if self.instance.len() > description::INSTANCES {
            bail!("more than {} instances", description::INSTANCES);
        }
        for text in &self.instance {
            let instance = text.check().with_context(|| format!("instance `{}`", text.name))?;
            for other in &instances {
                instance_fits(&instance, other)?;
            }
            instances.push(instance);
        }
        let main = instances.iter().find(|instance| instance.name == MAIN);
        if main.is_none_or(|main| main.console != Some(Serial::COM1) || main.link != Some(Serial::COM2)) {
            bail!(
                "there is no [[instance]] `{MAIN}` with com1 as console and com2 as link: the tool talks with that one"
            );
        }
        let shares: u32 =
            instances.iter().map(|i| if let Memory::Percent(share) = i.memory { share.into() } else { 0 }).sum();
        if shares > 100 {
            bail!("the instances' memory shares add up to {shares}%");
        }
        let components = components::check(&self.component, &instances)?;
        Ok(description::encode(&instances, &components)?)
    }

    /// The components' programs.
    ///
    /// # Errors
    /// A program is missing, or the root task cannot start it.
    pub fn components(&self) -> Result<Vec<Native>> {
        components::programs(&self.component)
    }

    /// The components' names, and the files of their programs.
    pub fn component_files(&self) -> Vec<(String, PathBuf)> {
        components::files(&self.component)
    }

    /// The programs of an instance that may use endpoints of components.
    pub fn trusted(&self, instance: &str) -> Vec<String> {
        components::trusted(&self.component, instance)
    }

    /// The instances that the tool is not connected to.
    ///
    /// # Errors
    /// As [`Instances::new`].
    pub fn beside(&self) -> Result<Vec<OtherInstance>> {
        let others = self.instance.iter().filter(|instance| instance.name != MAIN);
        let beside = others.map(|text| {
            let Instance { console, link, .. } = text.check()?;
            Ok(OtherInstance { name: text.name.clone(), console, link, program: text.program.clone() })
        });
        beside.collect()
    }

    /// Writes a copy of the root task that contains this description.
    ///
    /// # Errors
    /// `root` is not a root task, or a file cannot be read or written.
    pub fn embed(&self, root: &Path, to: &Path) -> Result<PathBuf> {
        let mut bytes = fs::read(root).with_context(|| format!("cannot read {}", root.display()))?;
        let file = object::File::parse(&*bytes).with_context(|| format!("{} is no program", root.display()))?;
        let place = file.section_by_name(".hafnon.system").and_then(|section| section.file_range());
        let place = place.with_context(|| format!("{} has no place for a description", root.display()))?;
        let (start, len) = (usize::try_from(place.0)?, usize::try_from(place.1)?);
        let place = bytes.get_mut(start..start + len).context("a section lies outside its file")?;
        description::embed(place, &self.encode()?).context("cannot embed the system description")?;
        write_if_changed(to, &bytes)?;
        Ok(to.to_path_buf())
    }
}

/// An additional instance, which the tool is not connected to.
#[derive(Clone, Debug)]
pub struct OtherInstance {
    /// Its name.
    pub name: String,
    /// Its console.
    pub console: Option<Serial>,
    /// Its host link.
    pub link: Option<Serial>,
    /// What it runs: a program, and its arguments.
    pub program: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct InstanceText {
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
    restart: Option<RestartText>,
    trial: Option<TrialText>,
    /// The program that it runs, if it is an additional instance.
    #[serde(default)]
    program: Vec<String>,
}

/// The restart policy: "never", or a maximum number of restarts.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum RestartText {
    Name(String),
    Policy(PolicyText),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct PolicyText {
    times: u32,
    within: String,
    #[serde(default)]
    after: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct TrialText {
    times: u32,
    from: String,
    to: String,
    #[serde(default)]
    seed: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum DevicesText {
    Name(String),
    List(DeviceList),
}

#[derive(Clone, Debug, Deserialize)]
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

/// Checks two instances: devices belong to one instance.
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
        if self.name.is_empty() || self.name.len() > description::NAME || self.name.contains('/') {
            bail!("a name has 1 to {} bytes, and no `/`", description::NAME);
        }
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
            restart: self.restart.as_ref().map_or(Ok(Restart::DEFAULT), restart).context("restart")?,
            trial: self.trial.as_ref().map(trial).transpose().context("trial")?,
        };
        if self.name == MAIN && !self.program.is_empty() {
            bail!("what `{MAIN}` runs is said on the command line");
        }
        if instance.console.is_some() && instance.console == instance.link {
            bail!("console and link are the same serial port");
        }
        Ok(instance)
    }
}

/// Parses a restart policy.
pub(super) fn restart(text: &RestartText) -> Result<Restart> {
    let policy = match text {
        RestartText::Name(name) if name == "never" => return Ok(Restart::NEVER),
        RestartText::Name(name) => bail!("`{name}`: \"never\", or a table"),
        RestartText::Policy(policy) => policy,
    };
    let within = millis(&policy.within)?;
    let after = policy.after.as_deref().map_or(Ok(0), millis)?;
    Ok(Restart { times: policy.times, within, after })
}

/// Parses a trial.
pub(super) fn trial(text: &TrialText) -> Result<Trial> {
    let micros = |text| millis(text)?.checked_mul(1000).context("more than an hour");
    let (from, to) = (micros(&text.from)?, micros(&text.to)?);
    if from > to {
        bail!("from {} to {}: the other way round", text.from, text.to);
    }
    Ok(Trial { times: text.times, from, to, seed: text.seed })
}

/// Parses a time: `20ms`, `5s`, `1m`.
fn millis(text: &str) -> Result<u32> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        _ => bail!("`{text}` is no time: a number, and ms, s or m"),
    };
    let number: u32 = digits.parse().with_context(|| format!("`{text}` is no time"))?;
    number.checked_mul(factor).with_context(|| format!("`{text}` is too long"))
}

/// Parses an amount of memory.
pub fn memory(text: &str) -> Result<Memory> {
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

#[cfg(test)]
mod tests {
    use description::Range;

    use super::*;

    const HEAD: &str = "[[instance]]\nname = 'main'\ntimer = 'hpet'\nconsole = 'com1'\nlink = 'com2'\n";

    fn error(text: &str) -> String {
        format!("{:#}", Instances::parse(text).expect_err("it was accepted"))
    }

    #[test]
    fn the_projects_description_is_accepted() {
        let system =
            crate::system::System::parse(include_str!("../../../../system.toml")).unwrap().instances().unwrap();
        let bytes = system.encode().unwrap();
        let main = description::System::decode(&bytes).unwrap().instances().next().unwrap();
        assert_eq!((main.name, main.console, main.link), ("main", Some(Serial::COM1), Some(Serial::COM2)));
        assert_eq!(main.devices, Devices::ALL);
    }

    #[test]
    fn devices_are_named_by_range() {
        let list = "{ memory = ['0xfe000000-0xfe000fff'], ports = ['0x70-0x71', '128'], pins = [8, 20], messages = 4 }";
        let system = Instances::parse(&format!("{HEAD}memory = '1M'\ndevices = {list}\n")).unwrap();
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
        let main = format!("{HEAD}memory = '1M'\n");
        assert!(error(&main.replace("com1", "com9")).contains("no serial port"));
        assert!(error(&main.replace("com1", "com2")).contains("same serial port"));
        assert!(error(&main.replace("com1", "com3")).contains("no serial port"));
        assert!(error(&main.replace("'main'", "'other'")).contains("no [[instance]] `main`"));
        assert!(error(&main.replace("console = 'com1'\n", "")).contains("com1 as console"));
        assert!(error(&format!("{main}program = ['a']\n")).contains("command line"));
        assert!(error(&format!("{main}restart = 'always'\n")).contains("or a table"));
        assert!(error(&format!("{main}restart = {{ times = 1, within = '5' }}\n")).contains("no time"));
        assert!(error(&format!("{main}trial = {{ times = 1, from = '2s', to = '1s' }}\n")).contains("other way round"));
        assert!(error(&format!("{HEAD}memory = '1M'\nspeed = 9\n")).contains("unknown field"));
        let twice =
            |rest: &str| error(&format!("{main}[[instance]]\nname = 'b'\ntimer = 'hpet'\nmemory = '1M'\n{rest}"));
        assert!(twice("console = 'com1'\n").contains("both have the serial port at 0x3f8"));
        assert!(twice("[[instance]]\nname = 'b'\ntimer = 'hpet'\nmemory = '1M'\n").contains("two instances"));
        let shares = format!("{HEAD}memory = '60%'\n[[instance]]\nname = 'b'\ntimer = 'hpet'\nmemory = '60%'\n");
        assert!(error(&shares).contains("120%"));
    }

    #[test]
    fn what_is_beside_main_says_what_it_runs() {
        let text = format!(
            "{HEAD}memory = '50%'\n[[instance]]\nname = 'b'\ntimer = 'hpet'\nmemory = '8M'\nprogram = ['sh', '-c', 'x']\n\
             link = {{ port = 0x3e8, irq = 5 }}\nrestart = {{ times = 4, within = '2m', after = '50ms' }}\n\
             trial = {{ times = 9, from = '1ms', to = '1s' }}\n"
        );
        let instances = Instances::parse(&text).unwrap();
        let beside = instances.beside().unwrap();
        assert_eq!(
            (beside.len(), beside[0].name.as_str(), &beside[0].program[..2]),
            (1, "b", &["sh".into(), "-c".into()][..])
        );
        assert_eq!((beside[0].console, beside[0].link), (None, Some(Serial { port: 0x3e8, irq: 5 })));
        let bytes = instances.encode().unwrap();
        let other = description::System::decode(&bytes).unwrap().instances().nth(1).unwrap();
        assert_eq!(other.restart, Restart { times: 4, within: 120_000, after: 50 });
        assert_eq!(other.trial, Some(Trial { times: 9, from: 1000, to: 1_000_000, seed: 0 }));
    }
}
