//! Whatever a driver writes: each chain ends, and lies in its memory. And a driver that keeps the rules is understood.

use std::collections::VecDeque;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use crate::*;

const MEMORY: usize = 64 << 10;

/// A place for a queue of this size in the memory's beginning.
fn place(size: u16) -> RingPlace {
    DriverRing::new(0, size, false).place()
}

fn descriptor(memory: &Plain, at: u64, address: u64, len: u32, flags: u16, next: u16) {
    memory.write(at, &address.to_le_bytes()).unwrap();
    memory.write(at + 8, &len.to_le_bytes()).unwrap();
    memory.write(at + 12, &flags.to_le_bytes()).unwrap();
    memory.write(at + 14, &next.to_le_bytes()).unwrap();
}

/// What the device says of a chain that begins with descriptor 0.
fn says(direction: Direction, indirect: bool, set: impl Fn(&Plain)) -> Result<Chain, Broken> {
    let memory = Plain::new(MEMORY);
    set(&memory);
    let place = place(8);
    memory.store(place.available + 2, 1).unwrap();
    let mut ring = Ring::new(place, direction, 0, false, indirect);
    let mut chain = Chain::default();
    ring.pop(&memory, &mut chain).map(|found| {
        assert!(found);
        chain
    })
}

#[test]
fn what_is_refused() {
    let read = |set: fn(&Plain)| says(Direction::Read, true, set);
    assert_eq!(read(|m| descriptor(m, 0, 0x1000, 60, 0, 0)).unwrap().len, 60);
    // A loop, and a chain through all eight descriptors, which is the longest.
    assert_eq!(read(|m| descriptor(m, 0, 0x1000, 60, NEXT, 0)), Err(Broken::Loop));
    let all =
        |m: &Plain| (0..8).for_each(|i| descriptor(m, 16 * i, 0x1000, 1, if i < 7 { NEXT } else { 0 }, i as u16 + 1));
    assert_eq!(says(Direction::Read, false, all).unwrap().parts.len(), 8);
    assert_eq!(read(|m| descriptor(m, 0, 0x1000, 60, NEXT, 8)), Err(Broken::Number));
    assert_eq!(read(|m| descriptor(m, 0, 0x1000, 60, WRITE, 0)), Err(Broken::Direction));
    let write = says(Direction::Write, true, |m| descriptor(m, 0, 0x1000, 60, 0, 0));
    assert_eq!(write, Err(Broken::Direction));
    for (at, len) in
        [(u64::MAX, 1), (u64::MAX - 59, 60), (MEMORY as u64, 1), (0x1000, u32::MAX), (MEMORY as u64 - 1, 2)]
    {
        assert_eq!(says(Direction::Read, true, |m| descriptor(m, 0, at, len, 0, 0)), Err(Broken::Place), "{at:#x}");
    }
    // Buffers without bytes are no buffers, wherever they are.
    assert_eq!(read(|m| descriptor(m, 0, u64::MAX, 0, 0, 0)).unwrap().parts, []);
}

