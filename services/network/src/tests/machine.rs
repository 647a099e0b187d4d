//! Data sockets in plain memory, a clock that tests set, and a simulated port.

use std::cell::{RefCell, RefMut};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;

use network_protocol::{Error, Family, Kind, Reply, Request};
use service::Program;
use smoltcp::time::{Duration, Instant};

use crate::ports::Id;
use crate::socket::{End, ReadOutcome, WriteOutcome};
use crate::stack::{DataSockets, Stack};

/// Capacity of a data socket in each direction.
const ROOM: usize = 256 << 10;

/// One end of a data socket: its inbox, its permissions, its signals, and the packets that the service has requested.
#[derive(Default)]
pub struct Side {
    pub inbox: VecDeque<Vec<u8>>,
    pub stopped: bool,
    pub signals: u32,
    /// The signals at the time of the cut: a client may look at them between a cut and the changes that follow.
    pub at_cut: u32,
    wants_readable: bool,
    wants_writable: bool,
}

/// A data socket, and which of its ends is the client's.
#[derive(Clone)]
pub struct Pipe {
    sides: Rc<RefCell<[Side; 2]>>,
    client: usize,
    datagrams: bool,
}

fn held(queue: &VecDeque<Vec<u8>>) -> usize {
    queue.iter().map(Vec::len).sum()
}

impl Pipe {
    pub fn client(&self) -> RefMut<'_, Side> {
        RefMut::map(self.sides.borrow_mut(), |sides| &mut sides[self.client])
    }

    pub fn service(&self) -> RefMut<'_, Side> {
        RefMut::map(self.sides.borrow_mut(), |sides| &mut sides[1 - self.client])
    }
}

impl End for Pipe {
    fn take(&mut self, into: &mut [u8]) -> ReadOutcome {
        let stopped = self.client().stopped;
        let inbox = &mut self.service().inbox;
        let Some(mut first) = inbox.pop_front() else {
            return if stopped { ReadOutcome::End } else { ReadOutcome::Nothing };
        };
        let count = first.len().min(into.len());
        into[..count].copy_from_slice(&first[..count]);
        if count < first.len() && !self.datagrams {
            inbox.push_front(first.split_off(count));
        }
        ReadOutcome::Bytes(count)
    }

    fn give(&mut self, from: &[u8]) -> WriteOutcome {
        if self.service().stopped {
            return WriteOutcome::Refused;
        }
        let room = ROOM - held(&self.client().inbox);
        if room == 0 || self.datagrams && room < from.len() {
            return WriteOutcome::Full;
        }
        let count = from.len().min(room);
        self.client().inbox.push_back(from[..count].to_vec());
        WriteOutcome::Bytes(count)
    }

    fn finish(&mut self) {
        self.service().stopped = true;
    }

    fn cut(&mut self) {
        self.service().stopped = true;
        let mut client = self.client();
        client.stopped = true;
        client.at_cut = client.signals;
    }

    fn tell(&mut self, clear: u32, set: u32) {
        let signals = &mut self.client().signals;
        *signals = *signals & !clear | set;
    }

    fn unread(&self) -> usize {
        held(&self.client().inbox)
    }

    fn watch_readable(&mut self) {
        assert!(!std::mem::replace(&mut self.service().wants_readable, true), "asked for twice");
    }

    fn watch_writable(&mut self) {
        assert!(!std::mem::replace(&mut self.service().wants_writable, true), "asked for twice");
    }
}

/// Creates data sockets.
pub struct Pipes;

impl DataSockets for Pipes {
    type End = Pipe;
    type ClientEnds = ();

    fn take(&mut self, id: Id, kind: Kind, (): ()) -> Result<Pipe, Error> {
        self.make(id, kind)
    }

    fn make(&mut self, _id: Id, kind: Kind) -> Result<Pipe, Error> {
        Ok(Pipe { sides: Rc::default(), client: 0, datagrams: kind != Kind::Stream })
    }

