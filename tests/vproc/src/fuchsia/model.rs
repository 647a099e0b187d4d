//! A model of a sub-domain's code: a second implementation of the processor.
//!
//! The code is random and consists of instructions that change no flags. Its state is general registers, vector
//! registers and memory, and no two states on its way are equal. Each turn contains a system call, so that the code
//! always comes to a stop.

use abi::{HAFNON_VPROC_FAULT_PRESENT, HAFNON_VPROC_FAULT_WRITE, hafnon_vproc_state_t};

use super::plan::Dice;

pub const PAGE: u64 = 4096;
/// The addresses at which the page of code is visible, if it is mapped.
pub const CODE: [u64; 2] = [0x100_0000, 0x100_8000];
/// The pages that the code loads from and stores to.
pub const DATA: u64 = 0x200_0000;
pub const PAGES: usize = 4;
/// An address where nothing is ever mapped, and a non-canonical one.
const NOWHERE: [u64; 2] = [0x300_0000, 0x8000_0000_0000_1000];
/// Words in a page.
const WORDS: u64 = PAGE / 8;

/// Pieces of code in a turn, each with at most three instructions.
const PIECES: usize = 48;
/// The highest count of a piece's loop.
const COUNT: u64 = 800;
/// The flags that a state always has, and those of which it has any.
const FLAGS: u64 = 0x202;
const ANY_FLAGS: [u64; 7] = [1, 4, 0x10, 0x40, 0x80, 0x400, 0x800];
/// Bytes of a `syscall` instruction.
const SYSCALL_LENGTH: u64 = 2;
/// The resume flag. The processor sets it where it must: a faulting instruction is executed again.
const RESUME_FLAG: u64 = 1 << 16;

/// A register, by its number in the instruction encoding.
type Register = u8;
const RCX: Register = 1;
const RSP: Register = 4;
/// Registers that point to data: nothing is loaded into them.
const POINTERS: [Register; 3] = [6, 7, 14];
/// Registers into which anything is loaded. `rcx` counts loops.
const TARGETS: [Register; 11] = [0, 2, 3, 5, 8, 9, 10, 11, 12, 13, 15];

#[derive(Clone, Copy)]
enum Instruction {
    Load {
        to: Register,
        at: Register,
    },
    Store {
        at: Register,
        from: Register,
    },
    LoadFs {
        to: Register,
    },
    LoadGs {
        to: Register,
    },
    Push {
        from: Register,
    },
    Pop {
        to: Register,
    },
    Move {
        to: Register,
        from: Register,
    },
    Add {
        to: Register,
        from: Register,
        what: i8,
    },
    Not {
        to: Register,
    },
    Swap {
        a: Register,
        b: Register,
    },
    ToVector {
        to: u8,
        from: Register,
    },
    FromVector {
        to: Register,
        from: u8,
    },
    /// Loads a number into `rcx`.
    Count {
        from: u32,
    },
    /// Jumps to itself, as often as `rcx` says.
    Loop,
    Jump {
        over: i8,
    },
    JumpFar {
        over: i32,
    },
    Syscall,
    /// An interrupt whose number the kernel treats as an unknown system call.
    Interrupt,
    Undefined,
    /// A privileged instruction.
    Halt,
}
use Instruction::*;

