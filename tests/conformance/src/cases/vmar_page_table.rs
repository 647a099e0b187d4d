//! Page tables, which `zx_vproc_map` fills. They are Hafnon's own; `docs/virtual-processors.md` has what is promised.

use abi::{
    HAFNON_VM_PAGE_TABLE, Status, ZX_VM_ALIGN_2MB, ZX_VM_MAP_RANGE, ZX_VM_PERM_READ, ZX_VM_SPECIFIC,
    ZX_VM_SPECIFIC_OVERWRITE, ZX_VMAR_OP_COMMIT, ZX_VMAR_OP_DECOMMIT, ZX_VMO_CHILD_SLICE, ZX_VMO_CHILD_SNAPSHOT,
    ZX_VMO_DISCARDABLE, ZX_VMO_OP_DECOMMIT, ZX_VMO_OP_ZERO, ZX_VMO_RESIZABLE, hafnon_vproc_run_t, hafnon_vproc_state_t,
};
use zx::{AsHandleRef, Exit, Rights, VirtualProcessor, Vmo, map_runs};

use super::vproc::{CODE, Domain, FLAGS, PAGE, READ, READ_EXECUTE, READ_WRITE, ROOT, processor, run};
use super::{cases, raw, without};
use crate::check::{Failure, Outcome, ensure, equal, fails, gives};
use crate::prober::Prober;
use crate::test_process::code;

cases! {
    "vmar.page_table.any_place" => any_place,
    "vmar.page_table.replace" => replace,
    "vmar.page_table.execute" => execute,
    "vmar.page_table.many" => many,
    "vmar.page_table.pins" => pins,
    "vmar.page_table.lasts" => lasts,
    "vmar.page_table.opaque" => opaque,
    "vmar.page_table.parts" => parts,
    "vmar.page_table.large" => large,
    "vmar.page_table.arguments" => arguments,
    "vmar.page_table.runs" => runs,
}

/// `mov rbx, [rax]; mov [rdx], rcx; syscall; jmp` to the first
const LOAD_STORE: &[u8] = &[0x48, 0x8b, 0x18, 0x48, 0x89, 0x0a, 0x0f, 0x05, 0xeb, 0xf6];
/// Where the page table begins, and its length: as far as a small program would ever get.
const TABLE: u64 = 1 << 32;
const TABLE_LEN: u64 = 1 << 40;
/// The offset of [`TABLE`] in the root region of a sub-domain.
const TABLE_OFFSET: usize = TABLE as usize - 0x20_0000;

/// A sub-domain with code and with a page table of a VMO, each page of which begins with its number.
struct Table {
    processor: VirtualProcessor<'static>,
    domain: Domain,
    memory: Vmo,
}

impl Table {
    fn new(pages: u64) -> Result<Table, Failure> {
        let (processor, domain, memory) = (processor()?, Domain::new(LOAD_STORE)?, Vmo::create(pages * PAGE, 0)?);
        for page in 0..pages {
            memory.write(&page.to_le_bytes(), page * PAGE)?;
        }
        let options = HAFNON_VM_PAGE_TABLE | ZX_VM_SPECIFIC;
        equal(domain.vmar.map(options, TABLE_OFFSET, &memory, 0, TABLE_LEN as usize)?, TABLE as usize)?;
        Ok(Table { processor, domain, memory })
    }

    fn map(&self, runs: &[hafnon_vproc_run_t]) -> zx::Result<()> {
        map_runs(&self.domain.vmar, &self.memory, runs)
    }

    /// Loads a word from an address and stores one at another, in the sub-domain; returns the loaded word, or the
    /// address that faults.
    fn load_store(&mut self, from: u64, (to, word): (u64, u64)) -> Result<Result<u64, u64>, Failure> {
        *self.processor.state() =
            hafnon_vproc_state_t { ip: CODE, rax: from, rdx: to, rcx: word, flags: FLAGS, ..Default::default() };
        match self.processor.enter(&self.domain.process)? {
            Exit::Syscall => Ok(Ok(self.processor.state().rbx)),
            Exit::PageFault(at) => Ok(Err(at)),
            other => Err(format!("it stops with {other:?}").into()),
        }
    }