    fn other(&mut self, _id: Id, end: &Pipe) -> Result<Pipe, Error> {
        Ok(Pipe { client: 1 - end.client, ..end.clone() })
    }
}

/// A stack, its clock, and a simulated port.
pub struct Machine {
    pub stack: Stack<Pipes>,
    now: Instant,
}

impl Machine {
    pub fn new(direct: bool) -> Machine {
        let now = Instant::from_secs(1);
        Machine { stack: Stack::new(Pipes, [7; 32], now, direct), now }
    }

    pub fn open(&mut self, family: Family, kind: Kind) -> Id {
        self.stack.open(Program(1), family, kind, ()).unwrap()
    }

    pub fn ask(&mut self, id: Id, request: Request<'_>) -> Result<Reply, Error> {
        let answer = self.stack.request(id, request);
        self.settle();
        answer
    }

    pub fn address(&mut self, id: Id) -> SocketAddr {
        match self.ask(id, Request::LocalAddress) {
            Ok(Reply::Address(address)) => address,
            other => panic!("{other:?}"),
        }
    }

    /// Delivers the packets of the port. Returns whether there were any.
    pub fn packets(&mut self) -> bool {
        let mut moved = false;
        let ids: Vec<Id> = self.stack.sockets.keys().copied().collect();
        for id in ids {
            let Some(pipe) = self.stack.end(id).cloned() else { continue };
            let stopped = pipe.client().stopped;
            let room = held(&pipe.client().inbox) < ROOM;
            let mut side = pipe.service();
            let readable = side.wants_readable && (!side.inbox.is_empty() || stopped);
            let writable = side.wants_writable && (room || side.stopped);
            side.wants_readable &= !readable;
            side.wants_writable &= !writable;
            drop(side);
            if readable {
                self.stack.readable(id);
            }
            if writable {
                self.stack.writable(id);
            }
            moved |= readable || writable;
        }
        moved
    }

    /// Polls once; returns whether there is more to do.
    pub fn poll(&mut self) -> bool {
        self.stack.poll(self.now).is_some_and(|at| at <= self.now)
    }

    /// Delivers packets and polls until nothing moves any more. Returns when the stack wants to be called again.
    pub fn settle(&mut self) -> Option<Instant> {
        for _ in 0..100_000 {
            let moved = self.packets();
            let next = self.stack.poll(self.now);
            if !moved && next.is_none_or(|at| at > self.now) {
                return next;
            }
        }
        panic!("it never comes to rest");
    }

    pub fn pass(&mut self, time: Duration) {
        self.now += time;
        self.settle();
    }

    pub fn now(&self) -> Instant {
        self.now
    }

    pub fn pipe(&self, id: Id) -> Pipe {
        self.stack.end(id).unwrap().clone()
    }

    pub fn signals(&self, id: Id) -> u32 {
        self.pipe(id).client().signals
    }

    pub fn write(&mut self, id: Id, bytes: &[u8]) {
        self.pipe(id).service().inbox.push_back(bytes.to_vec());
        self.settle();
    }

    pub fn read(&mut self, id: Id) -> Vec<u8> {
        let bytes = self.pipe(id).client().inbox.drain(..).flatten().collect();
        self.settle();
        bytes
    }

    pub fn listener(&mut self, backlog: u32) -> (Id, SocketAddr) {
        let listener = self.open(Family::V4, Kind::Stream);
        self.ask(listener, Request::Bind("127.0.0.1:0".parse().unwrap())).unwrap();
        self.ask(listener, Request::Listen(backlog)).unwrap();
        (listener, self.address(listener))
    }

    pub fn connection(&mut self) -> (Id, Id) {
        let (listener, at) = self.listener(1);
        let client = self.open(Family::V4, Kind::Stream);
        assert_eq!(self.ask(client, Request::Connect { to: at, wait: true }), Ok(Reply::Done));
        let (server, _) = self.stack.accept(listener).unwrap();
        self.stack.close(listener);
        self.settle();
        (client, server)
    }
}
