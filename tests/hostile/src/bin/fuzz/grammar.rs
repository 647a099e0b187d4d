//! Arguments for any call, drawn from the calls' definitions.
//!
//! A definition says of each argument what it is: a handle and to what, a pointer and to what and which way, a count of
//! which array. From that come arguments that are most often good enough to get past the first checks, and often enough
//! are not. The target of a pointer is generated in the same way, by the fields of the structure. So a call that is
//! added to the definitions is fuzzed without changes here.

use abi::{ArgInfo, Dir, Field, Form, Rights, SyscallInfo, Values};
use hostile::Dice;

/// Bytes of memory that a call has for the targets of its pointers.
pub const ROOM: u64 = 512;
/// Places that a call has for single results.
pub const CELLS: u64 = 6;
const PAGE: u64 = 4096;

/// What an attacker holds: arguments are drawn from it.
#[derive(Default)]
pub struct View {
    /// Its handles.
    pub handles: Vec<KnownHandle>,
    /// The handles that it got at its start, by name.
    pub gifts: Vec<(NamedHandle, u32)>,
    /// Its mappings: address and size.
    pub maps: Vec<(u64, u64)>,
    /// The memory that all its calls read and write.
    pub arena: (u64, u64),
    /// Addresses of code at which a thread can start.
    pub code: [u64; 3],
    /// The address at which restricted mode ends.
    pub vector: u64,
    /// The address of code for restricted mode.
    pub restricted: u64,
    /// Its process's koid.
    pub process: u64,
    /// The current time.
    pub now: i64,
}

impl View {
    /// A gift's handle, or 0.
    pub fn gift(&self, gift: NamedHandle) -> u64 {
        self.gifts.iter().find(|known| known.0 == gift).map_or(0, |known| known.1.into())
    }

    /// Whether a handle is a gift.
    pub fn is_gift(&self, value: u32) -> bool {
        self.gifts.iter().any(|known| known.1 == value)
    }
}

/// A handle of an attacker.
#[derive(Clone, Copy)]
pub struct KnownHandle {
    /// Its value.
    pub value: u32,
    /// Its object's type.
    pub kind: u32,
    /// Its rights.
    pub rights: Rights,
}

/// A handle that an attacker gets by name: without it, some calls can never succeed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NamedHandle {
    /// Its own process.
    Process,
    /// Its first thread.
    Thread,
    /// Its address space.
    Vmar,
    /// Its job.
    Job,
    /// The channel through which it gets more handles.
    Feed,
    /// A pager.
    Pager,
    /// A port.
    Port,
    /// The resource for executable memory.
    Vmex,
    /// A bus transaction initiator.
    Bti,
    /// A range of message-signalled interrupts.
    Msi,
    /// The debug log.
    DebugLog,
    /// A profile.
    Profile,
    /// An endpoint.
    Endpoint,
    /// A resource for sixteen I/O ports without a device.
    IoPorts,
    /// A resource that no recipe needs.
    Other,
}

/// Where a call's own memory is.
#[derive(Clone, Copy)]
pub struct Places {
    /// For single results.
    pub cells: u64,
    /// For everything else that it reads.
    pub room: u64,
    /// The call's record.
    pub record: u64,
    /// The slots in which its thread keeps results for later calls.
    pub slots: u64,
    /// Its partner's slots.
    pub partner: u64,
}

/// A call's arguments, and the content of its [`ROOM`].
pub struct GeneratedArgs {
    /// The arguments.
    pub words: [u64; 8],
    /// The room's bytes.
    pub room: Vec<u8>,
}

/// Numbers that checks are most likely to get wrong.
const ODD: [u64; 20] = [
    0,
    1,
    2,
    4,
    8,
    12,
    64,
    65,
    0xfff,
    PAGE,
    PAGE + 1,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 32,
    1 << 47,
    i64::MAX as u64,
    u64::MAX - 0xfff,
    u64::MAX,
];

/// Draws arguments.
pub struct Drawer<'a> {
    /// The source of randomness.
    pub dice: &'a mut Dice,
    /// The attacker's view.
    pub view: &'a View,
    places: Places,
    cells: u64,
    room: Vec<u8>,
}

