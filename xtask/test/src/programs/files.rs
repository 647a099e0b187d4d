//! The input files of the programs: this project's own texts, and generated texts of every kind.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};

use xtask_common::files::write_if_changed;
use xtask_common::paths::Paths;

/// Creates the folder once and returns it: programs may already use it. Its content is always the same, as long as the
/// project's texts are the same.
///
/// # Errors
/// A file cannot be read or written.
pub fn folder(paths: &Paths) -> Result<PathBuf> {
    static MADE: Mutex<Option<PathBuf>> = Mutex::new(None);
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if made.is_none() {
        *made = Some(make(paths)?);
    }
    made.clone().context("there is no folder")
}

fn make(paths: &Paths) -> Result<PathBuf> {
    let folder = paths.out.join("programs/files");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    copy(&paths.workspace.join("docs"), &folder.join("text/docs"), "md")?;
    copy(&paths.workspace.join("objects/src"), &folder.join("text/objects"), "rs")?;
    let mut random = Random(0x5eed);
    let made: [(&str, Vec<u8>); 14] = [
        ("log.txt", log(&mut random, 20_000)),
        ("people.json", people(&mut random, 300)),
        ("lines.ndjson", lines(&mut random, 5_000)),
        ("broken.json", b"[1, 2, {\"a\": tru]\n".to_vec()),
        ("numbers.json", b"[0, -0, 1.5, 1e3, 1e-7, 123456789012345678, 0.1, 1e300, -2.5e-10]\n".to_vec()),
        ("crlf.txt", b"first line\r\nsecond needle\r\nthird\r\n".to_vec()),
        ("latin1.txt", b"caf\xe9 needle\nna\xefve\n".to_vec()),
        ("utf16.txt", utf16("first\nsecond needle \u{3b1}\u{1f980}\n")),
        ("unicode.txt", "größe Größe GRÖSSE\nneedle ναι Δέλτα δέλτα\n\u{1f980} needle\n".into()),
        ("binary.bin", random.bytes(200_000)),
        ("empty", Vec::new()),
        ("one-line.txt", [vec![b'x'; 1 << 20], b"needle".to_vec()].concat()),
        (".hidden.txt", b"a hidden needle\n".to_vec()),
        (".ignore", b"*.skipped\nnot-this/\n".to_vec()),
    ];
    for (name, bytes) in &made {
        write_if_changed(&folder.join("made").join(name), bytes)?;
    }
    for (name, line) in
        [("a.skipped", "needle skipped"), ("not-this/b.txt", "needle ignored"), ("c.txt", "needle found")]
    {
        write_if_changed(&folder.join("made").join(name), format!("{line}\n").as_bytes())?;
    }
    for depth in 1..12 {
        let path: PathBuf = (0..depth).map(|level| format!("level-{level}")).collect();
        write_if_changed(&folder.join("deep").join(path).join("here.txt"), format!("needle at {depth}\n").as_bytes())?;
    }
    Ok(folder)
}

fn copy(from: &Path, to: &Path, extension: &str) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let path = entry.with_context(|| format!("cannot read {}", from.display()))?.path();
        if path.extension().is_some_and(|found| found == extension) {
            let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            write_if_changed(&to.join(path.file_name().unwrap_or_default()), &bytes)?;
        }
    }
    Ok(())
}

/// A generator that is the same everywhere (a linear congruential generator, which returns the high bits).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        self.0 >> 33
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len() as u64) as usize]
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}

const NAMES: [&str; 8] = ["Ada", "Bjarne", "Chloé", "Dmitri", "Édith", "Fumiko", "Grace", "Håkon"];

fn log(random: &mut Random, count: u64) -> Vec<u8> {
    let mut text = String::new();
    for number in 0..count {
        let level = random.of(&["DEBUG", "INFO", "INFO", "INFO", "WARN", "ERROR"]);
        let (hour, minute, second) = (number / 3600 % 24, number / 60 % 60, number % 60);
        let user = random.of(&NAMES);
        let (code, time) = (random.of(&["200", "200", "304", "404", "500"]), random.below(100_000));
        let _ = writeln!(
            text,
            "2024-02-{:02} {hour:02}:{minute:02}:{second:02} {level} user={user} code={code} time={}.{:03}ms id={:08x}",
            1 + number / 5000,
            time / 1000,
            time % 1000,
            random.next() as u32
        );
    }
    text.into_bytes()
}

fn person(random: &mut Random, number: u64) -> String {
    let languages =
        ["Rust", "C", "Lua", "SQL"].iter().filter(|_| random.below(2) == 0).map(|name| format!("\"{name}\""));
    let languages = languages.collect::<Vec<_>>().join(", ");
    format!(
        "{{\"id\": {number}, \"name\": \"{} {number}\", \"age\": {}, \"height\": {}.{}, \"languages\": [{languages}], \
         \"address\": {{\"city\": \"{}\", \"zip\": null}}, \"active\": {}}}",
        random.of(&NAMES),
        18 + random.below(60),
        1 + random.below(2),
        random.below(100),
        random.of(&["Oslo", "Zürich", "東京", "Paris \\\"X\\\""]),
        random.below(2) == 0
    )
}

fn people(random: &mut Random, count: u64) -> Vec<u8> {
    let all: Vec<String> = (0..count).map(|number| person(random, number)).collect();
    format!("[\n  {}\n]\n", all.join(",\n  ")).into_bytes()
}

fn lines(random: &mut Random, count: u64) -> Vec<u8> {
    (0..count).map(|number| person(random, number) + "\n").collect::<String>().into_bytes()
}

/// Little endian, with a byte order mark.
fn utf16(text: &str) -> Vec<u8> {
    "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
}