impl Instruction {
    fn encode(self) -> Vec<u8> {
        // REX with the high bits of two registers, and the byte that names both.
        let rex = |reg: u8, rm: u8| 0x48 | reg >> 3 << 2 | rm >> 3;
        let both = |mode: u8, reg: u8, rm: u8| mode << 6 | (reg & 7) << 3 | rm & 7;
        match self {
            Load { to, at } => vec![rex(to, at), 0x8b, both(0, to, at)],
            Store { at, from } => vec![rex(from, at), 0x89, both(0, from, at)],
            LoadFs { to } => vec![0x64, rex(to, 0), 0x8b, both(0, to, 4), 0x25, 0, 0, 0, 0],
            LoadGs { to } => vec![0x65, rex(to, 0), 0x8b, both(0, to, 4), 0x25, 0, 0, 0, 0],
            Push { from } => vec![rex(0, from), 0x50 | from & 7],
            Pop { to } => vec![rex(0, to), 0x58 | to & 7],
            Move { to, from } => vec![rex(from, to), 0x89, both(3, from, to)],
            Add { to, from, what } => vec![rex(to, from), 0x8d, both(2, to, from)]
                .into_iter()
                .chain(if from & 7 == 4 { Some(0x24) } else { None })
                .chain(i32::from(what).to_le_bytes())
                .collect(),
            Not { to } => vec![rex(0, to), 0xf7, both(3, 2, to)],
            Swap { a, b } => vec![rex(a, b), 0x87, both(3, a, b)],
            ToVector { to, from } => vec![0x66, rex(to, from), 0x0f, 0x6e, both(3, to, from)],
            FromVector { to, from } => vec![0x66, rex(from, to), 0x0f, 0x7e, both(3, from, to)],
            Count { from } => [0xb9].into_iter().chain(from.to_le_bytes()).collect(),
            Loop => vec![0xe2, 0xfe],
            Jump { over } => vec![0xeb, over as u8],
            JumpFar { over } => [0xe9].into_iter().chain(over.to_le_bytes()).collect(),
            Syscall => vec![0x0f, 0x05],
            Interrupt => vec![0xcd, 200],
            Undefined => vec![0x0f, 0x0b],
            Halt => vec![0xf4],
        }
    }

    /// A random instruction that continues with the next one, or stops.
    fn any(dice: &mut Dice) -> Instruction {
        let (to, from) = (dice.choose(&TARGETS), dice.roll(16) as Register);
        match dice.roll(20) {
            0 | 1 => Load { to, at: dice.choose(&POINTERS) },
            2 | 3 => Store { at: dice.choose(&POINTERS), from },
            4 => LoadFs { to },
            5 => LoadGs { to },
            6 => Push { from },
            7 => Pop { to },
            8 => Move { to, from },
            9 | 10 => Add { to, from, what: dice.word() as i8 },
            11 => Not { to },
            12 => Swap { a: to, b: dice.choose(&TARGETS) },
            13 => ToVector { to: dice.roll(16) as u8, from },
            14 => FromVector { to, from: dice.roll(16) as u8 },
            15 | 16 => Syscall,
            17 => Interrupt,
            18 => Undefined,
            _ => Halt,
        }
    }
}

/// How the code can access a page of the sub-domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    None,
    Load,
    Store,
}

/// A stop of the code, as it is reported to the owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    Syscall,
    PageFault { address: u64, code: u64 },
    Exception(u64),
}

/// A bit of a page fault's code: the access came from user mode.
const PROGRAM: u64 = 1 << 2;

/// A sub-domain's code, registers and memory.
pub struct Model {
    code: Vec<u8>,
    /// The instruction that begins at each byte of the code, and its length.
    instructions: Vec<Option<(Instruction, u64)>>,
    /// The offsets at which the pieces begin.
    pieces: Vec<u64>,
    pub state: hafnon_vproc_state_t,
    vectors: [u64; 16],
    memory: Vec<u64>,
    pub data: [Access; PAGES],
    pub shown: [bool; CODE.len()],
}

impl Model {
    /// Random code, with nothing mapped.
    pub fn new(dice: &mut Dice) -> Self {
        let mut pieces: Vec<Vec<Instruction>> = Vec::new();
        for left in (1..=PIECES).rev() {
            pieces.push(match dice.roll(12) {
                0 => vec![Count { from: dice.roll(COUNT) as u32 + 1 }, Loop],
                // A jump over the next piece, but not over the last.
                1 if left > 1 => vec![Jump { over: 0 }],
                _ => vec![Instruction::any(dice)],
            });
        }
        pieces.push(vec![Syscall]);
        let lengths: Vec<usize> = pieces.iter().map(|piece| piece.iter().map(|one| one.encode().len()).sum()).collect();
        for (piece, over) in pieces.iter_mut().zip(lengths.iter().skip(1)) {
            if let [Jump { over: to }] = piece.as_mut_slice() {
                *to = *over as i8;
            }
        }
        let whole: usize = lengths.iter().sum::<usize>() + JumpFar { over: 0 }.encode().len();
        pieces.push(vec![JumpFar { over: -(whole as i32) }]);
        let mut model = Self {
            code: Vec::new(),
            instructions: vec![None; whole],
            pieces: Vec::new(),
            state: hafnon_vproc_state_t::default(),
            vectors: [0; 16],
            memory: vec![0; PAGES * WORDS as usize],
            data: [Access::None; PAGES],
            shown: [false; CODE.len()],
        };
        for piece in pieces {
            model.pieces.push(model.code.len() as u64);
            for one in piece {
                let bytes = one.encode();
                model.instructions[model.code.len()] = Some((one, bytes.len() as u64));
                model.code.extend(bytes);
            }
        }
        model.change(dice);
        model.go_elsewhere(dice);
        model
    }

