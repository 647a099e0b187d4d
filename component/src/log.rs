//! Lines on the console, through the root task.

use core::fmt::{self, Write};

use component_boot::{cspace, service};
use sel4::{CPtr, Message, MessageInfo, ipc};

/// Maximum length of a line, in bytes; longer lines are truncated.
const LINE: usize = 240;

struct Line {
    bytes: [u8; LINE],
    len: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.bytes[self.len..];
        let taken = text.len().min(room.len());
        room[..taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.len += taken;
        Ok(())
    }
}

/// See [`crate::log!`].
pub fn write_line(text: fmt::Arguments<'_>) {
    let mut line = Line { bytes: [0; LINE], len: 0 };
    let _ = line.write_fmt(text);
    let mut message = Message { info: MessageInfo::new(0, 0), mr: [line.len as u64, 0, 0, 0] };
    let (words, _) = line.bytes.as_chunks();
    let used = line.len.div_ceil(8);
    for (index, word) in (1..).zip(&words[..used]) {
        let word = u64::from_le_bytes(*word);
        match message.mr.get_mut(index) {
            Some(register) => *register = word,
            None => ipc::set_message_word(index, word),
        }
    }
    message.info = MessageInfo::new(service::LOG, 1 + used);
    sel4::Endpoint(CPtr(cspace::ROOT)).call(message);
}
