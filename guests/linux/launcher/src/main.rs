//! Runs Linux as a program: `linux [--memory MIB] [--initrd FILE] [--disk SERVICE|FILE]… KERNEL [ARGUMENT…]`.
//!
//! The kernel is an ELF file for fixed addresses, built with the OS layer in `guests/linux/overlay`. All its memory is one
//! VMO, *physmem*, mapped where the kernel is linked. The launcher gives it a table of functions and calls it.

#[cfg(any(target_os = "fuchsia", test))]
mod virtio;

#[cfg(target_os = "fuchsia")]
mod fuchsia {
    mod backing;
    mod memory;
    mod table;
    mod virtio;

    use std::process::ExitCode;

    /// How many MiB a Linux can have: all must fit below the end of its address range, with what it maps behind them.
    const MEMORY: std::ops::RangeInclusive<u64> = 1..=4096;

    /// What the command line says.
    struct Arguments {
        memory: u64,
        initrd: Option<String>,
        disks: Vec<String>,
        kernel: String,
        rest: Vec<String>,
    }

    fn arguments() -> Option<Arguments> {
        let mut given = std::env::args().skip(1);
        let mut arguments =
            Arguments { memory: 128, initrd: None, disks: Vec::new(), kernel: String::new(), rest: Vec::new() };
        while let Some(word) = given.next() {
            match word.as_str() {
                "--memory" => arguments.memory = given.next()?.parse().ok().filter(|memory| MEMORY.contains(memory))?,
                "--initrd" => arguments.initrd = Some(given.next()?),
                "--disk" => arguments.disks.push(given.next()?),
                _ => {
                    arguments.kernel = word;
                    arguments.rest = given.collect();
                    break;
                }
            }
        }
        (!arguments.kernel.is_empty()).then_some(arguments)
    }

    fn run(arguments: &Arguments) -> Result<i64, String> {
        let read = |path: &str| std::fs::read(path).map_err(|why| format!("{path}: {why}"));
        let kernel = read(&arguments.kernel)?;
        let initrd = arguments.initrd.as_deref().map(read).transpose()?.unwrap_or_default();
        let memory = memory::load(&kernel, arguments.memory << 20)?;
        drop(kernel);
        let mut words = vec!["linux".to_string(), format!("mem={}M", arguments.memory)];
        if !initrd.is_empty() {
            words.push("initrd=initrd".into());
        }
        words.extend(arguments.rest.iter().cloned());
        table::start(&memory, &initrd, &arguments.disks, &words)
    }

    pub fn main() -> ExitCode {
        let Some(arguments) = arguments() else {
            eprintln!("usage: linux [--memory MIB] [--initrd FILE] [--disk SERVICE|FILE]… KERNEL [ARGUMENT…]");
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
