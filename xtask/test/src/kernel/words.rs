//! Inspects the kernel's own memory from outside: its code and constants must equal those of its file, and its tables
//! must be unchanged since its start.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use object::{Object, ObjectSection, ObjectSymbol};

/// The addresses of the kernel's image, virtual and physical.
const KERNEL_BASE: u64 = 0xffff_ffff_8000_0000;
/// Sections that never change.
const SECTIONS: [&str; 3] = [".text", ".text.unlikely", ".rodata"];
/// Tables that are set up once: page tables, descriptors, interrupts. Tables that a kernel does not have are skipped.
const TABLES: [&str; 7] = [
    "x64KSGlobalPML4",
    "x64KSKernelPML4",
    "x64KSGlobalPDPT",
    "x64KSKernelPDPT",
    "x64KSGlobalPD",
    "x64KSKernelPD",
    "x86KSidt",
];
/// Bits that the processor sets in table entries: accessed and dirty.
const MARKS: u64 = 0x60;

/// A running machine's memory.
pub struct Memory {
    stream: BufReader<UnixStream>,
    folder: PathBuf,
}

/// A part of memory and its earlier content.
pub struct Part {
    name: String,
    address: u64,
    words: Vec<u64>,
}

impl Memory {
    /// Connects to the machine's socket in its folder.
    pub fn open(folder: &Path) -> Result<Memory> {
        let stream = UnixStream::connect(folder.join("qmp")).context("cannot ask QEMU")?;
        let mut memory = Memory { stream: BufReader::new(stream), folder: folder.to_path_buf() };
        memory.ask(r#"{"execute": "qmp_capabilities"}"#)?;
        Ok(memory)
    }

    fn ask(&mut self, question: &str) -> Result<()> {
        writeln!(self.stream.get_mut(), "{question}").context("cannot ask QEMU")?;
        let mut line = String::new();
        loop {
            line.clear();
            if self.stream.read_line(&mut line).context("cannot hear QEMU")? == 0 {
                bail!("QEMU does not answer");
            }
            let answer: serde_json::Value = serde_json::from_str(&line).context("QEMU answers in another language")?;
            if let Some(error) = answer.get("error") {
                bail!("QEMU refuses {question}: {error}");
            }
            // Greetings and events may come in between.
            if answer.get("return").is_some() {
                return Ok(());
            }
        }
    }

    fn read(&mut self, address: u64, len: u64) -> Result<Vec<u8>> {
        self.ask(&format!(
            r#"{{"execute": "pmemsave", "arguments": {{"val": {address}, "size": {len}, "filename": "memory"}}}}"#
        ))?;
        fs::read(self.folder.join("memory")).context("QEMU has written no memory")
    }

    /// The content of the kernel's tables.
    pub fn tables(&mut self, kernel: &Path) -> Result<Vec<Part>> {
        let bytes = fs::read(kernel).with_context(|| format!("cannot read {}", kernel.display()))?;
        let file = object::File::parse(&*bytes).context("the kernel is no ELF file")?;
        let symbols = file.symbols().filter(|symbol| symbol.name().is_ok_and(|name| TABLES.contains(&name)));
        let parts = symbols.map(|symbol| {
            let address = symbol.address().wrapping_sub(KERNEL_BASE);
            let words = words(&self.read(address, symbol.size())?);
            Ok(Part { name: symbol.name()?.into(), address, words })
        });
        let parts: Vec<Part> = parts.collect::<Result<_>>()?;
        if parts.is_empty() { bail!("the kernel's file names no tables") } else { Ok(parts) }
    }

    /// Compares everything with its earlier content.
    pub fn compare(&mut self, kernel: &Path, tables: &[Part]) -> Result<()> {
        for part in tables {
            let now = words(&self.read(part.address, part.words.len() as u64 * 8)?);
            let changed = now.iter().zip(&part.words).position(|(now, then)| (now ^ then) & !MARKS != 0);
            if let Some(entry) = changed {
                bail!("the kernel's {} has changed: entry {entry} is {:#x}", part.name, now[entry]);
            }
        }
        let bytes = fs::read(kernel).with_context(|| format!("cannot read {}", kernel.display()))?;
        let file = object::File::parse(&*bytes).context("the kernel is no ELF file")?;
        let sections = file.sections().filter(|section| section.name().is_ok_and(|name| SECTIONS.contains(&name)));
        let mut seen = 0;
        for section in sections {
            let data = section.data().context("a section without data")?;
            let now = self.read(section.address().wrapping_sub(KERNEL_BASE), data.len() as u64)?;
            if now != data {
                bail!("the kernel's section {} has changed", section.name()?);
            }
            seen += data.len();
        }
        if seen == 0 { bail!("the kernel's file has no code") } else { Ok(()) }
    }
}

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}
