//! The wire behind a card whose frames go through a socket (`-netdev stream`): frames, and QEMU's user network at its
//! other end.
//!
//! Each frame comes with its length before it, in four bytes, the highest first.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};

use crate::qemu;

/// Bytes of a frame at most, by the length before it.
const LONGEST: usize = 70_000;

/// Bytes of Ethernet's header.
pub const ETHERNET: usize = 14;
/// Bytes of IPv4's header without options.
pub const IP: usize = 20;
/// Bytes of UDP's header.
pub const UDP: usize = 8;
/// Number of UDP in IPv4's header.
pub const UDP_NUMBER: u8 = 17;

/// One end of the wire. Several threads write to it.
#[derive(Clone, Debug)]
pub struct End(Arc<Mutex<UnixStream>>);

impl End {
    /// The end behind this socket.
    pub fn new(socket: UnixStream) -> End {
        End(Arc::new(Mutex::new(socket)))
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// The other side has ended.
    pub fn put(&self, frame: &[u8]) -> std::io::Result<()> {
        self.put_all(&[frame])
    }

    /// Sends frames, in one write.
    ///
    /// # Errors
    /// The other side has ended.
    pub fn put_all(&self, frames: &[&[u8]]) -> std::io::Result<()> {
        let mut bytes = Vec::new();
        for frame in frames {
            bytes.extend((frame.len() as u32).to_be_bytes());
            bytes.extend(*frame);
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(&bytes)
    }
}

/// The next frame.
///
/// # Errors
/// The other side has ended.
pub fn next(from: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let mut len = [0; 4];
    from.read_exact(&mut len)?;
    let mut frame = vec![0; (u32::from_be_bytes(len) as usize).min(LONGEST)];
    from.read_exact(&mut frame)?;
    Ok(frame)
}

/// QEMU without a machine: its user network at one end of a wire. It ends with this value.
#[derive(Debug)]
pub struct UserNetwork(Child);

impl Drop for UserNetwork {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl UserNetwork {
    /// Connects QEMU's user network, with these options, to the socket at which the wire listens.
    ///
    /// # Errors
    /// QEMU cannot be started.
    pub fn start(socket: &Path, options: &str) -> Result<UserNetwork> {
        let mut command = qemu::mortal();
        command.args(["-machine", "none", "-nodefaults", "-no-user-config", "-display", "none", "-accel", "tcg"]);
        command.args(["-netdev", &format!("user,id=user{options}")]);
        command.arg("-netdev");
        command.arg(format!("stream,id=wire,server=off,addr.type=unix,addr.path={}", socket.display()));
        command.args([
            "-netdev",
            "hubport,id=one,hubid=0,netdev=user",
            "-netdev",
            "hubport,id=two,hubid=0,netdev=wire",
        ]);
        // It says that it has no machine.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(UserNetwork(command.spawn().context("cannot start QEMU")?))
    }
}

/// The sum of the internet protocols over these bytes.
pub fn sum(parts: &[&[u8]]) -> [u8; 2] {
    let mut sum = 0_u32;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

/// A frame with an IPv4 packet. `macs` are the receiver's and the sender's hardware addresses.
pub fn frame(macs: &[u8], protocol: u8, from: [u8; 4], to: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let len = ((IP + payload.len()) as u16).to_be_bytes();
    let mut header = vec![0x45, 0, len[0], len[1], 0, 0, 0, 0, 64, protocol, 0, 0];
    header.extend(from);
    header.extend(to);
    let check = sum(&[&header]);
    header[10..12].copy_from_slice(&check);
    [macs, &[8, 0], &header, payload].concat()
}

/// A datagram that answers the one in this frame, which is one of UDP over IPv4 without options.
pub fn reply(datagram: &[u8], data: &[u8]) -> Vec<u8> {
    let ip = &datagram[ETHERNET..];
    let address = |at: usize| [ip[at], ip[at + 1], ip[at + 2], ip[at + 3]];
    let ports = &ip[IP..];
    let len = ((UDP + data.len()) as u16).to_be_bytes();
    let (from, to) = (address(16), address(12));
    let header = [&ports[2..4], &ports[..2], &len[..]].concat();
    let check = sum(&[&from, &to, &[0, UDP_NUMBER], &len, &header, data]);
    // A sum of zero would say that there is none.
    let check = if check == [0, 0] { [0xff, 0xff] } else { check };
    let macs = [&datagram[6..12], &datagram[..6]].concat();
    frame(&macs, UDP_NUMBER, from, to, &[&header, &check[..], data].concat())
}
