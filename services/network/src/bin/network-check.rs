//! Kills the network service while its sockets are in use, and checks what the clients see. It also acts as a network
//! service itself, for a client whose connection is lost: that service stops between the error and the end of the
//! connection.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
mod here {
    use std::io::{ErrorKind, Read, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;
    use std::thread;
    use std::time::Duration;

    use network_protocol::{CONNECTED, Choice, ERROR, Error, LONGEST, Reply, Request};
    use zx::spawn::Spawn;
    use zx::{AsHandleRef, Channel, Handle, Job, MonotonicInstant, Process, Rights, Signals, Socket, Status};

    /// Type of the start handle (`PA_USER0`) for the job of all tasks.
    const TASKS: u32 = 0xf0;

    /// Finds the service's process in this job or below it.
    fn service(job: &Job) -> Option<Process> {
        let mut koids = [0; 64];
        let processes = job.processes(&mut koids).ok()?.actual;
        let found = koids[..processes.min(64)].iter().find_map(|koid| {
            let process = Process::from(job.get_child(*koid, Rights::SAME_RIGHTS).ok()?);
            process.get_name().ok()?.starts_with(b"network\0").then_some(process)
        });
        let jobs = job.children(&mut koids).ok()?.actual;
        let child = |koid: &u64| job.get_child(*koid, Rights::SAME_RIGHTS).map(Job::from);
        found.or_else(|| koids[..jobs.min(64)].iter().find_map(|koid| service(&child(koid).ok()?)))
    }

    fn expect<T: std::fmt::Debug>(what: &str, result: std::io::Result<T>, kinds: &[ErrorKind]) -> Result<(), String> {
        match result {
            Err(error) if kinds.contains(&error.kind()) => Ok(()),
            other => Err(format!("{what}: {other:?}, expected one of {kinds:?}")),
        }
    }

    fn echo() -> Result<(), String> {
        let step = |error: std::io::Error| format!("a new connection: {error}");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(step)?;
        let mut client = TcpStream::connect(listener.local_addr().map_err(step)?).map_err(step)?;
        let (mut server, _) = listener.accept().map_err(step)?;
        carry(&mut client, &mut server).map_err(step)
    }

    fn carry(client: &mut TcpStream, server: &mut TcpStream) -> std::io::Result<()> {
        client.write_all(b"ping")?;
        let mut four = [0; 4];
        server.read_exact(&mut four)?;
        if &four == b"ping" { Ok(()) } else { Err(ErrorKind::InvalidData.into()) }
    }

    /// The argument of the client whose connection is lost.
    const LOST: &str = "lost";

    /// A client that reads without waiting: it gets the error once, before the connection ends.
    fn lost() -> Result<(), String> {
        let step = |error: std::io::Error| format!("a connection: {error}");
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, 9)).map_err(step)?;
        stream.set_nonblocking(true).map_err(step)?;
        expect("a read before the end", stream.read(&mut [0; 8]), &[ErrorKind::ConnectionReset])?;
        expect("a second one", stream.read(&mut [0; 8]), &[ErrorKind::WouldBlock])
    }

    /// Runs [`lost`] with a service that reports an error and no end.
    fn error_before_end() -> Result<(), String> {
        let step = |status: Status| format!("a service of its own: {status}");
        let (services, theirs) = Channel::create().map_err(step)?;
        let program = std::env::args().next().ok_or("this program does not know its name")?;
        let mut spawn = Spawn::file(&program);
        let errors = std::io::stderr();
        spawn.arg(&program).arg(LOST).entry("/svc", theirs).descriptor_like(2, errors.as_fd());
        let client = spawn.start().map_err(|(status, text)| format!("its client: {status}: {text}"))?;
        // The client's sequence: it connects to the service, opens a socket, and sends requests over the socket's
        // channel.
        let (.., [handle, ..]) = next(&services, &mut [0; LONGEST]).map_err(step)?;
        let connection = Channel::from(handle.ok_or("no connection came")?);
        let (_, transaction, handles) = next(&connection, &mut [0; LONGEST]).map_err(step)?;
        let [Some(control), Some(_end), Some(data)] = handles else { return Err("no ends of a socket came".into()) };
        let (control, data) = (Channel::from(control), Socket::from(data));
        let signal = |clear, set| data.signal(Signals::from_bits_retain(clear), Signals::from_bits_retain(set));
        let opened = Reply::encode(transaction, Ok(Reply::Done));
        connection.write(opened.as_bytes(), []).map_err(step)?;
        let mut error = Error::Reset as u32;
        // The loop ends with its client.
        let mut bytes = [0; LONGEST];
        while let Ok((request, transaction, _)) = next(&control, &mut bytes) {
            let reply = match request {
                Some(Request::Connect { .. }) => signal(0, CONNECTED | ERROR).map(|()| Reply::Done),
                Some(Request::Get(Choice::Error)) => {
                    signal(ERROR, 0).map(|()| Reply::Value(std::mem::take(&mut error)))
                }
                _ => Ok(Reply::Done),
            };
            let answer = Reply::encode(transaction, Ok(reply.map_err(step)?));
            control.write(answer.as_bytes(), []).map_err(step)?;
        }
        client.wait_one(Signals::TASK_TERMINATED, MonotonicInstant::INFINITE).map_err(step)?;
        match client.info().map_err(step)?.return_code {
            0 => Ok(()),
            code => Err(format!("a client whose connection is lost ended with {code}")),
        }
    }

    /// A message: the request if it is one, its transaction and its handles.
    type Message<'a> = (Option<Request<'a>>, u32, [Option<Handle>; 3]);

    /// The next message of a channel.
    fn next<'a>(channel: &Channel, bytes: &'a mut [u8; LONGEST]) -> Result<Message<'a>, Status> {
        let mut handles = [const { None }; 3];
        let size = channel.read_wait(bytes, &mut handles, MonotonicInstant::INFINITE)?.bytes;
        let (transaction, request) = Request::decode(&bytes[..size]).unwrap_or_default();
        Ok((request, transaction, handles))
    }

    pub fn main() -> Result<(), String> {
        if std::env::args().nth(1).as_deref() == Some(LOST) {
            return lost();
        }
        error_before_end()?;
        let step = |error: std::io::Error| format!("before its end: {error}");
        let tasks = zx::startup::take(TASKS, 0).map(Job::from).ok_or("this was not given the tasks of all")?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(step)?;
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(step)?;
        let mut client = TcpStream::connect(listener.local_addr().map_err(step)?).map_err(step)?;
        let (mut server, _) = listener.accept().map_err(step)?;
        let waiting = listener.try_clone().map_err(step)?;
        let accepts = thread::spawn(move || waiting.accept().map(drop));
        let hearing = udp.try_clone().map_err(step)?;
        let hears = thread::spawn(move || hearing.recv(&mut [0; 8]));
        // By then the threads usually wait. A thread that does not gets the same errors.
        thread::sleep(Duration::from_millis(100));
        let service = service(&tasks).ok_or("there is no network service")?;
        service.kill().map_err(|status| format!("it cannot be ended: {status}"))?;

        let gone = [ErrorKind::ConnectionAborted];
        let told = |_| "a thread panicked".to_owned();
        expect("who waits to accept", accepts.join().map_err(told)?, &gone)?;
        expect("who waits for a datagram", hears.join().map_err(told)?, &gone)?;
        expect("a listener's address", listener.local_addr(), &gone)?;
        expect("a datagram", udp.send_to(b"x", (Ipv4Addr::LOCALHOST, 9)), &gone)?;
        carry(&mut client, &mut server).map_err(|error| format!("a direct connection: {error}"))?;
        drop(server);
        expect("the end of one", client.read(&mut [0; 8]), &[ErrorKind::ConnectionReset])?;
        echo()?;
        echo()
    }
}

#[cfg(target_os = "fuchsia")]
fn main() {
    match here::main() {
        Ok(()) => println!("as it should be"),
        Err(problem) => {
            eprintln!("network-check: {problem}");
            std::process::exit(1);
        }
    }
}

#[cfg(not(target_os = "fuchsia"))]
fn main() {
    eprintln!("network-check: this program looks at the network service of a Hafnon system");
    std::process::exit(2);
}
