//! A thousand sub-domains, ten thousand pages in one, and 64 virtual processors.

use std::sync::Barrier;
use std::thread;

use abi::{hafnon_vproc_run_t, hafnon_vproc_state_t};
use zx::{Exit, Job, Process, Status, VirtualProcessor, Vmar, Vmo, map_runs};

use crate::meter::{Meter, Places};

/// Numbers of existing sub-domains while [`MORE`] are created, used and ended.
const COUNTS: [usize; 4] = [1, 10, 100, 1_000];
const MORE: usize = 64;
const PROCESSORS: [usize; 4] = [1, 4, 16, 64];
const PAGES: [usize; 3] = [100, 1_000, 10_000];
/// Measured operations at each count.
const TIMES: usize = 1_000;
/// Runs of pages in one call.
const RUNS: usize = 256;
/// Pages in a long run.
const LONG: usize = 100;
const PAGE: u64 = 4096;
const CODE: u64 = 0x100_0000;
const DATA: u64 = 0x4000_0000;
const READ_WRITE: u32 = abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE;
const READ_EXECUTE: u32 = abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_EXECUTE;

type Domain = (Process, Vmar);

fn runs(address: u64, offset: u64, len: u64, options: u32) -> hafnon_vproc_run_t {
    hafnon_vproc_run_t { address, offset, len, options, reserved: 0 }
}

/// `syscall; jmp .-2`
fn code() -> zx::Result<Vmo> {
    let code = Vmo::create(PAGE, 0)?;
    code.write(&[0x0f, 0x05, 0xeb, 0xfc], 0)?;
    code.replace_as_executable(None)
}

fn called(exit: Exit) -> zx::Result<()> {
    if exit == Exit::Syscall { Ok(()) } else { Err(Status::BAD_STATE) }
}

fn enter(processor: &mut VirtualProcessor<'_>, (process, _): &Domain) -> zx::Result<()> {
    *processor.state() = hafnon_vproc_state_t { ip: CODE, flags: 0x202, ..Default::default() };
    processor.enter(process).and_then(called)
}

/// A sub-domain with a page of code that has made its first system call.
fn create(job: &Job, code: &Vmo, processor: &mut VirtualProcessor<'_>) -> zx::Result<Domain> {
    let (process, vmar) = job.create_process("domain")?;
    map_runs(&vmar, code, &[runs(CODE, 0, PAGE, READ_EXECUTE)])?;
    let domain = (process, vmar);
    enter(processor, &domain)?;
    Ok(domain)
}

pub fn run(meter: &mut Meter) -> zx::Result<()> {
    let job = zx::startup::job_default().ok_or(Status::NOT_FOUND)?;
    domains(meter, &job)?;
    pages(meter, &job)?;
    processors(meter, &job)
}

/// What sub-domains cost while there are `count` others.
fn domains(meter: &Meter, job: &Job) -> zx::Result<()> {
    let root = zx::startup::vmar_root_self();
    let (mut processor, code, mut places) = (VirtualProcessor::create(&root)?, code()?, Places::new());
    let page = Vmo::create(PAGE, 0)?;
    page.write(&[1], 0)?;
    let [.., most] = COUNTS;
    let make = |processor: &mut VirtualProcessor<'_>, count| -> zx::Result<Vec<Domain>> {
        (0..count).map(|_| create(job, &code, processor)).collect()
    };
    // seL4 clears unused memory in large pieces. This round uses all memory that the measurement needs, so that none is
    // cleared there.
    let warm = make(&mut processor, most + MORE)?;
    warm.iter().try_for_each(|(process, _)| process.kill())?;
    drop(warm);
    for count in COUNTS {
        let before = meter.memory();
        let all = make(&mut processor, count)?;
        meter.object("sub-domain", count, before);
        let map = |place: usize, options| map_runs(&all[place].1, &page, &[runs(DATA, 0, PAGE, options)]);
        // Creates the page tables.
        (0..count).try_for_each(|place| map(place, READ_WRITE).and_then(|()| map(place, 0)))?;
        let mut more: Vec<Domain> = Vec::with_capacity(MORE);
        meter.cost("create", count, MORE, || {
            (0..MORE).try_for_each(|_| create(job, &code, &mut processor).map(|domain| more.push(domain)))
        })?;
        meter.cost("enter", count, TIMES, || {
            (0..TIMES).try_for_each(|_| enter(&mut processor, &all[places.next(count)]))
        })?;
        meter.cost("call", count, TIMES, || (0..TIMES).try_for_each(|_| processor.resume().and_then(called)))?;
        meter.cost("map-and-unmap", count, TIMES, || {
            (0..TIMES).try_for_each(|_| {
                let place = places.next(count);
                map(place, READ_WRITE).and_then(|()| map(place, 0))
            })
        })?;
        meter.cost("kill", count, MORE, || more.iter().try_for_each(|(process, _)| process.kill()))?;
        all.iter().try_for_each(|(process, _)| process.kill())?;
    }
    Ok(())
}

