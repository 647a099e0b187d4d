//! Lookups over TCP, after a truncated answer (RFC 7766): the server that sent it is asked again over a connection. If
//! that gives no valid answer in time, smoltcp's DNS socket asks the next server.
//!
//! Nothing that a server sends is believed before the checks of the DNS socket, which are those of an answer in a
//! datagram. A connection, its buffers and its answer are bounded, and a query has one connection at a time.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use network_protocol::Kind;
use smoltcp::socket::dns::{self, QueryHandle};
use smoltcp::socket::tcp::{self, State};
use smoltcp::time::{Duration, Instant};

use crate::lookup::{DNS, DNS_SERVER, LookupId};
use crate::packets::{Packets, Side};
use crate::ports::{Binding, Ends, Id};
use crate::socket::Choices;
use crate::stack::{DataSockets, Stack};

/// Time for a connection, from its beginning to the whole answer.
const TIME: Duration = Duration::from_secs(5);
/// Longest answer in bytes: more than any that a name server has sent for addresses, less than a message can have.
const ANSWER: usize = 16 << 10;
/// Bytes of a connection's buffers.
const BUFFER: u32 = 4 << 10;
/// Bytes of the length before a message.
const LENGTH: usize = 2;

/// A query's connection to a name server.
struct Stream {
    lookup: LookupId,
    query: QueryHandle,
    ends: Ends,
    /// The question, with its length before it, until it is sent.
    question: Vec<u8>,
    /// What has come so far, with the length before it.
    answer: Vec<u8>,
}

/// The connections of lookups.
#[derive(Default)]
pub(crate) struct Streams {
    /// By the numbers of their smoltcp sockets.
    all: HashMap<Id, Stream>,
    /// When they end at last, in order. Some have ended before.
    ends: VecDeque<(Instant, Id)>,
    /// The queries whose last server gave no valid answer.
    pub failed: Vec<(LookupId, QueryHandle)>,
}

impl Streams {
    /// Whether this is the number of a lookup's smoltcp socket.
    pub(crate) fn has(&self, id: Id) -> bool {
        !self.all.is_empty() && self.all.contains_key(&id)
    }

    /// When [`Stack::end_streams`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.ends.front().map(|(at, _)| *at)
    }

    /// Whether a query has a connection.
    fn has_query(&self, lookup: LookupId, query: QueryHandle) -> bool {
        self.all.values().any(|stream| (stream.lookup, stream.query) == (lookup, query))
    }

    /// A connection of a lookup.
    pub(crate) fn of(&self, lookup: LookupId) -> Option<Id> {
        self.all.iter().find(|(_, stream)| stream.lookup == lookup).map(|(id, _)| *id)
    }
}

/// What the turn of a connection came to.
enum Turn {
    Goes,
    /// There is no answer.
    Fails,
    /// This is the answer.
    Answered(Vec<u8>),
}

