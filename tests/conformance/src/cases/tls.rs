//! Thread-local variables of an executable: their initial values, in the main thread and in others.
//!
//! All of them are constant and need no destructor, so the compiler puts them into the file's TLS segment. The cases
//! test how the loader and the C library set up that segment.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Barrier};
use std::thread;

use super::asleep::joined;
use super::cases;
use crate::check::{Failure, Outcome, ensure, equal};

cases! {
    "tls.basic.main" => basic,
    "tls.basic.thread" => basic_thread,
    "tls.array.main" => array,
    "tls.array.thread" => array_thread,
    "tls.array_overwritten.main" => array_overwritten,
    "tls.array_overwritten.thread" => array_overwritten_thread,
    "tls.big_array.main" => big_array,
    "tls.big_array.thread" => big_array_thread,
    "tls.structure.main" => structure,
    "tls.structure.thread" => structure_thread,
    "tls.alignment.main" => alignment,
    "tls.alignment.thread" => alignment_thread,
    "tls.destructors.run" => destructors_run,
}

/// Runs a check in threads: first one after another, where each thread reuses the memory of the previous one, then at
/// the same time. Each thread must find the initial values, whatever other threads have written to theirs.
fn in_threads(check: fn() -> Outcome) -> Outcome {
    for _ in 0..3 {
        joined(thread::spawn(check))??;
    }
    let barrier = Arc::new(Barrier::new(4));
    let run = || {
        let barrier = Arc::clone(&barrier);
        thread::spawn(move || {
            barrier.wait();
            check()
        })
    };
    let threads: Vec<_> = (0..4).map(|_| run()).collect();
    threads.into_iter().try_for_each(|thread| joined(thread)?)
}

thread_local! {
    static BYTE: Cell<u8> = const { Cell::new(0xa5) };
    static WORD: Cell<u16> = const { Cell::new(0xbeef) };
    static NUMBER: Cell<i32> = const { Cell::new(-12_345_678) };
    static LONG: Cell<u64> = const { Cell::new(0x0123_4567_89ab_cdef) };
    static FRACTION: Cell<f64> = const { Cell::new(-0.1) };
    static NOTHING: Cell<u64> = const { Cell::new(0) };
}

fn basic() -> Outcome {
    let all = || (BYTE.get(), WORD.get(), NUMBER.get(), LONG.get(), FRACTION.get(), NOTHING.get());
    equal(all(), (0xa5, 0xbeef, -12_345_678, 0x0123_4567_89ab_cdef, -0.1, 0))?;
    BYTE.set(1);
    WORD.set(2);
    NUMBER.set(3);
    LONG.set(4);
    FRACTION.set(5.0);
    NOTHING.set(6);
    thread::yield_now();
    equal(all(), (1, 2, 3, 4, 5.0, 6))
}

fn basic_thread() -> Outcome {
    in_threads(basic)
}

/// An array with a different value in each element.
const fn counted<const N: usize>(factor: u32) -> [u32; N] {
    let mut array = [0; N];
    let mut index = 0;
    while index < N {
        array[index] = (index as u32).wrapping_mul(factor) ^ factor;
        index += 1;
    }
    array
}

type Array<const N: usize> = RefCell<[u32; N]>;

thread_local! {
    static FIRST: Array<17> = const { RefCell::new(counted(3)) };
    static SECOND: Array<17> = const { RefCell::new(counted(5)) };
    static EMPTY: Array<17> = const { RefCell::new([0; 17]) };
    static BIG: Array<16384> = const { RefCell::new(counted(7)) };
    static BIG_EMPTY: Array<16384> = const { RefCell::new([0; 16384]) };
}

fn array() -> Outcome {
    FIRST.with_borrow(|array| equal(array, &counted(3)))?;
    SECOND.with_borrow(|array| equal(array, &counted(5)))?;
    EMPTY.with_borrow(|array| equal(array, &[0; 17]))
}

fn array_thread() -> Outcome {
    in_threads(array)
}

fn array_overwritten() -> Outcome {
    // Each array is filled to its ends, which must not affect the others; then the initial values are restored.
    array()?;
    for round in 1..50 {
        FIRST.set([round; 17]);
        SECOND.with_borrow(|array| equal(array, &counted(5)))?;
        EMPTY.with_borrow(|array| equal(array, &[0; 17]))?;
        SECOND.set([!round; 17]);
        FIRST.with_borrow(|array| equal(array, &[round; 17]))?;
        EMPTY.set([round << 16; 17]);
        SECOND.with_borrow(|array| equal(array, &[!round; 17]))?;
        FIRST.with_borrow(|array| equal(array, &[round; 17]))?;
        thread::yield_now();
        EMPTY.with_borrow(|array| equal(array, &[round << 16; 17]))?;
        FIRST.set(counted(3));
        SECOND.set(counted(5));
        EMPTY.set([0; 17]);
    }
    array()
}

fn array_overwritten_thread() -> Outcome {
    in_threads(array_overwritten)
}