    /// The machine code.
    pub fn code(&self) -> &[u8] {
        &self.code
    }

    /// Changes all registers except the instruction pointer.
    pub fn change(&mut self, dice: &mut Dice) {
        for register in TARGETS {
            *self.register(register) = dice.word();
        }
        for register in POINTERS {
            *self.register(register) = if dice.once_in(24) { dice.choose(&NOWHERE) } else { place(dice) };
        }
        self.state.rcx = dice.roll(COUNT) + 1;
        self.change_bases(dice);
        self.change_of_exception(dice);
    }

    /// Changes the bases, which only an enter sets.
    fn change_bases(&mut self, dice: &mut Dice) {
        (self.state.fs_base, self.state.gs_base) = (place(dice), place(dice));
    }

    /// Changes what the answer to an exception can set besides the instruction pointer.
    pub fn change_of_exception(&mut self, dice: &mut Dice) {
        self.state.rsp = place(dice);
        self.state.flags = ANY_FLAGS.iter().fold(FLAGS, |flags, flag| flags | if dice.once_in(2) { *flag } else { 0 });
    }

    /// Continues at another place in the code.
    pub fn go_elsewhere(&mut self, dice: &mut Dice) {
        self.state.ip = dice.choose(&CODE) + dice.choose(&self.pieces);
    }

    /// Continues after the instruction that has stopped the code, or somewhere else.
    pub fn skip(&mut self, dice: &mut Dice) {
        match self.instruction() {
            Some((_, length)) if dice.once_in(2) => self.state.ip += length,
            _ => self.go_elsewhere(dice),
        }
    }

    /// Makes the state that of a stop by a system call.
    pub fn told_of_syscall(&mut self) {
        self.state.ip += SYSCALL_LENGTH;
        self.answered();
    }

    /// Sets the registers that an answer by state does not set.
    pub fn answered(&mut self) {
        (self.state.rcx, self.state.r11) = (self.state.ip, self.state.flags);
    }