impl<W: DataSockets> Stack<W> {
    /// Begins a connection for each lookup whose answer was truncated.
    pub(crate) fn begin_streams(&mut self) {
        for (lookup, query) in self.lookups.queries() {
            let mut question = [0; 512];
            let Some(packets) = self.packets.get_mut(&DNS) else { return };
            let Some((server, len)) = packets.socket::<dns::Socket<'static>>().truncated(query, &mut question) else {
                continue;
            };
            if self.lookups.streams.has_query(lookup, query) {
                continue;
            }
            let server = SocketAddr::new(server.into(), DNS_SERVER);
            let question = question.get(..len).unwrap_or_default();
            if self.begin_stream(lookup, query, server, question).is_none() {
                self.stream_answered(lookup, query, None);
            }
        }
    }

    fn begin_stream(
        &mut self,
        lookup: LookupId,
        query: QueryHandle,
        server: SocketAddr,
        question: &[u8],
    ) -> Option<()> {
        self.side_of(server.ip()).filter(|side| *side == Side::Card)?;
        let id = self.next_id();
        let mut local = SocketAddr::new(self.source(server.ip()), 0);
        let binding = Binding { id, address: local, both: false, reuse: false, listens: false };
        local.set_port(self.ports.bind(Kind::Stream, binding).ok()?);
        let choices = Choices { receive_buffer: BUFFER, send_buffer: BUFFER, no_delay: true, ..Choices::default() };
        let Ok(mut tcp) = self.begin(&choices, local, server, Side::Card) else {
            self.ports.free(Kind::Stream, id, local.port());
            return None;
        };
        tcp.set_timeout(Some(TIME));
        let ends = Ends(local, server);
        let question = [&(question.len() as u16).to_be_bytes()[..], question].concat();
        self.packets.insert(id, Packets::new(tcp, Side::Card));
        self.flows.insert(ends, id);
        self.lookups.streams.all.insert(id, Stream { lookup, query, ends, question, answer: Vec::new() });
        self.lookups.streams.ends.push_back((self.now + TIME, id));
        self.pump_stream(id);
        Some(())
    }

    /// The turn of a connection: sends the question, takes what has come.
    pub(crate) fn pump_stream(&mut self, id: Id) {
        let (Some(stream), Some(packets)) = (self.lookups.streams.all.get_mut(&id), self.packets.get_mut(&id)) else {
            return;
        };
        let turn = turn(stream, packets.socket());
        let (lookup, query) = (stream.lookup, stream.query);
        match turn {
            Turn::Goes => {
                self.send_packets(id);
                let packets = self.packets.get_mut(&id);
                // A time limit is over, which smoltcp sees when it sends.
                if packets.is_some_and(|packets| packets.is_closed()) {
                    self.stream_failed(id);
                }
            }
            Turn::Fails => self.stream_failed(id),
            Turn::Answered(answer) => {
                self.end_stream(id);
                self.stream_answered(lookup, query, Some(&answer));
            }
        }
    }

    /// A server has not answered over its connection.
    fn stream_failed(&mut self, id: Id) {
        if let Some(Stream { lookup, query, .. }) = self.lookups.streams.all.get(&id) {
            let (lookup, query) = (*lookup, *query);
            self.end_stream(id);
            self.stream_answered(lookup, query, None);
        }
    }

    /// Gives the DNS socket an answer, or none, and lets it ask the next server.
    fn stream_answered(&mut self, lookup: LookupId, query: QueryHandle, answer: Option<&[u8]>) {
        if let Some(packets) = self.packets.get_mut(&DNS) {
            if packets.socket::<dns::Socket<'static>>().process_stream(query, answer) {
                self.lookups.streams.failed.push((lookup, query));
            }
            self.send_packets(DNS);
        }
    }

    /// Ends a connection, as its lookup has ended or has failed.
    pub(crate) fn end_stream(&mut self, id: Id) {
        let Some(stream) = self.lookups.streams.all.remove(&id) else { return };
        if let Some(packets) = self.packets.get_mut(&id) {
            let tcp = packets.socket::<tcp::Socket<'static>>();
            if matches!(tcp.state(), State::SynSent | State::Closed) { tcp.abort() } else { tcp.close() }
        }
        self.end_packets(id);
        self.flows.remove(&stream.ends);
        self.ports.free(Kind::Stream, id, stream.ends.0.port());
    }

    /// A lookup has ended: so do its connections, and what is known of its servers.
    pub(crate) fn end_stream_of(&mut self, lookup: LookupId) {
        self.lookups.streams.failed.retain(|(failed, _)| *failed != lookup);
        while let Some(id) = self.lookups.streams.of(lookup) {
            self.end_stream(id);
        }
    }

    /// Ends the connections that have had their time.
    pub(crate) fn end_streams(&mut self) {
        while let Some((at, id)) = self.lookups.streams.ends.front().copied()
            && at <= self.now
        {
            self.lookups.streams.ends.pop_front();
            self.stream_failed(id);
        }
        if self.lookups.streams.all.is_empty() {
            self.lookups.streams.ends.clear();
        }
    }
}

fn turn(stream: &mut Stream, tcp: &mut tcp::Socket<'static>) -> Turn {
    if tcp.state() == State::Closed {
        return Turn::Fails;
    }
    if tcp.can_send() && !stream.question.is_empty() {
        // The buffer has room for all of it.
        let sent = tcp.send_slice(&std::mem::take(&mut stream.question));
        if sent.is_err() {
            return Turn::Fails;
        }
    }
    while tcp.can_recv() {
        let received = tcp.recv(|bytes| {
            let count = bytes.len().min(LENGTH + ANSWER - stream.answer.len());
            stream.answer.extend_from_slice(&bytes[..count]);
            (count, count)
        });
        let Some((len, answer)) = stream.answer.split_first_chunk::<LENGTH>() else {
            if received.is_ok_and(|count| count > 0) {
                continue;
            }
            return Turn::Fails;
        };
        let len = usize::from(u16::from_be_bytes(*len));
        if let Some(answer) = answer.get(..len) {
            return Turn::Answered(answer.to_vec());
        }
        if len > ANSWER || !received.is_ok_and(|count| count > 0) {
            return Turn::Fails;
        }
    }
    // The server has closed before the end of its answer.
    if tcp.may_recv() || matches!(tcp.state(), State::SynSent | State::SynReceived) { Turn::Goes } else { Turn::Fails }
}
