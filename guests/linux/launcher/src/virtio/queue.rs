//! The device's side of a virtqueue (virtio 1.2, section 2.7). Its rings are in Linux' memory, and Linux may write there
//! anything at any time: each number is read once and checked before it is used.

use std::sync::atomic::Ordering;

use vm_memory::{Bytes, VolatileSlice};

/// The most entries that a queue can have.
pub const SIZE: u16 = 128;

const DESCRIPTOR: u64 = 16;
/// Flags of a descriptor.
const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;
/// The driver's flag: it wants no interrupt.
const NO_INTERRUPT: u16 = 1;
/// The device's flag: it wants no kick.
const NO_KICK: u16 = 1;
/// Offsets in a ring of the number of entries that it has got, and of its entries.
const INDEX: u64 = 2;
const ENTRIES: u64 = 4;

/// What is in the rings makes no sense: the device stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

impl<E: std::error::Error> From<E> for Broken {
    fn from(_: E) -> Broken {
        Broken
    }
}

/// A part of Linux' memory; it lies in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Its physical address.
    pub address: u64,
    /// Its length in bytes.
    pub len: u32,
}

/// A request: where its bytes are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    head: u16,
    /// What the device reads.
    pub readable: Vec<Range>,
    /// What the device writes.
    pub writable: Vec<Range>,
}

/// A queue that the driver has started.
#[derive(Clone, Debug)]
pub struct Queue {
    size: u16,
    descriptors: u64,
    available: u64,
    used: u64,
    /// How many requests were taken, and how many were answered; both wrap.
    taken: u16,
    answered: u16,
}

impl Queue {
    /// A queue with rings at these addresses; `None` if they are not aligned, or not in the memory.
    pub fn new(memory: &VolatileSlice<'_>, size: u64, descriptors: u64, available: u64, used: u64) -> Option<Queue> {
        let size = u16::try_from(size).ok().filter(|size| *size <= SIZE && size.is_power_of_two())?;
        let queue = Queue { size, descriptors, available, used, taken: 0, answered: 0 };
        // Each ring ends with a number for a feature that is not offered; it need not be there.
        let entries = u64::from(size);
        let rings = [
            (descriptors, DESCRIPTOR * entries, DESCRIPTOR),
            (available, ENTRIES + 2 * entries, 2),
            (used, ENTRIES + 8 * entries, 4),
        ];
        let fits = |(address, len, align): &(u64, u64, u64)| address % align == 0 && is_in(memory, *address, *len);
        rings.iter().all(fits).then_some(queue)
    }

    /// Takes the next request, if there is one.
    ///
    /// # Errors
    /// It makes no sense.
    pub fn take(&mut self, memory: &VolatileSlice<'_>) -> Result<Option<Chain>, Broken> {
        let index: u16 = memory.load(place(self.available + INDEX)?, Ordering::Acquire)?;
        let waiting = u16::from_le(index).wrapping_sub(self.taken);
        if waiting == 0 {
            return Ok(None);
        }
        if waiting > self.size {
            return Err(Broken);
        }
        let entry = self.available + ENTRIES + 2 * u64::from(self.taken % self.size);
        let head = u16::from_le_bytes(bytes(memory, entry)?);
        self.taken = self.taken.wrapping_add(1);
        self.chain(memory, head).map(Some)
    }

    fn chain(&self, memory: &VolatileSlice<'_>, head: u16) -> Result<Chain, Broken> {
        let mut chain = Chain { head, ..Chain::default() };
        let (mut table, mut entries, mut next) = (self.descriptors, self.size, head);
        let mut indirect = false;
        // A chain has at most as many descriptors as the queue, and one that refers to a table of them.
        for _ in 0..=self.size {
            if next >= entries {
                return Err(Broken);
            }
            let descriptor: [u8; DESCRIPTOR as usize] = bytes(memory, table + DESCRIPTOR * u64::from(next))?;
            let [a, b, c, d, e, f, g, h, len @ .., i, j, k, l] = descriptor;
            let address = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
            let (len, flags) = (u32::from_le_bytes(len), u16::from_le_bytes([i, j]));
            if !is_in(memory, address, len.into()) {
                return Err(Broken);
            }
            if flags & INDIRECT != 0 {
                let count = u64::from(len) / DESCRIPTOR;
                let whole = u64::from(len) % DESCRIPTOR == 0 && (1..=self.size.into()).contains(&count);
                if indirect || flags & NEXT != 0 || !whole || !chain.is_empty() {
                    return Err(Broken);
                }
                (table, entries, next, indirect) = (address, count as u16, 0, true);
                continue;
            }
            let range = Range { address, len };
            if flags & WRITE != 0 {
                chain.writable.push(range);
            } else if chain.writable.is_empty() {
                chain.readable.push(range);
            } else {
                return Err(Broken);
            }
            if flags & NEXT == 0 {
                return Ok(chain);
            }
            next = u16::from_le_bytes([k, l]);
        }
        Err(Broken)
    }