/// Any number; topics, options and the like are small, with a version in the upper half.
fn number(dice: &mut Dice) -> u64 {
    match dice.below(6) {
        0 => dice.pick(&ODD),
        1 => 1 << dice.below(16) | dice.below(2) << dice.below(64),
        2 => dice.below(64) | dice.below(4) << 28,
        3 => dice.below(0x40),
        _ => dice.below(8),
    }
}

/// Sizes of memory and places in it, most often a few pages.
fn extent(dice: &mut Dice) -> u64 {
    match dice.below(16) {
        0 => number(dice),
        1 => PAGE << dice.below(50),
        2 => dice.below(100) * PAGE,
        3 => dice.below(8) * PAGE + dice.below(PAGE),
        4..8 => 0,
        _ => dice.below(8) * PAGE,
    }
}

fn signals(dice: &mut Dice) -> u64 {
    match dice.below(5) {
        0 => number(dice),
        1 => 1 << dice.below(32),
        2 => 0,
        3 => 0xff00_0000,
        _ => 1 << (24 + dice.below(8)),
    }
}

/// The types for a definition's word for an object; empty for any.
fn types_of(object: &str) -> Vec<u32> {
    let constant = |name: &str| {
        let name = format!("ZX_OBJ_TYPE_{}", name.to_uppercase());
        abi::CONSTANTS.iter().copied().flatten().find(|entry| entry.name == name).map(|entry| entry.value as u32)
    };
    match object {
        "task" => ["job", "process", "thread"].into_iter().filter_map(constant).collect(),
        _ => constant(object).into_iter().collect(),
    }
}

/// What is known about an argument before a call is drawn.
pub struct ArgumentHints {
    likely: Vec<u64>,
    types: Vec<u32>,
    needs: Rights,
    /// The array that this argument counts.
    counts: Option<usize>,
    /// The argument that counts this array.
    counted_by: Option<usize>,
    /// The shape of a pointer's target.
    shape: PointerTarget,
}

/// What is known about the arguments of a call.
pub fn known(call: &SyscallInfo) -> Vec<ArgumentHints> {
    let of = |(arg, values): (&ArgInfo, &Values)| {
        let right = call.rights.iter().find(|right| right.arg == arg.name);
        ArgumentHints {
            likely: likely(values),
            types: right.map(|right| types_of(right.object)).unwrap_or_default(),
            needs: right.map_or(Rights::NONE, |right| right.needs),
            counts: call.args.iter().position(|other| other.len == Some(arg.name)),
            counted_by: arg.len.and_then(|len| call.args.iter().position(|other| other.name == len)),
            shape: shape(arg.ty),
        }
    };
    call.args.iter().zip(call.tests().values).map(of).collect()
}

/// The likely values of an argument: those that its definition names, otherwise the constants that it may be.
fn likely(values: &Values) -> Vec<u64> {
    if !values.likely.is_empty() || values.form != Form::OneOf {
        return values.likely.to_vec();
    }
    let fits = |constant: &&abi::Constant| values.constants.iter().any(|start| constant.name.starts_with(start));
    let all = abi::CONSTANTS.iter().copied().flatten();
    all.filter(fits).filter(|constant| constant.ty == "u32").map(|constant| constant.value as u64).collect()
}

/// The meaning of a word in memory.
#[derive(Clone, Copy)]
enum Kind {
    Handle,
    Signals,
    Rights,
    Time,
    Zero,
    Address,
    FewHandles,
    Few,
    Pages,
    Key,
    Access,
    Small,
    Any,
}

/// The target of a pointer: the size of one element, and its words with their offsets and sizes.
struct PointerTarget {
    size: u64,
    words: Vec<(usize, usize, Kind)>,
}

fn structure(ty: &str) -> Option<&'static abi::Struct> {
    abi::STRUCTS.iter().copied().flatten().find(|found| found.name == ty)
}

fn shape(ty: &str) -> PointerTarget {
    if let Some(found) = structure(ty) {
        let mut words = Vec::new();
        add_fields(&mut words, found.fields, 0);
        return PointerTarget { size: found.size as u64, words };
    }
    let (size, kind) = match ty {
        "handle" => (4, Kind::Handle),
        "signals" => (4, Kind::Signals),
        "time" => (8, Kind::Time),
        "u64" | "i64" | "usize" | "duration" | "ticks" | "koid" => (8, Kind::Any),
        "u32" | "i32" | "status" | "rights" | "futex" => (4, Kind::Any),
        "u16" | "i16" => (2, Kind::Any),
        _ => (1, Kind::Any),
    };
    PointerTarget { size: size as u64, words: vec![(0, size, kind)] }
}

