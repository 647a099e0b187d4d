//! Recipes: what has to be so before a call can succeed, as calls that the same thread makes before it.
//!
//! Most calls find what they need among what an attacker has. Some do not: they take a message that waits, a thread that
//! stands, an object that only another call makes. For each of those there is a recipe: the calls before it, and which of
//! their results it takes. Handles are known only when they are made, so they stay in the attacker: a call's result goes to
//! a *slot* of its thread, and a piece of code copies it from there into the next call's arguments. Slots keep what they
//! have, also where the call that should have filled one failed.
//!
//! The last call of a recipe is often not quite what it should be: one argument is any that could be drawn.

mod devices;
mod memory;
mod messages;
mod tasks;

pub use messages::{ANSWERED, ASKED};

use abi::SyscallInfo;
use hostile::Dice;

use crate::attacker::{BATCH, Function, Laid};
use crate::code::{COPY_4, COPY_8, Piece};
use crate::counts::Counts;
use crate::grammar::{Drawer, Gift, Places, View};

/// How often an argument of a recipe's last call is drawn all the same.
const SPOILED: u64 = 5;
/// Bytes of memory that a recipe uses for buffers.
pub const BUFFER: u64 = 0x1000;

/// A word that a recipe says.
#[derive(Clone)]
pub enum Word {
    /// Whatever the grammar draws.
    Any,
    /// A number.
    Is(u64),
    /// Four bytes in a slot: a handle.
    Handle(u64),
    /// Eight bytes in a slot.
    Long(u64),
    /// A handle in a slot of the partner's.
    Partner(u64),
    /// The address of a slot.
    To(u64),
    /// The address of these bytes, with handles from slots at these places.
    Bytes(Vec<u8>, Vec<(usize, u64)>),
    /// The address of a buffer.
    Buffer,
    /// A named gift.
    Gift(Gift),
    /// The address of the call's own record.
    Record,
}

pub use Word::{Any, Buffer, Bytes, Handle, Is, Long, Partner, Record, To};

/// Bytes without handles in them.
pub fn bytes(bytes: &[u8]) -> Word {
    Bytes(bytes.to_vec(), Vec::new())
}

/// A structure as bytes: the values of some fields, all others 0.
pub fn record(name: &str, fields: &[(&str, u64)]) -> Vec<u8> {
    let Some(shape) = abi::STRUCTS.iter().copied().flatten().find(|known| known.name == name) else {
        return Vec::new();
    };
    let mut all = vec![0; shape.size];
    for (name, value) in fields {
        if let Some(field) = shape.fields.iter().find(|field| field.name == *name) {
            let size = field.size.min(8);
            all[field.offset..field.offset + size].copy_from_slice(&value.to_le_bytes()[..size]);
        }
    }
    all
}

/// Calls that are being laid out.
pub struct Recipe<'a> {
    dice: &'a mut Dice,
    view: &'a View,
    counts: &'a Counts,
    places: &'a dyn Fn(usize) -> Places,
    /// The batch so far.
    batch: &'a mut Vec<Laid>,
    /// The call that all is done for.
    target: &'static str,
}

impl<'a> Recipe<'a> {
    /// Lays out a call with what it needs at the end of a batch, if there is a recipe for it.
    pub fn lay(
        dice: &'a mut Dice,
        view: &'a View,
        counts: &'a Counts,
        places: &'a dyn Fn(usize) -> Places,
        batch: &'a mut Vec<Laid>,
        target: &'static SyscallInfo,
    ) -> bool {
        let mut recipe = Recipe { dice, view, counts, places, batch, target: target.name };
        messages::lay(&mut recipe) || memory::lay(&mut recipe) || tasks::lay(&mut recipe) || devices::lay(&mut recipe)
    }

    /// What the partner of the others does.
    pub fn partner(
        dice: &'a mut Dice,
        view: &'a View,
        counts: &'a Counts,
        places: &'a dyn Fn(usize) -> Places,
        batch: &'a mut Vec<Laid>,
        has_channel: bool,
    ) {
        let mut recipe = Recipe { dice, view, counts, places, batch, target: "" };
        messages::partner(&mut recipe, has_channel);
        // It only helps: its calls say nothing of how far others get.
        recipe.batch.iter_mut().for_each(|laid| laid.call = None);
    }

