//! Attacks on the network service: each case acts like a hostile client, and checks that others' connections and
//! requests still work.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
mod fuchsia {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream, UdpSocket};
    use std::process::ExitCode;
    use std::time::Duration;

    use conformance::Program;
    use conformance::check::{Case, Failure, Outcome, ensure, equal};
    use hostile::attack::{Attacker, BEGUN, ended, goes_on};
    use network_protocol::{Choice, DATAGRAM_MAX, Error, Family, Kind, LONGEST, Reply, Request, encode_header};
    use zx::{AsHandleRef, Channel, Event, Handle, MonotonicInstant, Rights, Socket, Status, Vmo};

    const NAME: &str = "network";
    /// How long one answer may take.
    const PATIENCE: Duration = Duration::from_secs(10);
    /// Sockets of one client.
    const SOCKETS: usize = 1000;

    /// A connection from before an attack; it must work afterwards.
    struct Before {
        listener: TcpListener,
        client: TcpStream,
        server: TcpStream,
    }

    impl Before {
        fn new() -> Result<Before, Failure> {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let client = TcpStream::connect(listener.local_addr()?)?;
            let (server, _) = listener.accept()?;
            Ok(Before { listener, client, server })
        }

        fn is_there(&mut self) -> Outcome {
            self.listener.local_addr()?;
            self.client.write_all(b"ping")?;
            let mut four = [0; 4];
            self.server.read_exact(&mut four)?;
            ensure(&four == b"ping", "a connection from before carries something else")?;
            let mut client = TcpStream::connect(self.listener.local_addr()?)?;
            let (mut server, _) = self.listener.accept()?;
            server.write_all(b"pong")?;
            client.read_exact(&mut four)?;
            ensure(&four == b"pong", "a new connection carries something else")
        }
    }

    fn call(channel: &Channel, request: Request, handles: Vec<Handle>) -> Result<Result<Reply, Error>, Status> {
        channel.write_handles(request.encode(7).as_bytes(), handles)?;
        let mut bytes = [0; LONGEST];
        let mut handle = [None];
        let size = channel.read_wait(&mut bytes, &mut handle, MonotonicInstant::after(PATIENCE.into()))?;
        Reply::decode(&bytes[..size.bytes]).ok_or(Status::IO)
    }

    /// Opens a socket through the raw protocol: its control channel and its data socket.
    fn open(client: &Channel, kind: Kind) -> Result<Result<(Channel, Socket), Error>, Status> {
        let (control, theirs) = Channel::create()?;
        let (data, far) = Socket::create(if kind == Kind::Stream { 0 } else { abi::ZX_SOCKET_DATAGRAM })?;
        let handles = vec![theirs.into_handle(), far.into_handle(), data.duplicate_handle(Rights::SAME_RIGHTS)?];
        Ok(call(client, Request::Open(Family::V4, kind), handles)?.map(|_| (control, data)))
    }

    /// A client that does not read its answers: the service closes its connection.
    fn unread() -> Outcome {
        let mut before = Before::new()?;
        let client = zx::startup::connect(NAME)?;
        let (control, _data) = open(&client, Kind::Stream)?.map_err(|error| format!("{error:?}"))?;
        let request = Request::LocalAddress.encode(7);
        let mut cut = false;
        for round in 0..20_000 {
            match control.write(request.as_bytes(), []) {
                Ok(()) | Err(Status::SHOULD_WAIT) => {}
                Err(Status::PEER_CLOSED) => {
                    cut = true;
                    break;
                }
                Err(status) => return Err(status.into()),
            }
            if round % 20 == 0 {
                zx::nanosleep(MonotonicInstant::after(Duration::from_millis(2).into()))?;
            }
        }
        ensure(cut, "who reads no answers is served all the same")?;
        before.is_there()
    }

    /// Control channels without end: each program may have only a limited number.
    fn clones() -> Outcome {
        let mut before = Before::new()?;
        let client = zx::startup::connect(NAME)?;
        let (mut all, mut sockets, mut refused) = (Vec::new(), Vec::new(), false);
        'sockets: for _ in 0..SOCKETS {
            match open(&client, Kind::Stream)? {
                Ok(socket) => sockets.push(socket),
                Err(error) => {
                    equal(error, Error::TooMany)?;
                    refused = true;
                    break;
                }
            }
            for _ in 1..64 {
                let (other, theirs) = Channel::create()?;
                let Some((control, _)) = sockets.last() else { break };
                match call(control, Request::Clone, vec![theirs.into_handle()])? {
                    Ok(_) => all.push(other),
                    Err(error) => {
                        equal(error, Error::TooMany)?;
                        refused = true;
                        break 'sockets;
                    }
                }
            }
        }
        ensure(refused, "a program can have as many control channels as it likes")?;
        drop((all, sockets, client));
        before.is_there()
    }

    /// Objects that are no channels, or both ends of one, instead of clients.
    fn events() -> Outcome {
        let mut before = Before::new()?;
        let give = |handle: Handle| zx::startup::connect_with(NAME, handle);
        for round in 0..1100 {
            give(Event::create()?.into_handle())?;
            let (one, other) = Channel::create()?;
            give(one.into_handle())?;
            give(other.into_handle())?;
            if round % 10 == 0 {
                zx::nanosleep(MonotonicInstant::after(Duration::from_millis(5).into()))?;
            }
        }
        before.is_there()?;
        let client = zx::startup::connect(NAME)?;
        open(&client, Kind::Datagram)?.map_err(|error| format!("{error:?}"))?;
        Ok(())
    }

    /// Data sockets that are no sockets, are of the other kind, or are not each other's peers.
    fn wrong_sockets() -> Outcome {
        let client = zx::startup::connect(NAME)?;
        let stream = || Socket::create(0);
        let wrong: Vec<[Handle; 2]> = vec![
            [Event::create()?.into_handle(), Event::create()?.into_handle()],
            [stream()?.0.into_handle(), stream()?.1.into_handle()],
            {
                let (one, other) = Socket::create(abi::ZX_SOCKET_DATAGRAM)?;
                [one.into_handle(), other.into_handle()]
            },
            {
                let (one, other) = stream()?;
                [one.replace(Rights::READ | Rights::TRANSFER)?.into_handle(), other.into_handle()]
            },
        ];
        for handles in wrong {
            let (_control, theirs) = Channel::create()?;
            let all = [theirs.into_handle()].into_iter().chain(handles).collect();
            equal(call(&client, Request::Open(Family::V4, Kind::Stream), all)?, Err(Error::Malformed))?;
        }
        open(&client, Kind::Stream)?.map_err(|error| format!("{error:?}"))?;
        Ok(())
    }

    /// What is no memory, or cannot be written, instead of the memory for the count of errors; and memory that goes
    /// away.
    fn wrong_counts() -> Outcome {
        let mut before = Before::new()?;
        let client = zx::startup::connect(NAME)?;
        let (stream, _data) = open(&client, Kind::Stream)?.map_err(|error| format!("{error:?}"))?;
        let (control, data) = open(&client, Kind::Datagram)?.map_err(|error| format!("{error:?}"))?;
        let count = |control: &Channel, vmo: Handle| call(control, Request::CountErrors, vec![vmo]);
        let vmo = Vmo::create(4096, abi::ZX_VMO_RESIZABLE)?;
        let again = |rights| vmo.duplicate_handle(rights);
        equal(count(&stream, again(Rights::SAME_RIGHTS)?)?, Err(Error::Invalid))?;
        equal(count(&control, Event::create()?.into_handle())?, Err(Error::Malformed))?;
        equal(count(&control, again(Rights::READ | Rights::TRANSFER | Rights::INSPECT)?)?, Err(Error::Malformed))?;
        equal(call(&control, Request::CountErrors, vec![])?, Err(Error::Malformed))?;
        equal(count(&control, again(Rights::SAME_RIGHTS)?)?, Ok(Reply::Done))?;
        equal(count(&control, again(Rights::SAME_RIGHTS)?)?, Err(Error::Already))?;
        // The errors are counted, as long as there is memory.
        let to = (Ipv4Addr::LOCALHOST, 9).into();
        equal(call(&control, Request::Connect { to, wait: true }, vec![])?, Ok(Reply::Done))?;
        let fails = || -> Outcome {
            data.write(&[&encode_header(None)[..], &[1]].concat())?;
            // After the answer, what was written before was sent.
            let request = Request::Set(Choice::Broadcast, 1);
            equal(call(&control, request, vec![])?, Ok(Reply::Done))?;
            let refused = Ok(Reply::Value(Error::Refused as u32));
            equal(call(&control, Request::Get(Choice::Error), vec![])?, refused)
        };
        let counted = || {
            let mut count = [0; 4];
            vmo.read(&mut count, 0).map(|()| u32::from_ne_bytes(count))
        };
        for number in 1..4 {
            fails()?;
            equal(counted()?, number)?;
        }
        vmo.write(&u32::MAX.to_ne_bytes(), 0)?;
        fails()?;
        equal(counted()?, 0)?;
        vmo.set_size(0)?;
        fails()?;
        before.is_there()
    }

    /// A thousand sockets that send without end to a port where nothing listens.
    fn busy_child() -> Outcome {
        let client = zx::startup::connect(NAME)?;
        let mut sockets = Vec::new();
        for _ in 0..SOCKETS {
            sockets.push(open(&client, Kind::Datagram)?.map_err(|error| format!("{error:?}"))?);
        }
        let to = (Ipv4Addr::LOCALHOST, 9).into();
        let datagram = [&encode_header(Some(to))[..], &[1]].concat();
        let mut begun = false;
        loop {
            let mut any = false;
            for (_, data) in &sockets {
                any |= (0..50).take_while(|_| data.write(&datagram).is_ok()).count() > 0;
            }
            if !std::mem::replace(&mut begun, true) {
                println!("{BEGUN}");
            }
            if !any {
                zx::nanosleep(MonotonicInstant::after(Duration::from_millis(20).into()))?;
            }
        }
    }

    fn bind() -> std::io::Result<()> {
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map(drop)
    }

    fn busy() -> Outcome {
        let mut before = Before::new()?;
        bind()?;
        let attacker = Attacker::start("busy")?;
        goes_on("a listener beside a thousand senders", 40, bind)?;
        drop(attacker);
        goes_on("a listener after their end", 20, bind)?;
        before.is_there()
    }

    /// Queued data is charged to the client that has the sockets, not to the service.
    fn full_queues() -> Outcome {
        const COUNT: usize = 16;
        let job = zx::startup::job_default().ok_or("no job")?;
        let used = || job.get_property_u64(abi::HAFNON_PROP_JOB_MEMORY_USED);
        let sockets: Vec<UdpSocket> =
            (0..COUNT).map(|_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))).collect::<Result<_, _>>()?;
        let before = used()?;
        let data = vec![7; 60_000];
        for socket in &sockets {
            let to = socket.local_addr()?;
            socket.set_nonblocking(true)?;
            for _ in 0..8 {
                let _ = socket.send_to(&data, to);
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        std::thread::sleep(Duration::from_millis(50));
        let charged = used()?.saturating_sub(before);
        let least = (COUNT * 4 * data.len()) as u64;
        ensure(charged >= least, &format!("for {least} bytes that wait, {charged} are charged"))
    }

    /// The longest datagrams arrive over both families.
    fn longest_datagrams() -> Outcome {
        for ip in [Ipv4Addr::LOCALHOST.into(), std::net::IpAddr::from(Ipv6Addr::LOCALHOST)] {
            let (one, other) = (UdpSocket::bind((ip, 0))?, UdpSocket::bind((ip, 0))?);
            other.set_read_timeout(Some(PATIENCE))?;
            let sent: Vec<u8> = (0..DATAGRAM_MAX).map(|at| (at % 251) as u8).collect();
            equal(one.send_to(&sent, other.local_addr()?)?, sent.len())?;
            let mut received = vec![0; DATAGRAM_MAX + 1];
            let (len, from) = other.recv_from(&mut received)?;
            equal((len, from), (sent.len(), one.local_addr()?))?;
            ensure(received[..len] == sent, "it is not what was sent")?;
        }
        Ok(())
    }

    fn child(arguments: &[String]) -> ExitCode {
        let done = match arguments {
            [name] if name == "busy" => busy_child(),
            _ => return ExitCode::from(2),
        };
        ended(done)
    }

    pub fn main() -> ExitCode {
        let cases = || {
            vec![
                Case::new("network.busy", busy),
                Case::new("network.clones", clones),
                Case::new("network.events", events),
                Case::new("network.full_queues", full_queues),
                Case::new("network.longest_datagrams", longest_datagrams),
                Case::new("network.unread", unread),
                Case::new("network.wrong_counts", wrong_counts),
                Case::new("network.wrong_sockets", wrong_sockets),
            ]
        };
        Program { name: "network-attacks", cases, known: &[], child }.main()
    }
}

#[cfg(target_os = "fuchsia")]
fn main() -> std::process::ExitCode {
    fuchsia::main()
}

#[cfg(not(target_os = "fuchsia"))]
fn main() {
    eprintln!("network-attacks: there is nothing to attack here");
}
