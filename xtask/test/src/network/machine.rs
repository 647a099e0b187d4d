//! A machine with a network card, and the program `network-peer` in it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs};

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

use super::wire::{self, Faults};
use crate::Context;
use crate::drivers::output;
use xtask_build::devices::{Model, Network};
use xtask_run::wire::UserNetwork;
use xtask_run::{Capture, PATIENCE, qemu};

/// What is behind the card.
pub enum Back {
    /// QEMU's user network.
    User,
    /// The same, and in the machine the switch between the service and the card.
    Switch,
    /// The same, behind a wire with faults.
    Wire(Faults),
    /// The same, behind a switch that has a port for another machine: this socket.
    Beside(PathBuf),
}

/// A machine that serves at a port of the host's.
pub struct Machine {
    port: u16,
    /// A file with its frames, and the socket of its QEMU's monitor.
    frames: PathBuf,
    monitor: PathBuf,
    /// It has ended, so waiting for it is of no use.
    over: Arc<AtomicBool>,
}

/// The test program in a machine.
pub fn capture<'a>(context: &'a Context<'_>, args: &[&str]) -> Result<Capture<'a>> {
    let mut capture = Capture::new(context.built_with_tests()?, Path::new("network-peer"));
    capture.tests = true;
    capture.args = args.iter().map(ToString::to_string).collect();
    Ok(capture)
}

/// A card with this behind it.
pub fn network(model: Model, netdev: String, capture: Option<PathBuf>) -> Network {
    Network { netdev, model, mac: None, capture, monitor: None }
}

/// A card with QEMU's user network behind it.
pub fn user_network(model: Model) -> Network {
    network(model, "user".into(), None)
}

/// The digest of a transfer's bytes.
pub fn digest_of(len: usize) -> Result<String> {
    let bytes: Vec<u8> = network_tests::bytes(len).flatten().collect();
    Ok(network_tests::digest(&mut bytes.as_slice(), len)?)
}

/// A port that is free now.
pub fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot find a free port")?;
    Ok(listener.local_addr()?.port())
}

impl Machine {
    /// Boots a machine with virtio's card and the server, does something with it, and ends it. Returns its output.
    ///
    /// # Errors
    /// As of [`Machine::run_with`].
    pub fn run(
        context: &Context<'_>,
        back: Back,
        act: impl FnOnce(&Machine) -> Result<()>,
    ) -> Result<(String, String)> {
        Machine::run_with(context, Model::VirtioNetPci, back, act)
    }

    /// The same with another card.
    ///
    /// # Errors
    /// It does not boot, it ends early, or `act` fails. The frames are kept then, in a file that the error names.
    pub fn run_with(
        context: &Context<'_>,
        model: Model,
        back: Back,
        act: impl FnOnce(&Machine) -> Result<()>,
    ) -> Result<(String, String)> {
        let mut capture = capture(context, &["serve", "[::]:7"])?;
        let folder = qemu::runtime_folder()?;
        let frames = folder.path().join("frames.pcap");
        let port = free_port()?;
        let forward = format!("hostfwd=tcp:127.0.0.1:{port}-:7");
        let [near, far] = ["near", "far"].map(|name| folder.path().join(name));
        let at = |socket: &Path| format!("stream,server=off,addr.type=unix,addr.path={}", socket.display());
        let _network = match back {
            Back::User | Back::Switch => {
                capture.devices.switch = matches!(back, Back::Switch);
                capture.devices.network = Some(network(model, format!("user,{forward}"), Some(frames.clone())));
                None
            }
            Back::Wire(faults) => {
                wire::start(&near, &far, faults)?;
                capture.devices.network = Some(network(model, at(&near), Some(frames.clone())));
                Some(UserNetwork::start(&far, &format!(",{forward}"))?)
            }
            Back::Beside(other) => {
                wire::switch(&[&near, &far, &other])?;
                capture.devices.network = Some(network(model, at(&near), Some(frames.clone())));
                Some(UserNetwork::start(&far, &format!(",{forward}"))?)
            }
        };
        let over = Arc::new(AtomicBool::new(false));
        let monitor = folder.path().join("monitor");
        if let Some(network) = &mut capture.devices.network {
            network.monitor = Some(monitor.clone());
        }
        let machine = Machine { port, frames: frames.clone(), monitor, over: over.clone() };
        let result = thread::scope(|scope| {
            let runs = scope.spawn(|| {
                let outcome = output(&capture, 0);
                over.store(true, Ordering::Relaxed);
                outcome
            });
            let acted = machine.ready().and_then(|()| act(&machine));
            let ended = machine.connect().and_then(|mut stream| Ok(writeln!(stream, "exit 0")?));
            let said = runs.join().unwrap_or_else(|_| bail!("the machine's thread failed"));
            match (acted, said) {
                (Ok(()), Ok(said)) => ended.map(|()| said),
                (Err(error), Ok((stdout, stderr))) => Err(error.context(format!("{stdout}{stderr}"))),
                (Ok(()), Err(error)) => Err(error),
                (Err(error), Err(said)) => Err(error.context(said)),
            }
        });
        result.map_err(|error| match keep(&frames) {
            Ok(kept) => error.context(format!("its frames are in {}", kept.display())),
            Err(_) => error,
        })
    }

