//! Native components beside an instance: `docs/native.md`.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context as _, Result};

use super::hostile::program;
use super::{Cases, Context, Test, expect, expect_part};
use xtask_build::cargo::{self, BARE_TARGET, Build};
use xtask_build::system::instances::Instances;
use xtask_build::{kernel_variables, program_flags};
use xtask_run::Capture;
use xtask_run::args::Accel;
use xtask_run::session::{End, Outcome};

/// How often a component is ended.
const ENDS: usize = 8;

/// All of them.
pub fn tests() -> Vec<Test> {
    vec![
        Test::one("hostile.native-restart", restart),
        Test::many("hostile.native-key", key),
        Test::one("hostile.native-calls", calls),
        Test::one("hostile.native-client", clients),
        Test::one("hostile.native-client-server", server_ends),
        Test::many("hostile.native-state", state),
    ]
}

/// Builds the component of an example, a package in its own folder. A build with a feature is a separate one, in a
/// separate place.
fn component(context: &Context<'_>, folder: &str, name: &str, feature: Option<&str>) -> Result<PathBuf> {
    let paths = context.paths;
    let mut arguments = format!("--release --locked --target {BARE_TARGET}");
    let mut target_dir = paths.out.join("examples");
    if let Some(feature) = feature {
        arguments += &format!(" --features {feature}");
        target_dir.push(feature);
    }
    let mut build = Build::new("building a native component", &arguments);
    build.folder = Some(paths.workspace.join(folder));
    build.target_dir = Some(target_dir);
    let [(kernel, folder), (source, tree)] = kernel_variables(paths)?;
    let made = build.env(kernel, folder).env(source, tree).run(paths, &context.ui)?;
    Ok(cargo::program(&made, name)?.to_path_buf())
}

/// The description of an example with the component that was built, and some changes.
fn described(
    context: &Context<'_>,
    (example, name, feature): (&str, &str, Option<&str>),
    change: impl FnOnce(String) -> String,
) -> Result<Instances> {
    let component = component(context, &format!("examples/{example}/component"), name, feature)?;
    let file = context.paths.workspace.join("examples").join(example).join("system.toml");
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let text = text.replace(&format!("target/x86_64-unknown-none/release/{name}"), &component.to_string_lossy());
    Instances::parse(&change(text))
}

/// The description of the key store.
fn instances(context: &Context<'_>, change: impl FnOnce(String) -> String) -> Result<Instances> {
    described(context, ("key-store", "key-store", None), change)
}

fn boot(context: &Context<'_>, instances: Instances, program: &Path, args: &[&str]) -> Result<Outcome> {
    let built = context.built()?;
    let mut capture = Capture::new(built, program);
    capture.args = args.iter().map(ToString::to_string).collect();
    // Uses the machine's own time, which is independent of the host's load.
    capture.accel = Accel::Counting;
    capture.overheard = true;
    capture.instances = Some(instances);
    capture.run()
}

/// A component that ends at random times is restarted each time, and an instance beside it is not affected.
fn restart(context: &Context<'_>) -> Result<()> {
    let trial = format!(
        "restart = {{ times = {ENDS}, within = '60m' }}\n\
         trial = {{ times = {ENDS}, from = '1ms', to = '200ms', seed = 1 }}"
    );
    let instances = instances(context, |text| text.replace("restart = { times = 3, within = \"1m\" }", &trial))?;
    let program = context.example("neighbours")?;
    let outcome = boot(context, instances, &program, &["steady", "2"])?;
    let stdout = String::from_utf8_lossy(&outcome.stdout()).into_owned();
    expect("how the steady work ended", &outcome.end, &End::Exit(0))?;
    expect_part("the steady work", &stdout, " rounds, 0 wrong;")?;
    let lines = |part: &str| outcome.root.iter().filter(|line| line.contains(part)).count();
    expect("components that were ended", &lines("component \"key-store\" was ended on trial"), &ENDS)?;
    expect("reports of their ends", &lines("end of the report"), &ENDS)?;
    expect("components that came back", &lines("component \"key-store\" runs again"), &ENDS)?;
    let taken = outcome.root.iter().filter_map(|line| line.split_once("take back; ")).map(|(_, taken)| taken);
    let taken: Vec<&str> = taken.collect();
    expect("whether all lives take the same", &taken.iter().all(|one| Some(one) == taken.first()), &true)
}

