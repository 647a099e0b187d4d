//! Outstanding requests of a source.
//!
//! A request is a range of pages, of one [`Kind`]. Requests of a kind never overlap: a thread that wants a requested
//! page joins that request, and a new request ends where another one begins. A request ends when all of its pages have
//! arrived, when the pager reports a failure, or when no thread waits for it any more. Until it is sent, it is in a
//! queue; requests are sent one at a time, in the order in which they were made.

use alloc::collections::BTreeMap;
use core::ops::Range;

use crate::containers::list::List;
use crate::containers::slab::Key;
use crate::core::wait::Waiters;

/// Kinds of requests.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    /// To supply absent pages.
    Read,
    /// To allow writes to present pages.
    Dirty,
}

/// Progress of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SendState {
    /// In the queue, by its number.
    Unsent,
    /// In the port.
    InPort,
    /// The packet has left the port.
    Taken,
}

/// See the module's description.
pub(crate) struct Request {
    /// Its sequence number.
    pub number: u64,
    /// The page after the last one.
    pub end: u64,
    /// Number of pages that have not arrived yet.
    pub missing: u64,
    pub send_state: SendState,
    /// Threads that made the request and want all of it.
    pub whole: List<Waiters>,
    /// Threads that joined it, by the first page that they want.
    pub joined: BTreeMap<u64, List<Waiters>>,
}

impl Request {
    /// Whether no thread waits for it.
    pub fn is_idle(&self) -> bool {
        self.whole.is_empty() && self.joined.is_empty()
    }
}

/// All of a source's requests.
#[derive(Default)]
pub(crate) struct Requests {
    read: BTreeMap<u64, Request>,
    dirty: BTreeMap<u64, Request>,
    unsent: BTreeMap<u64, (Kind, u64)>,
    next: u64,
}

impl Requests {
    fn of(&self, kind: Kind) -> &BTreeMap<u64, Request> {
        match kind {
            Kind::Read => &self.read,
            Kind::Dirty => &self.dirty,
        }
    }

    fn of_mut(&mut self, kind: Kind) -> &mut BTreeMap<u64, Request> {
        match kind {
            Kind::Read => &mut self.read,
            Kind::Dirty => &mut self.dirty,
        }
    }

    /// The request with this first page.
    pub fn get_mut(&mut self, kind: Kind, start: u64) -> Option<&mut Request> {
        self.of_mut(kind).get_mut(&start)
    }

    /// Requests absent pages. Returns the first page of the request that covers the first of them, and whether it is a
    /// new request.
    pub fn ask(&mut self, kind: Kind, pages: Range<u64>) -> (u64, bool) {
        if let Some((start, _)) = self.first(kind, pages.start..pages.start.saturating_add(1)) {
            return (start, false);
        }
        let number = self.next;
        self.next += 1;
        let requests = self.of_mut(kind);
        let end = requests.range(pages.start..pages.end).next().map_or(pages.end, |(&start, _)| start);
        let request = Request {
            number,
            end,
            missing: end - pages.start,
            send_state: SendState::Unsent,
            whole: List::default(),
            joined: BTreeMap::new(),
        };
        requests.insert(pages.start, request);
        self.unsent.insert(number, (kind, pages.start));
        (pages.start, true)
    }

    /// The first request that overlaps a range: its first page, and the page after its last.
    pub fn first(&self, kind: Kind, range: Range<u64>) -> Option<(u64, u64)> {
        if range.is_empty() {
            return None;
        }
        let requests = self.of(kind);
        let before = requests.range(..=range.start).next_back().filter(|(_, request)| range.start < request.end);
        before.or_else(|| requests.range(range).next()).map(|(&start, request)| (start, request.end))
    }

    /// Of the requests that begin in a range, the first page of the one that has `count` before it.
    pub fn nth(&self, kind: Kind, range: Range<u64>, count: usize) -> Option<u64> {
        if range.is_empty() { None } else { self.of(kind).range(range).nth(count).map(|(&start, _)| start) }
    }

    /// The number of the request that covers a page.
    #[cfg(test)]
    pub fn number(&self, kind: Kind, page: u64) -> Option<u64> {
        let (start, _) = self.first(kind, page..page + 1)?;
        self.of(kind).get(&start).map(|request| request.number)
    }

