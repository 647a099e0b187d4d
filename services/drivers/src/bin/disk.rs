//! Reads the machine's disk, or fills it.
//!
//! `disk` prints the disk's size. `disk sum` prints the SHA-256 of its whole content. `disk fill SEED [KILLS]` writes
//! pseudo-random bytes from the disk's start to its end and prints their SHA-256; with KILLS, it kills the disk's
//! driver that many times on the way. `disk speed` prints how long reading the first bytes takes, as
//! `figure NAME BYTES NANOSECONDS`.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
mod here {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    use drivers::block::Disk;
    use sha2::{Digest, Sha256};
    use zx::{AsHandleRef, Job, Process, Rights, Status};

    /// Bytes of one read or write.
    const CHUNK: usize = 1 << 20;
    const USAGE: &str = "usage: disk [sum | speed | fill SEED [KILLS]]";

    pub fn main() -> Result<(), String> {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut disk = Disk::open("disk").map_err(|status| {
            if status == Status::PEER_CLOSED || status == Status::NOT_FOUND {
                "this machine has no disk: `./hafnon run --disk FILE` gives it one".to_owned()
            } else {
                format!("the disk cannot be had: {status}")
            }
        })?;
        match arguments.as_slice() {
            [] => {
                let shape = disk.shape();
                let state = if shape.read_only { "read only" } else { "writable" };
                println!("{} blocks of {} bytes ({} KiB), {state}", shape.blocks, shape.block, disk.size() >> 10);
                Ok(())
            }
            ["sum"] => sum(&mut disk),
            ["speed"] => speed(&mut disk),
            ["fill", seed] => fill(&mut disk, number(seed)?, 0),
            ["fill", seed, kills] => fill(&mut disk, number(seed)?, number(kills)?),
            _ => Err(USAGE.to_owned()),
        }
    }

    fn number(text: &str) -> Result<u64, String> {
        text.parse().map_err(|_| USAGE.to_owned())
    }

    /// Offset and length of each chunk, in bytes.
    fn chunks(disk: &Disk) -> impl Iterator<Item = (u64, usize)> + use<> {
        let size = disk.size();
        (0..size).step_by(CHUNK).map(move |start| (start, CHUNK.min((size - start) as usize)))
    }

    fn show(hash: Sha256, disk: &Disk, start: Instant, verb: &str) {
        let text: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        let time = start.elapsed().as_secs_f64();
        let rate = disk.size() as f64 / time / f64::from(1 << 20);
        println!("{verb} {} bytes in {time:.1} s ({rate:.0} MiB/s)", disk.size());
        println!("sha256 {text}");
    }

    fn sum(disk: &mut Disk) -> Result<(), String> {
        let (start, mut hash) = (Instant::now(), Sha256::new());
        let mut bytes = vec![0; CHUNK];
        for (at, len) in chunks(disk) {
            let block = at / u64::from(disk.shape().block);
            disk.read(block, &mut bytes[..len]).map_err(|status| format!("at byte {at}: {status}"))?;
            hash.update(&bytes[..len]);
        }
        show(hash, disk, start, "read");
        Ok(())
    }

    /// Reads the first part of the disk in pieces, as a file system does.
    fn speed(disk: &mut Disk) -> Result<(), String> {
        const MOST: u64 = 16 << 20;
        const PIECE: usize = 64 << 10;
        let (start, mut bytes) = (Instant::now(), vec![0; PIECE]);
        let all = disk.size().min(MOST) / PIECE as u64;
        for piece in 0..all {
            let block = piece * PIECE as u64 / u64::from(disk.shape().block);
            disk.read(block, &mut bytes).map_err(|status| format!("piece {piece}: {status}"))?;
        }
        println!("figure read {} {}", all * PIECE as u64, start.elapsed().as_nanos());
        Ok(())
    }

    /// Type of the start handle (`PA_USER0`) for the job above all tasks.
    const TASKS: u32 = 0xf0;

    fn fill(disk: &mut Disk, seed: u64, kills: u64) -> Result<(), String> {
        let (start, mut hash) = (Instant::now(), Sha256::new());
        let progress = AtomicU64::new(0);
        let over = AtomicBool::new(false);
        let size = disk.size();
        let written: Result<(), String> = thread::scope(|scope| {
            let killer = scope.spawn(|| killer(kills, size, &progress, &over));
            let mut random = seed | 1;
            let mut bytes = vec![0; CHUNK];
            let all = chunks(disk).try_for_each(|(at, len)| {
                for word in bytes.chunks_exact_mut(8) {
                    // A xorshift generator. Any bytes will do, as long as they are not all the same.
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    word.copy_from_slice(&random.to_le_bytes());
                }
                hash.update(&bytes[..len]);
                let block = at / u64::from(disk.shape().block);
                disk.write(block, &bytes[..len]).map_err(|status| format!("at byte {at}: {status}"))?;
                progress.store(at + len as u64, Ordering::Release);
                Ok(())
            });
            let all = all.and_then(|()| disk.flush().map_err(|status| format!("flush: {status}")));
            over.store(true, Ordering::Release);
            let killed = killer.join().map_err(|_| "the thread that ends drivers panicked")?;
            if killed < kills {
                return Err(format!("the driver was to be ended {kills} times, and was {killed} times"));
            }
            all
        });
        written?;
        show(hash, disk, start, "wrote");
        println!("connected again {} times", disk.lost());
        Ok(())
    }

    /// Kills the driver `kills` times, at evenly spaced points of the write.
    fn killer(kills: u64, size: u64, progress: &AtomicU64, over: &AtomicBool) -> u64 {
        // The system gives this handle to programs that may inspect all tasks.
        let Some(tasks) = zx::startup::take(TASKS, 0).map(Job::from) else { return 0 };
        let mut killed = 0;
        while killed < kills && !over.load(Ordering::Acquire) {
            let place = size * (killed + 1) / (kills + 2);
            if progress.load(Ordering::Acquire) >= place && driver(&tasks).is_some_and(|driver| driver.kill().is_ok()) {
                killed += 1;
            } else {
                thread::sleep(Duration::from_millis(1));
            }
        }
        killed
    }

    /// Finds the process of the disk's driver in this job or below it.
    fn driver(job: &Job) -> Option<Process> {
        let mut koids = [0; 64];
        let processes = job.processes(&mut koids).ok()?.actual;
        let found = koids[..processes.min(64)].iter().find_map(|koid| {
            let process = Process::from(job.get_child(*koid, Rights::SAME_RIGHTS).ok()?);
            process.get_name().ok()?.starts_with(b"virtio-blk\0").then_some(process)
        });
        let jobs = job.children(&mut koids).ok()?.actual;
        let child = |koid: &u64| job.get_child(*koid, Rights::SAME_RIGHTS).map(Job::from);
        found.or_else(|| koids[..jobs.min(64)].iter().find_map(|koid| driver(&child(koid).ok()?)))
    }
}

#[cfg(target_os = "fuchsia")]
fn main() {
    if let Err(problem) = here::main() {
        eprintln!("disk: {problem}");
        std::process::exit(1);
    }
}

#[cfg(not(target_os = "fuchsia"))]
fn main() {
    eprintln!("disk: this program looks at the disk of a Hafnon machine");
    std::process::exit(2);
}