/// A program with every existing right searches everywhere for the key of a component, and does not find it.
fn key(context: &Context<'_>, cases: &mut Cases) -> Result<()> {
    // More memory, so that there are more copies of the key; and all devices.
    let change = |text: String| {
        let text = text.replace("memory = \"64K\"", "memory = \"4M\"").replace("times = 3", "times = 20");
        text.replace("boot-files = true", "boot-files = true\ndevices = \"all\"")
    };
    let instances = described(context, ("key-store", "key-store", Some("known-key")), change)?;
    let root = program(context, cases, "key", &["--timeout", "300000", "key."], Some(&instances))?;
    let lives = root.iter().filter(|line| line.contains("component \"key-store\" runs again")).count();
    expect("whether the component has ended and come back", &(lives >= 1), &true)
}

/// An instance, and beside it a component that keeps processor state (`component/victim`).
const STATE: &str = "
    [[instance]]
    name = 'main'
    memory = '90%'
    timer = 'hpet'
    console = 'com1'
    link = 'com2'
    power = true
    boot-files = true
    restart = 'never'

    [[component]]
    name = 'state-victim'
    program = 'PROGRAM'
    memory = '4K'
    offers = ['state']
    offers-to = ['main']
    restart = 'never'
";

/// Programs change processor state that programs can change, while a component with its own state runs in between: its
/// state is preserved.
fn state(context: &Context<'_>, cases: &mut Cases) -> Result<()> {
    let paths = context.paths;
    let arguments = format!("--profile system --locked --target {BARE_TARGET} -p state-victim");
    let [(kernel, folder), (source, tree)] = kernel_variables(paths)?;
    let build = Build::new("building a component that has state of the processor", &arguments);
    let made = build.env(kernel, folder).env(source, tree).run(paths, &context.ui)?;
    let victim = cargo::program(&made, "state-victim")?;
    let instances = Instances::parse(&STATE.replace("PROGRAM", &victim.to_string_lossy()))?;
    let wanted = env::var("HAFNON_TAMPER").unwrap_or_else(|_| "native.".to_owned());
    let root = program(context, cases, "tamper", &[&wanted], Some(&instances))?;
    expect("what became of the component", &root.iter().find(|line| line.contains("component \"state-victim\"")), &None)
}

/// Builds an example's program.
fn client(context: &Context<'_>, example: &str, name: &str) -> Result<PathBuf> {
    // Its libraries are part of the system.
    context.built()?;
    let paths = context.paths;
    let arguments = format!("--release --locked --target {}", cargo::PROGRAM_TARGET);
    let mut build = Build::new("building a program that talks with a component", &arguments);
    build.folder = Some(paths.workspace.join("examples").join(example).join("client"));
    build.target_dir = Some(paths.out.join("examples"));
    let made = build.env("CARGO_ENCODED_RUSTFLAGS", program_flags(paths)).run(paths, &context.ui)?;
    Ok(cargo::program(&made, name)?.to_path_buf())
}

/// A program lets a component sign messages. The component ends repeatedly: each call is answered or fails, and the
/// program finds the next life. The instance has no memory of the component.
fn calls(context: &Context<'_>) -> Result<()> {
    let trial = format!(
        "restart = {{ times = {ENDS}, within = '60m', after = '5ms' }}\n\
         trial = {{ times = {ENDS}, from = '50ms', to = '150ms', seed = 2 }}"
    );
    let instances = instances(context, |text| text.replace("restart = { times = 3, within = \"1m\" }", &trial))?;
    let program = client(context, "key-store", "sign")?;
    let outcome = boot(context, instances, &program, &["a message", "20000"])?;
    let stdout = String::from_utf8_lossy(&outcome.stdout()).into_owned();
    expect("how the program ended", &outcome.end, &End::Exit(0))?;
    let (tag, rest) = stdout.split_once('\n').unwrap_or_default();
    expect("whether there is a signature", &(tag.len() == 64 && tag.bytes().all(|c| c.is_ascii_hexdigit())), &true)?;
    expect_part("how many there were", rest, "20000 signatures, ")?;
    let ends = outcome.root.iter().filter(|line| line.contains("was ended on trial")).count();
    let lives = outcome.root.iter().filter(|line| line.contains("component \"key-store\" runs again")).count();
    expect("whether it came back each time", &(ends >= 2 && ends - lives <= 1), &true)?;
    whose(&outcome.root)
}

/// The numbers of ended and of restarted components; all lives must use the same memory.
fn lives(root: &[String], what: &str) -> Result<(usize, usize)> {
    let lines = |part: &str| root.iter().filter(|line| line.contains(part)).count();
    let taken: Vec<&str> = root.iter().filter_map(|line| Some(line.split_once("take back; ")?.1)).collect();
    expect("whether all lives take the same", &taken.iter().all(|one| Some(one) == taken.first()), &true)?;
    Ok((lines(&format!("{what} was ended on trial")), lines(&format!("{what} runs again"))))
}

