//! The machine: QEMU's command line, start and end.

use std::io::{ErrorKind, Read};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::args::Accel;
use crate::line::{Line, Waiting};
use crate::link::Mark;
use crate::stalls::Stalls;
use xtask_build::devices::{Devices, Model};
use xtask_build::setup::QEMU;
use xtask_build::system::instances::MAIN;
use xtask_common::programs::find_program;

/// A machine to start.
#[derive(Clone, Debug)]
pub struct Machine<'a> {
    /// The kernel: a 32-bit multiboot ELF, or Linux.
    pub kernel: &'a Path,
    /// The root task.
    pub root: &'a Path,
    /// The BOOTFS image of the main instance.
    pub image: &'a [u8],
    /// Memory in bytes.
    pub memory: u64,
    /// How instructions are executed.
    pub accel: Accel,
    /// Wait for gdb on this TCP port.
    pub gdb: Option<u16>,
    /// Devices in addition to those of every machine.
    pub devices: Devices,
    /// The command line of a Linux kernel, if `kernel` is one and `root` its initramfs: for comparison.
    pub linux: Option<&'a str>,
}

/// The serial ports of an instance.
#[derive(Debug)]
pub struct Lines {
    /// Its name.
    pub name: String,
    /// Its console.
    pub console: Option<Line>,
    /// Its host link.
    pub link: Option<Line>,
}

/// A running machine; dropping it ends it.
#[derive(Debug)]
pub struct Running {
    child: Child,
    /// The text console.
    pub console: Line,
    /// The host link.
    pub link: Line,
    /// The third serial port, if there is one.
    pub terminal: Option<Line>,
    /// QEMU's monitor (QMP), if the machine has a disk.
    pub monitor: Option<Line>,
    /// Console and link of each additional instance, if it has them.
    pub beside: Vec<Lines>,
    /// The mark on a host link at the start of another life of its instance.
    pub mark: Mark,
    /// When QEMU was started.
    pub started: Instant,
    /// What stops it now and then, if a test wants that.
    stalls: Option<Stalls>,
    folder: TempDir,
}

/// The path of QEMU.
pub fn find() -> Option<PathBuf> {
    find_program(QEMU)
}