    /// The word at an address, if a page is mapped there.
    fn load(&mut self, from: u64) -> Result<Option<u64>, Failure> {
        Ok(match self.load_store(from, (0, 0))? {
            Ok(_) => return Err("a store to nowhere succeeds".into()),
            // The store faults after the load.
            Err(0) => {
                // The load's register is in the machine.
                self.processor.fill_state()?;
                Some(self.processor.state().rbx)
            }
            Err(at) => {
                equal(at, from)?;
                None
            }
        })
    }

    fn word(&self, offset: u64) -> Result<u64, Failure> {
        let mut word = [0; 8];
        self.memory.read(&mut word, offset)?;
        Ok(u64::from_le_bytes(word))
    }
}

/// Any page at any address, one at several, with its own permissions.
fn any_place() -> Outcome {
    let mut table = Table::new(8)?;
    let (first, last) = (TABLE, TABLE + TABLE_LEN - PAGE);
    equal(table.load(first)?, None)?;
    table.map(&[
        run(first, 5 * PAGE, PAGE, READ),
        run(last, 5 * PAGE, PAGE, READ_WRITE),
        run(TABLE + (7 << 30), 2 * PAGE, 3 * PAGE, READ),
    ])?;
    equal(table.load(first)?, Some(5))?;
    equal(table.load(last)?, Some(5))?;
    for page in 0..3 {
        equal(table.load(TABLE + (7 << 30) + page * PAGE)?, Some(2 + page))?;
    }
    equal(table.load(TABLE + (7 << 30) + 3 * PAGE)?, None)?;
    equal(table.load_store(first, (first + 16, 1))?, Err(first + 16))?;
    equal(table.load_store(first, (last + 16, 99))?, Ok(5))?;
    equal((table.word(5 * PAGE + 16)?, table.load(first + 16)?), (99, Some(99)))
}

/// A run replaces pages and permissions, and one without permissions unmaps its range, however long it is.
fn replace() -> Outcome {
    let mut table = Table::new(8)?;
    table.map(&[run(TABLE, 0, 8 * PAGE, READ_WRITE)])?;
    table.map(&[run(TABLE + PAGE, 6 * PAGE, PAGE, READ), run(TABLE + 2 * PAGE, 2 * PAGE, PAGE, READ)])?;
    equal(table.load_store(TABLE + PAGE, (TABLE, 77))?, Ok(6))?;
    equal(table.load_store(TABLE + PAGE, (TABLE + 2 * PAGE, 0))?, Err(TABLE + 2 * PAGE))?;
    table.map(&[run(TABLE + PAGE, 0, PAGE, 0), run(TABLE + 5 * PAGE, 0, PAGE, 0)])?;
    let mut seen = Vec::new();
    for page in 0..9 {
        seen.push(table.load(TABLE + page * PAGE)?);
    }
    let expected = [Some(77), None, Some(2), Some(3), Some(4), None, Some(6), Some(7), None];
    equal(seen, Vec::from(expected))?;
    table.map(&[run(TABLE + TABLE_LEN - PAGE, 0, PAGE, READ)])?;
    table.map(&[run(TABLE, 0, TABLE_LEN, 0)])?;
    for page in [0, 2, 7, TABLE_LEN / PAGE - 1] {
        equal(table.load(TABLE + page * PAGE)?, None)?;
    }
    // What is not in the page table stays.
    equal(table.load_store(CODE, (TABLE, 0))?, Err(TABLE))
}

/// Code in a page table runs.
fn execute() -> Outcome {
    let (mut processor, domain, memory) = (processor()?, Domain::new(LOAD_STORE)?, code(&[0x90, 0x0f, 0x05])?);
    domain.vmar.map(HAFNON_VM_PAGE_TABLE | ZX_VM_SPECIFIC, TABLE_OFFSET, &memory, 0, TABLE_LEN as usize)?;
    map_runs(&domain.vmar, &memory, &[run(TABLE, 0, PAGE, READ_EXECUTE)])?;
    *processor.state() = hafnon_vproc_state_t { ip: TABLE, flags: FLAGS, ..Default::default() };
    equal(processor.enter(&domain.process)?, Exit::Syscall)?;
    equal(processor.state().ip, TABLE + 3)
}

