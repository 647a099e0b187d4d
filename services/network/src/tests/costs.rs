//! What is kept so that the next frame costs less is never wrong.

use std::cell::RefCell;
use std::net::{SocketAddr, SocketAddrV4};
use std::rc::Rc;

use description::network::Rule;
use network_protocol::{Choice, Family, Kind, Request};
use smoltcp::wire::Ipv4Cidr;

use super::card::{self, Ethernet, ip};
use crate::ports::Id;
use crate::wire::{Outlet, Wire};

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// A datagram goes where the last one went, until anything changes.
#[test]
fn a_datagram_goes_where_it_belongs_after_each_change() {
    let mut ethernet = Ethernet::new();
    let open = |ethernet: &mut Ethernet, at: &str| -> Id {
        let id = ethernet.machines[0].open(Family::V4, Kind::Datagram);
        ethernet.machines[0].ask(id, Request::Set(Choice::ReuseAddress, 1)).unwrap();
        ethernet.machines[0].ask(id, Request::Bind(at.parse().unwrap())).unwrap();
        id
    };
    let sender = ethernet.machines[1].open(Family::V4, Kind::Datagram);
    ethernet.machines[1].ask(sender, Request::Bind(at("192.0.2.2:6000"))).unwrap();
    // Two datagrams, because only the second one can go the short way; who received how many.
    let send = |ethernet: &mut Ethernet, receivers: &[Id]| -> Vec<usize> {
        for _ in 0..2 {
            ethernet.machines[1].write(sender, &card::datagram(SocketAddrV4::new(ip(1), 5000), 9));
            ethernet.settle();
        }
        let machine = &ethernet.machines[0];
        receivers.iter().map(|id| machine.pipe(*id).client().inbox.drain(..).count()).collect()
    };
    let a = open(&mut ethernet, "0.0.0.0:5000");
    assert_eq!(send(&mut ethernet, &[a]), [2]);
    assert!(ethernet.machines[0].stack.heard.is_some());
    // A socket that is bound to the address, and its end.
    let b = open(&mut ethernet, "192.0.2.1:5000");
    assert_eq!(send(&mut ethernet, &[a, b]), [0, 2]);
    ethernet.machines[0].stack.close(b);
    assert_eq!(send(&mut ethernet, &[a]), [2]);
    // A rule without the sender.
    let none = Rc::new(Rule::parse(&["192.0.2.9:*"], &[""; 0], false).unwrap());
    ethernet.machines[0].stack.set_rule(a, Some(none));
    assert_eq!(send(&mut ethernet, &[a]), [0]);
    ethernet.machines[0].stack.set_rule(a, None);
    assert_eq!(send(&mut ethernet, &[a]), [2]);
    // Peers.
    ethernet.machines[0].ask(a, Request::Connect { to: at("192.0.2.2:6001"), wait: true }).unwrap();
    assert_eq!(send(&mut ethernet, &[a]), [0]);
    ethernet.machines[0].ask(a, Request::Connect { to: at("192.0.2.2:6000"), wait: true }).unwrap();
    assert_eq!(send(&mut ethernet, &[a]), [2]);
    // Another address of the card: the frames come for the one of before.
    ethernet.machines[0].stack.set_address(Some(Ipv4Cidr::new(ip(3), 24)), None);
    assert_eq!(send(&mut ethernet, &[a]), [0]);
}

/// The checksum of a joined segment is not looked at again; that of the next one is.
#[test]
fn a_wrong_segment_behind_a_joined_one_is_refused() {
    let mut ethernet = Ethernet::new();
    let (server, client) = ethernet.used_connection();
    let [here, there] = &mut ethernet.machines;
    there.write(client, &[5; 4 * 1460]);
    let mut frames: Vec<Vec<u8>> = std::iter::from_fn(|| there.stack.wire().unwrap().take()).collect();
    assert_eq!(frames.len(), 4);
    *frames[3].last_mut().unwrap() ^= 1;
    frames.iter().for_each(|frame| card::bring(here, frame));
    let wire = here.stack.wire().unwrap();
    assert!(wire.is_checked());
    assert_eq!(wire.len(), 2);
    here.settle();
    assert_eq!(here.read(server), [5; 3 * 1460]);
}

/// Memory for two frames.
#[derive(Clone, Default)]
struct Two(Rc<RefCell<Vec<Vec<u8>>>>);

impl Outlet for Two {
    fn put(&mut self, frame: &[u8]) -> bool {
        let mut frames = self.0.borrow_mut();
        let has_place = frames.len() < 2;
        if has_place {
            frames.push(frame.to_vec());
        }
        has_place
    }
}

/// Frames go straight to the card's memory, and none overtakes one that waits in the queue.
#[test]
fn frames_leave_in_order() {
    let (mut wire, card) = (Wire::card(1514), Two::default());
    wire.set_outlet(Box::new(card.clone()));
    wire.send_copy(&[0]);
    assert!(card.0.borrow().is_empty(), "there was no room");
    wire.set_room(5);
    (1..=3).for_each(|number| wire.send_copy(&[number]));
    assert_eq!(card.0.take(), [[1], [2]]);
    // The third one still waits.
    wire.send_copy(&[4]);
    assert!(card.0.borrow().is_empty());
    assert_eq!((wire.take(), wire.take(), wire.take()), (Some(vec![3]), Some(vec![4]), None));
    (5..=6).for_each(|number| wire.send_copy(&[number]));
    assert_eq!(card.0.take(), [[5]]);
    assert!(!wire.has_room());
}