#[test]
fn what_is_refused_of_tables() {
    let table = |len: u32, flags: u16, set: fn(&Plain)| {
        says(Direction::Read, true, |m| {
            descriptor(m, 0, 0x2000, len, INDIRECT | flags, 1);
            set(m);
        })
    };
    assert_eq!(table(32, 0, |m| descriptor(m, 0x2000, 0x1000, 60, 0, 0)).unwrap().len, 60);
    // The direction of the descriptor that refers to the table says nothing.
    assert_eq!(table(32, WRITE, |m| descriptor(m, 0x2000, 0x1000, 60, 0, 0)).unwrap().len, 60);
    assert_eq!(table(32, NEXT, |_| {}), Err(Broken::Indirect));
    for len in [0, 15, 17, 16 * 9, u32::MAX, 0x10_0010] {
        assert_eq!(table(len, 0, |_| {}), Err(Broken::Indirect), "{len}");
    }
    assert_eq!(table(32, 0, |m| descriptor(m, 0x2000, 0x3000, 32, INDIRECT, 0)), Err(Broken::Indirect));
    assert_eq!(table(32, 0, |m| descriptor(m, 0x2000, 0x1000, 60, NEXT, 2)), Err(Broken::Number));
    assert_eq!(table(32, 0, |m| descriptor(m, 0x2000, 0x1000, 60, NEXT, 0)), Err(Broken::Loop));
    let whole = |m: &Plain| {
        (0..8).for_each(|i| descriptor(m, 0x2000 + 16 * i, 0x1000, 1, if i < 7 { NEXT } else { 0 }, i as u16 + 1))
    };
    let eight = says(Direction::Read, true, |m| {
        descriptor(m, 0, 0x2000, 128, INDIRECT, 0);
        whole(m);
    });
    assert_eq!(eight.unwrap().parts.len(), 8);
    // One before the table makes nine.
    let nine = says(Direction::Read, true, |m| {
        descriptor(m, 0, 0x1000, 1, NEXT, 1);
        descriptor(m, 16, 0x2000, 128, INDIRECT, 0);
        whole(m);
    });
    assert_eq!(nine, Err(Broken::Loop));
    let outside = says(Direction::Read, true, |m| descriptor(m, 0, MEMORY as u64 - 16, 32, INDIRECT, 0));
    assert_eq!(outside, Err(Broken::Place));
    let not_negotiated = says(Direction::Read, false, |m| descriptor(m, 0, 0x2000, 32, INDIRECT, 0));
    assert_eq!(not_negotiated, Err(Broken::Indirect));
}

#[test]
fn an_index_that_leaps() {
    for (base, index, says) in [
        (0, 8, Ok(8)),
        (0, 9, Err(Broken::Index)),
        (0, u16::MAX, Err(Broken::Index)),
        (u16::MAX, 7, Ok(8)),
        (5, 4, Err(Broken::Index)),
    ] {
        let memory = Plain::new(MEMORY);
        memory.store(place(8).available + 2, index).unwrap();
        let mut ring = Ring::new(place(8), Direction::Read, base, false, false);
        assert_eq!(ring.available(&memory), says, "{base} {index}");
    }
    let memory = Plain::new(MEMORY);
    memory.store(place(8).available + 2, 1).unwrap();
    memory.write(place(8).available + 4, &8_u16.to_le_bytes()).unwrap();
    let mut ring = Ring::new(place(8), Direction::Read, 0, false, false);
    assert_eq!(ring.pop(&memory, &mut Chain::default()), Err(Broken::Number));
}

#[test]
fn memory_that_goes() {
    let memory = Plain::new(100);
    let mut ring = Ring::new(place(256), Direction::Read, 0, false, false);
    assert_eq!(ring.available(&memory), Err(Broken::Memory));
    ring.push(&memory, 1, 2).unwrap();
    assert_eq!(ring.publish(&memory), Err(Broken::Memory));
}