/// So many pages that the server works in slices.
fn many() -> Outcome {
    const PAGES: u64 = 4096;
    let mut table = Table::new(PAGES)?;
    let backwards: Vec<_> =
        (0..PAGES).map(|page| run(TABLE + page * PAGE, (PAGES - 1 - page) * PAGE, PAGE, READ)).collect();
    table.map(&backwards)?;
    for page in (0..PAGES).step_by(97) {
        equal(table.load(TABLE + page * PAGE)?, Some(PAGES - 1 - page))?;
    }
    table.map(&[run(TABLE + PAGE, 0, TABLE_LEN - PAGE, 0)])?;
    equal((table.load(TABLE)?, table.load(TABLE + PAGE)?), (Some(PAGES - 1), None))?;
    equal(table.load(TABLE + (PAGES - 1) * PAGE)?, None)
}

/// While there is a page table of a VMO, its pages stay where they are.
fn pins() -> Outcome {
    let mut table = Table::new(8)?;
    table.map(&[run(TABLE, 3 * PAGE, PAGE, READ)])?;
    let decommit = |table: &Table| table.memory.op_range(ZX_VMO_OP_DECOMMIT, 0, 8 * PAGE);
    fails(decommit(&table), Status::BAD_STATE)?;
    fails(table.memory.create_child(ZX_VMO_CHILD_SNAPSHOT, 0, PAGE), Status::BAD_STATE)?;
    // Zeroes are written.
    table.memory.op_range(ZX_VMO_OP_ZERO, 0, 8 * PAGE)?;
    equal(table.load(TABLE)?, Some(0))?;
    table.memory.write(&7_u64.to_le_bytes(), 3 * PAGE)?;
    equal(table.load(TABLE)?, Some(7))?;
    // An empty page table does, too; until it is unmapped.
    table.map(&[run(TABLE, 0, TABLE_LEN, 0)])?;
    fails(decommit(&table), Status::BAD_STATE)?;
    table.domain.vmar.unmap(TABLE as usize, TABLE_LEN as usize)?;
    decommit(&table)?;
    equal(table.word(3 * PAGE)?, 0)?;
    table.memory.create_child(ZX_VMO_CHILD_SNAPSHOT, 0, PAGE)?;
    // A VMO with clones gets pages of its own before they are mapped.
    table.memory.write(&1_u64.to_le_bytes(), 0)?;
    let clone = table.memory.create_child(ZX_VMO_CHILD_SNAPSHOT, 0, 8 * PAGE)?;
    let options = HAFNON_VM_PAGE_TABLE | ZX_VM_SPECIFIC;
    table.domain.vmar.map(options, TABLE_OFFSET, &table.memory, 0, TABLE_LEN as usize)?;
    table.map(&[run(TABLE, 0, PAGE, READ_WRITE)])?;
    equal(table.load_store(TABLE, (TABLE, 2))?, Ok(1))?;
    let mut word = [0; 8];
    clone.read(&mut word, 0)?;
    equal((u64::from_le_bytes(word), table.word(0)?), (1, 2))
}

/// A page table keeps its VMO.
fn lasts() -> Outcome {
    let Table { mut processor, domain, memory } = Table::new(4)?;
    map_runs(&domain.vmar, &memory, &[run(TABLE, 0, 4 * PAGE, READ)])?;
    drop(memory);
    let others: Vec<Vmo> = (0..16).map(|_| Vmo::create(4 * PAGE, 0)).collect::<zx::Result<_>>()?;
    for other in &others {
        other.write(&[0xff; 4 * PAGE as usize], 0)?;
    }
    for page in 0..4 {
        let rax = TABLE + page * PAGE;
        *processor.state() = hafnon_vproc_state_t { ip: CODE, rax, flags: FLAGS, ..Default::default() };
        equal(processor.enter(&domain.process)?, Exit::PageFault(0))?;
        processor.fill_state()?;
        equal(processor.state().rbx, page)?;
    }
    Ok(())
}