    /// Answers a request, with the number of bytes that were written.
    ///
    /// # Errors
    /// None, as the rings are in the memory.
    pub fn answer(&mut self, memory: &VolatileSlice<'_>, chain: &Chain, written: u32) -> Result<(), Broken> {
        let entry = self.used + ENTRIES + 8 * u64::from(self.answered % self.size);
        memory.write_slice(&u32::from(chain.head).to_le_bytes(), place(entry)?)?;
        memory.write_slice(&written.to_le_bytes(), place(entry + 4)?)?;
        self.answered = self.answered.wrapping_add(1);
        // The driver sees the entry before it sees that there is one more.
        memory.store(self.answered.to_le(), place(self.used + INDEX)?, Ordering::Release)?;
        Ok(())
    }

    /// Whether the driver wants an interrupt for what was answered.
    ///
    /// # Errors
    /// None, as the rings are in the memory.
    pub fn wants_interrupt(&self, memory: &VolatileSlice<'_>) -> Result<bool, Broken> {
        // The driver first allows interrupts and then looks for answers; here it is the other way round.
        std::sync::atomic::fence(Ordering::SeqCst);
        let flags: u16 = memory.load(place(self.available)?, Ordering::Acquire)?;
        Ok(u16::from_le(flags) & NO_INTERRUPT == 0)
    }

    /// Says whether the device wants to be kicked. After `true` there may be a request that came before.
    ///
    /// # Errors
    /// None, as the rings are in the memory.
    pub fn want_kicks(&self, memory: &VolatileSlice<'_>, want: bool) -> Result<(), Broken> {
        let flags = if want { 0 } else { NO_KICK };
        memory.store(flags.to_le(), place(self.used)?, Ordering::Release)?;
        std::sync::atomic::fence(Ordering::SeqCst);
        Ok(())
    }
}

impl Chain {
    fn is_empty(&self) -> bool {
        self.readable.is_empty() && self.writable.is_empty()
    }
}

/// Whether a range lies in the memory.
fn is_in(memory: &VolatileSlice<'_>, address: u64, len: u64) -> bool {
    address.checked_add(len).is_some_and(|end| end <= memory.len() as u64)
}

fn place(address: u64) -> Result<usize, Broken> {
    Ok(usize::try_from(address)?)
}

