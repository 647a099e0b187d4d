//! Works on files in a directory and says what it sees: the same on every system and every file system.
//!
//! `files fill DIR SEED` makes a tree; `files sum DIR` lists it; `files full DIR` writes until there is no room, and again after
//! making some; `files poke DIR` does everything to all that is there, whatever the answers; `files hold DIR` writes a file and never ends.
#![forbid(unsafe_code)]

use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Numbers that look random and are the same each time.
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
        _ => return Err("usage: files fill DIR SEED | sum DIR | full DIR | poke DIR | hold DIR".into()),
    }
    Ok(())
}

/// Writes a file and goes on until it is ended, with the file still open.
fn hold(dir: &Path) -> Result<()> {
    let mut file = File::create(dir.join("held"))?;
    file.write_all(&[b'h'; 100_000])?;
    println!("held");
    loop {
        println!("and on");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
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

/// Whatever the answers are: what matters is that there are some.
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
