//! Third-party crates on the network of std and on epoll: mio, tokio, an HTTP server and an HTTP client.
//!
//! In the system, `hafnon cargo` compiles mio with patches (`docs/network.md`). The tests in [`mio_events::patched`] are
//! for what they correct; all pass on the host, where mio uses epoll.
#![forbid(unsafe_code)]

use std::io::{ErrorKind, Read, Write};
use std::net::Ipv4Addr;
use std::thread;
use std::time::Duration;

use network_example::LONG;

mod mio_events {
    use super::*;
    use mio::net::{TcpListener, TcpStream, UdpSocket};
    use mio::{Events, Interest, Poll, Token, Waker};

    fn listener() -> TcpListener {
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap()
    }

    fn datagrams() -> UdpSocket {
        UdpSocket::bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap()
    }

    /// Waits for a matching event of one token.
    fn wait_for(poll: &mut Poll, token: Token, wanted: impl Fn(&mio::event::Event) -> bool) {
        let mut events = Events::with_capacity(64);
        for _ in 0..1000 {
            poll.poll(&mut events, Some(LONG)).unwrap();
            assert!(!events.is_empty(), "nothing happens");
            if events.iter().any(|event| event.token() == token && wanted(event)) {
                return;
            }
        }
        panic!("other things happen");
    }

