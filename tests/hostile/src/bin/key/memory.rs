//! Memory that the system gives out: that of all processes, and free memory.

use abi::{
    Rights, Status, ZX_INFO_KMEM_STATS, ZX_INFO_PROCESS_MAPS, ZX_LOG_FLAG_READABLE, ZX_VM_PERM_READ, ZX_VMO_OP_COMMIT,
    zx_info_kmem_stats_t, zx_info_maps_t,
};
use conformance::check::{Case, Failure, Outcome, ensure, equal, fails};
use conformance::test_process::{OwnJob, SPIN, TestProcess};
use zx::{AsHandleRef, Bti, Debuglog, Info, Iommu, Job, Process, Vmo};

use crate::needle::Needle;
use crate::store::{Store, root};

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("key.memory.after_its_end", after_its_end),
        crate::case("key.memory.fresh", |_, _| fresh()),
        crate::case("key.memory.log", log),
        crate::case("key.memory.of_every_process", of_every_process),
        Case::new("key.memory.what_is_planted_is_found", planted),
    ]
}

const PAGE: usize = 4096;
/// Bytes that are read at once.
const PART: usize = 1 << 16;
/// Bytes of free memory in one VMO.
const PIECE: u64 = 8 << 20;
/// Bytes that are left to others.
const LEFT: u64 = 24 << 20;
/// Addresses of the store: its image, stack, IPC buffer, boot facts and memory (`component/boot`), and the window of
/// components that are clients; then addresses of the kernel.
const ADDRESSES: [usize; 10] = [
    0x20_0000,
    0x40_0000,
    0x1000_1000,
    0x1001_0000,
    0x1010_0000,
    0x1010_1000,
    0x2000_0000,
    0x80_0000_0000,
    0xffff_8000_0000_0000,
    0xffff_ffff_8000_0000,
];