fn bytes<const N: usize>(memory: &VolatileSlice<'_>, address: u64) -> Result<[u8; N], Broken> {
    let mut bytes = [0; N];
    memory.read_slice(&mut bytes, place(address)?)?;
    Ok(bytes)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// The driver's side of a queue of four, in a memory of 64 KiB: descriptors at 0, rings at 0x100 and 0x200.
    pub struct Driver {
        /// The memory.
        pub bytes: Vec<u8>,
        offered: u16,
    }

    /// Where a driver of the tests puts its buffers.
    pub const BUFFERS: u64 = 0x1000;

    impl Driver {
        /// With memory that is zero.
        pub fn new() -> Driver {
            Driver { bytes: vec![0; 64 << 10], offered: 0 }
        }

        /// The memory as the device sees it.
        pub fn memory(&mut self) -> VolatileSlice<'_> {
            VolatileSlice::from(self.bytes.as_mut_slice())
        }

        /// The device's side.
        pub fn queue(&mut self) -> Queue {
            Queue::new(&self.memory(), 4, 0, 0x100, 0x200).expect("a queue")
        }

        /// Writes a descriptor into a table at this address.
        pub fn descriptor(&mut self, table: u64, index: u16, address: u64, len: u32, flags: u16, next: u16) {
            let at = (table + DESCRIPTOR * u64::from(index)) as usize;
            self.bytes[at..at + 8].copy_from_slice(&address.to_le_bytes());
            self.bytes[at + 8..at + 12].copy_from_slice(&len.to_le_bytes());
            self.bytes[at + 12..at + 14].copy_from_slice(&flags.to_le_bytes());
            self.bytes[at + 14..at + 16].copy_from_slice(&next.to_le_bytes());
        }

        /// Offers the request that begins with this descriptor.
        pub fn offer(&mut self, head: u16) {
            let at = 0x104 + 2 * usize::from(self.offered % 4);
            self.bytes[at..at + 2].copy_from_slice(&head.to_le_bytes());
            self.offered = self.offered.wrapping_add(1);
            self.bytes[0x102..0x104].copy_from_slice(&self.offered.to_le_bytes());
        }

        /// The entry of the used ring with this number, and how many there were: head, bytes written, count.
        pub fn answer(&self, number: usize) -> (u32, u32, u16) {
            let word = |at: usize| u32::from_le_bytes(self.bytes[at..at + 4].try_into().expect("four"));
            let at = 0x204 + 8 * (number % 4);
            (word(at), word(at + 4), u16::from_le_bytes(self.bytes[0x202..0x204].try_into().expect("two")))
        }
    }

    fn taken(driver: &mut Driver) -> Result<Option<Chain>, Broken> {
        let mut queue = driver.queue();
        queue.take(&driver.memory())
    }

    #[test]
    fn a_queue_lies_in_the_memory() {
        let mut driver = Driver::new();
        let memory = driver.memory();
        let made =
            |size, descriptors, available, used| Queue::new(&memory, size, descriptors, available, used).is_some();
        assert!(made(4, 0, 0x100, 0x200));
        assert!(made(128, 0, 0x1000, 0x2000));
        assert!(!made(0, 0, 0x100, 0x200) && !made(3, 0, 0x100, 0x200) && !made(256, 0, 0x1000, 0x2000));
        assert!(!made(1 << 31, 0, 0x100, 0x200) && !made(65536 + 4, 0, 0x100, 0x200));
        assert!(!made(4, 8, 0x100, 0x200) && !made(4, 0, 0x101, 0x200) && !made(4, 0, 0x100, 0x202));
        assert!(!made(4, 0xfff0, 0x100, 0x200) && !made(4, 0, 0xfff6, 0x200) && !made(4, 0, 0x100, 0xffe0));
        assert!(!made(4, !15, 0x100, 0x200) && !made(4, 0, !1, 0x200) && !made(4, 0, 0x100, !3));
    }

    #[test]
    fn requests_are_taken_and_answered_in_turn() {
        let mut driver = Driver::new();
        let mut queue = driver.queue();
        assert_eq!(queue.take(&driver.memory()), Ok(None));
        for round in 0..70_000u32 {
            let head = (round % 4) as u16;
            driver.descriptor(0, head, BUFFERS, 16, 0, 0);
            driver.offer(head);
            let chain = queue.take(&driver.memory()).expect("sense").expect("a request");
            assert_eq!(chain.readable, [Range { address: BUFFERS, len: 16 }]);
            queue.answer(&driver.memory(), &chain, round).expect("sense");
            assert_eq!(driver.answer(round as usize), (head.into(), round, (round + 1) as u16));
            assert_eq!(queue.take(&driver.memory()), Ok(None));
        }
    }

    #[test]
    fn a_chain_is_followed() {
        let mut driver = Driver::new();
        driver.descriptor(0, 2, BUFFERS, 16, NEXT, 0);
        driver.descriptor(0, 0, BUFFERS + 16, 512, NEXT | WRITE, 3);
        driver.descriptor(0, 3, 0xffff, 1, WRITE, 2);
        driver.offer(2);
        let chain = taken(&mut driver).expect("sense").expect("a request");
        assert_eq!(chain.readable, [Range { address: BUFFERS, len: 16 }]);
        assert_eq!(chain.writable, [Range { address: BUFFERS + 16, len: 512 }, Range { address: 0xffff, len: 1 }]);
        // The same by a table.
        let mut driver = Driver::new();
        driver.descriptor(0, 1, 0x400, 48, INDIRECT, 0);
        driver.descriptor(0x400, 0, BUFFERS, 16, NEXT, 2);
        driver.descriptor(0x400, 2, BUFFERS + 16, 512, NEXT | WRITE, 1);
        driver.descriptor(0x400, 1, 0xffff, 1, WRITE, 0);
        driver.offer(1);
        assert_eq!(taken(&mut driver), Ok(Some(Chain { head: 1, ..chain })));
    }

    #[test]
    fn nonsense_is_refused() {
        type Make = fn(&mut Driver);
        let cases: [(&str, Make); 13] = [
            ("a descriptor that is not there", |driver| driver.offer(4)),
            ("a next one that is not there", |driver| driver.descriptor(0, 0, BUFFERS, 1, NEXT, 4)),
            ("a circle", |driver| driver.descriptor(0, 0, BUFFERS, 1, NEXT, 0)),
            ("a buffer behind the memory", |driver| driver.descriptor(0, 0, 64 << 10, 1, 0, 0)),
            ("a buffer that ends there", |driver| driver.descriptor(0, 0, (64 << 10) - 1, 2, 0, 0)),
            ("a buffer that wraps", |driver| driver.descriptor(0, 0, u64::MAX, 1, 0, 0)),
            ("what is read after what is written", |driver| {
                driver.descriptor(0, 0, BUFFERS, 1, NEXT | WRITE, 1);
                driver.descriptor(0, 1, BUFFERS, 1, 0, 0);
            }),
            ("more requests than there is room for", |driver| driver.bytes[0x102] = 5),
            ("a table in a table", |driver| {
                driver.descriptor(0, 0, 0x400, 16, INDIRECT, 0);
                driver.descriptor(0x400, 0, 0x400, 16, INDIRECT, 0);
            }),
            ("half a descriptor in a table", |driver| driver.descriptor(0, 0, 0x400, 24, INDIRECT, 0)),
            ("an empty table", |driver| driver.descriptor(0, 0, 0x400, 0, INDIRECT, 0)),
            ("a table that is larger than the queue", |driver| driver.descriptor(0, 0, 0x400, 80, INDIRECT, 0)),
            ("a table within a chain", |driver| {
                driver.descriptor(0, 0, BUFFERS, 1, NEXT, 1);
                driver.descriptor(0, 1, 0x400, 16, INDIRECT, 0);
            }),
        ];
        for (what, make) in cases {
            let mut driver = Driver::new();
            driver.offer(0);
            make(&mut driver);
            if what.starts_with("a descriptor") {
                // The second of two.
                let mut queue = driver.queue();
                assert!(queue.take(&driver.memory()).is_ok());
                assert_eq!(queue.take(&driver.memory()), Err(Broken), "{what}");
                continue;
            }
            assert_eq!(taken(&mut driver), Err(Broken), "{what}");
        }
    }

    #[test]
    fn both_sides_say_what_they_want() {
        let mut driver = Driver::new();
        let queue = driver.queue();
        assert_eq!(queue.wants_interrupt(&driver.memory()), Ok(true));
        driver.bytes[0x100] = 1;
        assert_eq!(queue.wants_interrupt(&driver.memory()), Ok(false));
        assert_eq!(queue.want_kicks(&driver.memory(), false), Ok(()));
        assert_eq!(driver.bytes[0x200], 1);
        assert_eq!(queue.want_kicks(&driver.memory(), true), Ok(()));
        assert_eq!(driver.bytes[0x200], 0);
    }

    proptest::proptest! {
        /// Whatever is in the memory, each request ends, and lies in the memory.
        #[test]
        fn any_memory_is_survived(words in proptest::collection::vec(proptest::prelude::any::<u16>(), 0x300), at in 0usize..0x80) {
            let mut driver = Driver::new();
            for (place, word) in words.iter().enumerate() {
                // Small numbers make longer chains.
                let word = if place % 3 == 0 { word % 8 } else { *word };
                driver.bytes[2 * place..2 * place + 2].copy_from_slice(&word.to_le_bytes());
            }
            driver.bytes[2 * at..2 * at + 16].fill(0);
            let len = driver.bytes.len() as u64;
            let mut queue = driver.queue();
            for _ in 0..8 {
                let Ok(Some(chain)) = queue.take(&driver.memory()) else { break };
                for range in chain.readable.iter().chain(&chain.writable) {
                    assert!(range.address + u64::from(range.len) <= len);
                }
                assert!(chain.readable.len() + chain.writable.len() <= 5);
                queue.answer(&driver.memory(), &chain, 0).expect("the rings are in the memory");
            }
        }
    }
}