/// Nothing but the processor sees the pages.
fn opaque() -> Outcome {
    let mut table = Table::new(4)?;
    table.map(&[run(TABLE, 0, 4 * PAGE, READ_WRITE)])?;
    let mut word = [0; 8];
    ensure(table.domain.process.read_memory(TABLE as usize, &mut word).is_err(), "its memory can be read")?;
    ensure(table.domain.process.write_memory(TABLE as usize, &word).is_err(), "its memory can be written")?;
    let range = (TABLE as usize, PAGE as usize);
    fails(table.domain.vmar.protect(ZX_VM_PERM_READ, range.0, range.1), Status::ACCESS_DENIED)?;
    for op in [ZX_VMAR_OP_COMMIT, ZX_VMAR_OP_DECOMMIT] {
        fails(table.domain.vmar.op_range(op, range.0, range.1), Status::BAD_STATE)?;
    }
    // How many of the pages are mapped cannot be told; the code beside it is a page.
    equal(table.domain.process.task_stats()?.mem_mapped_bytes, PAGE as usize)?;
    equal(table.load(TABLE)?, Some(0))?;
    // In the program's own address space: calls do not take buffers there.
    let memory = Vmo::create(PAGE, 0)?;
    let address = ROOT.map(HAFNON_VM_PAGE_TABLE, 0, &memory, 0, PAGE as usize)?;
    map_runs(&ROOT, &memory, &[run(address as u64, 0, PAGE, READ_WRITE)])?;
    let read = raw!(zx_vmo_read, memory.raw_handle(), address, 0, 8);
    gives(read, Status::INVALID_ARGS)?;
    ROOT.unmap(address, PAGE as usize)?;
    // Threads see what is mapped, and fault elsewhere.
    let prober = Prober::new()?;
    let memory = Vmo::create(2 * PAGE, 0)?;
    memory.write(&[77], PAGE)?;
    let address = prober.tiny.vmar.map(HAFNON_VM_PAGE_TABLE, 0, &memory, 0, 2 * PAGE as usize)?;
    map_runs(&prober.tiny.vmar, &memory, &[run(address as u64, PAGE, PAGE, READ)])?;
    prober.finds_read_only(address, 77)?;
    equal(prober.load(address + PAGE as usize)?, Err(Status::ACCESS_DENIED))
}

/// Parts of a page table can be unmapped and replaced, like those of other mappings.
fn parts() -> Outcome {
    let mut table = Table::new(8)?;
    table.map(&[run(TABLE, 0, 8 * PAGE, READ)])?;
    table.domain.vmar.unmap((TABLE + 2 * PAGE) as usize, PAGE as usize)?;
    fails(table.domain.vmar.protect(ZX_VM_PERM_READ, TABLE as usize, PAGE as usize), Status::ACCESS_DENIED)?;
    equal((table.load(TABLE + PAGE)?, table.load(TABLE + 2 * PAGE)?), (Some(1), None))?;
    equal(table.load(TABLE + 3 * PAGE)?, Some(3))?;
    let other = Vmo::create(PAGE, 0)?;
    other.write(&1234_u64.to_le_bytes(), 0)?;
    let options = ZX_VM_PERM_READ | ZX_VM_SPECIFIC_OVERWRITE;
    table.domain.vmar.map(options, TABLE_OFFSET + 4 * PAGE as usize, &other, 0, PAGE as usize)?;
    let mut word = [0; 8];
    table.domain.process.read_memory((TABLE + 4 * PAGE) as usize, &mut word)?;
    equal((u64::from_le_bytes(word), table.load(TABLE + 5 * PAGE)?), (1234, Some(5)))?;
    // Each of the three parts takes runs of its own.
    table.map(&[run(TABLE + PAGE, 7 * PAGE, PAGE, READ), run(TABLE + 5 * PAGE, 6 * PAGE, 2 * PAGE, READ)])?;
    equal((table.load(TABLE + PAGE)?, table.load(TABLE + 6 * PAGE)?), (Some(7), Some(7)))
}