proptest! {
    /// No bytes make it panic or work without end, and what it finds is in memory.
    #[test]
    fn random_memory(
        bytes in proptest::collection::vec(prop_oneof![Just(0_u8), Just(1), 0..8_u8, any::<u8>()], 2048),
        size in (0..6_u32).prop_map(|bit| 1_u16 << bit),
        steps in proptest::collection::vec(0..7_u8, 1..80),
        base: u16,
        write: bool,
        event_index: bool,
    ) {
        let memory = Plain::new(2048);
        memory.write(0, &bytes).unwrap();
        let direction = if write { Direction::Write } else { Direction::Read };
        let mut ring = Ring::new(place(size), direction, base, event_index, true);
        let mut chain = Chain::default();
        for step in steps {
            let broken = match step {
                0..=3 => ring.pop(&memory, &mut chain).map(|found| {
                    if found {
                        assert!(chain.parts.len() <= size.into() && chain.head < size);
                        assert!(chain.parts.iter().all(|part| part.at + u64::from(part.len) <= 2048));
                        assert_eq!(chain.len, chain.parts.iter().map(|part| u64::from(part.len)).sum::<u64>());
                    }
                }),
                4 => ring.push(&memory, chain.head, 7),
                5 => ring.publish(&memory).map(drop),
                _ => ring.be_loud(&memory).map(drop),
            };
            if broken.is_err() {
                break;
            }
        }
    }

    /// A driver and a device that keep the rules: all chains come, in order, with their buffers; all come back; and a
    /// side that waits for a notification gets one.
    #[test]
    fn both_sides(
        size in (0..5_u32).prop_map(|bit| 1_u16 << bit),
        event_index: bool,
        write: bool,
        steps in proptest::collection::vec((0..8_u8, 1..6_usize, any::<bool>(), 0..5_u16), 1..200),
    ) {
        let memory = Plain::new(MEMORY);
        let mut driver = DriverRing::new(0, size, event_index);
        let direction = if write { Direction::Write } else { Direction::Read };
        let mut device = Ring::new(driver.place(), direction, 0, event_index, true);
        let (mut made, mut taken, mut given) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
        let (mut device_sleeps, mut driver_sleeps) = (false, None);
        let mut unpublished = 0;
        for (at, (step, count, indirect, number)) in steps.into_iter().enumerate() {
            match step {
                0..=2 => {
                    let buffers: Vec<Buffer> =
                        (0..count).map(|i| Buffer { at: 0x4000 + (at * 64 + i) as u64, len: i as u32 + 1, write }).collect();
                    let table = (indirect && count <= size.into()).then_some(0x8000 + 0x80 * at as u64);
                    if let Some(head) = driver.add(&memory, &buffers, table).unwrap() {
                        let parts: Vec<Part> = buffers.iter().map(|buffer| Part { at: buffer.at, len: buffer.len }).collect();
                        made.push_back((head, parts));
                        unpublished += 1;
                    }
                }
                3 => {
                    let wanted = driver.publish(&memory).unwrap();
                    // A device that sleeps is woken.
                    prop_assert!(!device_sleeps || unpublished == 0 || wanted);
                    device_sleeps &= unpublished == 0;
                    unpublished = 0;
                }
                4 => {
                    let mut chain = Chain::default();
                    let found = device.pop(&memory, &mut chain).unwrap();
                    prop_assert_eq!(found, made.len() > unpublished);
                    if found {
                        let (head, parts) = made.pop_front().unwrap();
                        prop_assert_eq!((chain.head, &chain.parts), (head, &parts));
                        if number == 0 {
                            device.put_back(1);
                            made.push_front((head, parts));
                        } else {
                            taken.push_back(head);
                        }
                    }
                    device_sleeps = false;
                }
                5 => {
                    if let Some(head) = taken.pop_front() {
                        device.push(&memory, head, number.into()).unwrap();
                        given.push_back((head, u32::from(number)));
                    }
                    let wanted = device.publish(&memory).unwrap();
                    if let Some(left) = &mut driver_sleeps {
                        // A driver that sleeps is woken at the chain that it waits for.
                        prop_assert!(given.len() <= *left || wanted, "{} {}", given.len(), left);
                        if wanted {
                            driver_sleeps = None;
                        }
                    }
                }
                6 => {
                    device_sleeps = !device.be_loud(&memory).unwrap();
                    prop_assert_eq!(device_sleeps, made.len() == unpublished);
                }
                _ => {
                    let expected = given.pop_front();
                    let found = driver.take(&memory).unwrap();
                    prop_assert_eq!(found, expected.map(|(head, len)| (Some(head), len)));
                    let after = if event_index { number } else { 0 };
                    let ready = driver.be_loud(&memory, after).unwrap();
                    driver_sleeps = (!ready).then_some(after.into());
                    prop_assert_eq!(ready, given.len() > after.into());
                }
            }
        }
    }
}

#[test]
fn a_driver_is_not_led_astray() {
    let memory = Plain::new(MEMORY);
    let mut driver = DriverRing::new(0, 4, true);
    let place = driver.place();
    memory.store(place.used + 2, 2).unwrap();
    memory.write(place.used + 4, &[9, 0, 1, 0, 5, 0, 0, 0, 2, 0, 0, 0, 6, 0, 0, 0]).unwrap();
    assert_eq!(driver.take(&memory), Ok(Some((None, 5))));
    assert_eq!(driver.take(&memory), Ok(Some((None, 6))));
    assert_eq!(driver.take(&memory), Ok(None));
    assert_eq!(driver.room(), 4);
    let vector = vec![Buffer { at: 0, len: 1, write: false }; 5];
    assert_eq!(driver.add(&memory, &vector, None), Ok(None));
}