    #[test]
    fn accept_connect_read_write() {
        let mut poll = Poll::new().unwrap();
        let mut listener = listener();
        poll.registry().register(&mut listener, Token(0), Interest::READABLE).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        poll.registry().register(&mut client, Token(1), Interest::WRITABLE | Interest::READABLE).unwrap();
        wait_for(&mut poll, Token(1), |event| event.is_writable());
        assert!(client.take_error().unwrap().is_none());
        client.peer_addr().unwrap();
        let (mut server, _) = loop {
            match listener.accept() {
                Ok(accepted) => break accepted,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            wait_for(&mut poll, Token(0), |event| event.is_readable());
        };
        poll.registry().register(&mut server, Token(2), Interest::READABLE).unwrap();
        client.write_all(b"ping").unwrap();
        wait_for(&mut poll, Token(2), |event| event.is_readable());
        let mut four = [0; 4];
        server.read_exact(&mut four).unwrap();
        assert_eq!(&four, b"ping");
        assert_eq!(server.read(&mut four).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(client);
        wait_for(&mut poll, Token(2), |event| event.is_readable());
        assert_eq!(server.read(&mut four).unwrap(), 0);
    }

    #[test]
    fn refused() {
        let mut poll = Poll::new().unwrap();
        let gone = listener().local_addr().unwrap();
        let mut client = TcpStream::connect(gone).unwrap();
        poll.registry().register(&mut client, Token(1), Interest::WRITABLE).unwrap();
        wait_for(&mut poll, Token(1), |event| event.is_writable());
        assert_eq!(client.take_error().unwrap().unwrap().kind(), ErrorKind::ConnectionRefused);
    }

    #[test]
    fn reset() {
        let mut poll = Poll::new().unwrap();
        let (client, server) = network_example::connection();
        (&client).write_all(b"unread").unwrap();
        server.peek(&mut [0; 1]).unwrap();
        client.set_nonblocking(true).unwrap();
        let mut client = TcpStream::from_std(client);
        poll.registry().register(&mut client, Token(1), Interest::READABLE).unwrap();
        drop(server);
        wait_for(&mut poll, Token(1), |event| event.is_readable());
        assert_eq!(client.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    }

    #[test]
    fn datagrams_and_a_waker() {
        let mut poll = Poll::new().unwrap();
        let waker = Waker::new(poll.registry(), Token(9)).unwrap();
        let (mut a, b) = (datagrams(), datagrams());
        poll.registry().register(&mut a, Token(1), Interest::READABLE).unwrap();
        let wakes = thread::spawn(move || {
            waker.wake().unwrap();
            waker
        });
        wait_for(&mut poll, Token(9), |event| event.is_readable());
        let _waker = wakes.join().unwrap();
        b.send_to(b"hello", a.local_addr().unwrap()).unwrap();
        wait_for(&mut poll, Token(1), |event| event.is_readable());
        assert_eq!(a.recv_from(&mut [0; 8]).unwrap(), (5, b.local_addr().unwrap()));
    }

    #[test]
    fn a_full_pipe_and_a_pipe_without_reader() {
        let mut poll = Poll::new().unwrap();
        let (mut sender, mut receiver) = mio::unix::pipe::new().unwrap();
        poll.registry().register(&mut sender, Token(1), Interest::WRITABLE).unwrap();
        let mut sent = 0u64;
        let mut block = [0; 10_000];
        loop {
            network_example::pattern(sent, &mut block);
            match sender.write(&block) {
                Ok(count) => sent += count as u64,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    break;
                }
            }
            assert!(sent < 1 << 30, "nothing stops the writer");
        }
        let (mut received, mut expected, mut buffer) = (0u64, [0; 7777], [0; 7777]);
        while received < sent {
            let count = receiver.read(&mut buffer).unwrap();
            network_example::pattern(received, &mut expected[..count]);
            assert!(buffer[..count] == expected[..count]);
            received += count as u64;
        }
        assert_eq!(receiver.read(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
        wait_for(&mut poll, Token(1), |event| event.is_writable());
        drop(receiver);
        assert_eq!(sender.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    }

    #[test]
    fn one_of_three_hundred() {
        let mut poll = Poll::new().unwrap();
        let mut pairs: Vec<_> = (0..150)
            .map(|index| {
                let (client, server) = network_example::connection();
                client.set_nonblocking(true).unwrap();
                let mut client = TcpStream::from_std(client);
                poll.registry().register(&mut client, Token(index), Interest::READABLE).unwrap();
                (client, server)
            })
            .collect();
        let mut events = Events::with_capacity(64);
        poll.poll(&mut events, Some(Duration::ZERO)).unwrap();
        assert!(events.is_empty());
        for index in [0, 149, 70, 1] {
            pairs[index].1.write_all(b"x").unwrap();
            wait_for(&mut poll, Token(index), |event| event.is_readable());
            assert_eq!(pairs[index].0.read(&mut [0; 8]).unwrap(), 1);
            assert_eq!(pairs[index].0.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
        }
    }

    /// What the patches correct.
    mod patched {
        use super::*;
        use std::sync::mpsc;
        use std::time::Instant;

        #[test]
        fn sockets_do_not_block() {
            assert_eq!(listener().accept().unwrap_err().kind(), ErrorKind::WouldBlock);
            assert_eq!(datagrams().recv(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
            let listener = listener();
            let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let mut poll = Poll::new().unwrap();
            poll.registry().register(&mut stream, Token(0), Interest::WRITABLE).unwrap();
            wait_for(&mut poll, Token(0), |event| event.is_writable());
            assert_eq!(stream.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
        }

        #[test]
        fn a_descriptor_of_the_programs_own() {
            use mio::unix::SourceFd;
            use std::os::fd::AsRawFd;
            let (mut ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
            let mut poll = Poll::new().unwrap();
            let fd = ours.as_raw_fd();
            poll.registry().register(&mut SourceFd(&fd), Token(3), Interest::READABLE).unwrap();
            for _ in 0..20 {
                theirs.write_all(b"x").unwrap();
                wait_for(&mut poll, Token(3), |event| event.is_readable());
                assert_eq!(ours.read(&mut [0; 8]).unwrap(), 1);
            }
            poll.registry().deregister(&mut SourceFd(&fd)).unwrap();
        }

        #[test]
        fn a_wake_up_before_changes_of_the_list() {
            let mut poll = Poll::new().unwrap();
            let waker = Waker::new(poll.registry(), Token(9)).unwrap();
            let mut socket = datagrams();
            waker.wake().unwrap();
            poll.registry().register(&mut socket, Token(1), Interest::READABLE).unwrap();
            wait_for(&mut poll, Token(9), |event| event.is_readable());
            waker.wake().unwrap();
            poll.registry().deregister(&mut socket).unwrap();
            wait_for(&mut poll, Token(9), |event| event.is_readable());
        }

        /// Wake-ups from one thread and registrations by another, while a third one polls: none is lost.
        #[test]
        fn wake_ups_among_registrations() {
            let mut poll = Poll::new().unwrap();
            let waker = Waker::new(poll.registry(), Token(9)).unwrap();
            let registry = poll.registry().try_clone().unwrap();
            let (sender, wakes) = mpsc::sync_channel(0);
            thread::spawn(move || {
                while wakes.recv().is_ok() {
                    waker.wake().unwrap();
                }
            });
            let (stop, stopped) = mpsc::channel();
            let registers = thread::spawn(move || {
                let mut socket = datagrams();
                while stopped.try_recv() != Ok(()) {
                    registry.register(&mut socket, Token(1), Interest::READABLE).unwrap();
                    registry.deregister(&mut socket).unwrap();
                }
            });
            for _ in 0..200 {
                sender.send(()).unwrap();
                wait_for(&mut poll, Token(9), |event| event.is_readable());
            }
            stop.send(()).unwrap();
            registers.join().unwrap();
        }

        #[test]
        fn a_timeout_among_registrations() {
            let mut poll = Poll::new().unwrap();
            let registry = poll.registry().try_clone().unwrap();
            let (stop, stopped) = mpsc::channel();
            let registers = thread::spawn(move || {
                let (mut socket, start) = (datagrams(), Instant::now());
                while start.elapsed() < LONG {
                    registry.register(&mut socket, Token(1), Interest::READABLE).unwrap();
                    registry.deregister(&mut socket).unwrap();
                    if stopped.recv_timeout(Duration::from_millis(20)).is_ok() {
                        return true;
                    }
                }
                false
            });
            let mut events = Events::with_capacity(8);
            poll.poll(&mut events, Some(Duration::from_millis(200))).unwrap();
            assert!(events.is_empty());
            stop.send(()).expect("the timeout ended only after the registrations");
            assert!(registers.join().unwrap(), "the timeout ended only after the registrations");
        }

        #[test]
        fn a_stream_that_has_hung_up_is_still_registered() {
            let mut poll = Poll::new().unwrap();
            let (client, server) = network_example::connection();
            client.set_nonblocking(true).unwrap();
            let mut client = TcpStream::from_std(client);
            poll.registry().register(&mut client, Token(1), Interest::READABLE | Interest::WRITABLE).unwrap();
            drop(server);
            client.shutdown(std::net::Shutdown::Write).unwrap();
            wait_for(&mut poll, Token(1), |event| event.is_read_closed());
            poll.registry().reregister(&mut client, Token(2), Interest::READABLE).unwrap();
            wait_for(&mut poll, Token(2), |event| event.is_read_closed());
            poll.registry().deregister(&mut client).unwrap();
        }

        #[test]
        fn datagrams_after_an_error() {
            let mut poll = Poll::new().unwrap();
            let (mut a, b) = (datagrams(), datagrams());
            let gone = datagrams().local_addr().unwrap();
            poll.registry().register(&mut a, Token(1), Interest::READABLE).unwrap();
            a.connect(gone).unwrap();
            a.send(b"nobody").unwrap();
            wait_for(&mut poll, Token(1), |event| event.is_readable() || event.is_error());
            assert_eq!(a.recv(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionRefused);
            a.connect(b.local_addr().unwrap()).unwrap();
            assert_eq!(a.recv(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
            b.send_to(b"hello", a.local_addr().unwrap()).unwrap();
            wait_for(&mut poll, Token(1), |event| event.is_readable());
            assert_eq!(a.recv(&mut [0; 8]).unwrap(), 5);
        }
    }
}

mod tokio_net {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream, UdpSocket};

    const ANY: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);

    async fn echo(listener: TcpListener) {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let (mut reader, mut writer) = stream.split();
                tokio::io::copy(&mut reader, &mut writer).await.unwrap();
            });
        }
    }

    async fn echoes(address: SocketAddr, number: u32) {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let text = format!("number {number}").repeat(1000);
        stream.write_all(text.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut back = String::new();
        stream.read_to_string(&mut back).await.unwrap();
        assert_eq!(back, text);
    }

    async fn an_echo_for_fifty() {
        let listener = TcpListener::bind(ANY).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(echo(listener));
        let clients: Vec<_> = (0..50).map(|number| tokio::spawn(echoes(address, number))).collect();
        for client in clients {
            client.await.unwrap();
        }
    }

    #[tokio::test]
    async fn on_one_thread() {
        an_echo_for_fifty().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn on_four_threads() {
        for _ in 0..5 {
            an_echo_for_fifty().await;
        }
    }

    /// Tasks that wake each other from thread to thread, while others open and close sockets. A lost wake-up would be a
    /// hang.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn wake_ups_among_sockets() {
        let opens = tokio::spawn(async {
            loop {
                drop(UdpSocket::bind(ANY).await.unwrap());
                tokio::task::yield_now().await;
            }
        });
        let (to, mut from) = tokio::sync::mpsc::channel(1);
        let counts = std::thread::spawn(move || (0..1000u32).for_each(|n| to.blocking_send(n).unwrap()));
        for expected in 0..1000 {
            assert_eq!(from.recv().await, Some(expected));
        }
        counts.join().unwrap();
        opens.abort();
    }

    /// A descriptor that is none of tokio's sockets is ready again and again.
    #[tokio::test]
    #[expect(deprecated, reason = "the function that replaces it is unsafe")]
    async fn a_descriptor_of_the_programs_own() {
        use std::io::{Read, Write};
        use tokio::io::{Interest, unix::AsyncFd};
        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let ours = AsyncFd::try_with_interest(ours, Interest::READABLE).unwrap();
        for round in 0..20 {
            theirs.write_all(&[round]).unwrap();
            let mut byte = [0; 8];
            let read = ours.async_io(Interest::READABLE, |mut stream| stream.read(&mut byte)).await;
            assert_eq!((read.unwrap(), byte[0]), (1, round));
        }
        drop(theirs);
        assert_eq!(ours.async_io(Interest::READABLE, |mut stream| stream.read(&mut [0])).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn refused_and_too_late() {
        let gone = TcpListener::bind(ANY).await.unwrap().local_addr().unwrap();
        let error = TcpStream::connect(gone).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
        let listener = TcpListener::bind(ANY).await.unwrap();
        tokio::time::timeout(Duration::from_millis(20), listener.accept()).await.unwrap_err();
    }

    #[tokio::test]
    async fn datagrams() {
        let (a, b) = (UdpSocket::bind(ANY).await.unwrap(), UdpSocket::bind(ANY).await.unwrap());
        a.connect(b.local_addr().unwrap()).await.unwrap();
        let mut buffer = [0; 64];
        let (sent, received) = tokio::join!(a.send(b"hello"), b.recv_from(&mut buffer));
        assert_eq!((sent.unwrap(), received.unwrap()), (5, (5, a.local_addr().unwrap())));
    }
}

/// tokio learns of the end of a child by SIGCHLD.
mod tokio_process {
    use std::process::Stdio;

    use tokio::io::AsyncReadExt;
    use tokio::process::{Child, Command};

    fn child(argument: &str) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg(argument).stdout(Stdio::piped()).stderr(Stdio::null());
        command.spawn().unwrap()
    }

    #[tokio::test]
    async fn waits_for_children() {
        for _ in 0..3 {
            let mut all: Vec<Child> = (0..4).map(|_| child("--list")).collect();
            for child in &mut all {
                let mut text = String::new();
                child.stdout.take().unwrap().read_to_string(&mut text).await.unwrap();
                assert!(text.contains("waits_for_children"), "{text}");
                assert!(child.wait().await.unwrap().success());
            }
        }
        assert!(!child("--an-unknown-option").wait().await.unwrap().success());
    }
}

mod http {
    use super::*;

    /// A server that adds up the numbers that it receives, until `/stop` is requested.
    fn server() -> (u16, thread::JoinHandle<usize>) {
        let server = tiny_http::Server::http((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = server.server_addr().to_ip().unwrap().port();
        let serves = thread::spawn(move || {
            for count in 0.. {
                let mut request = server.recv().unwrap();
                let mut body = String::new();
                request.as_reader().read_to_string(&mut body).unwrap();
                let sum: u64 = body.split_whitespace().map(|word| word.parse::<u64>().unwrap()).sum();
                let answer = match request.url() {
                    "/sum" => tiny_http::Response::from_string(sum.to_string()),
                    "/stop" => {
                        request.respond(tiny_http::Response::from_string("stopping")).unwrap();
                        return count;
                    }
                    _ => tiny_http::Response::from_string("no such thing").with_status_code(404),
                };
                request.respond(answer).unwrap();
            }
            unreachable!()
        });
        (port, serves)
    }

    #[test]
    fn a_server_and_a_client() {
        let (port, serves) = server();
        let at = |path: &str| format!("http://localhost:{port}{path}");
        let numbers: Vec<String> = (0..10_000).map(|number: u64| number.to_string()).collect();
        let mut answer = ureq::post(at("/sum")).send(numbers.join(" ")).unwrap();
        assert_eq!(answer.body_mut().read_to_string().unwrap(), "49995000");
        match ureq::get(at("/nothing")).call() {
            Err(ureq::Error::StatusCode(404)) => {}
            other => panic!("{other:?}"),
        }
        let agent = ureq::Agent::new_with_defaults();
        for _ in 0..20 {
            let mut answer = agent.post(at("/sum")).send("20 22").unwrap();
            assert_eq!(answer.body_mut().read_to_string().unwrap(), "42");
        }
        ureq::get(at("/stop")).call().unwrap();
        assert_eq!(serves.join().unwrap(), 22);
    }
}