/// Pages of a VMO that is mapped as large pages elsewhere.
fn large() -> Outcome {
    const LARGE: u64 = 2 << 20;
    let mut table = Table::new(1)?;
    table.memory = Vmo::create(2 * LARGE, 0)?;
    let memory = table.memory.duplicate_handle(Rights::SAME_RIGHTS)?;
    let here = ROOT.map_here(READ_WRITE | ZX_VM_ALIGN_2MB, &Vmo::from(memory), 0, 2 * LARGE as usize)?;
    let write = |n: u64, word: u64| here.write((n * PAGE) as usize, &word.to_le_bytes());
    let read = |n: u64, at: u64| {
        let mut word = [0; 8];
        here.read((n * PAGE + at) as usize, &mut word).map(|()| u64::from_le_bytes(word))
    };
    for n in 0..2 * LARGE / PAGE {
        write(n, n)?;
    }
    table.domain.vmar.unmap(TABLE as usize, TABLE_LEN as usize)?;
    let options = HAFNON_VM_PAGE_TABLE | ZX_VM_SPECIFIC;
    table.domain.vmar.map(options, TABLE_OFFSET, &table.memory, 0, TABLE_LEN as usize)?;
    for n in [3, 511, 512, 700] {
        table.map(&[run(TABLE, n * PAGE, PAGE, READ_WRITE)])?;
        equal(table.load_store(TABLE, (TABLE + 8, n + 1))?, Ok(n))?;
        equal(read(n, 8)?, n + 1)?;
    }
    for n in 0..2 * LARGE / PAGE {
        equal(read(n, 0)?, n)?;
    }
    Ok(())
}

fn arguments() -> Outcome {
    let (domain, memory) = (Domain::new(LOAD_STORE)?, Vmo::create(4 * PAGE, 0)?);
    let make = |options, memory: &Vmo, offset| {
        domain.vmar.map(HAFNON_VM_PAGE_TABLE | options, TABLE_OFFSET, memory, offset, PAGE as usize)
    };
    for options in [ZX_VM_SPECIFIC | ZX_VM_PERM_READ, ZX_VM_SPECIFIC | ZX_VM_MAP_RANGE, ZX_VM_SPECIFIC_OVERWRITE, 0] {
        fails(make(options, &memory, 0), Status::INVALID_ARGS)?;
    }
    fails(make(ZX_VM_SPECIFIC, &memory, PAGE), Status::INVALID_ARGS)?;
    for right in [Rights::MAP, Rights::SET_PROPERTY] {
        fails(make(ZX_VM_SPECIFIC, &Vmo::from(without(&memory, right)?), 0), Status::ACCESS_DENIED)?;
    }
    let slice = memory.create_child(ZX_VMO_CHILD_SLICE, 0, PAGE)?;
    let discardable = Vmo::create(PAGE, ZX_VMO_DISCARDABLE)?;
    for other in [Vmo::create(PAGE, ZX_VMO_RESIZABLE)?, slice, discardable] {
        fails(make(ZX_VM_SPECIFIC, &other, 0), Status::NOT_SUPPORTED)?;
    }
    make(ZX_VM_SPECIFIC, &memory, 0)?;
    fails(make(ZX_VM_SPECIFIC, &memory, 0), Status::ALREADY_EXISTS)
}

/// What `zx_vproc_map` checks in a page table.
fn runs() -> Outcome {
    let table = Table::new(4)?;
    fails(table.map(&[run(TABLE, 3 * PAGE, 2 * PAGE, READ)]), Status::OUT_OF_RANGE)?;
    fails(table.map(&[run(TABLE, 0u64.wrapping_sub(PAGE), 2 * PAGE, READ)]), Status::OUT_OF_RANGE)?;
    fails(table.map(&[run(TABLE, 0, TABLE_LEN, READ)]), Status::OUT_OF_RANGE)?;
    fails(table.map(&[run(TABLE, 0, PAGE, READ_EXECUTE)]), Status::ACCESS_DENIED)?;
    let other = Vmo::create(PAGE, 0)?;
    fails(map_runs(&table.domain.vmar, &other, &[run(TABLE, 0, PAGE, READ)]), Status::ACCESS_DENIED)?;
    let read_only = Vmo::from(without(&table.memory, Rights::WRITE)?);
    map_runs(&table.domain.vmar, &read_only, &[run(TABLE, 0, PAGE, READ)])?;
    fails(map_runs(&table.domain.vmar, &read_only, &[run(TABLE, 0, PAGE, READ_WRITE)]), Status::ACCESS_DENIED)
}
