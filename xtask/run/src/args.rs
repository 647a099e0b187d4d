//! The options of `run`, `linux`, `cargo` and `disk`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use description::services::Access;
use xtask_build::system::rules;
use xtask_common::size::parse_size;

use crate::network::{self, Net};

/// Options of `run`.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// Show the boot messages (on standard error).
    #[arg(short, long)]
    pub verbose: bool,
    /// Memory of the machine, in MiB or with K, M or G.
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = parse_size)]
    pub mem: u64,
    /// End the machine after this many seconds; the exit code is then 124.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub timeout: Option<f64>,
    /// Boot the debug kernel, which checks assertions and prints messages.
    #[arg(long)]
    pub debug: bool,
    /// Wait for gdb on a TCP port before the first instruction; the port is 1234 unless another is given
    /// (`--gdb=4321`).
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "1234")]
    pub gdb: Option<u16>,
    /// Leave backtraces as programs print them, as markup without names.
    #[arg(long)]
    pub raw_backtraces: bool,
    /// Show the system calls of the program and of its children, on standard error; with
    /// `--trace=channel,port,zx_vmo_create`, only those of these nouns or names.
    #[arg(long, value_name = "CALLS", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub trace: Option<String>,
    /// Write the system calls to this file instead.
    #[arg(long, value_name = "FILE")]
    pub trace_output: Option<PathBuf>,
    /// Write the system calls to a file that Perfetto opens (ui.perfetto.dev).
    #[arg(long, value_name = "FILE")]
    pub trace_file: Option<PathBuf>,
    /// How the guest's instructions are executed.
    /// [default: $HAFNON_ACCEL, or auto]
    #[arg(long, value_enum)]
    pub accel: Option<AccelArg>,
    /// Give the machine a disk: a file of whole blocks of 512 bytes, which programs inside reach as the service `disk`.
    #[arg(long, value_name = "FILE")]
    pub disk: Option<PathBuf>,
    /// Give the machine a network card: `user` (the host's network through QEMU; add
    /// `,hostfwd=tcp:127.0.0.1:8080-:80` to reach port 80 of the machine at the host's port 8080), `tap=NAME`,
    /// `stream=SOCKET`, or `none`. After a comma, `model=e1000e` chooses Intel's card instead of virtio's; what else
    /// follows a comma is passed to QEMU's option -netdev.
    #[arg(long, value_name = "KIND", value_parser = network::parse)]
    pub net: Option<Net>,
    /// Let the program, and what it starts, use the network only so: `none`, or a list of connect=ADDRESS:PORTS,
    /// listen=PORTS and names with commas between them, for instance `connect=10.0.2.0/24:443,listen=8000-8100`.
    #[arg(long, value_name = "RULE", value_parser = rules::parse, requires = "program")]
    pub net_rule: Option<Access>,
    /// Write all frames of the network card to this file, in the format of tcpdump.
    #[arg(long, value_name = "FILE", requires = "net")]
    pub pcap: Option<PathBuf>,
    /// Start the switch between guests when a guest wants it: the ports are in system.toml (docs/switch.md).
    #[arg(long)]
    pub switch: bool,
    /// Include the files of this folder: they are in /boot/files, read-only. Links to files become files, links to
    /// folders are left out.
    #[arg(long, value_name = "FOLDER")]
    pub files: Option<PathBuf>,
    /// Include Linux, which is built first: the program `linux` runs programs of Linux' (`linux -- uname -a`).
    #[arg(long)]
    pub linux: bool,
    /// Boot the instances of this file instead of those of system.toml; its instance `main` runs the program.
    #[arg(long, value_name = "FILE")]
    pub system: Option<PathBuf>,
    /// Set a variable in the program's environment; may be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_variable)]
    pub env: Vec<(String, String)>,
    /// Folders of the host whose files are in the image, too, as /boot/NAME.
    #[arg(skip)]
    pub folders: Vec<(&'static str, PathBuf)>,
    /// Programs of this tool's that are in the image, too, as /boot/bin/NAME.
    #[arg(skip)]
    pub programs: Vec<(String, PathBuf)>,
    /// The disk is the program's alone: no file service serves it.
    #[arg(skip)]
    pub raw_disk: bool,
    /// The disk cannot be written.
    #[arg(skip)]
    pub read_only_disk: bool,
    /// The program and its arguments: path of an ELF file for x86_64-unknown-fuchsia, or the name of a built-in
    /// program.
    #[arg(trailing_var_arg = true, value_names = ["PROGRAM", "ARGS"], num_args = 0..)]
    pub program: Vec<String>,
}

impl RunArgs {
    /// Only defaults, and this much memory in bytes.
    pub fn with_memory(memory: Option<u64>) -> RunArgs {
        RunArgs {
            verbose: false,
            mem: memory.unwrap_or(512 << 20),
            timeout: None,
            debug: false,
            gdb: None,
            raw_backtraces: false,
            trace: None,
            trace_output: None,
            trace_file: None,
            accel: None,
            disk: None,
            net: None,
            net_rule: None,
            pcap: None,
            switch: false,
            files: None,
            linux: false,
            system: None,
            env: Vec::new(),
            folders: Vec::new(),
            programs: Vec::new(),
            raw_disk: false,
            read_only_disk: false,
            program: Vec::new(),
        }
    }
}

