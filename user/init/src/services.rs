//! The services of the system by name, and the drivers behind them.
//!
//! Every program has a channel to here. A message on it is a name and one end of a channel: the end goes on to the driver
//! that offers the service; where there is none, it is closed. The empty name asks for another such channel.
//!
//! A driver is started when somebody first connects to it, and again when somebody connects after it has died. Its death is
//! told on the console. So nothing is started that nobody uses, and a driver that dies at its start is not started
//! over and over by itself.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread;

use description::drivers::Driver;
use init::frames;
use zx::{AsHandleRef, Channel, Handle, MonotonicInstant, Port, Signals, Status, Vmo};

use crate::boot::Boot;
use crate::drivers::{Maker, Running};
use crate::link::Link;
use crate::tasks::Tasks;

/// No request is longer: a name and words for the driver.
const LONGEST: usize = 256;

/// Becomes the services of this process and of all that it starts. Gives a channel that reaches private ones too.
///
/// # Errors
/// A sentence for the user.
pub fn serve(
    drivers: Vec<Driver>,
    link: &'static Link,
    tasks: &'static Tasks,
    boot: Arc<Boot>,
    resource: &'static zx::Resource,
) -> Result<Channel, String> {
    let step = |what: &'static str| move |status: Status| format!("{what}: {status}");
    let root = zx::startup::job_default().ok_or("there is no job for drivers")?;
    let job = root.create_child().map_err(step("a job for drivers"))?;
    job.set_name("drivers").map_err(step("a job for drivers"))?;
    tasks.keep(job.as_handle_ref());
    let vdso = zx::startup::take(u32::from(processargs::PA_VMO_VDSO), 0).map(Vmo::from).ok_or("there is no vDSO")?;
    let mut services = Services {
        port: Port::create().map_err(step("a port"))?,
        link,
        maker: Maker { boot, vdso, resource, job },
        drivers: drivers.into_iter().map(|driver| Known { driver, running: None, key: 0 }).collect(),
        clients: HashMap::new(),
        logs: HashMap::new(),
        next: 0,
    };
    let (public, ours) = Channel::create().map_err(step("a channel"))?;
    services.add_client(ours, false).map_err(step("a channel"))?;
    let (private, ours) = Channel::create().map_err(step("a channel"))?;
    services.add_client(ours, true).map_err(step("a channel"))?;
    let run = move || services.run();
    thread::Builder::new().name("services".to_owned()).spawn(run).map_err(|error| error.to_string())?;
    zx::startup::bind_services(public).map_err(step("the name space"))?;
    Ok(private)
}

/// A driver of the description.
struct Known {
    driver: Driver,
    running: Option<Running>,
    /// Of the packet that tells its end.
    key: u64,
}

struct Client {
    channel: Channel,
    /// It may connect to services that are not public.
    trusted: bool,
}

/// What a driver says, line by line.
struct Log {
    socket: zx::Socket,
    name: String,
    line: Vec<u8>,
}

struct Services {
    port: Port,
    link: &'static Link,
    maker: Maker,
    drivers: Vec<Known>,
    /// By the key of their packets, as are the logs.
    clients: HashMap<u64, Client>,
    logs: HashMap<u64, Log>,
    next: u64,
}

impl Services {
    fn run(&mut self) {
        while let Ok(packet) = self.port.wait(MonotonicInstant::INFINITE) {
            if let Some(client) = self.clients.remove(&packet.key) {
                // A client that breaks the rules is cut off, as one that has gone.
                if self.request(&client).is_ok() && self.wait(&client.channel, packet.key).is_ok() {
                    self.clients.insert(packet.key, client);
                }
            } else if let Some(mut log) = self.logs.remove(&packet.key) {
                if log.pass_on(self.link) && self.wait(&log.socket, packet.key).is_ok() {
                    self.logs.insert(packet.key, log);
                }
            } else if let Some(index) = self.drivers.iter().position(|known| known.key == packet.key) {
                self.died(index);
            }
        }
    }

