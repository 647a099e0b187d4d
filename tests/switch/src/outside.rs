//! A guest, the machine's TCP/IP service and what is beyond the network card, on one switch.

use std::thread;
use std::time::Duration;

use crate::cases::SWITCH;
use crate::guest::Guest;

type Ip = [u8; 4];

/// QEMU's user network: its gateway, the address that the service gets, and one for the guest.
const GATEWAY: Ip = [10, 0, 2, 2];
const SERVICE: Ip = [10, 0, 2, 15];
const GUEST: Ip = [10, 0, 2, 77];
/// The address of the service's port.
const SERVICE_MAC: [u8; 6] = [2, 0, 0, 0, 1, 0x20];

fn frame(to: [u8; 6], from: [u8; 6], kind: [u8; 2], bytes: &[u8]) -> Vec<u8> {
    [&to[..], &from, &kind, bytes].concat()
}

/// The checksum of the Internet.
fn checksum(bytes: &[u8]) -> [u8; 2] {
    let mut sum: u32 = bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

/// Sends a frame until one comes that `takes` takes; others are not for us. The service may have no address yet.
fn ask<T>(guest: &mut Guest, frame: &[u8], what: &str, takes: impl Fn(&[u8]) -> Option<T>) -> T {
    for _ in 0..600 {
        assert!(guest.send(frame, &[], false), "no room");
        guest.publish_tx();
        thread::sleep(Duration::from_millis(50));
        while let Some(got) = guest.receive() {
            if let Some(answer) = takes(&got) {
                return answer;
            }
        }
        guest.reap();
    }
    panic!("{what} does not answer");
}

/// The hardware address of an address.
fn resolve(guest: &mut Guest, ip: Ip) -> [u8; 6] {
    let head = [0, 1, 8, 0, 6, 4, 0, 1];
    let question = [&head[..], &guest.mac, &GUEST, &[0; 6], &ip].concat();
    let question = frame([0xff; 6], guest.mac, [8, 6], &question);
    let own = guest.mac;
    ask(guest, &question, "ARP", |got| {
        let is_answer = got.len() >= 42 && got[..6] == own && got[12..14] == [8, 6] && got[20..22] == [0, 2];
        (is_answer && got[28..32] == ip).then(|| *got[22..].first_chunk().expect("long enough"))
    })
}

/// An echo request with 600 bytes, and its answer.
fn echo(guest: &mut Guest, mac: [u8; 6], ip: Ip) {
    let data: Vec<u8> = (0..600).map(|at| (at * 7) as u8).collect();
    let mut icmp = [&[8, 0, 0, 0, 0x12, 0x34, 0, 1], &data[..]].concat();
    let sum = checksum(&icmp);
    icmp[2..4].copy_from_slice(&sum);
    let len = (20 + icmp.len() as u16).to_be_bytes();
    let mut head = [&[0x45, 0, len[0], len[1], 0, 1, 0, 0, 64, 1, 0, 0], &GUEST[..], &ip].concat();
    let sum = checksum(&head);
    head[10..12].copy_from_slice(&sum);
    let request = frame(mac, guest.mac, [8, 0], &[head, icmp].concat());
    let own = guest.mac;
    ask(guest, &request, "the host behind an address", |got| {
        let is_answer = got.len() >= 642 && got[..6] == own && got[12..14] == [8, 0] && got[34..36] == [0, 0];
        (is_answer && got[6..12] == mac && got[26..30] == ip && got[42..642] == data).then_some(())
    });
}

/// A guest finds the service and the gateway, and both answer it.
pub fn outside() {
    let mut guest = Guest::new(SWITCH, "e");
    let gateway = resolve(&mut guest, GATEWAY);
    echo(&mut guest, gateway, GATEWAY);
    // `init` starts the service when somebody wants it.
    let _socket = std::net::UdpSocket::bind("0.0.0.0:0").expect("a socket");
    let service = resolve(&mut guest, SERVICE);
    assert_eq!(service, SERVICE_MAC, "the service's address");
    echo(&mut guest, service, SERVICE);
    println!("the service and the gateway answer");
}