    /// Any request at all.
    pub fn any(&self) -> Option<(Kind, u64)> {
        let of = |kind| self.of(kind).first_key_value().map(|(&start, _)| (kind, start));
        of(Kind::Read).or_else(|| of(Kind::Dirty))
    }

    /// Takes the next request to send off the queue and marks it as in the port.
    pub fn next_unsent(&mut self) -> Option<(Kind, Range<u64>)> {
        let (_, (kind, start)) = self.unsent.pop_first()?;
        let request = self.get_mut(kind, start)?;
        request.send_state = SendState::InPort;
        Some((kind, start..request.end))
    }

    /// Removes a request.
    pub fn remove(&mut self, kind: Kind, start: u64) -> Option<Request> {
        let request = self.of_mut(kind).remove(&start)?;
        if request.send_state == SendState::Unsent {
            self.unsent.remove(&request.number);
        }
        Some(request)
    }
}

/// Pages that have to be waited for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MissingPages {
    /// Where they come from.
    pub source: Key,
    /// What is wanted with them.
    pub kind: Kind,
    /// All that are wanted now; none of them is there, or may be written.
    pub pages: Range<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_outstanding_request_cuts_a_new_one() {
        let mut requests = Requests::default();
        assert_eq!(requests.ask(Kind::Read, 4..8), (4, true));
        assert_eq!(requests.ask(Kind::Read, 0..16), (0, true));
        assert_eq!(requests.ask(Kind::Read, 5..20), (4, false));
        assert_eq!(requests.ask(Kind::Read, 8..20), (8, true));
        assert_eq!(requests.ask(Kind::Dirty, 5..6), (5, true));
        let told: alloc::vec::Vec<_> = core::iter::from_fn(|| requests.next_unsent()).collect();
        assert_eq!(told, [(Kind::Read, 4..8), (Kind::Read, 0..4), (Kind::Read, 8..20), (Kind::Dirty, 5..6)]);
        assert_eq!(requests.first(Kind::Read, 3..5), Some((0, 4)));
        assert_eq!(requests.first(Kind::Read, 7..30), Some((4, 8)));
        assert_eq!(requests.first(Kind::Dirty, 6..30), None);
    }

    proptest! {
        /// Each page belongs to at most one request of a kind, and each request is sent once, in order.
        #[test]
        fn pages_are_asked_for_once(ops in proptest::collection::vec((0u8..4, any::<bool>(), 0u64..40, 1u64..12), 0..80)) {
            let mut requests = Requests::default();
            let mut model = BTreeMap::<(Kind, u64), u64>::new();
            let mut queue = alloc::vec::Vec::<(Kind, Range<u64>)>::new();
            for (op, dirty, start, len) in ops {
                let kind = if dirty { Kind::Dirty } else { Kind::Read };
                match op {
                    0 | 1 => match model.get(&(kind, start)) {
                        Some(&owner) => prop_assert_eq!(requests.ask(kind, start..start + len), (owner, false)),
                        None => {
                            prop_assert_eq!(requests.ask(kind, start..start + len), (start, true));
                            let end = (start..start + len).find(|&page| model.contains_key(&(kind, page)));
                            let pages = start..end.unwrap_or(start + len);
                            model.extend(pages.clone().map(|page| ((kind, page), start)));
                            queue.push((kind, pages));
                        }
                    },
                    2 => {
                        let first = (!queue.is_empty()).then(|| queue.remove(0));
                        prop_assert_eq!(requests.next_unsent(), first);
                    }
                    _ => {
                        let found = requests.first(kind, start..start + len);
                        let owner = (start..start + len).find_map(|page| model.get(&(kind, page)).copied());
                        prop_assert_eq!(found.map(|(start, _)| start), owner);
                        if let Some(owner) = owner {
                            prop_assert!(requests.remove(kind, owner).is_some());
                            model.retain(|&(k, _), &mut o| (k, o) != (kind, owner));
                            queue.retain(|(k, pages)| (*k, pages.start) != (kind, owner));
                        }
                    }
                }
            }
        }
    }
}