fn add_fields(words: &mut Vec<(usize, usize, Kind)>, fields: &'static [Field], start: usize) {
    for field in fields {
        let at = start + field.offset;
        match structure(field.ty) {
            Some(inner) => add_fields(words, inner.fields, at),
            None => words.push((at, field.size.min(8), kind(field))),
        }
    }
}

fn kind(field: &Field) -> Kind {
    let has = |part: &str| field.name.contains(part);
    match field.ty {
        "zx_handle_t" => Kind::Handle,
        "zx_signals_t" => Kind::Signals,
        "zx_rights_t" => Kind::Rights,
        "zx_time_t" | "zx_duration_t" => Kind::Time,
        _ if has("reserved") || has("padding") || has("unused") || has("result") => Kind::Zero,
        "usize" if has("bytes") || has("handles") || has("buffer") => Kind::Address,
        _ if has("num_handles") => Kind::FewHandles,
        _ if has("num") || has("capacity") || has("count") || has("len") => Kind::Few,
        _ if has("size") || has("offset") => Kind::Pages,
        _ if has("key") => Kind::Key,
        _ if has("access") => Kind::Access,
        _ => Kind::Small,
    }
}

impl<'a> Drawer<'a> {
    /// A drawer for one call.
    pub fn new(dice: &'a mut Dice, view: &'a View, places: Places) -> Drawer<'a> {
        Drawer { dice, view, places, cells: 0, room: Vec::new() }
    }

    /// Arguments for a call.
    pub fn draw(mut self, call: &SyscallInfo, known: &[ArgumentHints]) -> GeneratedArgs {
        let mut words = [0; 8];
        // Counts first: pointers depend on them.
        for (n, known) in known.iter().enumerate() {
            if let Some(array) = known.counts {
                words[n] = self.count(&call.args[array]);
            }
        }
        for (n, (arg, known)) in call.args.iter().zip(known).enumerate() {
            if arg.dir.is_some() {
                words[n] = self.pointer(arg, &known.shape, known.counted_by.map(|at| words[at]));
            } else if known.counts.is_none() {
                words[n] = self.value(arg, known);
            }
        }
        GeneratedArgs { words, room: self.room }
    }

    fn count(&mut self, counted: &ArgInfo) -> u64 {
        if self.dice.one_in(16) {
            return self.dice.pick(&ODD);
        }
        match counted.ty {
            "void" | "u8" => self.dice.pick(&[0, 4, 4, 8, 8, 8, 16, 24, 32, 64, 100, 200, 256, 512]),
            "handle" => self.dice.pick(&[0, 0, 0, 0, 1, 1, 2, 8]),
            _ => self.dice.pick(&[0, 1, 1, 1, 2, 2, 3, 8]),
        }
    }

    fn value(&mut self, arg: &ArgInfo, known: &ArgumentHints) -> u64 {
        if !known.likely.is_empty() && !self.dice.one_in(12) {
            return self.dice.pick(&known.likely);
        }
        match arg.ty {
            "handle" => self.handle(&known.types, known.needs),
            "rights" if !self.dice.one_in(3) => Rights::SAME_RIGHTS.bits().into(),
            "signals" => signals(self.dice),
            "time" => self.time(),
            "duration" => self.dice.below(100_000),
            _ if arg.name.contains("mask") => signals(self.dice),
            _ if arg.name.contains("options") || arg.name.contains("flags") => match self.dice.below(8) {
                0 => number(self.dice),
                1 => 1 << self.dice.below(8),
                _ => 0,
            },
            _ if ["entry", "pc", "thread_entry"].contains(&arg.name) => self.dice.pick(&self.view.code),
            _ if arg.name.contains("addr") || arg.name.contains("buffer") || arg.name.contains("stack") => {
                self.mapped()
            }
            _ if arg.name == "key" => self.dice.below(4),
            "u64" | "usize" => extent(self.dice),
            _ => number(self.dice),
        }
    }

    fn time(&mut self) -> u64 {
        match self.dice.below(32) {
            0 => i64::MAX as u64,
            1 => number(self.dice),
            2..16 => (self.view.now + self.dice.below(200_000) as i64) as u64,
            _ => 0,
        }
    }

    /// A handle, mostly to an object of one of the types, with the needed rights.
    fn handle(&mut self, types: &[u32], needs: Rights) -> u64 {
        let handles = &self.view.handles;
        if handles.is_empty() || self.dice.one_in(30) {
            return number(self.dice) & 0xffff_ffff;
        }
        if !self.dice.one_in(12) {
            let fits =
                |held: &&KnownHandle| (types.is_empty() || types.contains(&held.kind)) && held.rights.contains(needs);
            // The first match from a random place on.
            let from = self.dice.below(handles.len() as u64) as usize;
            let (before, behind) = handles.split_at(from);
            // A call without types may destroy the handle, so it gets no gift, which the attacker could not get again.
            let fits = |held: &&KnownHandle| fits(held) && !(types.is_empty() && self.view.is_gift(held.value));
            if let Some(found) = behind.iter().find(fits).or_else(|| before.iter().find(fits)) {
                return found.value.into();
            }
        }
        self.dice.pick(handles).value.into()
    }

    /// An address in or near something that is mapped.
    fn mapped(&mut self) -> u64 {
        if self.view.maps.is_empty() || self.dice.one_in(3) {
            return self.in_arena() & !0xfff;
        }
        let (base, size) = self.dice.pick(&self.view.maps);
        base + self.dice.below(size.min(1 << 20) / PAGE + 1) * PAGE
    }

    fn in_arena(&mut self) -> u64 {
        let (base, size) = self.view.arena;
        base + self.dice.below(size / 8) * 8
    }

    /// An address of any kind.
    fn anywhere(&mut self) -> u64 {
        let (base, size) = self.view.arena;
        match self.dice.below(8) {
            0 => self.dice.pick(&ODD),
            1 => self.mapped() + self.dice.below(PAGE),
            2 => base + size - self.dice.below(64),
            3 => self.in_arena() + self.dice.below(8),
            4 => self.places.cells,
            5 => self.dice.pick(&self.view.code),
            6 => 0x7ff0_0000_0000 + self.dice.below(2 * PAGE),
            _ => 0,
        }
    }

    fn pointer(&mut self, arg: &ArgInfo, shape: &PointerTarget, count: Option<u64>) -> u64 {
        if arg.optional && self.dice.one_in(4) {
            return 0;
        }
        if self.dice.one_in(24) {
            return self.anywhere();
        }
        if arg.ty == "futex" {
            // Few words, so that waiters and wakers meet.
            return self.view.arena.0 + 4 * self.dice.below(4);
        }
        if arg.dir == Some(Dir::Out) {
            if count.is_none() && shape.size <= 8 && self.cells < CELLS {
                self.cells += 1;
                return self.places.cells + 8 * (self.cells - 1);
            }
            return self.in_arena();
        }
        let count = count.unwrap_or(1);
        let at = self.room.len();
        if shape.size.saturating_mul(count) > ROOM - at as u64 {
            return self.in_arena();
        }
        self.room.resize(at + (shape.size * count) as usize, 0);
        for n in 0..count {
            for &(place, size, kind) in &shape.words {
                let value = self.word(kind).to_le_bytes();
                let place = at + (n * shape.size) as usize + place;
                self.room[place..place + size].copy_from_slice(&value[..size]);
            }
        }
        self.room.resize(self.room.len().next_multiple_of(8), 0);
        self.places.room + at as u64
    }

    fn word(&mut self, kind: Kind) -> u64 {
        if self.dice.one_in(20) {
            return number(self.dice);
        }
        match kind {
            Kind::Handle => self.handle(&[], Rights::NONE),
            Kind::Signals => signals(self.dice),
            Kind::Rights => Rights::SAME_RIGHTS.bits().into(),
            Kind::Time => self.time(),
            Kind::Zero => 0,
            Kind::Address => self.in_arena(),
            Kind::FewHandles => self.dice.below(2),
            Kind::Few => self.dice.below(64),
            Kind::Pages => self.dice.below(4) * PAGE,
            Kind::Key => self.dice.below(4),
            Kind::Access => 0xff,
            Kind::Small => self.dice.below(5),
            Kind::Any => number(self.dice),
        }
    }
}