    /// A page of data as bytes.
    pub fn page(&self, page: usize) -> Vec<u8> {
        let from = page * WORDS as usize;
        self.memory[from..from + WORDS as usize].iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Sets a word of the memory, as the owner does.
    pub fn set_word(&mut self, word: usize, value: u64) {
        self.memory[word] = value;
    }

    /// Takes a page away: it is unmapped, and its memory is zero.
    pub fn clear(&mut self, page: usize) {
        let from = page * WORDS as usize;
        self.memory[from..from + WORDS as usize].fill(0);
        self.data[page] = Access::None;
    }

    /// Unmaps everything, because the sub-domain's process has ended.
    pub fn end(&mut self) {
        (self.data, self.shown) = ([Access::None; PAGES], [false; CODE.len()]);
    }

    /// Runs to the next stop. The state is that before the instruction which stops it.
    pub fn run(&mut self) -> Stop {
        loop {
            if let Err(stop) = self.step() {
                return stop;
            }
        }
    }

    /// Runs until the state equals `told`, a reported state. Returns whether that happens before the next stop, or at
    /// it.
    pub fn run_to(&mut self, told: &hafnon_vproc_state_t) -> bool {
        loop {
            let mut here = self.state;
            if matches!(self.instruction(), Some((Syscall | Interrupt, _))) {
                // The instruction destroys these registers, and the code may be inside of it.
                (here.rcx, here.r11) = (told.rcx, told.r11);
            }
            if same(&here, told) {
                self.state = here;
                return true;
            }
            if self.step().is_err() {
                return false;
            }
        }
    }

    fn instruction(&self) -> Option<(Instruction, u64)> {
        let from = CODE.into_iter().find(|code| (*code..code + PAGE).contains(&self.state.ip))?;
        self.instructions.get((self.state.ip - from) as usize).copied().flatten()
    }

    fn register(&mut self, register: Register) -> &mut u64 {
        let state = &mut self.state;
        match register {
            0 => &mut state.rax,
            RCX => &mut state.rcx,
            2 => &mut state.rdx,
            3 => &mut state.rbx,
            RSP => &mut state.rsp,
            5 => &mut state.rbp,
            6 => &mut state.rsi,
            7 => &mut state.rdi,
            8 => &mut state.r8,
            9 => &mut state.r9,
            10 => &mut state.r10,
            11 => &mut state.r11,
            12 => &mut state.r12,
            13 => &mut state.r13,
            14 => &mut state.r14,
            _ => &mut state.r15,
        }
    }

    fn word(&mut self, address: u64, stores: bool) -> Result<&mut u64, Stop> {
        if address == NOWHERE[1] {
            return Err(Stop::Exception(13));
        }
        let code = PROGRAM | if stores { HAFNON_VPROC_FAULT_WRITE } else { 0 };
        let word = address.wrapping_sub(DATA) / 8;
        let access = self.data.get((word / WORDS) as usize).copied().unwrap_or(Access::None);
        match access {
            Access::None => Err(Stop::PageFault { address, code }),
            Access::Load if stores => Err(Stop::PageFault { address, code: code | HAFNON_VPROC_FAULT_PRESENT }),
            _ => Ok(&mut self.memory[word as usize]),
        }
    }

    /// Executes an instruction, or says why it cannot be executed.
    fn step(&mut self) -> Result<(), Stop> {
        let ip = self.state.ip;
        let shown = CODE.iter().zip(self.shown).any(|(code, shown)| shown && (*code..code + PAGE).contains(&ip));
        let Some((one, length)) = self.instruction().filter(|_| shown) else {
            return Err(Stop::PageFault { address: ip, code: PROGRAM });
        };
        let mut next = ip + length;
        match one {
            Load { to, at } => {
                let at = *self.register(at);
                *self.register(to) = *self.word(at, false)?;
            }
            Store { at, from } => {
                let (at, value) = (*self.register(at), *self.register(from));
                *self.word(at, true)? = value;
            }
            LoadFs { to } => *self.register(to) = *self.word(self.state.fs_base, false)?,
            LoadGs { to } => *self.register(to) = *self.word(self.state.gs_base, false)?,
            Push { from } => {
                let (to, value) = (self.state.rsp - 8, *self.register(from));
                *self.word(to, true)? = value;
                self.state.rsp = to;
            }
            Pop { to } => {
                *self.register(to) = *self.word(self.state.rsp, false)?;
                self.state.rsp += 8;
            }
            Move { to, from } => *self.register(to) = *self.register(from),
            Add { to, from, what } => *self.register(to) = self.register(from).wrapping_add_signed(what.into()),
            Not { to } => *self.register(to) = !*self.register(to),
            Swap { a, b } => {
                let was = *self.register(a);
                *self.register(a) = std::mem::replace(self.register(b), was);
            }
            ToVector { to, from } => self.vectors[usize::from(to)] = *self.register(from),
            FromVector { to, from } => *self.register(to) = self.vectors[usize::from(from)],
            Count { from } => self.state.rcx = from.into(),
            Loop => {
                self.state.rcx = self.state.rcx.wrapping_sub(1);
                next = if self.state.rcx == 0 { next } else { ip };
            }
            Jump { over } => next = next.wrapping_add_signed(over.into()),
            JumpFar { over } => next = next.wrapping_add_signed(over.into()),
            Syscall | Interrupt => return Err(Stop::Syscall),
            Undefined => return Err(Stop::Exception(6)),
            Halt => return Err(Stop::Exception(13)),
        }
        self.state.ip = next;
        Ok(())
    }
}

/// The address of a random word of the data.
fn place(dice: &mut Dice) -> u64 {
    DATA + 8 * dice.roll(PAGES as u64 * WORDS)
}

/// Whether two states are the same to a program.
pub fn same(a: &hafnon_vproc_state_t, b: &hafnon_vproc_state_t) -> bool {
    let shown = |state: &hafnon_vproc_state_t| hafnon_vproc_state_t { flags: state.flags & !RESUME_FLAG, ..*state };
    shown(a) == shown(b)
}
