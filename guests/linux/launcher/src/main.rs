//! Runs Linux as a program: `linux [OPTION…] [-- COMMAND ARGUMENT…]`.
//!
//! Without a command, Linux' shell reads standard input; with `--terminal`, that is a terminal of Linux'.
//!
//! The kernel is an ELF file for fixed addresses, built with the OS layer in `guests/linux/overlay`. All its memory is one
//! VMO, *physmem*, mapped where the kernel is linked. The launcher gives it a table of functions and calls it.

#[cfg(any(target_os = "fuchsia", test))]
mod command;
#[cfg(any(target_os = "fuchsia", test))]
mod virtio;

#[cfg(target_os = "fuchsia")]
mod fuchsia {
    mod backing;
    mod memory;
    mod table;
    mod vhost;
    mod virtio;

    use std::process::ExitCode;

    use crate::command;
    use table::Devices;

    /// How many MiB a Linux can have: all must fit below the end of its address range, with what it maps behind them.
    const MEMORY: std::ops::RangeInclusive<u64> = 1..=4096;

    /// Where the host's tool puts the kernel and the initial file system.
    const KERNEL: &str = "/boot/linux/vmlinux";
    const INITRD: &str = "/boot/linux/initrd";
    /// The kernel's options: its messages go to standard error, and nobody reads /dev/console.
    const OPTIONS: [&str; 2] = ["console=err0", "console=ttynull"];
    const QUIET: &str = "quiet";
    /// What runs where neither a command nor `--terminal` is given: it reads standard input.
    const SHELL: &str = "sh";

    /// What the command line says.
    struct Arguments {
        memory: u64,
        kernel: String,
        initrd: String,
        devices: Devices,
        options: Vec<String>,
        command: Vec<String>,
    }

    fn arguments() -> Option<Arguments> {
        let mut given = std::env::args().skip(1);
        let (kernel, initrd) = (KERNEL.into(), INITRD.into());
        let options = OPTIONS.map(String::from).into();
        let devices = Devices { disks: Vec::new(), ports: Vec::new() };
        let mut arguments = Arguments { memory: 128, kernel, initrd, devices, options, command: vec![SHELL.into()] };
        let (mut verbose, mut append) = (false, Vec::new());
        while let Some(word) = given.next() {
            match word.as_str() {
                "--memory" => arguments.memory = given.next()?.parse().ok().filter(|memory| MEMORY.contains(memory))?,
                "--kernel" => arguments.kernel = given.next()?,
                "--initrd" => arguments.initrd = given.next()?,
                "--disk" => arguments.devices.disks.push(given.next()?),
                "--net" => {
                    let port = given.next()?.strip_prefix("switch/").filter(|port| is_port(port))?.to_owned();
                    // Linux' own driver for virtio devices of this kind: a network card.
                    arguments.options.push(format!("virtio_uml.device={port}:1"));
                    arguments.devices.ports.push(port);
                }
                "--append" => append.extend(given.next()?.split_whitespace().map(String::from)),
                "--verbose" => verbose = true,
                "--terminal" => arguments.command.clear(),
                "--" => {
                    arguments.command = given.collect();
                    if arguments.command.is_empty() {
                        return None;
                    }
                    break;
                }
                _ => return None,
            }
        }
        arguments.options.extend((!verbose).then(|| QUIET.into()));
        arguments.options.extend(append);
        Some(arguments)
    }

    /// Whether a port of the switch can have this name.
    fn is_port(name: &str) -> bool {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    }

    fn run(arguments: &Arguments) -> Result<i64, String> {
        let read = |path: &str| std::fs::read(path).map_err(|why| format!("{path}: {why}"));
        let kernel = read(&arguments.kernel)?;
        let mut initrd = read(&arguments.initrd)?;
        if !arguments.command.is_empty() {
            command::add(&mut initrd, &arguments.command).map_err(|why| format!("the command: {why}"))?;
        }
        let memory = memory::load(&kernel, arguments.memory << 20)?;
        drop(kernel);
        let mut words = vec!["linux".into(), format!("mem={}M", arguments.memory), "initrd=initrd".into()];
        words.extend(arguments.options.iter().cloned());
        table::start(&memory, &initrd, &arguments.devices, &words)
    }

    pub fn main() -> ExitCode {
        let Some(arguments) = arguments() else {
            eprintln!(
                "usage: linux [--memory MIB] [--kernel FILE] [--initrd FILE] [--disk SERVICE|FILE]… [--net switch/PORT]… \
                 [--append OPTIONS] [--verbose] [--terminal | -- COMMAND ARGUMENT…]"
            );
            return ExitCode::from(2);
        };
        match run(&arguments) {
            Ok(code) => ExitCode::from(code as u8),
            Err(why) => {
                eprintln!("linux: {why}");
                ExitCode::FAILURE
            }
        }
    }
}

#[cfg(target_os = "fuchsia")]
fn main() -> std::process::ExitCode {
    fuchsia::main()
}

#[cfg(not(target_os = "fuchsia"))]
fn main() {
    eprintln!("linux: runs in the system only");
}