/// What a page costs in a sub-domain that has `count` pages.
fn pages(meter: &Meter, job: &Job) -> zx::Result<()> {
    let [.., most] = PAGES;
    let memory = Vmo::create(most as u64 * PAGE, 0)?;
    (0..most as u64).try_for_each(|page| memory.write(&[1], page * PAGE))?;
    let map =
        |vmar: &Vmar, all: &[hafnon_vproc_run_t]| all.chunks(RUNS).try_for_each(|part| map_runs(vmar, &memory, part));
    for count in PAGES {
        let (process, vmar) = job.create_process("domain")?;
        let total = count as u64;
        // First with each page elsewhere in the VMO, then with adjacent pages.
        let scattered: Vec<_> =
            (0..total).map(|page| runs(DATA + page * PAGE, page * 7 % total * PAGE, PAGE, READ_WRITE)).collect();
        let gone: Vec<_> = (0..total).map(|page| runs(DATA + page * PAGE, 0, PAGE, 0)).collect();
        let part = |n: usize| {
            let from = (n * LONG) as u64 * PAGE;
            runs(DATA + from, from, LONG as u64 * PAGE, READ_WRITE)
        };
        let long: Vec<_> = (0..count / LONG).map(part).collect();
        // The first round allocates the memory for the page tables.
        map(&vmar, &scattered).and_then(|()| map(&vmar, &gone))?;
        for (name, all) in [("page-map", &scattered), ("page-unmap", &gone), ("page-map-run", &long)] {
            meter.cost(name, count, count, || map(&vmar, all))?;
        }
        process.kill()?;
    }
    Ok(())
}

/// What a system call and its answer cost with `count` virtual processors. Each has an owner and a sub-domain of its
/// own, and all owners work at the same time.
fn processors(meter: &Meter, job: &Job) -> zx::Result<()> {
    const CALLS: usize = 64_000;
    let (root, code) = (zx::startup::vmar_root_self(), code()?);
    for count in PROCESSORS {
        let (begin, end) = (Barrier::new(count + 1), Barrier::new(count + 1));
        let owner = || {
            let made = VirtualProcessor::create(&root).and_then(|mut processor| {
                let domain = create(job, &code, &mut processor)?;
                Ok((processor, domain))
            });
            begin.wait();
            let done = made.and_then(|(mut processor, domain)| {
                (0..CALLS / count).try_for_each(|_| processor.resume().and_then(called))?;
                Ok((processor, domain))
            });
            end.wait();
            done.and_then(|(_, (process, _))| process.kill())
        };
        thread::scope(|scope| {
            let owners: Vec<_> = (0..count).map(|_| scope.spawn(owner)).collect();
            meter.cost("call-of-one-of-all", count, CALLS, || {
                begin.wait();
                end.wait();
                Ok(())
            })?;
            owners.into_iter().try_for_each(|owner| owner.join().unwrap_or(Err(Status::INTERNAL)))
        })?;
    }
    Ok(())
}
