//! Third-party crates on the network of std and on poll(2): mio, tokio, an HTTP server and an HTTP client, unmodified.
//!
//! On Fuchsia, mio 1.2.4 leaves sockets that it creates itself in blocking mode (its list of systems whose `socket`
//! accepts `SOCK_NONBLOCK` lacks Fuchsia). So these tests create them with std, socket2, or tokio's `TcpSocket`, which
//! set nonblocking mode.
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
    use socket2::{Domain, Socket, Type};
    use std::net::SocketAddr;

    /// A mio listener.
    fn listener() -> TcpListener {
        let listener = network_example::listener();
        listener.set_nonblocking(true).unwrap();
        TcpListener::from_std(listener)
    }

    /// A stream that is being connected.
    fn connect(to: SocketAddr) -> TcpStream {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_nonblocking(true).unwrap();
        if let Err(error) = socket.connect(&to.into()) {
            // `ErrorKind` has no kind for EINPROGRESS.
            assert_eq!(error.raw_os_error(), Some(115), "{error}");
        }
        TcpStream::from_std(socket.into())
    }

    fn datagrams() -> UdpSocket {
        let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_nonblocking(true).unwrap();
        UdpSocket::from_std(socket)
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
        let mut client = connect(listener.local_addr().unwrap());
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
        let mut client = connect(gone);
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
}

mod tokio_net {
    use std::io;
    use std::net::{Ipv4Addr, SocketAddr};
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};

    fn listener() -> TcpListener {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        socket.listen(128).unwrap()
    }

    async fn connect(to: SocketAddr) -> io::Result<TcpStream> {
        TcpSocket::new_v4()?.connect(to).await
    }

    fn datagram() -> UdpSocket {
        let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_nonblocking(true).unwrap();
        UdpSocket::from_std(socket).unwrap()
    }

    /// On one thread: with several, mio's selector over `poll`, which this target uses, loses wake-ups and
    /// registrations (see the end of `docs/network.md`).
    #[tokio::test]
    async fn an_echo_for_fifty() {
        let listener = listener();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                tokio::spawn(async move {
                    let (mut reader, mut writer) = stream.split();
                    tokio::io::copy(&mut reader, &mut writer).await.unwrap();
                });
            }
        });
        let clients: Vec<_> = (0..50u32)
            .map(|number| {
                tokio::spawn(async move {
                    let mut stream = connect(address).await.unwrap();
                    let text = format!("number {number}").repeat(1000);
                    stream.write_all(text.as_bytes()).await.unwrap();
                    stream.shutdown().await.unwrap();
                    let mut back = String::new();
                    stream.read_to_string(&mut back).await.unwrap();
                    assert_eq!(back, text);
                })
            })
            .collect();
        for client in clients {
            client.await.unwrap();
        }
    }

    #[tokio::test]
    async fn refused_and_too_late() {
        let gone = listener().local_addr().unwrap();
        let error = connect(gone).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
        let listener = listener();
        tokio::time::timeout(Duration::from_millis(20), listener.accept()).await.unwrap_err();
    }

    #[tokio::test]
    async fn datagrams() {
        let (a, b) = (datagram(), datagram());
        a.connect(b.local_addr().unwrap()).await.unwrap();
        let mut buffer = [0; 64];
        let (sent, received) = tokio::join!(a.send(b"hello"), b.recv_from(&mut buffer));
        assert_eq!((sent.unwrap(), received.unwrap()), (5, (5, a.local_addr().unwrap())));
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
