//! A client that services must withstand: `flood WAY SERVICE COUNT` does one thing to a service, over and over.
//!
//! | way | what |
//! |---|---|
//! | `drop` | connects, and closes the connection at once |
//! | `keep` | connects, and keeps the connection |
//! | `unread` | sends requests and reads no answer; connects again after the service has closed the connection |
//! | `clones` | asks for new connections through those it has, and keeps all |
//! | `events`, `pairs`, `objects` | sends events, both channel ends, or objects of every other kind as connections |
//! | `garbage` | sends invalid requests, with a handle |
//! | `libraries` | asks the loader service for a library, and keeps all handles to it |
//! | `output` | sends its own output as connections |
//!
//! The service `loader` is the loader service. A name that begins with a slash is a file system's path. After this
//! program's end nothing of it should be left anywhere. It prints what it got; the program `ordinary`, which runs
//! beside it, prints what others got.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
mod fuchsia {
    use std::collections::BTreeSet;
    use std::process::ExitCode;
    use std::thread;
    use std::time::Duration;

    use hostile::Dice;
    use network_protocol::{Family, Kind};
    use zx::{
        AsHandleRef, Channel, Event, EventPair, Fifo, Handle, HandleRef, Info, MonotonicInstant, Port, Result, Rights,
        Signals, Socket, Status, Timer, Vmo,
    };

    /// How long an answer may take, if one is waited for.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// Repeats a send until there is room.
    fn patiently(mut send: impl FnMut() -> Result<()>) -> Result<()> {
        loop {
            match send() {
                Err(Status::SHOULD_WAIT) => thread::sleep(Duration::from_millis(1)),
                other => return other,
            }
        }
    }

    fn connect(service: &str) -> Result<Channel> {
        if service == "loader" {
            return zx::startup::clone_loader_service();
        }
        let mut connection = None;
        patiently(|| {
            let (ours, theirs) = Channel::create()?;
            send(service, theirs.into_handle())?;
            connection = Some(ours);
            Ok(())
        })?;
        connection.ok_or(Status::INTERNAL)
    }

    /// Sends a handle as a connection.
    fn send(service: &str, handle: Handle) -> Result<()> {
        if service == "loader" {
            let loader = zx::startup::clone_loader_service()?;
            return loader.write_handles(&loader_request(processargs::ldsvc::Request::Clone), [handle]);
        }
        zx::startup::connect_with(service, handle)
    }

    fn loader_request(request: processargs::ldsvc::Request<'_>) -> Vec<u8> {
        let mut bytes = [0; processargs::ldsvc::MAX_MESSAGE];
        let len = request.encode(1, &mut bytes).unwrap_or_default();
        bytes[..len].to_vec()
    }

    /// A request that a service answers.
    fn request(service: &str) -> Vec<u8> {
        match service {
            "clock" => vec![drivers::clock::NOW],
            "loader" => loader_request(processargs::ldsvc::Request::Config("x")),
            "network" => network_protocol::Request::LocalAddress.encode(7).as_bytes().to_vec(),
            _ => file_protocol::encode(7, &file_protocol::Request::Describe, &[]).unwrap_or_default(),
        }
    }

    /// Waits for an answer and returns its first handle.
    fn answer(channel: &Channel) -> Result<Option<Handle>> {
        let mut bytes = vec![0; 4096];
        let mut handles = [None, None, None, None];
        channel.read_wait(&mut bytes, &mut handles, MonotonicInstant::after(PATIENCE.into()))?;
        Ok(handles.into_iter().flatten().next())
    }

    /// Another connection, through an existing one.
    fn another(service: &str, from: &Channel) -> Result<Channel> {
        let (ours, theirs) = Channel::create()?;
        match service {
            "loader" => return zx::startup::clone_loader_service(),
            "network" => {
                let bytes = network_protocol::Request::Clone.encode(7);
                from.write_handles(bytes.as_bytes(), [theirs.into_handle()])?;
            }
            "clock" => return connect(service),
            _ => {
                let bytes = file_protocol::encode(7, &file_protocol::Request::Clone, &[]);
                from.write_handles(&bytes.map_err(|_| Status::INTERNAL)?, [theirs.into_handle()])?;
            }
        }
        answer(from)?;
        Ok(ours)
    }

    /// The object that is cloned: a connection, or an object that it gives.
    fn first(service: &str) -> Result<Channel> {
        let connection = connect(service)?;
        if service != "network" {
            return Ok(connection);
        }
        let (ours, theirs) = Channel::create()?;
        let (data, far) = Socket::create(0)?;
        let open = network_protocol::Request::Open(Family::V4, Kind::Stream).encode(7);
        connection.write_handles(open.as_bytes(), [theirs.into_handle(), far.into(), data.into()])?;
        answer(&connection)?;
        // From here on the socket belongs to its control channel.
        Ok(ours)
    }