/// Options of `linux`.
#[derive(Clone, Debug, Args)]
pub struct LinuxArgs {
    /// Show the boot messages of the system and of Linux (on standard error).
    #[arg(short, long)]
    pub verbose: bool,
    /// Linux' memory, in MiB or with K, M or G.
    #[arg(long, value_name = "SIZE", default_value = "128M", value_parser = parse_size)]
    pub memory: u64,
    /// Use this image of the host as the root: a file with an ext4 file system. What Linux writes there stays in it.
    #[arg(long, value_name = "IMAGE")]
    pub root: Option<PathBuf>,
    /// Leave that image as it is: Linux cannot write there.
    #[arg(long, requires = "root")]
    pub read_only: bool,
    /// The initial file system, in the format that Linux takes (cpio), instead of Debian's busybox. COMMAND must be
    /// absent then: the archive's own /init runs.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["command", "root"])]
    pub initrd: Option<PathBuf>,
    /// Show a copy of a folder of the host's at /host. It is in the initial file system, so it takes of Linux' memory.
    #[arg(long, value_name = "FOLDER", conflicts_with = "initrd")]
    pub files: Option<PathBuf>,
    /// Give Linux a network card, eth0, at this port of the switch, `switch/PORT`: the ports are in system.toml
    /// (docs/switch.md). A second one is eth1. Or give the machine a card, with a KIND as of `run --net`: it is on the
    /// switch, too, and eth0 asks its network for an address; without a PORT, eth0 is at linux-1.
    #[arg(long, value_name = "switch/PORT|KIND", value_parser = parse_linux_net)]
    pub net: Vec<LinuxNet>,
    /// Options for Linux in addition to ours, separated by blanks.
    #[arg(long, value_name = "ARGS")]
    pub append: Option<String>,
    /// How the guest's instructions are executed.
    /// [default: $HAFNON_ACCEL, or auto]
    #[arg(long, value_enum)]
    pub accel: Option<AccelArg>,
    /// End the machine after this many seconds; the exit code is then 124.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub timeout: Option<f64>,
    /// A program of Linux' and its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// A network card of Linux', or of the machine that it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinuxNet {
    /// Linux has one at this port of the switch.
    Port(String),
    /// The machine has this one.
    Machine(Net),
}

/// A port of the switch, named as the service is, or the machine's card.
fn parse_linux_net(text: &str) -> Result<LinuxNet, String> {
    match text.strip_prefix("switch/") {
        Some(port) => description::switch::check_name(port).map(|()| LinuxNet::Port(port.to_owned())),
        None => network::parse(text)
            .map(LinuxNet::Machine)
            .map_err(|why| format!("a network card is at a port of the switch: switch/PORT; the machine's: {why}")),
    }
}

/// Options of `cargo`.
#[derive(Clone, Debug, Args)]
pub struct CargoArgs {
    /// Memory of the machines that it starts.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub mem: Option<u64>,
    /// End each machine that it starts after this many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub timeout: Option<f64>,
    /// Leave backtraces as programs print them, as markup without names.
    #[arg(long)]
    pub raw_backtraces: bool,
    /// The arguments of cargo.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    pub args: Vec<std::ffi::OsString>,
}

/// What to do with a disk.
#[derive(Clone, Debug, Subcommand)]
pub enum DiskCommand {
    /// Creates an image with an empty file system.
    New {
        /// The image's file, which must not exist.
        image: PathBuf,
        /// Its size, in MiB or with K, M or G.
        #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_size)]
        size: u64,
        /// Use FAT, which every other system can read, instead of ext4, which stores links and permissions.
        #[arg(long)]
        fat: bool,
    },
    /// Lists a folder, with sizes in bytes.
    Ls {
        /// The image's file.
        image: PathBuf,
        /// The folder.
        #[arg(default_value = "/")]
        path: String,
    },
    /// Copies a file or a folder onto the disk.
    Put {
        /// The image's file.
        image: PathBuf,
        /// The source.
        from: PathBuf,
        /// The destination: a folder, or a new name.
        #[arg(default_value = "/")]
        to: String,
    },
    /// Copies a file or a folder from the disk.
    Get {
        /// The image's file.
        image: PathBuf,
        /// The source.
        from: String,
        /// The destination: a folder, or a new name.
        #[arg(default_value = ".")]
        to: PathBuf,
    },
    /// Checks the file system: with e2fsck or fsck.vfat if they are installed, and by reading all of it. The exit code
    /// is 1 if it has errors.
    Check {
        /// The image's file.
        image: PathBuf,
    },
}

/// The variable with the default of `--accel`.
pub const ACCEL: &str = "HAFNON_ACCEL";

/// The values of `--accel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AccelArg {
    /// KVM if it works here, else TCG.
    Auto,
    /// QEMU translates them (TCG): works everywhere.
    Tcg,
    /// The processor executes them, through Linux' /dev/kvm.
    Kvm,
    /// QEMU translates them, and each instruction takes a nanosecond of the guest's time: its counters count
    /// instructions.
    Counting,
    /// The same, but idle time passes as on the wall: for work whose pace others set.
    CountingPaced,
}

/// How the guest's instructions are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accel {
    /// QEMU translates them (TCG): works everywhere.
    Tcg,
    /// The processor executes them, through Linux' /dev/kvm.
    Kvm,
    /// QEMU translates them, and each instruction takes a nanosecond of the guest's time: its counters count
    /// instructions.
    Counting,
    /// The same, but idle time passes as on the wall: for work whose pace others set.
    CountingPaced,
}

impl Accel {
    /// Whether an instruction takes a nanosecond of the guest's time.
    pub fn counts(self) -> bool {
        matches!(self, Accel::Counting | Accel::CountingPaced)
    }
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 1e9 => Ok(seconds),
        _ => Err("a number of seconds over 0 is needed".into()),
    }
}

fn parse_variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some(("", _)) => Err("the name before `=` is empty".into()),
        Some((key, value)) if !text.contains('\0') => Ok((key.into(), value.into())),
        _ => Err("KEY=VALUE is needed".into()),
    }
}