/// Reads all readable memory of a process; returns whether a piece of the key is there.
fn search(process: &Process, needle: &Needle) -> Result<bool, Failure> {
    let count = match process.get_info_records::<zx_info_maps_t>(ZX_INFO_PROCESS_MAPS, &mut []) {
        Ok(size) => size.avail,
        // The process has not started, or has ended.
        Err(Status::BAD_STATE) => return Ok(false),
        Err(other) => return Err(other.into()),
    };
    // The process runs meanwhile, and may get more mappings.
    let mut maps = vec![zx_info_maps_t::default(); count + 16];
    let size = process.get_info_records(ZX_INFO_PROCESS_MAPS, &mut maps)?;
    maps.truncate(size.actual);
    let mapped = maps.iter().filter(|entry| entry.type_ == abi::ZX_INFO_MAPS_TYPE_MAPPING);
    let mapped = mapped.flat_map(|entry| (entry.base..entry.base + entry.size).step_by(PART));
    let mut bytes = vec![0; PART];
    for address in mapped.chain(ADDRESSES) {
        // A read ends at a page that is not available.
        if let Ok(len) = process.read_memory(address, &mut bytes)
            && needle.is_in(&bytes[..len])
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn koids(read: impl Fn(&mut [u64]) -> zx::Result<zx::InfoSize>) -> Result<Vec<u64>, Failure> {
    let mut koids = vec![0; 256];
    let size = read(&mut koids)?;
    equal(size.actual, size.avail)?;
    koids.truncate(size.actual);
    Ok(koids)
}

/// The processes of a job and all jobs below it that contain a piece of the key, and the number of processes that were
/// read.
fn search_all(job: &Job, needle: &Needle) -> Result<(Vec<u64>, usize), Failure> {
    let (mut found, mut read) = (Vec::new(), 0);
    for koid in koids(|koids| job.processes(koids))? {
        let Ok(process) = job.get_child(koid, Rights::SAME_RIGHTS) else { continue };
        // This process has made the key itself, to know it.
        if koid == zx::startup::process_self().koid()? {
            continue;
        }
        read += 1;
        if search(&Process::from(process), needle)? {
            found.push(koid);
        }
    }
    for koid in koids(|koids| job.children(koids))? {
        let Ok(child) = job.get_child(koid, Rights::SAME_RIGHTS) else { continue };
        let (more, count) = search_all(&Job::from(child), needle)?;
        found.extend(more);
        read += count;
    }
    Ok((found, read))
}

/// The root job, which this program is given as its default job.
fn root_job() -> Result<zx::Unowned<'static, Job>, Failure> {
    zx::startup::job_default().ok_or_else(|| "there is no job".into())
}

fn of_every_process(_: &Store, needle: &Needle) -> Outcome {
    let (found, read) = search_all(&*root_job()?, needle)?;
    ensure(read >= 2, &format!("{read} processes were read"))?;
    equal(found, Vec::new())
}

/// The same search finds a copy of the key in a process that has one: as it is, and as HMAC has it.
fn planted() -> Outcome {
    let store = Store::find()?;
    let needle = Needle::of(&store.key());
    for (pad, offset) in [(0, 0), (0x36, 3), (0x5c, 2 * PAGE - 20)] {
        let job = OwnJob::new()?;
        let tiny = TestProcess::in_job(&job, SPIN)?;
        let vmo = Vmo::create(4 * PAGE as u64, 0)?;
        vmo.write(&store.key().map(|byte| byte ^ pad), offset as u64)?;
        tiny.vmar.map(ZX_VM_PERM_READ, 0, &vmo, 0, 4 * PAGE)?;
        tiny.start(None, 0)?;
        let (found, _) = search_all(&*root_job()?, &needle)?;
        equal(found, vec![tiny.process.koid()?])?;
        let mut bytes = vec![0; 4 * PAGE];
        vmo.read(&mut bytes, 0)?;
        ensure(needle.is_in(&bytes), "what is planted is not found")?;
        bytes.fill(0);
        ensure(!needle.is_in(&bytes), "what is not there is found")?;
        job.kill()?;
        tiny.end()?;
    }
    Ok(())
}

/// Every byte of a VMO must be zero.
fn is_zero(vmo: &Vmo, bytes: &mut [u8]) -> Outcome {
    let size = vmo.get_size()?;
    for at in (0..size).step_by(bytes.len()) {
        vmo.read(bytes, at)?;
        let (words, rest) = bytes.as_chunks();
        let zero = rest.is_empty() && words.iter().all(|word| u64::from_le_bytes(*word) == 0);
        ensure(zero, "memory that was given is not zero")?;
    }
    Ok(())
}

/// All free memory, adjacent pages among it: all of it is zero.
fn fresh() -> Outcome {
    let root = root()?;
    let mut bytes = vec![0; 1 << 20];
    let bti = Bti::create(&Iommu::create_stub(&root)?, 1)?;
    let (mut all, mut taken) = (Vec::new(), 0);
    for _ in 0..8 {
        let vmo = Vmo::create_contiguous(&bti, 2 << 20, 0)?;
        is_zero(&vmo, &mut bytes)?;
        all.push(vmo);
    }
    let free = || root.info_record::<zx_info_kmem_stats_t>(ZX_INFO_KMEM_STATS).map(|stats| stats.free_bytes);
    while free()? > LEFT + PIECE {
        let vmo = Vmo::create(PIECE, 0)?;
        match vmo.op_range(ZX_VMO_OP_COMMIT, 0, PIECE) {
            // Not all free memory is available for this.
            Err(Status::NO_MEMORY) => break,
            done => done?,
        }
        is_zero(&vmo, &mut bytes)?;
        all.push(vmo);
        taken += PIECE;
    }
    ensure(taken > 64 << 20, &format!("only {taken} bytes were free"))
}

/// The store ends and is started again: its memory reaches no other program with its old content.
fn after_its_end() -> Outcome {
    let store = Store::find()?;
    let needle = Needle::of(&store.key());
    let _next = store.end()?;
    fresh()?;
    equal(search_all(&*root_job()?, &needle)?.0, Vec::new())?;
    fails(store.endpoint.mint(&zx::startup::thread_self(), abi::HAFNON_ENDPOINT_CALL, 1), Status::PEER_CLOSED)
}

/// The system's debug log.
fn log(_: &Store, needle: &Needle) -> Outcome {
    let log = Debuglog::create(&*root()?, ZX_LOG_FLAG_READABLE)?;
    Debuglog::create(&*root()?, 0)?.write(b"looking for a key")?;
    let (mut record, mut records) = ([0; 512], 0);
    loop {
        match log.read(&mut record) {
            Ok(len) => needle.is_absent(&record[..len], || "the log".into())?,
            Err(Status::SHOULD_WAIT) => break,
            Err(other) => return Err(other.into()),
        }
        records += 1;
    }
    ensure(records > 0, "the log is empty")
}
