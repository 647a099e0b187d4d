//! Recipes: the calls that the same thread makes before a call, so that it can succeed.
//!
//! Most calls find what they need among what an attacker holds. Some do not: they need a queued message, a stopped
//! thread, or an object that only another call creates. Each of those has a recipe: the calls before it, and which of
//! their results it takes. Handles are known only when they are created, so they stay in the attacker: a call's result
//! goes to a *slot* of its thread, and a piece of code copies it from there into the next call's arguments. A slot
//! keeps its value if the call that should have filled it fails.
//!
//! The last call of a recipe is often not quite right: one argument is any value that could be drawn.

mod devices;
mod memory;
mod messages;
mod tasks;

pub use messages::{ANSWERED, ASKED};

use abi::SyscallInfo;
use hostile::Dice;

use crate::attacker::{BATCH, Function, PreparedCall};
use crate::code::{COPY_4, COPY_8, Piece};
use crate::counts::Counts;
use crate::grammar::{Drawer, NamedHandle, Places, View};

/// One in this many last calls of recipes has a randomly drawn argument.
const SPOILED: u64 = 5;
/// Bytes of memory that a recipe uses for buffers.
pub const BUFFER: u64 = 0x1000;

/// A word in a recipe.
#[derive(Clone)]
pub enum Word {
    /// Any value that the grammar draws.
    Any,
    /// A number.
    Is(u64),
    /// Four bytes in a slot: a handle.
    Handle(u64),
    /// Eight bytes in a slot.
    Long(u64),
    /// A handle in a slot of the partner.
    Partner(u64),
    /// The address of a slot.
    To(u64),
    /// The address of these bytes, with handles from slots at these places.
    Bytes(Vec<u8>, Vec<(usize, u64)>),
    /// The address of a buffer.
    Buffer,
    /// A gift.
    NamedHandle(NamedHandle),
    /// The address of the call's own record.
    Record,
}

pub use Word::{Any, Buffer, Bytes, Handle, Is, Long, Partner, Record, To};

/// Bytes without handles.
pub fn bytes(bytes: &[u8]) -> Word {
    Bytes(bytes.to_vec(), Vec::new())
}

/// A structure as bytes, with some fields set and all others 0.
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

/// The calls that are being laid out.
pub struct Recipe<'a> {
    dice: &'a mut Dice,
    view: &'a View,
    counts: &'a Counts,
    places: &'a dyn Fn(usize) -> Places,
    /// The batch so far.
    batch: &'a mut Vec<PreparedCall>,
    /// The call that the recipe is for.
    target: &'static str,
}

impl<'a> Recipe<'a> {
    /// Lays out a call and its preparation at the end of a batch, if there is a recipe for it.
    pub fn lay(
        dice: &'a mut Dice,
        view: &'a View,
        counts: &'a Counts,
        places: &'a dyn Fn(usize) -> Places,
        batch: &'a mut Vec<PreparedCall>,
        target: &'static SyscallInfo,
    ) -> bool {
        let mut recipe = Recipe { dice, view, counts, places, batch, target: target.name };
        messages::lay(&mut recipe) || memory::lay(&mut recipe) || tasks::lay(&mut recipe) || devices::lay(&mut recipe)
    }

    /// Lays out what the partner of the other threads does.
    pub fn partner(
        dice: &'a mut Dice,
        view: &'a View,
        counts: &'a Counts,
        places: &'a dyn Fn(usize) -> Places,
        batch: &'a mut Vec<PreparedCall>,
        has_channel: bool,
    ) {
        let mut recipe = Recipe { dice, view, counts, places, batch, target: "" };
        messages::partner(&mut recipe, has_channel);
        // The partner only helps: its calls do not count towards how far others get.
        recipe.batch.iter_mut().for_each(|laid| laid.call = None);
    }

    /// The call that the recipe is for.
    pub fn target(&self) -> &'static str {
        self.target
    }

    /// Adds a call.
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
                Word::NamedHandle(gift) => drawn.words[n] = self.view.gift(*gift),
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
        // A spoiled word is not copied, so the call comes earlier than planned.
        while self.batch.len() < at {
            self.own(COPY_4, [places.slots, places.slots, 0, 0]);
        }
        let function = Function::Call(entry.function);
        self.batch.push(PreparedCall { call: Some(call), function, words: drawn.words, room: drawn.room });
    }

    /// Adds code that copies from one address to another, and clears the word that is to receive the value.
    fn copy(&mut self, piece: Piece, from: u64, to: u64, word: &mut u64) {
        *word = 0;
        self.own(piece, [from, to, 0, 0]);
    }

    /// Adds a piece of code that the thread runs without a call.
    pub fn own(&mut self, piece: Piece, [a, b, c, d]: [u64; 4]) {
        if self.batch.len() < BATCH {
            let words = [a, b, c, d, 0, 0, 0, 0];
            self.batch.push(PreparedCall { call: None, function: Function::Own(piece), words, room: Vec::new() });
        }
    }

    /// Adds such a piece with a slot's eight bytes as an argument.
    pub fn own_with(&mut self, piece: Piece, slot: u64, [a, b, c, d]: [u64; 4]) {
        let at = self.batch.len() + 1;
        if at < BATCH {
            let places = (self.places)(at);
            self.own(COPY_8, [places.slots + 8 * slot, places.record + 8, 0, 0]);
            self.own(piece, [a, b, c, d]);
        }
    }

    /// A deadline in the near future.
    pub fn soon(&mut self) -> Word {
        Is((self.view.now + 100_000 + self.dice.below(1_000_000) as i64) as u64)
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.dice.one_in(n)
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.dice.below(n)
    }
}
