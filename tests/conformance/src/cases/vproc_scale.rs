//! Many virtual processors at once, many sub-domains, many pages.

use std::process::Stdio;
use std::sync::Barrier;
use std::thread;

use abi::hafnon_vproc_state_t;
use zx::{Exit, Vmo, map_runs};

use super::cases;
use super::process::command;
use super::vproc::{CODE, DATA, Domain, FLAGS, PAGE, READ_EXECUTE, READ_WRITE, SYSCALLS, processor, run, state};
use crate::check::{Outcome, equal};
use crate::test_process::{OwnJob, code};

cases! {
    "vproc.scale.processors" => processors,
    "vproc.scale.domains" => domains,
    "vproc.scale.pages" => pages,
}

/// Number of processes with virtual processors, and number of virtual processors in each.
const PROCESSES: usize = 4;
const IN_EACH: u64 = 16;

/// Runs in a child: 16 virtual processors at once, each in its own sub-domain and in one that they share.
pub fn child() -> i32 {
    let (barrier, Ok(shared)) = (Barrier::new(IN_EACH as usize), Domain::new(SYSCALLS)) else { return 1 };
    let one = |number: u64| -> Outcome {
        let (mut processor, own) = (processor()?, Domain::new(SYSCALLS)?);
        barrier.wait();
        for turn in 0..60 {
            for domain in [&own, &shared] {
                *processor.state() = state(number << 40 | turn << 20);
                equal(processor.enter(&domain.process)?, Exit::Syscall)?;
                for call in 0..5 {
                    equal(processor.state().r12, state(number << 40 | turn << 20).r12)?;
                    processor.state().rbx = call;
                    equal(processor.resume()?, Exit::Syscall)?;
                    equal(processor.state().rbx, call)?;
                }
            }
            thread::yield_now();
        }
        Ok(())
    };
    let one = &one;
    let failed = thread::scope(|scope| {
        let all: Vec<_> = (0..IN_EACH).map(|number| scope.spawn(move || one(number))).collect();
        all.into_iter().filter_map(|thread| thread.join().unwrap_or(Err("it panicked".into())).err()).count()
    });
    2 * failed as i32
}

/// 64 virtual processors.
fn processors() -> Outcome {
    let spawn = |_| command(&["vproc", "many"]).stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    let mut children = (0..PROCESSES).map(spawn).collect::<Result<Vec<_>, _>>()?;
    children.iter_mut().try_for_each(|child| equal(child.wait()?.code(), Some(0)))
}

/// A thousand sub-domains of one virtual processor, each with registers of its own: `L: add rax, rbx; movq xmm0, rax;
/// syscall; movq rcx, xmm0; mov rdx, rcx; syscall; jmp L`.
fn domains() -> Outcome {
    const DOMAINS: u64 = 1000;
    let bytes = [
        0x48, 0x01, 0xd8, 0x66, 0x48, 0x0f, 0x6e, 0xc0, 0x0f, 0x05, 0x66, 0x48, 0x0f, 0x7e, 0xc1, 0x48, 0x89, 0xca,
        0x0f, 0x05, 0xeb, 0xea,
    ];
    let (mut processor, job, code) = (processor()?, OwnJob::new()?, code(&bytes)?);
    let mut all = Vec::new();
    for number in 0..DOMAINS {
        let (process, vmar) = job.create_process("domain")?;
        map_runs(&vmar, &code, &[run(CODE, 0, PAGE, READ_EXECUTE)])?;
        *processor.state() = hafnon_vproc_state_t { ip: CODE, rbx: number, rax: 7, flags: FLAGS, ..Default::default() };
        equal(processor.enter(&process)?, Exit::Syscall)?;
        equal(processor.state().rax, number + 7)?;
        all.push((process, *processor.state()));
    }
    // Each continues where it stopped, in another order, with its own vector registers.
    for n in 0..DOMAINS {
        let number = n * 377 % DOMAINS;
        let (process, state) = &all[number as usize];
        *processor.state() = *state;
        equal(processor.enter(process)?, Exit::Syscall)?;
        equal(processor.state().rdx, number + 7)?;
        equal(processor.resume()?, Exit::Syscall)?;
        equal(processor.state().rax, 2 * number + 7)?;
    }
    Ok(())
}

/// Ten thousand pages, in an order that differs from that of the VMO; the code reads them: `L: mov rbx, [rax]; syscall;
/// jmp L`.
fn pages() -> Outcome {
    const PAGES: u64 = 10_000;
    let (mut processor, domain) = (processor()?, Domain::new(&[0x48, 0x8b, 0x18, 0x0f, 0x05, 0xeb, 0xf9])?);
    let memory = Vmo::create(PAGES * PAGE, 0)?;
    let place = |page: u64| page * 3 % PAGES;
    for page in 0..PAGES {
        memory.write(&page.to_le_bytes(), page * PAGE)?;
    }
    let runs: Vec<_> = (0..PAGES).map(|page| run(DATA + page * PAGE, place(page) * PAGE, PAGE, READ_WRITE)).collect();
    runs.chunks(4096).try_for_each(|runs| map_runs(&domain.vmar, &memory, runs))?;
    *processor.state() = hafnon_vproc_state_t { ip: CODE, rax: DATA, flags: FLAGS, ..Default::default() };
    equal(processor.enter(&domain.process)?, Exit::Syscall)?;
    for page in 0..PAGES {
        equal(processor.state().rbx, place(page))?;
        processor.state().rax = DATA + (page + 1).min(PAGES - 1) * PAGE;
        equal(processor.resume()?, Exit::Syscall)?;
    }
    // All of them are unmapped at once and mapped again contiguously.
    let long = |options| -> Vec<_> {
        let part = |n: u64| (PAGES - n * 250).min(250) * PAGE;
        (0..PAGES / 250).map(|n| run(DATA + n * 250 * PAGE, n * 250 * PAGE, part(n), options)).collect()
    };
    map_runs(&domain.vmar, &memory, &long(0))?;
    processor.state().rax = DATA + 9000 * PAGE;
    equal(processor.resume()?, Exit::PageFault(DATA + 9000 * PAGE))?;
    map_runs(&domain.vmar, &memory, &long(READ_WRITE))?;
    equal(processor.resume()?, Exit::Syscall)?;
    equal(processor.state().rbx, 9000)
}
