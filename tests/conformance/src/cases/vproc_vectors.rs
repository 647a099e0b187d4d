//! x87 and vector registers of a virtual processor that shares its owner's.

use abi::{HAFNON_VPROC_SHARED_VECTORS, Status, hafnon_vproc_state_t};
use zx::{Exit, VirtualProcessor};

use super::cases;
use super::restricted_vectors::{filled, sse};
use super::vproc::{CODE, Domain, FLAGS, ROOT};
use crate::check::{Failure, Outcome, equal, fails};

cases! {
    "vproc.create.options" => create_options,
    "vproc.vectors.shared" => shared,
    "vproc.vectors.faults" => faults,
    "vproc.vectors.kick" => kick,
    "vproc.vectors.own_after" => own_after,
}

/// `movq rax, xmm3; movq xmm4, rbx; syscall; jmp` to the first
const SEES: &[u8] = &[0x66, 0x48, 0x0f, 0x7e, 0xd8, 0x66, 0x48, 0x0f, 0x6e, 0xe3, 0x0f, 0x05, 0xeb, 0xf2];

fn processor() -> Result<VirtualProcessor<'static>, Failure> {
    Ok(VirtualProcessor::create_with_options(&ROOT, HAFNON_VPROC_SHARED_VECTORS)?)
}

fn create_options() -> Outcome {
    for options in [2, 3, 1 << 31] {
        fails(VirtualProcessor::create_with_options(&ROOT, options), Status::INVALID_ARGS)?;
    }
    Ok(())
}

fn at(ip: u64, rbx: u64) -> hafnon_vproc_state_t {
    hafnon_vproc_state_t { ip, rbx, flags: FLAGS, ..Default::default() }
}

/// Code in each of three sub-domains sees the owner's registers, and the owner those that the code leaves: entered in
/// turns, and resumed.
fn shared() -> Outcome {
    let mut processor = processor()?;
    let domains = [Domain::new(SEES)?, Domain::new(SEES)?, Domain::new(SEES)?];
    for n in 1..40 {
        let expected = filled(n << 32);
        let mut area = filled(n << 32);
        *processor.state() = at(CODE, n);
        equal(processor.enter_with(&domains[n as usize % 3].process, &mut area)?, Exit::Syscall)?;
        equal((processor.state().rax, sse(&area, 4)), (sse(&expected, 3), n))?;
        for register in (0..16).filter(|register| *register != 4) {
            equal(sse(&area, register), sse(&expected, register))?;
        }
        // Other registers in between.
        std::hint::black_box((0..n).map(|n| n as f64).sum::<f64>());
        let mut area = filled(n << 40);
        processor.state().rbx = n + 1;
        equal(processor.resume_with(&mut area)?, Exit::Syscall)?;
        equal((processor.state().rax, sse(&area, 4)), (sse(&filled(n << 40), 3), n + 1))?;
    }
    Ok(())
}

/// The registers survive exits by faults and exceptions, and a sub-domain that ends.
fn faults() -> Outcome {
    let mut processor = processor()?;
    for n in 1..20 {
        // `mov [rdi], rdi`, or `ud2`.
        let (bytes, exit): (&[u8], _) =
            if n % 2 == 0 { (&[0x48, 0x89, 0x3f], Exit::PageFault(0)) } else { (&[0x0f, 0x0b], Exit::Exception(6)) };
        let domain = Domain::new(&[&SEES[..10], bytes].concat())?;
        let mut area = filled(n << 32);
        *processor.state() = at(CODE, n);
        equal(processor.enter_with(&domain.process, &mut area)?, exit)?;
        processor.fill_state()?;
        equal((processor.state().rax, sse(&area, 4)), (sse(&filled(n << 32), 3), n))?;
    }
    Ok(())
}

/// A kick stops the code anywhere: the owner has the registers of that moment, also while others compute.
fn kick() -> Outcome {
    let mut processor = processor()?;
    // `movq xmm4, rbx; jmp .-2`
    let domain = Domain::new(&[0x66, 0x48, 0x0f, 0x6e, 0xe3, 0xeb, 0xfe])?;
    let handle = zx::AsHandleRef::raw_handle(processor.handle());
    for n in 1..20 {
        let mut area = filled(n << 32);
        *processor.state() = at(CODE, n);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::hint::black_box((0..20_000).map(f64::from).sum::<f64>());
                std::thread::sleep(std::time::Duration::from_millis(2));
                zx::probe::call(zx::sys::zx_vproc_kick as *const () as usize, &[handle.into()])
            });
            equal(processor.enter_with(&domain.process, &mut area)?, Exit::Kick)
        })?;
        // Where the kick came first, the code has not run.
        if processor.state().ip != CODE {
            equal(sse(&area, 4), n)?;
        }
        equal(sse(&area, 15), sse(&filled(n << 32), 15))?;
    }
    Ok(())
}

/// A virtual processor without the option, made after one with it, has registers of its own for each sub-domain.
fn own_after() -> Outcome {
    drop(processor()?);
    let mut processor = VirtualProcessor::create(&ROOT)?;
    let domains = [Domain::new(SEES)?, Domain::new(SEES)?];
    for domain in &domains {
        let mut area = filled(7 << 32);
        *processor.state() = at(CODE, 5);
        equal(processor.enter_with(&domain.process, &mut area)?, Exit::Syscall)?;
        equal((processor.state().rax, sse(&area, 4)), (0, sse(&filled(7 << 32), 4)))?;
    }
    Ok(())
}