fn big_array() -> Outcome {
    BIG.with_borrow(|array| ensure(*array == counted(7), "the first values are others"))?;
    BIG_EMPTY.with_borrow(|array| ensure(array.iter().all(|&number| number == 0), "the zeros are others"))?;
    BIG.with_borrow_mut(|array| array.fill(9));
    BIG_EMPTY.with_borrow_mut(|array| array.fill(10));
    BIG.with_borrow(|array| ensure(array.iter().all(|&number| number == 9), "another's values"))?;
    // Other cases check the main thread's values again.
    BIG.with_borrow_mut(|array| *array = counted(7));
    BIG_EMPTY.with_borrow_mut(|array| array.fill(0));
    Ok(())
}

fn big_array_thread() -> Outcome {
    in_threads(|| {
        big_array()?;
        BIG.with_borrow_mut(|array| array.fill(11));
        BIG_EMPTY.with_borrow_mut(|array| array.fill(12));
        Ok(())
    })
}

/// A structure with addresses in it, which the loader must relocate before threads get their copies.
#[derive(Clone, Copy)]
struct Structure {
    small: u8,
    text: &'static str,
    numbers: [i64; 3],
    function: fn(u32) -> u32,
    pair: (u16, Option<&'static u32>),
}

static SHARED: u32 = 31_415;

fn double(number: u32) -> u32 {
    number * 2
}

fn triple(number: u32) -> u32 {
    number * 3
}

thread_local! {
    static STRUCTURE: Cell<Structure> = const {
        Cell::new(Structure {
            small: 7,
            text: "a text of the file",
            numbers: [-1, 0, i64::MAX],
            function: double,
            pair: (0xffff, Some(&SHARED)),
        })
    };
}

fn structure() -> Outcome {
    let found = STRUCTURE.get();
    equal((found.small, found.text, found.numbers), (7, "a text of the file", [-1, 0, i64::MAX]))?;
    equal((found.function)(21), 42)?;
    equal(found.pair, (0xffff, Some(&31_415)))?;
    STRUCTURE.set(Structure { small: 8, function: triple, pair: (1, None), ..found });
    let changed = STRUCTURE.get();
    equal((changed.small, (changed.function)(21), changed.text, changed.pair), (8, 63, found.text, (1, None)))?;
    STRUCTURE.set(found);
    Ok(())
}

fn structure_thread() -> Outcome {
    in_threads(|| {
        structure()?;
        STRUCTURE.set(Structure { small: 0, text: "", numbers: [0; 3], function: triple, pair: (0, None) });
        Ok(())
    })
}

#[repr(align(16))]
struct By16(Cell<u8>);
#[repr(align(64))]
struct By64(Cell<u8>);
#[repr(align(4096))]
struct By4096(Cell<u8>);

thread_local! {
    static ALIGNED_16: By16 = const { By16(Cell::new(1)) };
    static ODD: Cell<u8> = const { Cell::new(2) };
    static ALIGNED_64: By64 = const { By64(Cell::new(3)) };
    static ALIGNED_4096: By4096 = const { By4096(Cell::new(4)) };
}

/// The value's address modulo `align`.
fn rest<T>(value: &T, align: usize) -> usize {
    // Without this the compiler would assume the alignment and not check it.
    std::hint::black_box(std::ptr::from_ref(value).addr()) % align
}

fn alignment() -> Outcome {
    equal(ALIGNED_16.with(|value| (rest(value, 16), value.0.get())), (0, 1))?;
    equal(ALIGNED_64.with(|value| (rest(value, 64), value.0.get())), (0, 3))?;
    equal(ALIGNED_4096.with(|value| (rest(value, 4096), value.0.get())), (0, 4))?;
    equal(ODD.get(), 2)?;
    for set in [20, 30] {
        ALIGNED_16.with(|value| value.0.set(set));
        ALIGNED_64.with(|value| value.0.set(set + 1));
        ALIGNED_4096.with(|value| value.0.set(set + 2));
        let found = (ALIGNED_16.with(|v| v.0.get()), ALIGNED_64.with(|v| v.0.get()), ALIGNED_4096.with(|v| v.0.get()));
        equal((found, ODD.get()), ((set, set + 1, set + 2), 2))?;
    }
    ALIGNED_16.with(|value| value.0.set(1));
    ALIGNED_64.with(|value| value.0.set(3));
    ALIGNED_4096.with(|value| value.0.set(4));
    Ok(())
}

fn alignment_thread() -> Outcome {
    in_threads(|| {
        alignment()?;
        ALIGNED_4096.with(|value| value.0.set(99));
        ODD.set(98);
        Ok(())
    })
}

fn destructors_run() -> Outcome {
    /// Reports that its destructor runs, and accesses another variable then.
    struct DropReporter(Cell<Option<std::sync::mpsc::Sender<u64>>>);
    impl Drop for DropReporter {
        fn drop(&mut self) {
            if let Some(sender) = self.0.take() {
                let _ = sender.send(LONG.get());
            }
        }
    }
    thread_local!(static GOES: DropReporter = const { DropReporter(Cell::new(None)) });
    let (sender, receiver) = std::sync::mpsc::channel();
    let thread = thread::spawn(move || {
        LONG.set(77);
        GOES.with(|goes| goes.0.set(Some(sender)));
    });
    joined(thread)?;
    equal(receiver.recv().map_err(|_| Failure::from("it was not dropped"))?, 77)
}
