//! Pipes and socket pairs.

use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write, pipe};
use std::net::Shutdown;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::thread;
use std::time::Duration;

/// More data than a pipe holds, from a writer that is alternately slower and faster than the reader.
pub fn whole_stream() {
    let (mut reader, mut writer) = pipe().unwrap();
    let sent: Vec<u8> = (0..1_000_000u32).flat_map(u32::to_le_bytes).collect();
    let expected = sent.clone();
    let sender = thread::spawn(move || sent.chunks(12_345).for_each(|part| writer.write_all(part).unwrap()));
    let mut got = Vec::new();
    reader.read_to_end(&mut got).unwrap();
    sender.join().unwrap();
    assert!(got == expected);
}

pub fn end_of_stream() {
    let (mut reader, mut writer) = pipe().unwrap();
    writer.write_all(b"ab").unwrap();
    drop(writer);
    let mut bytes = [0; 8];
    assert_eq!(reader.read(&mut bytes).unwrap(), 2);
    assert_eq!(reader.read(&mut bytes).unwrap(), 0);
    let (reader, mut writer) = pipe().unwrap();
    drop(reader);
    assert_eq!(writer.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
}

pub fn vectored() {
    let (mut reader, mut writer) = pipe().unwrap();
    let parts = [IoSlice::new(b"ab"), IoSlice::new(b""), IoSlice::new(b"cde")];
    assert_eq!(writer.write_vectored(&parts).unwrap(), 5);
    let (mut first, mut second) = ([0; 1], [0; 9]);
    let parts = &mut [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
    assert_eq!(reader.read_vectored(parts).unwrap(), 5);
    assert_eq!((&first, &second[..4]), (b"a", &b"bcde"[..]));
}

pub fn try_clone_keeps_it_open() {
    let (mut reader, writer) = pipe().unwrap();
    let mut second = writer.try_clone().unwrap();
    drop(writer);
    second.write_all(b"z").unwrap();
    drop(second);
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, b"z");
}

pub fn wrong_direction() {
    use std::fs::File;
    use std::os::fd::OwnedFd;
    let (reader, writer) = pipe().unwrap();
    let (mut reader, mut writer) = (File::from(OwnedFd::from(reader)), File::from(OwnedFd::from(writer)));
    assert!(reader.write(b"x").is_err());
    assert!(writer.read(&mut [0]).is_err());
}

pub fn stream_pair() {
    let (mut a, mut b) = UnixStream::pair().unwrap();
    a.write_all(b"there").unwrap();
    b.write_all(b"back").unwrap();
    let mut bytes = [0; 5];
    b.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"there");
    drop(b);
    let mut text = String::new();
    a.read_to_string(&mut text).unwrap();
    assert_eq!(text, "back");
}

pub fn datagram_pair() {
    let (a, b) = UnixDatagram::pair().unwrap();
    a.send(b"one").unwrap();
    a.send(b"three").unwrap();
    let mut bytes = [0; 9];
    assert_eq!(b.recv(&mut bytes).unwrap(), 3);
    assert_eq!(b.recv(&mut bytes).unwrap(), 5);
    b.set_nonblocking(true).unwrap();
    assert_eq!(b.recv(&mut bytes).unwrap_err().kind(), ErrorKind::WouldBlock);
}

/// Data that arrives later wakes a waiting reader.
pub fn timed_threads() {
    let (mut reader, mut writer) = pipe().unwrap();
    let waiting = thread::spawn(move || {
        let mut byte = [0];
        reader.read_exact(&mut byte).unwrap();
        byte[0]
    });
    thread::sleep(Duration::from_millis(30));
    assert!(!waiting.is_finished());
    writer.write_all(&[42]).unwrap();
    assert_eq!(waiting.join().unwrap(), 42);
}

pub fn shut_down() {
    let (mut a, mut b) = UnixStream::pair().unwrap();
    a.write_all(b"last").unwrap();
    a.shutdown(Shutdown::Write).unwrap();
    let mut text = String::new();
    b.read_to_string(&mut text).unwrap();
    assert_eq!(text, "last");
    assert_eq!(a.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    b.write_all(b"still").unwrap();
    drop(b);
    text.clear();
    a.read_to_string(&mut text).unwrap();
    assert_eq!(text, "still");
}

/// A side that is closed with unread bytes resets the connection; what it has written comes first.
pub fn reset_by_unread_bytes() {
    let (mut a, mut b) = UnixStream::pair().unwrap();
    a.write_all(b"not read").unwrap();
    b.write_all(b"last").unwrap();
    let second = b.try_clone().unwrap();
    drop(b);
    let mut bytes = [0; 8];
    assert_eq!(a.read(&mut bytes).unwrap(), 4);
    a.set_nonblocking(true).unwrap();
    assert_eq!(a.read(&mut bytes).unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(second);
    a.set_nonblocking(false).unwrap();
    assert_eq!(a.read(&mut bytes).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(a.read(&mut bytes).unwrap(), 0);
    // Without unread bytes it is an end.
    let (mut a, b) = UnixStream::pair().unwrap();
    drop(b);
    assert_eq!(a.read(&mut bytes).unwrap(), 0);
    assert!(a.take_error().unwrap().is_none());
    let (mut a, b) = UnixStream::pair().unwrap();
    a.write_all(b"x").unwrap();
    drop(b);
    assert_eq!(a.take_error().unwrap().unwrap().kind(), ErrorKind::ConnectionReset);
    assert!(a.take_error().unwrap().is_none());
}
