//! Clocks that are mapped and read without a system call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use abi::{
    Rights, Status, ZX_CLOCK_OPT_AUTO_START as START, ZX_CLOCK_OPT_CONTINUOUS as CONTINUOUS,
    ZX_CLOCK_OPT_MAPPABLE as MAPPABLE, ZX_CLOCK_OPT_MONOTONIC as MONOTONIC,
    ZX_CLOCK_UPDATE_OPTION_RATE_ADJUST_VALID as RATE, ZX_CLOCK_UPDATE_OPTION_REFERENCE_VALUE_VALID as REFERENCE,
    ZX_CLOCK_UPDATE_OPTION_SYNTHETIC_VALUE_VALID as VALUE, zx_clock_update_args_v2_t,
};
use zx::{Clock, Info};

use super::vmar::{PAGE, READ, region};
use super::{cases, raw, without};
use crate::check::{Failure, Outcome, ensure, equal, fails, gives};
use crate::prober::Prober;

cases! {
    "clock.mapped.shows_the_same" => shows_the_same,
    "clock.mapped.not_started" => not_started,
    "clock.mapped.odd_lines" => odd_lines,
    "clock.mapped.details" => details,
    "clock.mapped.outlives_the_clock" => outlives_the_clock,
    "clock.mapped.while_it_changes" => while_it_changes,
    "clock.mapped.read_only" => read_only,
    "clock.mapped.rights" => rights,
    "clock.mapped.bad_arguments" => bad_arguments,
    "clock.mapped.not_mappable" => not_mappable,
    "clock.mapped.listed_in_maps" => listed_in_maps,
}

const MAP: u32 = READ | abi::ZX_VM_MAP_RANGE;

/// A clock and the address of its mapping.
struct Mapped {
    clock: Clock,
    address: usize,
    vmar: zx::Vmar,
}

fn mapped(options: u64) -> Result<Mapped, Failure> {
    let clock = Clock::create(options | MAPPABLE)?;
    let size = clock.mapped_size()? as usize;
    let (vmar, _) = region(4)?;
    let address = vmar.map_clock(MAP, 0, &clock, size)?;
    Ok(Mapped { clock, address, vmar })
}

impl Mapped {
    /// The mapped reading lies between two readings by call.
    fn agrees(&self) -> Outcome {
        let before = self.clock.read()?;
        let between = zx::clock_read_mapped(self.address)?;
        let after = self.clock.read()?;
        ensure((before..=after).contains(&between), &format!("{between} is not from {before} to {after}"))
    }

    fn set(&self, options: u64, value: i64, reference: i64, rate: i32) -> zx::Result<()> {
        let args = zx_clock_update_args_v2_t {
            synthetic_value: value,
            reference_value: reference,
            rate_adjust: rate,
            ..Default::default()
        };
        self.clock.update(options, &args)
    }
}

fn shows_the_same() -> Outcome {
    for options in [START, START | MONOTONIC, START | MONOTONIC | CONTINUOUS] {
        let mapped = mapped(options)?;
        mapped.agrees()?;
        for rate in [1000, -1000, 1, 0] {
            mapped.set(RATE, 0, 0, rate)?;
            mapped.agrees()?;
        }
        if options & MONOTONIC == 0 {
            mapped.set(VALUE, i64::MAX / 2, 0, 0)?;
            mapped.agrees()?;
        }
    }
    Ok(())
}

/// A clock that was not started shows its backstop.
fn not_started() -> Outcome {
    let mapped = mapped(0)?;
    equal(zx::clock_read_mapped(mapped.address)?, 0)?;
    mapped.set(VALUE, 12_345_678, 0, 0)?;
    mapped.agrees()
}

/// Transformations beyond the range of a time: the result is the nearest value in range, as in the system's own answer.
fn odd_lines() -> Outcome {
    let values = [0, 1, i64::MAX, i64::MAX - 1_000_000_000];
    let references = [0, -1, 1, i64::MAX, i64::MIN, i64::MIN + 1, -1_000_000_000_000, 1_000_000_000_000_000];
    for value in values {
        for reference in references {
            for rate in [-1000, -1, 0, 7, 1000] {
                let mapped = mapped(0)?;
                // The server refuses an update that would show less than the backstop.
                if mapped.set(VALUE | REFERENCE | RATE, value, reference, rate).is_ok() {
                    mapped.agrees()?;
                }
            }
        }
    }
    Ok(())
}

fn details() -> Outcome {
    let mapped = mapped(START | MONOTONIC)?;
    for rate in [0, 5, -900] {
        mapped.set(RATE, 0, 0, rate)?;
        let (mut told, found) = (mapped.clock.details()?, zx::clock_details_mapped(mapped.address)?);
        ensure(found.query_ticks >= told.query_ticks, "it was asked before it was asked")?;
        told.query_ticks = found.query_ticks;
        equal(format!("{found:?}"), format!("{told:?}"))?;
        ensure(found.options & MAPPABLE != 0, "it does not say that it can be mapped")?;
    }
    Ok(())
}

fn outlives_the_clock() -> Outcome {
    let Mapped { clock, address, vmar: _vmar } = mapped(START)?;
    let before = zx::clock_read_mapped(address)?;
    drop(clock);
    let first = zx::clock_read_mapped(address)?;
    let second = zx::clock_read_mapped(address)?;
    ensure(before <= first && first <= second, "it does not go on")
}