    fn key(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn wait(&self, object: &impl AsHandleRef, key: u64) -> zx::Result<()> {
        // Channels and sockets have the same bits for these two.
        object.wait_async(&self.port, key, Signals::CHANNEL_READABLE | Signals::CHANNEL_PEER_CLOSED, 0)
    }

    fn add_client(&mut self, channel: Channel, trusted: bool) -> zx::Result<()> {
        let key = self.key();
        self.wait(&channel, key)?;
        self.clients.insert(key, Client { channel, trusted });
        Ok(())
    }

    /// Reads one request and carries it out.
    fn request(&mut self, client: &Client) -> zx::Result<()> {
        let mut bytes = [0; LONGEST];
        let mut handles = [None, None];
        let size = match client.channel.read(&mut bytes, &mut handles) {
            Ok(size) => size,
            Err((Status::SHOULD_WAIT, _)) => return Ok(()),
            Err((status, _)) => return Err(status),
        };
        let name = std::str::from_utf8(&bytes[..size.bytes]).map_err(|_| Status::INVALID_ARGS)?;
        let mut handles: Vec<Handle> = handles.into_iter().flatten().collect();
        if name.is_empty() {
            for handle in handles {
                self.add_client(Channel::from(handle), client.trusted)?;
            }
            return Ok(());
        }
        if let Err(reason) = self.connect(name, client.trusted, &mut handles) {
            // Before the handles are closed: whoever sees that may end the system.
            self.link.complain(&reason);
        }
        Ok(())
    }

    /// Hands a client's end to the driver of `name`, which may be followed by a slash and words for the driver. Starts it
    /// if it does not run.
    fn connect(&mut self, name: &str, trusted: bool, handles: &mut Vec<Handle>) -> Result<(), String> {
        let (service, words) = name.split_once('/').unwrap_or((name, ""));
        let known = self.drivers.iter().position(|known| known.driver.name == service);
        let Some(index) = known.filter(|index| trusted || self.drivers[*index].driver.public) else {
            // Whoever asked sees it on the channel.
            return Ok(());
        };
        if self.drivers[index].running.as_ref().is_some_and(|running| ended(&running.process)) {
            self.died(index);
        }
        if self.drivers[index].running.is_none() {
            self.start(index).map_err(|reason| format!("the driver {service} does not start: {reason}"))?;
        }
        if let Some(running) = &self.drivers[index].running {
            // A driver that ended meanwhile is told of by its own packet.
            let _ = running.clients.write_handles(words.as_bytes(), handles.drain(..));
        }
        Ok(())
    }

    fn start(&mut self, index: usize) -> Result<(), String> {
        // Drivers use only those that stand above them, so this ends.
        let driver = self.drivers[index].driver.clone();
        let mut connections = Vec::new();
        for service in driver.uses.iter().rev() {
            let (ours, theirs) = Channel::create().map_err(|status| status.to_string())?;
            self.connect(service, true, &mut vec![theirs.into()])?;
            connections.push(ours);
        }
        let connect = |_: &str| connections.pop().ok_or_else(|| "a connection is missing".to_owned());
        let (running, socket) = self.maker.start(&driver, connect)?;
        let (key, log_key) = (self.key(), self.key());
        let waits = running.process.wait_async(&self.port, key, Signals::TASK_TERMINATED, 0);
        waits.map_err(|status| status.to_string())?;
        if self.wait(&socket, log_key).is_ok() {
            self.logs.insert(log_key, Log { socket, name: driver.name.clone(), line: Vec::new() });
        }
        self.link.event(&["driver", &driver.name, "started"]);
        let known = &mut self.drivers[index];
        (known.running, known.key) = (Some(running), key);
        Ok(())
    }

    /// Tells of a driver's end and forgets it; its clients' channels ended with it.
    fn died(&mut self, index: usize) {
        let known = &mut self.drivers[index];
        known.key = 0;
        let Some(running) = known.running.take() else { return };
        let code = running.process.info().map_or(0, |info| info.return_code);
        let name = known.driver.name.clone();
        self.link.event(&["driver", &name, "ended", &code.to_string()]);
        self.link.complain(&format!("the driver {name} ended ({code}); it starts again when it is needed"));
    }
}

fn ended(process: &zx::Process) -> bool {
    process.info().is_ok_and(|info| info.flags & abi::ZX_INFO_PROCESS_FLAG_EXITED != 0)
}

impl Log {
    /// Sends whole lines to the host; says whether more may come.
    fn pass_on(&mut self, link: &Link) -> bool {
        let mut bytes = [0; 1024];
        let more = match self.socket.read(&mut bytes) {
            Ok(count) => {
                self.line.extend_from_slice(&bytes[..count]);
                true
            }
            Err(Status::SHOULD_WAIT) => true,
            Err(_) => false,
        };
        let whole = match self.line.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => end + 1,
            // The last words, and lines that are none.
            None if !more || self.line.len() > frames::MAX_PAYLOAD => self.line.len(),
            None => 0,
        };
        for line in self.line[..whole].split_inclusive(|byte| *byte == b'\n') {
            let text = String::from_utf8_lossy(line);
            link.send_all(frames::STDERR, format!("{}: {}\n", self.name, text.trim_end()).as_bytes());
        }
        self.line.drain(..whole);
        more
    }
}