    /// The call that all is done for.
    pub fn target(&self) -> &'static str {
        self.target
    }

    /// A call.
    pub fn call(&mut self, name: &str, words: &[Word]) {
        let Some(call) = self.counts.find(name) else { return };
        let copies = |word: &Word| match word {
            Handle(_) | Long(_) | Partner(_) => 1,
            Bytes(_, handles) => handles.len(),
            _ => 0,
        };
        let at = self.batch.len() + words.iter().map(copies).sum::<usize>();
        if at >= BATCH {
            return;
        }
        let entry = &self.counts.table[call];
        let places = (self.places)(at);
        let mut drawn = Drawer::new(self.dice, self.view, places).draw(entry.info, &entry.known);
        if words.iter().any(|word| matches!(word, Bytes(..))) {
            drawn.room.clear();
        }
        let spoiled = (name == self.target && self.dice.one_in(SPOILED))
            .then(|| self.dice.below(words.len().max(1) as u64) as usize);
        for (n, word) in words.iter().enumerate() {
            if spoiled == Some(n) {
                continue;
            }
            let to = places.record + 8 + 8 * n as u64;
            match word {
                Any => {}
                Is(value) => drawn.words[n] = *value,
                Handle(slot) => self.copy(COPY_4, places.slots + 8 * slot, to, &mut drawn.words[n]),
                Long(slot) => self.copy(COPY_8, places.slots + 8 * slot, to, &mut drawn.words[n]),
                Partner(slot) => self.copy(COPY_4, places.partner + 8 * slot, to, &mut drawn.words[n]),
                To(slot) => drawn.words[n] = places.slots + 8 * slot,
                Buffer => drawn.words[n] = self.view.arena.0 + 0x1000 + 64 * self.dice.below(64),
                Word::Gift(gift) => drawn.words[n] = self.view.gift(*gift),
                Record => drawn.words[n] = places.record,
                Bytes(bytes, handles) => {
                    let start = drawn.room.len();
                    drawn.room.extend_from_slice(bytes);
                    drawn.room.resize(drawn.room.len().next_multiple_of(8), 0);
                    drawn.words[n] = places.room + start as u64;
                    for (offset, slot) in handles {
                        let to = drawn.words[n] + *offset as u64;
                        self.copy(COPY_4, places.slots + 8 * slot, to, &mut 0);
                    }
                }
            }
        }
        // A word that is spoiled is not copied, and the call comes earlier than was thought.
        while self.batch.len() < at {
            self.own(COPY_4, [places.slots, places.slots, 0, 0]);
        }
        let function = Function::Call(entry.function);
        self.batch.push(Laid { call: Some(call), function, words: drawn.words, room: drawn.room });
    }

    /// Puts what is at one address to another, and nothing into the word that is to have it.
    fn copy(&mut self, piece: Piece, from: u64, to: u64, word: &mut u64) {
        *word = 0;
        self.own(piece, [from, to, 0, 0]);
    }

    /// Something that the thread does by itself.
    pub fn own(&mut self, piece: Piece, [a, b, c, d]: [u64; 4]) {
        if self.batch.len() < BATCH {
            let words = [a, b, c, d, 0, 0, 0, 0];
            self.batch.push(Laid { call: None, function: Function::Own(piece), words, room: Vec::new() });
        }
    }

    /// Copies a slot's eight bytes into an argument of what the thread does next by itself.
    pub fn own_with(&mut self, piece: Piece, slot: u64, [a, b, c, d]: [u64; 4]) {
        let at = self.batch.len() + 1;
        if at < BATCH {
            let places = (self.places)(at);
            self.own(COPY_8, [places.slots + 8 * slot, places.record + 8, 0, 0]);
            self.own(piece, [a, b, c, d]);
        }
    }

    /// A time soon to come.
    pub fn soon(&mut self) -> Word {
        Is((self.view.now + 100_000 + self.dice.below(1_000_000) as i64) as u64)
    }

    /// Whether this is one of so many times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.dice.one_in(n)
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.dice.below(n)
    }
}
