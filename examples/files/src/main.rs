//! Works on files in a directory and prints the results, which are the same on every system and every file system.
//!
//! `files fill DIR SEED` creates a tree. `files sum DIR` lists it. `files full DIR` writes until there is no room,
//! makes some room, and writes again. `files poke DIR` makes every kind of call on everything that is there, and
//! ignores the results. `files hold DIR` writes a file and never ends. `files errors DIR` writes and syncs until the
//! disk fails, and counts the descriptors that get an error. `files overwrite DIR` writes over an existing file.
//! `files beside DIR` works on files while another one becomes very large, and small again.
//! `files operations DIR SEED COUNT` carries out random operations in a new directory. `files speed DIR` prints how
//! long operations take.
#![forbid(unsafe_code)]

mod operations;
mod speed;

use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Pseudo-random numbers, the same each time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    fn bytes(&mut self, len: u64) -> Vec<u8> {
        (0..len).map(|_| self.next(256) as u8).collect()
    }
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["fill", dir, seed] => fill(Path::new(dir), Numbers(seed.parse()?))?,
        ["sum", dir] => sum(Path::new(dir), "")?,
        ["full", dir] => full(Path::new(dir))?,
        ["poke", dir] => poke(Path::new(dir), 0),
        ["hold", dir] => hold(Path::new(dir))?,
        ["errors", dir] => errors(Path::new(dir))?,
        ["overwrite", dir] => overwrite(Path::new(dir))?,
        ["beside", dir] => beside(Path::new(dir))?,
        ["speed", dir] => speed::speed(Path::new(dir))?,
        ["operations", dir, seed, count] => {
            fs::create_dir(dir)?;
            operations::Operations::new(Path::new(dir), seed.parse()?)?.run(count.parse()?);
        }
        _ => {
            let words = "fill DIR SEED | sum DIR | full DIR | poke DIR | hold DIR | errors DIR | overwrite DIR | beside DIR | operations DIR SEED COUNT | speed DIR";
            return Err(format!("usage: files {words}").into());
        }
    }
    Ok(())
}