    /// An object of each kind that any program can create.
    fn object(number: u64) -> Result<Handle> {
        Ok(match number % 8 {
            0 => Event::create()?.into(),
            1 => EventPair::create()?.0.into(),
            2 => Vmo::create(4096, 0)?.into(),
            3 => Port::create()?.into(),
            4 => Timer::create(0)?.into(),
            5 => Socket::create(0)?.0.into(),
            6 => Fifo::create(4, 8)?.0.into(),
            _ => zx::startup::process_self().duplicate_handle(Rights::SAME_RIGHTS)?,
        })
    }

    /// Whether a service has closed the channel.
    fn closed(channel: &Channel) -> bool {
        channel.signals().is_ok_and(|signals| signals.contains(Signals::CHANNEL_PEER_CLOSED))
    }

    /// The sockets that this process was started with.
    fn outputs() -> Result<Vec<Handle>> {
        let mut table = vec![abi::zx_info_handle_extended_t::default(); 512];
        let me = zx::startup::process_self();
        let size = me.get_info_records(abi::ZX_INFO_HANDLE_TABLE, &mut table)?;
        let sockets = table[..size.actual].iter().filter(|row| row.type_ == abi::ZX_OBJ_TYPE_SOCKET);
        sockets.map(|row| HandleRef::from_raw(row.handle_value).duplicate_handle(Rights::SAME_RIGHTS)).collect()
    }

    fn flood(way: &str, service: &str, count: u64) -> Result<String> {
        let mut kept = Vec::new();
        let mut refused = None;
        match way {
            "drop" => {
                for _ in 0..count {
                    let connection = connect(service)?;
                    if service.starts_with('/') {
                        // `init` passes the connection on at its first message.
                        connection.write(&request(service), [])?;
                    }
                }
            }
            "keep" => {
                for _ in 0..count {
                    kept.push(connect(service)?);
                }
            }
            "unread" => {
                let (request, mut cut_off, mut connection) = (request(service), 0, connect(service)?);
                for _ in 0..count {
                    match patiently(|| connection.write(&request, [])) {
                        Err(Status::PEER_CLOSED) => {
                            cut_off += 1;
                            connection = connect(service)?;
                        }
                        other => other?,
                    }
                }
                return Ok(format!("cut off {cut_off} times"));
            }
            "clones" => {
                let mut from = first(service)?;
                for number in 0..count {
                    match another(service, &from) {
                        Ok(channel) => kept.push(channel),
                        Err(status) => {
                            refused = refused.or(Some((number, status)));
                            // Perhaps through another connection.
                            match first(service) {
                                Ok(another) => kept.push(std::mem::replace(&mut from, another)),
                                Err(_) => break,
                            }
                        }
                    }
                }
            }
            "events" => {
                for _ in 0..count {
                    patiently(|| send(service, Event::create()?.into()))?;
                }
            }
            "pairs" => {
                for _ in 0..count {
                    patiently(|| {
                        let (one, other) = Channel::create()?;
                        send(service, one.into_handle())?;
                        send(service, other.into_handle())
                    })?;
                }
            }
            "objects" => {
                for number in 0..count {
                    patiently(|| send(service, object(number)?))?;
                }
            }
            "garbage" => {
                let mut dice = Dice::new(count);
                for number in 0..count {
                    let connection = connect(service)?;
                    let bytes: Vec<u8> = (0..dice.below(300)).map(|_| dice.word() as u8).collect();
                    let handle = object(number)?;
                    // The service may have closed it already.
                    let _ = connection.write_handles(&bytes, [handle]);
                }
            }
            "libraries" => {
                let loader = zx::startup::clone_loader_service()?;
                let load = loader_request(processargs::ldsvc::Request::LoadObject("libfdio.so"));
                let mut libraries = Vec::new();
                for _ in 0..count {
                    loader.write(&load, [])?;
                    libraries.extend(answer(&loader)?);
                }
                let koids: Result<BTreeSet<u64>> = libraries.iter().map(Info::koid).collect();
                return Ok(format!("{} handles to {} objects", libraries.len(), koids?.len()));
            }
            "output" => {
                outputs()?.into_iter().try_for_each(|handle| send(service, handle))?;
            }
            _ => return Err(Status::INVALID_ARGS),
        }
        // By then the last messages have reached the service, if it serves at all.
        thread::sleep(Duration::from_millis(300));
        let open = kept.iter().filter(|channel| !closed(channel)).count();
        let refused = refused.map(|(at, status)| format!(", refused at {at}: {status}")).unwrap_or_default();
        Ok(format!("{open} of {} kept{refused}", kept.len()))
    }

    pub fn main() -> ExitCode {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let [way, service, count] = arguments.as_slice() else { return ExitCode::from(2) };
        // Its own channels become full, too; that must not end it.
        let _ = zx::startup::process_self().set_overflow_status(true);
        match flood(way, service, count.parse().unwrap_or(0)) {
            Ok(text) => {
                println!("flood {way} {service} {count}: {text}");
                ExitCode::SUCCESS
            }
            Err(status) => {
                println!("flood {way} {service} {count}: {status}");
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
    eprintln!("flood: there is nothing to attack here");
}
