//! UNIX sockets with names in a file system.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// A test's own folder.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = env::temp_dir().join(format!("sockets-{}-{name}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn name(address: &SocketAddr) -> Option<&Path> {
    address.as_pathname()
}

/// Starts this program in a folder, in another role.
fn child(role: &str, folder: &Folder) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command.env("CHILD", role).env("FOLDER", &folder.0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// The roles of children.
pub fn be(role: &str) {
    env::set_current_dir(env::var("FOLDER").unwrap()).unwrap();
    match role {
        "socket-connects" => {
            let mut stream = UnixStream::connect("name").unwrap();
            stream.write_all(b"from a child").unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            print!("{text}");
        }
        "socket-listens" => {
            let listener = UnixListener::bind("name").unwrap();
            println!("listens");
            // Until it is killed.
            std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
            drop(listener);
        }
        "socket-receives" => {
            let socket = UnixDatagram::bind("child").unwrap();
            socket.connect("parent").unwrap();
            socket.send(b"ready").unwrap();
            let mut bytes = [0; 9];
            let (len, from) = socket.recv_from(&mut bytes).unwrap();
            print!("{} {}", String::from_utf8_lossy(&bytes[..len]), name(&from).unwrap().display());
        }
        other => panic!("no role {other}"),
    }
}

pub fn names() {
    let folder = Folder::new("names");
    let path = folder.path("name");
    let listener = UnixListener::bind(&path).unwrap();
    let kind = fs::metadata(&path).unwrap().file_type();
    assert!(kind.is_socket() && !kind.is_file());
    let listed = fs::read_dir(&folder.0).unwrap().next().unwrap().unwrap();
    assert!(listed.file_type().unwrap().is_socket());
    assert_eq!(name(&listener.local_addr().unwrap()), Some(path.as_path()));
    let mut client = UnixStream::connect(&path).unwrap();
    let (mut accepted, from) = listener.accept().unwrap();
    assert!(from.is_unnamed());
    assert!(client.local_addr().unwrap().is_unnamed() && accepted.peer_addr().unwrap().is_unnamed());
    for address in [client.peer_addr(), accepted.local_addr()] {
        assert_eq!(name(&address.unwrap()), Some(path.as_path()));
    }
    assert!(client.take_error().unwrap().is_none());
    client.write_all(b"there").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut text = String::new();
    accepted.read_to_string(&mut text).unwrap();
    assert_eq!(text, "there");
    // The socket's name is changed; the new name reaches the socket.
    fs::rename(&path, folder.path("renamed")).unwrap();
    assert_eq!(UnixStream::connect(&path).unwrap_err().kind(), ErrorKind::NotFound);
    UnixStream::connect(folder.path("renamed")).unwrap();
}

/// The name of a socket may exist before the socket, and stays after it.
pub fn names_without_sockets() {
    let folder = Folder::new("without");
    let path = folder.path("name");
    let kind = |path: &Path| UnixStream::connect(path).unwrap_err().kind();
    assert_eq!(kind(&path), ErrorKind::NotFound);
    drop(UnixListener::bind(&path).unwrap());
    assert_eq!(kind(&path), ErrorKind::ConnectionRefused);
    assert_eq!(UnixListener::bind(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
    assert_eq!(UnixDatagram::bind(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
    assert!(fs::File::open(&path).is_err());
    fs::remove_file(&path).unwrap();
    UnixListener::bind(&path).unwrap();
    // A file that is not a socket, and paths at which nothing can be created.
    fs::write(folder.path("file"), b"x").unwrap();
    assert_eq!(kind(&folder.path("file")), ErrorKind::ConnectionRefused);
    assert_eq!(UnixListener::bind(folder.path("file")).unwrap_err().kind(), ErrorKind::AddrInUse);
    assert_eq!(UnixListener::bind(folder.path("no/name")).unwrap_err().kind(), ErrorKind::NotFound);
    // A symbolic link: connect follows it, bind does not.
    std::os::unix::fs::symlink("live", folder.path("link")).unwrap();
    assert_eq!(UnixListener::bind(folder.path("link")).unwrap_err().kind(), ErrorKind::AddrInUse);
    let _listener = UnixListener::bind(folder.path("live")).unwrap();
    UnixStream::connect(folder.path("link")).unwrap();
}

/// Once a file is closed, the next call finds it closed, however soon it comes.
pub fn closed_for_the_next_call() {
    let folder = Folder::new("closed");
    let (path, locked) = (folder.path("name"), folder.path("locked"));
    for round in 0..2000 {
        drop(UnixListener::bind(&path).unwrap());
        let error = UnixStream::connect(&path).err().map(|error| error.kind());
        assert_eq!(error, Some(ErrorKind::ConnectionRefused), "round {round}");
        fs::remove_file(&path).unwrap();
        let file = fs::File::create(&locked).unwrap();
        assert!(file.try_lock().is_ok(), "round {round}");
    }
}

/// Another process, and a name relative to its working directory.
pub fn another_process() {
    let folder = Folder::new("process");
    let listener = UnixListener::bind(folder.path("name")).unwrap();
    let child = child("socket-connects", &folder);
    let (mut stream, _) = listener.accept().unwrap();
    let mut bytes = [0; 12];
    stream.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"from a child");
    stream.write_all(b"answer").unwrap();
    drop(stream);
    assert_eq!(child.wait_with_output().unwrap().stdout, b"answer");
}

/// A client that waits for a listener learns of the listener's end.
pub fn listener_dies() {
    let folder = Folder::new("dies");
    let mut child = child("socket-listens", &folder);
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "listens\n");
    let path = folder.path("name");
    let mut waiting: Vec<UnixStream> = (0..3).map(|_| UnixStream::connect(&path).unwrap()).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    for stream in &mut waiting {
        let read = stream.read(&mut [0]);
        assert!(matches!(&read, Ok(0)) || read.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
    }
    assert_eq!(UnixStream::connect(&path).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

/// Data that a client sent before it closed is there when the connection is accepted later.
pub fn connection_of_a_closed_client() {
    let folder = Folder::new("gone");
    let listener = UnixListener::bind(folder.path("name")).unwrap();
    UnixStream::connect(folder.path("name")).unwrap().write_all(b"left behind").unwrap();
    let mut text = String::new();
    listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
    assert_eq!(text, "left behind");
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

/// More connections than a queue has room for: the others wait, and all are accepted.
pub fn more_than_the_queue_holds() {
    const CLIENTS: u8 = 200;
    let folder = Folder::new("queue");
    let path = folder.path("name");
    let listener = UnixListener::bind(&path).unwrap();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let path = path.clone();
            thread::spawn(move || {
                let mut stream = UnixStream::connect(path).unwrap();
                stream.write_all(&[number]).unwrap();
                stream.read_to_end(&mut Vec::new()).unwrap();
            })
        })
        .collect();
    let mut numbers: Vec<u8> = (0..CLIENTS)
        .map(|_| {
            let mut number = [0];
            listener.accept().unwrap().0.read_exact(&mut number).unwrap();
            number[0]
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..CLIENTS));
}

pub fn datagrams() {
    let folder = Folder::new("datagrams");
    let (one, two) = (folder.path("one"), folder.path("two"));
    let (first, second) = (UnixDatagram::bind(&one).unwrap(), UnixDatagram::bind(&two).unwrap());
    let nobody = UnixDatagram::unbound().unwrap();
    assert_eq!(nobody.send(b"x").unwrap_err().kind(), ErrorKind::NotConnected);
    second.send_to(b"named", &one).unwrap();
    nobody.send_to(b"", &one).unwrap();
    nobody.send_to(b"longer", &one).unwrap();
    let mut bytes = [0; 5];
    let (len, from) = first.recv_from(&mut bytes).unwrap();
    assert_eq!((len, name(&from)), (5, Some(two.as_path())));
    assert_eq!(first.recv(&mut bytes).unwrap(), 0);
    // The rest of the datagram is lost.
    let (len, from) = first.recv_from(&mut bytes).unwrap();
    assert!((len, &bytes) == (5, b"longe") && from.is_unnamed());
    first.set_nonblocking(true).unwrap();
    assert_eq!(first.recv(&mut bytes).unwrap_err().kind(), ErrorKind::WouldBlock);
    first.set_nonblocking(false).unwrap();
    first.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    assert_eq!(first.recv(&mut bytes).unwrap_err().kind(), ErrorKind::WouldBlock);
    nobody.connect(&two).unwrap();
    assert_eq!(name(&nobody.peer_addr().unwrap()), Some(two.as_path()));
    nobody.send(b"two").unwrap();
    assert_eq!(second.recv(&mut bytes).unwrap(), 3);
    drop(second);
    assert_eq!(nobody.send(b"x").unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert_eq!(first.send_to(b"x", &two).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    let listener = UnixListener::bind(folder.path("stream")).unwrap();
    assert!(first.connect(folder.path("stream")).is_err() && UnixStream::connect(&one).is_err());
    drop(listener);
}

/// A sender waits, or gets an error, when the receiver is full.
pub fn more_datagrams_than_there_is_room_for() {
    const COUNT: u32 = 3000;
    let folder = Folder::new("room");
    let path = folder.path("name");
    let receiver = UnixDatagram::bind(&path).unwrap();
    let sender = UnixDatagram::unbound().unwrap();
    sender.connect(&path).unwrap();
    sender.set_nonblocking(true).unwrap();
    let mut sent = 0u32;
    let error = loop {
        match sender.send(&[sent.to_le_bytes(); 250].concat()) {
            Ok(_) => sent += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    sender.set_nonblocking(false).unwrap();
    let sending = thread::spawn(move || {
        (sent..COUNT).for_each(|number| _ = sender.send(&[number.to_le_bytes(); 250].concat()).unwrap());
    });
    let mut bytes = [0; 1001];
    for number in 0..COUNT {
        assert_eq!(receiver.recv(&mut bytes).unwrap(), 1000);
        assert_eq!(bytes[996..1000], number.to_le_bytes());
    }
    sending.join().unwrap();
}

pub fn datagrams_of_another_process() {
    let folder = Folder::new("letters");
    let socket = UnixDatagram::bind(folder.path("parent")).unwrap();
    let child = child("socket-receives", &folder);
    let mut bytes = [0; 9];
    let (len, from) = socket.recv_from(&mut bytes).unwrap();
    // The sender's name is reported as it was bound.
    assert_eq!((&bytes[..len], name(&from)), (&b"ready"[..], Some(Path::new("child"))));
    socket.send_to(b"answer", folder.path("child")).unwrap();
    let said = child.wait_with_output().unwrap().stdout;
    assert_eq!(String::from_utf8(said).unwrap(), format!("answer {}", folder.path("parent").display()));
}

/// A connection whose listener is closed before it has accepted is reset.
pub fn reset_before_accept() {
    let folder = Folder::new("reset");
    let listener = UnixListener::bind(folder.path("name")).unwrap();
    let mut stream = UnixStream::connect(folder.path("name")).unwrap();
    drop(listener);
    assert_eq!(stream.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
}