impl Machine<'_> {
    /// Starts the machine.
    ///
    /// # Errors
    /// QEMU is missing or ends at once; the error contains its message.
    pub fn start(&self) -> Result<Running> {
        if find().is_none() {
            bail!("{QEMU} is not installed; `./hafnon doctor` says what is missing and how to get it");
        }
        let folder = runtime_folder()?;
        let images = self.devices.beside.iter().map(|(_, image)| image.as_slice());
        for (image, number) in [self.image].into_iter().chain(images).zip(0..) {
            fs::write(folder.path().join(image_file(number)), image).context("cannot write the boot image")?;
        }
        for (component, number) in self.devices.components.iter().zip(0..) {
            let file = folder.path().join(component_file(number));
            fs::write(file, &component.program).context("cannot write a component's program")?;
        }
        for (name, file) in [("kernel.elf", self.kernel), ("root.elf", self.root)] {
            symlink(file, folder.path().join(name)).context("cannot make a temporary file")?;
        }
        for (file, name) in [(&self.devices.disk, "disk.img"), (&self.devices.disk_log, "disk.log")] {
            let Some(file) = file else { continue };
            let file = file.canonicalize().with_context(|| format!("cannot find {}", file.display()))?;
            symlink(file, folder.path().join(name)).context("cannot make a temporary file")?;
        }
        if let Some(file) = self.devices.network.as_ref().and_then(|network| network.capture.as_ref()) {
            fs::File::create(file).with_context(|| format!("cannot write {}", file.display()))?;
            let file = file.canonicalize().with_context(|| format!("cannot find {}", file.display()))?;
            symlink(file, folder.path().join("capture.pcap")).context("cannot make a temporary file")?;
        }
        if let Some(sector) = self.devices.bad_sector {
            let rule = format!("[inject-error]\nevent = \"none\"\niotype = \"write\"\nsector = \"{sector}\"\n");
            fs::write(folder.path().join("failures"), rule).context("cannot write a temporary file")?;
        }
        let mut mark = Mark::default();
        let drawn = fs::File::open("/dev/urandom").and_then(|mut chance| chance.read_exact(&mut mark));
        drawn.and_then(|()| fs::write(folder.path().join("mark"), mark)).context("cannot draw a mark")?;
        let line = |name: &str| Waiting::make(folder.path(), name).context("cannot make a pipe");
        let (console, link) = (line("console")?, line("link")?);
        let terminal = self.devices.terminal.then(|| line("terminal")).transpose()?;
        let mut waiting = Vec::new();
        for ((beside, _), number) in self.devices.beside.iter().zip(1..) {
            let console = beside.console.map(|_| line(&line_file("console", number))).transpose()?;
            let link = beside.link.map(|_| line(&line_file("link", number))).transpose()?;
            waiting.push((&beside.name, console, link));
        }
        let monitor = self.has_monitor().then(|| line("monitor")).transpose()?;
        let errors = fs::File::create(folder.path().join("errors")).context("cannot make a temporary file")?;
        let mut child = self.command(folder.path()).stderr(errors).spawn().context("cannot start QEMU")?;
        let started = Instant::now();
        let mut accept = |line| accept(line, &mut child, folder.path());
        // QEMU opens them in the order of its command line.
        let mut streams = || {
            let (console, link) = (accept(&console)?, accept(&link)?);
            let terminal = terminal.as_ref().map(&mut accept).transpose()?;
            let mut beside = Vec::new();
            for (name, console, link) in &waiting {
                let console = console.as_ref().map(&mut accept).transpose()?;
                let link = link.as_ref().map(&mut accept).transpose()?;
                beside.push(Lines { name: String::clone(name), console, link });
            }
            Ok((console, link, terminal, beside, monitor.as_ref().map(&mut accept).transpose()?))
        };
        match streams().and_then(|streams| Ok((streams, Stalls::wanted(&child)?))) {
            Ok(((console, link, terminal, beside, monitor), stalls)) => {
                Ok(Running { child, console, link, terminal, monitor, beside, mark, started, stalls, folder })
            }
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    /// Whether QEMU reports events of the disk. A machine that counts instructions is not disturbed.
    fn has_monitor(&self) -> bool {
        self.devices.disk.is_some() && !self.accel.counts()
    }

    /// The command line. QEMU treats commas and blanks in some of its paths as separators, so it runs in its own folder
    /// in which everything has a plain name.
    fn command(&self, folder: &Path) -> Command {
        let mut command = mortal();
        let accel = match self.accel {
            Accel::Tcg | Accel::Counting | Accel::CountingPaced => "tcg",
            Accel::Kvm => "kvm",
        };
        let processor = match self.accel {
            Accel::Tcg => "max",
            Accel::Kvm => "host",
            // Without the processor's random numbers, every run is the same.
            Accel::Counting | Accel::CountingPaced => "max,-rdrand,-rdseed",
        };
        // Linux copies with byte string instructions if the processor reports that they are fast, and each byte would
        // count.
        let processor = if self.linux.is_some() { format!("{processor},-erms,-fsrm") } else { processor.into() };
        command.args(["-machine", "q35", "-cpu", &processor]);
        command.args(["-accel", accel, "-display", "none", "-no-reboot", "-nodefaults", "-no-user-config"]);
        command.arg("-m").arg(format!("{}K", self.memory / 1024));
        command.args(["-kernel", "kernel.elf", "-initrd", "root.elf"]);
        if let Some(line) = self.linux {
            command.args(["-append", line]);
        }
        let beside = || self.devices.beside.iter().map(|(beside, _)| beside);
        for (name, number) in [MAIN].into_iter().chain(beside().map(|beside| beside.name.as_str())).zip(0..) {
            // A comma in a value is doubled.
            let (name, file) = (name.replace(',', ",,"), image_file(number));
            command.arg("-fw_cfg").arg(format!("name=opt/hafnon/{name}/bootfs,file={file}"));
        }
        for (component, number) in self.devices.components.iter().zip(0..) {
            let (name, file) = (component.name.replace(',', ",,"), component_file(number));
            command.arg("-fw_cfg").arg(format!("name=opt/hafnon/{name}/program,file={file}"));
        }
        command.args(["-fw_cfg", "name=opt/hafnon/mark,file=mark"]);
        command.args(["-chardev", "pipe,id=console,path=console", "-serial", "chardev:console"]);
        command.args(["-chardev", "pipe,id=link,path=link", "-serial", "chardev:link"]);
        command.args(["-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"]);
        if self.devices.terminal {
            // A separate interrupt: by default the third port shares that of the first.
            command.args(["-chardev", "pipe,id=terminal,path=terminal"]);
            command.args(["-device", "isa-serial,chardev=terminal,iobase=0x3e8,irq=5,index=2"]);
        }
        let mut index = if self.devices.terminal { 3 } else { 2 };
        for (beside, number) in beside().zip(1..) {
            for (line, port) in [("console", beside.console), ("link", beside.link)] {
                let Some(port) = port else { continue };
                let file = line_file(line, number);
                command.arg("-chardev").arg(format!("pipe,id={file},path={file}"));
                let (base, irq) = (port.port, port.irq);
                command
                    .arg("-device")
                    .arg(format!("isa-serial,chardev={file},iobase={base:#x},irq={irq},index={index}"));
                index += 1;
            }
        }
        // A comparator for each instance, and one for the root task; the default is three.
        let comparators = self.devices.beside.len() + 2;
        if comparators > 3 {
            command.args(["-global", &format!("hpet.timers={comparators}")]);
        }
        if self.devices.teaching {
            // It reaches the same addresses as other devices, not only the lowest 256 MiB.
            command.args(["-device", "edu,dma_mask=0xffffffffffffffff"]);
        }
        if self.devices.disk.is_some() {
            if self.devices.disk_log.is_some() {
                command.args(["-blockdev", "driver=raw,node-name=bytes,file.driver=file,file.filename=disk.img"]);
                command.args(["-blockdev", "driver=file,node-name=log,filename=disk.log"]);
                command.args(["-blockdev", "driver=blklogwrites,node-name=disk,file=bytes,log=log"]);
            } else {
                let file = if self.devices.bad_sector.is_some() { "blkdebug:failures:disk.img" } else { "disk.img" };
                let access = if self.devices.read_only { "readonly=on," } else { "" };
                command.args(["-drive", &format!("if=none,id=disk,format=raw,{access}file={file}")]);
            }
            // Errors of the host, including a full disk, are reported to the machine. By default QEMU would stop the
            // machine silently.
            let errors = "werror=report,rerror=report";
            command.arg("-device").arg(format!("virtio-blk-pci,drive=disk,disable-legacy=on,{errors}"));
        }
        if let Some(network) = &self.devices.network {
            command.arg("-netdev").arg(format!("{},id=net", network.netdev));
            let options = match network.model {
                Model::VirtioNetPci => ",disable-legacy=on",
                Model::E1000e => "",
            };
            let model = network.model.name();
            let mac = network.mac.as_ref().map(|mac| format!(",mac={mac}")).unwrap_or_default();
            command.arg("-device").arg(format!("{model},netdev=net,romfile={options}{mac}"));
            if network.capture.is_some() {
                command.args(["-object", "filter-dump,id=capture,netdev=net,file=capture.pcap"]);
            }
            if let Some(socket) = &network.monitor {
                let listens = format!("socket,id=cable,server=on,wait=off,path={}", socket.display());
                command.args(["-chardev", &listens, "-mon", "chardev=cable,mode=control"]);
            }
        }
        if self.has_monitor() {
            command.args(["-chardev", "pipe,id=monitor,path=monitor", "-mon", "chardev=monitor,mode=control"]);
        }
        if self.accel.counts() {
            let sleep = if self.accel == Accel::Counting { "off" } else { "on" };
            command.args(["-icount", &format!("shift=0,sleep={sleep}")]);
            // And with a fixed time of day.
            command.args(["-rtc", "base=2026-01-01,clock=vm", "-seed", "1"]);
        }
        if let Some(port) = self.gdb {
            command.args(["-S", "-gdb", &format!("tcp:127.0.0.1:{port}")]);
        }
        // A separate process group: this tool itself passes on a Ctrl-C from the terminal.
        command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
        command
    }
}

/// A command for QEMU that ends with this tool. If this tool is killed, only the Linux kernel can end QEMU.
pub fn mortal() -> Command {
    match find_program("setpriv") {
        Some(setpriv) => {
            let mut command = Command::new(setpriv);
            command.args(["--pdeathsig", "KILL", QEMU]);
            command
        }
        None => Command::new(QEMU),
    }
}

/// The file of a component's program, in the machine's folder.
fn component_file(number: usize) -> String {
    format!("component-{number}.elf")
}

/// The file of an instance's BOOTFS image.
fn image_file(number: usize) -> String {
    format!("bootfs{number}.img")
}

/// The pipes of an instance's serial port.
fn line_file(line: &str, number: usize) -> String {
    format!("{line}{number}")
}

/// A folder for sockets, whose paths are limited to about 100 bytes.
pub fn runtime_folder() -> Result<TempDir> {
    let make = |at: &Path| tempfile::Builder::new().prefix("hafnon-").tempdir_in(at);
    let at = env::temp_dir();
    let folder = if at.as_os_str().len() <= 60 {
        make(&at).or_else(|_| make(Path::new("/tmp")))
    } else {
        make(Path::new("/tmp"))
    };
    folder.context("cannot make a temporary folder")
}

fn accept(line: &Waiting, child: &mut Child, folder: &Path) -> Result<Line> {
    let start = Instant::now();
    loop {
        match line.open() {
            Ok(line) => return Ok(line),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error).context("cannot reach QEMU"),
        }
        if let Some(status) = child.try_wait().context("cannot wait for QEMU")? {
            bail!("QEMU did not start ({status}): {}", said(folder));
        }
        if start.elapsed() > Duration::from_secs(30) {
            bail!("QEMU did not start within 30 s: {}", said(folder));
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn said(folder: &Path) -> String {
    let text = fs::read_to_string(folder.join("errors")).unwrap_or_default();
    let text = text.trim();
    if text.is_empty() { "it said nothing".into() } else { text.replace("qemu-system-x86_64: ", "") }
}

impl Running {
    /// Waits for its end, at most this long; then kills it. Returns QEMU's own error messages.
    pub fn end(&mut self, patience: Duration) -> String {
        self.stalls = None;
        let start = Instant::now();
        while start.elapsed() < patience {
            if let Ok(Some(_)) = self.child.try_wait() {
                return self.complaints();
            }
            thread::sleep(Duration::from_millis(2));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.complaints()
    }

    fn complaints(&self) -> String {
        fs::read_to_string(self.folder.path().join("errors")).unwrap_or_default().trim().to_string()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stalls = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
