//! Ends the network service while its sockets are in use, and says whether everything is then as it should be.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
mod here {
    use std::io::{ErrorKind, Read, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
    use std::thread;
    use std::time::Duration;

    use zx::{AsHandleRef, Job, Process, Rights};

    /// Kind of the start handle (`PA_USER0`) that is the job of all.
    const TASKS: u32 = 0xf0;

    /// The service's process, in this job or below it.
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

    pub fn main() -> Result<(), String> {
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
        // They wait by then, or come to see what they would have seen.
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