/// A program reads what a component writes into shared memory. The component ends repeatedly: the program sees its
/// channel close, and continues with the next life.
fn clients(context: &Context<'_>) -> Result<()> {
    let trial = format!(
        "restart = {{ times = {ENDS}, within = '60m', after = '5ms' }}\n\
         trial = {{ times = {ENDS}, from = '50ms', to = '150ms', seed = 3 }}"
    );
    let change = |text: String| text.replace("restart = { times = 3, within = \"1m\" }", &trial);
    let instances = described(context, ("samples", "sampler", None), change)?;
    let program = client(context, "samples", "watch")?;
    let outcome = boot(context, instances, &program, &["300000"])?;
    let stdout = String::from_utf8_lossy(&outcome.stdout()).into_owned();
    expect("how the program ended", &outcome.end, &End::Exit(0))?;
    expect_part("what it read", &stdout, " samples, 0 wrong; ")?;
    let connections = stdout.split_once("wrong; ").and_then(|(_, rest)| rest.split(' ').next()?.parse::<usize>().ok());
    let (ends, lives) = lives(&outcome.root, "component \"sampler\"")?;
    expect("whether it came back each time", &(ends >= 2 && ends - lives <= 1), &true)?;
    expect("whether the program met several lives", &connections.is_some_and(|n| n >= 2), &true)
}

/// The server of the instance that a component is a client of ends. The component continues and becomes a client of the
/// next life, where programs find it again. Another instance is not affected.
fn server_ends(context: &Context<'_>) -> Result<()> {
    let watch = client(context, "samples", "watch")?;
    let second = format!(
        "[[instance]]\nname = 'second'\nmemory = '96M'\ntimer = 'hpet'\nconsole = {{ port = 0x2e8, irq = 7 }}\n\
         link = {{ port = 0x3e8, irq = 5 }}\nboot-files = true\nprogram = [{:?}, '200', 'for', 'ever']\n\
         restart = {{ times = {ENDS}, within = '60m' }}\n\
         trial = {{ times = {ENDS}, from = '100ms', to = '300ms', seed = 4 }}\n\n# A program for",
        watch.to_string_lossy()
    );
    let change = |text: String| {
        let text = text.replace("# A program for", &second).replace("client-of = \"main\"", "client-of = \"second\"");
        text.replace("offers-to = [\"main\"]", "offers-to = [\"second\"]")
    };
    let instances = described(context, ("samples", "sampler", None), change)?;
    let program = context.example("neighbours")?;
    let outcome = boot(context, instances, &program, &["steady", "4"])?;
    let stdout = String::from_utf8_lossy(&outcome.stdout()).into_owned();
    expect("how the steady work ended", &outcome.end, &End::Exit(0))?;
    expect_part("the steady work", &stdout, " rounds, 0 wrong;")?;
    let (ends, lives) = lives(&outcome.root, "instance \"second\"")?;
    let ended = outcome.root.iter().filter(|line| line.contains("server \"second\" was ended on trial")).count();
    expect("whether it came back each time", &(ends == 0 && ended >= 2 && ended - lives <= 1), &true)?;
    let again = outcome.others.iter().filter(|line| line.starts_with("sampler: life 1: connection ")).count();
    expect("whether the component became a client each time", &(again >= ended), &true)?;
    expect("what became of it itself", &outcome.root.iter().find(|line| line.contains("component \"sampler\"")), &None)
}

/// Checks the root task's messages about memory: no range has two owners.
fn whose(root: &[String]) -> Result<()> {
    let range = |line: &String| {
        let (owner, range) = line.split_once("memory of ")?.1.split_once(": ")?;
        let (first, last) = range.trim().split_once('-')?;
        let number = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
        Some((number(first)?, number(last)?, owner.to_owned()))
    };
    let mut ranges: Vec<(u64, u64, String)> = root.iter().filter_map(range).collect();
    ranges.sort();
    let owners = |name: &str| ranges.iter().filter(|(_, _, owner)| owner.contains(name)).count();
    expect("whether both have memory", &(owners("key-store") > 0 && owners("main") > 0), &true)?;
    let overlap = ranges.windows(2).find(|pair| pair[1].0 <= pair[0].1);
    expect("memory of two owners", &overlap, &None)
}