    /// A connection to the server.
    pub fn connect(&self) -> Result<TcpStream> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).context("cannot connect to the machine")?;
        // Only a machine that stands still reaches it.
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    /// Pulls the cable of its card, or puts it in again.
    pub fn cable(&self, is_in: bool) -> Result<()> {
        let mut monitor = UnixStream::connect(&self.monitor).context("cannot reach QEMU's monitor")?;
        monitor.set_read_timeout(Some(PATIENCE))?;
        let link = format!(r#"{{"execute":"set_link","arguments":{{"name":"net","up":{is_in}}}}}"#);
        writeln!(monitor, r#"{{"execute":"qmp_capabilities"}}"#)?;
        writeln!(monitor, "{link}")?;
        // Both are answered in order, behind its greeting.
        let answers = BufReader::new(monitor).lines().map_while(Result::ok);
        let answers: Vec<String> = answers.filter(|line| !line.contains("\"QMP\"")).take(2).collect();
        if answers.len() != 2 || answers.iter().any(|answer| !answer.contains("\"return\"")) {
            bail!("QEMU's monitor says {answers:?}");
        }
        Ok(())
    }

    /// Number of frames so far in which the machine asked for an IPv4 address (DHCP's DISCOVER) or for routers of IPv6.
    pub fn questions(&self) -> Result<[usize; 2]> {
        // DHCP's magic cookie and the first option; ICMPv6's next header, hop limit, and all routers as the receiver.
        let all_routers = [&[0xff, 2][..], &[0; 13], &[2, 133, 0]].concat();
        Ok([self.frames_with(&[99, 130, 83, 99, 53, 1, 1])?, self.frames_with(&all_routers)?])
    }

    /// How often these bytes are in its frames so far.
    pub fn frames_with(&self, part: &[u8]) -> Result<usize> {
        let frames = fs::read(&self.frames).context("cannot read the machine's frames")?;
        Ok(frames.windows(part.len()).filter(|window| *window == part).count())
    }

    /// Waits until the server answers. QEMU takes connections for it before that.
    fn ready(&self) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < PATIENCE && !self.over.load(Ordering::Relaxed) {
            let answers = self.connect().is_ok_and(|mut stream| {
                let mut bytes = [0; 2];
                write!(stream, "echo\nhi").is_ok() && stream.read_exact(&mut bytes).is_ok() && &bytes == b"hi"
            });
            if answers {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(100));
        }
        bail!("the machine's server does not answer")
    }
}

/// Keeps the frames of a test that failed.
fn keep(frames: &Path) -> Result<PathBuf> {
    let folder: TempDir = tempfile::Builder::new().prefix("hafnon-frames-").tempdir_in(env::temp_dir())?;
    let kept = folder.keep().join("frames.pcap");
    fs::copy(frames, &kept)?;
    Ok(kept)
}