/// A reader sees either the old or the new transformation, never a mixture.
fn while_it_changes() -> Outcome {
    let mapped = mapped(START)?;
    let (address, stop) = (mapped.address, Arc::new(AtomicBool::new(false)));
    let seen = stop.clone();
    let reader = std::thread::spawn(move || {
        let mut readings = 0;
        while !seen.load(Ordering::Relaxed) || readings == 0 {
            let now = zx::clock_read_mapped(address)?;
            let details = zx::clock_details_mapped(address)?;
            // Each update sets a multiple of 10^15 as the value and a rate with the same number.
            let line = details.reference_to_synthetic;
            let number = i64::from(line.rate.synthetic_ticks) - 1_000_000;
            ensure(
                details.generation_counter == 0 || line.synthetic_offset == number * 1_000_000_000_000_000,
                "two lines are mixed",
            )?;
            ensure(now >= 0, "no such time was set")?;
            readings += 1;
        }
        Ok::<_, Failure>(())
    });
    for turn in 0..2000_i32 {
        let number = turn % 1000 + 1;
        mapped.set(VALUE | RATE, i64::from(number) * 1_000_000_000_000_000, 0, number)?;
        if turn % 16 == 0 {
            zx::thread_legacy_yield()?;
        }
    }
    stop.store(true, Ordering::Relaxed);
    reader.join().map_err(|_| "the reader panicked")?
}

/// Only the call can change a clock.
fn read_only() -> Outcome {
    let prober = Prober::new()?;
    let clock = Clock::create(START | MAPPABLE)?;
    let (vmar, base) = prober.region(2)?;
    let options = MAP | abi::ZX_VM_SPECIFIC;
    vmar.map_clock(options, 0, &clock, clock.mapped_size()? as usize)?;
    ensure(prober.load(base)?.is_ok(), "it cannot be read")?;
    equal(prober.store(base, 1)?, Err(Status::ACCESS_DENIED))?;
    fails(vmar.protect(READ | abi::ZX_VM_PERM_WRITE, base, PAGE), Status::ACCESS_DENIED)?;
    for op in [abi::ZX_VMAR_OP_COMMIT, abi::ZX_VMAR_OP_DECOMMIT, abi::ZX_VMAR_OP_ZERO] {
        fails(vmar.op_range(op, base, PAGE), Status::ACCESS_DENIED)?;
    }
    Ok(())
}

fn rights() -> Outcome {
    let clock = Clock::create(START | MAPPABLE)?;
    let rights = Rights::from_bits_retain(clock.basic_info()?.rights);
    ensure(rights.contains(Rights::MAP | Rights::READ), "a clock that can be mapped lacks the right for it")?;
    let (vmar, _) = region(4)?;
    for right in [Rights::READ, Rights::MAP] {
        let less = Clock::from(without(&clock, right)?);
        fails(vmar.map_clock(MAP, 0, &less, PAGE), Status::ACCESS_DENIED)?;
    }
    let blind = zx::Vmar::from(without(&vmar, Rights::READ)?);
    fails(blind.map_clock(MAP, 0, &clock, PAGE), Status::ACCESS_DENIED)?;
    fails(Clock::from(without(&clock, Rights::INSPECT)?).mapped_size(), Status::ACCESS_DENIED)?;
    let plain = Rights::from_bits_retain(Clock::create(START)?.basic_info()?.rights);
    ensure(!plain.contains(Rights::MAP), "a clock that cannot be mapped has the right for it")
}

fn bad_arguments() -> Outcome {
    let mapped = mapped(START)?;
    let (vmar, _) = region(4)?;
    let not = [
        abi::ZX_VM_PERM_WRITE,
        abi::ZX_VM_PERM_EXECUTE,
        abi::ZX_VM_PERM_READ_IF_XOM_UNSUPPORTED,
        abi::ZX_VM_FAULT_BEYOND_STREAM_SIZE | abi::ZX_VM_ALLOW_FAULTS,
        abi::ZX_VM_CAN_MAP_READ,
        1 << 20,
    ];
    for options in not {
        fails(vmar.map_clock(READ | options, 0, &mapped.clock, PAGE), Status::INVALID_ARGS)?;
    }
    for len in [0, 1, PAGE - 1, 2 * PAGE, usize::MAX] {
        fails(vmar.map_clock(MAP, 0, &mapped.clock, len), Status::INVALID_ARGS)?;
    }
    gives(raw!(zx_clock_read_mapped, mapped.address, 0), Status::INVALID_ARGS)?;
    let mut place = [0_u64; 16];
    let at = (&raw mut place).expose_provenance();
    for options in [0, abi::ZX_CLOCK_ARGS_VERSION_2, abi::ZX_CLOCK_ARGS_VERSION_1 | 1] {
        gives(raw!(zx_clock_get_details_mapped, mapped.address, options, at), Status::INVALID_ARGS)?;
    }
    let version = abi::ZX_CLOCK_ARGS_VERSION_1;
    gives(raw!(zx_clock_get_details_mapped, mapped.address, version, 0), Status::INVALID_ARGS)
}

fn not_mappable() -> Outcome {
    let clock = Clock::create(START)?;
    let (vmar, _) = region(4)?;
    fails(clock.mapped_size(), Status::INVALID_ARGS)?;
    fails(vmar.map_clock(MAP, 0, &clock, PAGE), Status::INVALID_ARGS)
}

/// The list of mappings shows a clock's mapping with a name of its own.
fn listed_in_maps() -> Outcome {
    let mapped = mapped(START)?;
    let mut maps = vec![abi::zx_info_maps_t::default(); 4];
    let size = mapped.vmar.get_info_records(abi::ZX_INFO_VMAR_MAPS, &mut maps)?;
    let name = b"kernel-clock\0";
    let found = maps[..size.actual].iter().any(|map| map.base == mapped.address && map.name.starts_with(name));
    ensure(found, "it is not among the mappings")
}
