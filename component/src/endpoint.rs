//! The component's endpoint, which receives requests and answers them.

use component_boot::{ANSWERS, Badge, cspace};
use sel4::{CPtr, Message, MessageInfo, Received, ipc};

/// Maximum number of words of a request or an answer.
pub const WORDS: usize = ipc::MESSAGE_WORDS;

/// See the module's description.
pub struct Endpoint(sel4::Endpoint);

impl Endpoint {
    pub(crate) fn own() -> Endpoint {
        Endpoint(sel4::Endpoint(CPtr(cspace::ENDPOINT)))
    }

    /// Waits for a request.
    pub fn receive(&self) -> Request {
        Request::new(self.0, self.0.recv())
    }
}

/// A received message. Its sender waits for an answer if it called.
pub struct Request {
    endpoint: sel4::Endpoint,
    from: Badge,
    label: u64,
    words: [u64; WORDS],
    len: usize,
}

impl Request {
    /// Copies the whole message, because the next message overwrites it.
    fn new(endpoint: sel4::Endpoint, received: Received) -> Request {
        let mut words = [0; WORDS];
        let len = received.info.length().min(WORDS);
        for (index, word) in words[..len].iter_mut().enumerate() {
            *word = received.mr.get(index).copied().unwrap_or_else(|| ipc::message_word(index));
        }
        Request { endpoint, from: Badge::decode(received.badge), label: received.info.label(), words, len }
    }

    /// Its sender.
    pub fn from(&self) -> Badge {
        self.from
    }

    /// Its label: the kind of request, as sender and receiver have agreed.
    pub fn label(&self) -> u64 {
        self.label
    }

    /// Its words.
    pub fn words(&self) -> &[u64] {
        &self.words[..self.len]
    }

    /// Answers it, with a label below 2^16 and at most [`WORDS`] words, and waits for the next one. If no sender waits
    /// for an answer, none is sent.
    pub fn answer(self, label: u64, words: &[u64]) -> Request {
        let mut message = Message { info: MessageInfo::new(label + ANSWERS, words.len().min(WORDS)), mr: [0; 4] };
        for (index, word) in words.iter().take(WORDS).enumerate() {
            match message.mr.get_mut(index) {
                Some(register) => *register = *word,
                None => ipc::set_message_word(index, *word),
            }
        }
        Request::new(self.endpoint, self.endpoint.reply_recv(message))
    }

    /// Waits for the next one without an answer: a sender that waits for one stays blocked until it is ended.
    pub fn ignore(self) -> Request {
        Request::new(self.endpoint, self.endpoint.recv())
    }
}