/// Writes a file and runs until it is killed, with the file still open.
fn hold(dir: &Path) -> Result<()> {
    let mut file = File::create(dir.join("held"))?;
    file.write_all(&[b'h'; 100_000])?;
    println!("held");
    loop {
        println!("and on");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// The number of the error that a failed disk causes.
const EIO: Option<i32> = Some(5);

/// How many of several syncs of a file report that the disk failed.
fn told(file: &File) -> usize {
    (0..4).filter(|_| file.sync_all().is_err_and(|error| error.raw_os_error() == EIO)).count()
}

/// Two files grow, and one of them is synced; a third is only open.
fn errors(dir: &Path) -> Result<()> {
    let make = |name: &str| -> Result<File> {
        let mut file = File::create(dir.join(name))?;
        file.write_all(name.as_bytes())?;
        file.sync_all()?;
        Ok(file)
    };
    let (mut one, mut two, quiet) = (make("one")?, make("two")?, make("quiet")?);
    let piece = [b'p'; 5000];
    let error = loop {
        one.write_all(&piece)?;
        two.write_all(&piece)?;
        if let Err(error) = one.sync_all() {
            break error;
        }
    };
    println!("a sync says that the disk failed: {}", error.raw_os_error() == EIO);
    println!("and then: one {}, two {}, quiet {}", told(&one), told(&two), told(&quiet));
    println!("a write: {:?}", two.write_all(&piece).map_err(|error| error.kind()));
    println!("a new file: {:?}", File::create(dir.join("new")).map(drop).map_err(|error| error.kind()));
    println!("what is read: {}", fs::read_to_string(dir.join("quiet"))?);
    Ok(())
}

/// Small requests during a large one are answered before it is done: they see free space between that of before and
/// that of afterwards.
fn beside(dir: &Path) -> Result<()> {
    const LARGE: u64 = 150 << 20;
    let path = dir.join("large");
    let free = || -> std::io::Result<u64> { Ok(rustix::fs::statvfs(dir)?.f_bavail) };
    let during = |what: &str, goal: Option<u64>, work: &(dyn Fn() -> std::io::Result<()> + Sync)| -> Result<()> {
        let mut seen = vec![free()?];
        std::thread::scope(|scope| {
            let worker = scope.spawn(work);
            // The space of a removed file is freed after the removal's answer.
            while !worker.is_finished() || goal.is_some_and(|goal| seen.last() != Some(&goal)) {
                seen.push(free()?);
            }
            worker.join().unwrap_or_else(|_| Err(ErrorKind::Other.into()))
        })?;
        let ends = (seen[0], free()?);
        let between = seen.iter().any(|free| *free > ends.0.min(ends.1) && *free < ends.0.max(ends.1));
        println!("{what}: others went on: {between}");
        Ok(())
    };
    let file = File::create(&path)?;
    let empty = free()?;
    during("longer", None, &|| file.set_len(LARGE))?;
    println!("length: {}", fs::metadata(&path)?.len() == LARGE);
    during("shorter", None, &|| file.set_len(0))?;
    file.set_len(LARGE)?;
    drop(file);
    during("removed", Some(empty), &|| fs::remove_file(&path))?;
    println!("found: {:?}", fs::metadata(&path).map(drop).map_err(|error| error.kind()));
    Ok(())
}

/// Overwrites the content of a file, piece by piece, while another one grows.
fn overwrite(dir: &Path) -> Result<()> {
    let mut beside = File::create(dir.join("beside"))?;
    beside.write_all(b"beside")?;
    let mut file = File::options().write(true).open(dir.join("bad"))?;
    let mut failed = 0;
    for piece in 0..file.metadata()?.len() / 4096 {
        file.seek(SeekFrom::Start(piece * 4096))?;
        match file.write_all(&[b'n'; 4096]) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == EIO => failed += 1,
            Err(error) => return Err(error.into()),
        }
    }
    println!("writes that failed: {failed}, and then: bad {}, beside {}", told(&file), told(&beside));
    drop((file, beside));
    fs::write(dir.join("new"), "new")?;
    println!("what is read: {}{}", fs::read_to_string(dir.join("beside"))?, fs::read_to_string(dir.join("new"))?);
    Ok(())
}

fn fill(dir: &Path, mut numbers: Numbers) -> Result<()> {
    for folder in 0..4 {
        let folder = dir.join(format!("folder {folder} with a long name"));
        fs::create_dir(&folder)?;
        for file in 0..25 {
            let path = folder.join(format!("file-{file}.data"));
            let len = numbers.next(30_000);
            fs::write(&path, numbers.bytes(len))?;
        }
        for _ in 0..20 {
            let (from, to) = (numbers.next(25), numbers.next(25));
            let (path, other) = (folder.join(format!("file-{from}.data")), folder.join(format!("file-{to}.data")));
            if !path.exists() {
                continue;
            }
            match numbers.next(5) {
                0 => fs::remove_file(&path)?,
                1 => fs::rename(&path, &other)?,
                2 => OpenOptions::new().append(true).open(&path)?.write_all(&numbers.bytes(5000))?,
                3 => File::options().write(true).open(&path)?.set_len(numbers.next(40_000))?,
                _ => {
                    let mut file = File::options().read(true).write(true).open(&path)?;
                    let at = numbers.next(file.metadata()?.len() + 3000);
                    file.seek(SeekFrom::Start(at))?;
                    file.write_all(&numbers.bytes(100))?;
                }
            }
        }
    }
    fs::remove_dir_all(dir.join("folder 3 with a long name"))?;
    println!("filled");
    Ok(())
}

fn sum(dir: &Path, name: &str) -> Result<()> {
    let mut names: Vec<_> =
        fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.file_name())).collect::<std::result::Result<_, _>>()?;
    names.sort();
    for entry in names {
        let path = dir.join(&entry);
        let name = format!("{name}/{}", entry.to_string_lossy());
        if path.is_dir() {
            println!("{name}/");
            sum(&path, &name)?;
        } else {
            let bytes = fs::read(&path)?;
            let hash = bytes
                .iter()
                .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
            println!("{name} {} {hash:016x}", bytes.len());
        }
    }
    Ok(())
}

fn full(dir: &Path) -> Result<()> {
    fs::write(dir.join("kept"), b"kept")?;
    let piece = vec![1; 64 << 10];
    let fill = |name: &str| -> Result<u64> {
        let mut file = File::create(dir.join(name))?;
        let mut len = 0;
        loop {
            match file.write(&piece) {
                Ok(count) => len += count as u64,
                Err(error) if error.kind() == ErrorKind::StorageFull => return Ok(len),
                Err(error) => return Err(error.into()),
            }
        }
    };
    let first = fill("big")?;
    let more = fs::write(dir.join("more"), &piece);
    println!("more: {:?}", more.map_err(|error| error.kind()));
    println!(
        "kept: {}, big is whole: {}",
        fs::read_to_string(dir.join("kept"))?,
        fs::metadata(dir.join("big"))?.len() == first
    );
    fs::remove_file(dir.join("big"))?;
    println!("as much again: {}", fill("again")? >= first);
    fs::remove_file(dir.join("again"))?;
    Ok(())
}

/// Ignores all results: it only matters that the calls return.
fn poke(dir: &Path, depth: u32) {
    let mut bytes = vec![0; 4096];
    for entry in fs::read_dir(dir).into_iter().flatten().take(500) {
        let Ok(entry) = entry else { continue };
        let path = entry.path();
        let _ = fs::metadata(&path);
        if depth < 5 && path.is_dir() {
            poke(&path, depth + 1);
        }
        if let Ok(mut file) = File::options().read(true).write(true).open(&path) {
            for _ in 0..64 {
                if !matches!(file.read(&mut bytes), Ok(1..)) {
                    break;
                }
            }
            let _ = file.write_all(&bytes);
            let _ = file.set_len(10);
        }
        let _ = fs::rename(&path, dir.join("renamed"));
        let _ = fs::remove_file(dir.join("renamed"));
    }
    let _ = fs::create_dir(dir.join("made"));
    let _ = fs::write(dir.join("made/file"), &bytes);
    if depth == 0 {
        println!("poked");
    }
}
