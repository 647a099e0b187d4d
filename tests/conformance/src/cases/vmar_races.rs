//! Long calls on a region while other threads change it: in whichever order this happens, the results are correct. No
//! case depends on the order.

use std::sync::atomic::{AtomicBool, Ordering};

use abi::Status;
use zx::Vmo;

use super::cases;
use super::vmar::{PAGE, READ_WRITE, region, vmo};
use crate::check::{Failure, Outcome, ensure};

cases! {
    "vmar.map.overwrite_while_a_region_is_created" => map_overwrite_while_a_region_is_created,
    "vmar.destroy.deeply_nested" => destroy_deeply_nested,
}

const SPECIFIC: u32 = abi::ZX_VM_SPECIFIC;
const OVER: u32 = abi::ZX_VM_SPECIFIC_OVERWRITE;
const CAN: u32 = abi::ZX_VM_CAN_MAP_READ | abi::ZX_VM_CAN_MAP_WRITE | abi::ZX_VM_CAN_MAP_SPECIFIC;
/// Number of pages of the region, of the part that is unmapped, and of the region that is created there.
const PAGES: usize = 2048;
const WINDOW: usize = 256;
const INNER: usize = 192;

fn is_mapped(address: usize) -> bool {
    zx::startup::process_self().read_memory(address, &mut [0; 8]).is_ok()
}

/// The number at the start of a page.
fn number(address: usize) -> Result<u64, Failure> {
    let mut bytes = [0; 8];
    zx::startup::process_self().read_memory(address, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// A thread maps over all of a region. At the place that it has reached, another thread unmaps a window and creates a
/// region there. The first thread stops there, or it had passed the window already; in no case does it replace pages of
/// the new region.
fn map_overwrite_while_a_region_is_created() -> Outcome {
    let old = vmo(1)?;
    old.write(&1_u64.to_le_bytes(), 0)?;
    for _ in 0..8 {
        let (vmar, base) = region(PAGES)?;
        for page in 0..PAGES {
            vmar.map(READ_WRITE | SPECIFIC, page * PAGE, &old, 0, PAGE)?;
        }
        let (new, goes) = (vmo(PAGES)?, AtomicBool::new(false));
        let (over, inner, from) = std::thread::scope(|scope| -> Result<_, Failure> {
            let mapper = scope.spawn(|| {
                while !goes.load(Ordering::Acquire) {
                    std::hint::spin_loop();
                }
                vmar.map(READ_WRITE | OVER, 0, &new, 0, PAGES * PAGE)
            });
            goes.store(true, Ordering::Release);
            while number(base + PAGES / 10 * PAGE)? == 1 {}
            let got_to = (0..PAGES).rev().find(|page| number(base + page * PAGE).is_ok_and(|number| number != 1));
            let from = got_to.unwrap_or(0).saturating_sub(50).min(PAGES - WINDOW);
            vmar.unmap(base + from * PAGE, WINDOW * PAGE)?;
            let inner = vmar.allocate(CAN | SPECIFIC, from * PAGE, INNER * PAGE);
            Ok((mapper.join().map_err(|_| "a thread panicked")?, inner, from))
        })?;
        let Ok((inner, _)) = inner else {
            // The unmapped part was mapped again.
            ensure(over.is_ok(), "the mapping failed although nothing was in its way")?;
            vmar.destroy()?;
            continue;
        };
        let rest = base + (from + INNER) * PAGE..base + (from + WINDOW) * PAGE;
        if over.is_err() {
            ensure(over == Err(Status::INVALID_ARGS), "it failed for another reason")?;
            ensure(!rest.clone().step_by(PAGE).any(is_mapped), "what lies behind the region was mapped")?;
        }
        inner.destroy()?;
        let within = base + from * PAGE..rest.start;
        ensure(!within.step_by(PAGE).any(is_mapped), "what the region had is mapped")?;
        vmar.destroy()?;
    }
    Ok(())
}

/// Regions of one page, each inside the previous one: destroying the first destroys all, however many there are.
fn destroy_deeply_nested() -> Outcome {
    let (outermost, base) = region(1)?;
    let mut innermost = outermost.allocate(CAN | SPECIFIC, 0, PAGE)?.0;
    for _ in 0..5000 {
        innermost = innermost.allocate(CAN | SPECIFIC, 0, PAGE)?.0;
    }
    let shown: Vmo = vmo(1)?;
    innermost.map(READ_WRITE | SPECIFIC, 0, &shown, 0, PAGE)?;
    ensure(is_mapped(base), "the page of the innermost is not mapped")?;
    outermost.destroy()?;
    ensure(!is_mapped(base), "the page of the innermost is still mapped")?;
    ensure(innermost.map(READ_WRITE, 0, &shown, 0, PAGE) == Err(Status::BAD_STATE), "the innermost goes on")
}
