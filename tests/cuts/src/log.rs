//! The log of the requests that reached a disk: each write and each flush, in order.
//!
//! QEMU's driver `blklogwrites` writes it in the format of Linux' dm-log-writes: a superblock of one sector (`magic`,
//! `version`, number of entries, bytes in a sector), then for each request a sector with its entry (first sector,
//! number of sectors, flags, length of other data), followed by the sectors that were written. All numbers are
//! little-endian and have 64 bits, except the bytes in a sector, which have 32.

use std::io::{Read, Write};

const MAGIC: u64 = 0x006a_7366_7773_6872;
const VERSION: u64 = 1;
const FLUSH: u64 = 1;
const FUA: u64 = 2;
const DISCARD: u64 = 4;
const MARKED: u64 = 8;
/// Bytes in a sector of the logs that are written here; the smallest that a log can have.
const SECTOR: usize = 512;
/// No single write is longer.
const LONGEST: u64 = 1 << 30;

/// The first bytes of the mark file, by which a write is recognised as a mark. The number follows.
const MARK: [u8; 24] = *b"hafnon: synced up to no ";

/// A request to the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// A write of bytes at an offset.
    Write(u64, Vec<u8>),
    /// Everything that was written before must be durable.
    Flush,
    /// Not a request: the first N operations are synced, and their callers have got the answer.
    Mark(u64),
}

/// The content of the mark file for `number` synced operations: one sector, so that the disk writes it as a whole.
pub fn mark(number: u64) -> [u8; SECTOR] {
    let mut bytes = [0; SECTOR];
    bytes[..MARK.len()].copy_from_slice(&MARK);
    bytes[MARK.len()..MARK.len() + 8].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// The number of the mark among these bytes.
fn marked(bytes: &[u8]) -> Option<u64> {
    let sector = bytes.chunks(SECTOR).find(|sector| sector.starts_with(&MARK))?;
    Some(word(sector, MARK.len()))
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// Reads a log. Puts a mark before the write that made it, if its number is higher than all earlier ones.
///
/// # Errors The bytes are no log, or the log ends too early.
pub fn read(mut from: impl Read) -> Result<Vec<Act>, String> {
    let mut sector = vec![0; SECTOR];
    let mut take = |bytes: &mut [u8], what: &str| from.read_exact(bytes).map_err(|error| format!("{what}: {error}"));
    take(&mut sector, "the log's first sector")?;
    if (word(&sector, 0), word(&sector, 8)) != (MAGIC, VERSION) {
        return Err("this is no log of writes".to_owned());
    }
    let (entries, bytes) = (word(&sector, 16), word(&sector, 24) & 0xffff_ffff);
    if bytes < SECTOR as u64 || bytes > 1 << 20 || !bytes.is_power_of_two() {
        return Err(format!("its sectors have {bytes} bytes"));
    }
    let mut rest = vec![0; bytes as usize - SECTOR];
    take(&mut rest, "the log's first sector")?;
    sector.resize(bytes as usize, 0);
    let (mut acts, mut synced) = (Vec::new(), None);
    for index in 0..entries {
        take(&mut sector, &format!("entry {index} of {entries}"))?;
        let (at, count, flags) = (word(&sector, 0), word(&sector, 8), word(&sector, 16));
        let len = count.checked_mul(bytes).filter(|len| *len <= LONGEST);
        let (Some(len), Some(at)) = (len, at.checked_mul(bytes)) else {
            return Err(format!("entry {index} has {count} sectors at {at}"));
        };
        if flags & (DISCARD | MARKED) != 0 {
            return Err(format!("entry {index} is no write and no flush: flags {flags}"));
        }
        if flags & FLUSH != 0 {
            acts.push(Act::Flush);
        }
        if len > 0 {
            let mut data = vec![0; len as usize];
            take(&mut data, &format!("what entry {index} of {entries} wrote"))?;
            if let Some(number) = marked(&data).filter(|number| synced.is_none_or(|synced| *number > synced)) {
                acts.push(Act::Mark(number));
                synced = Some(number);
            }
            acts.push(Act::Write(at, data));
        }
        // A write with FUA is durable when it is answered; earlier writes may still be lost.
        if flags & FUA != 0 {
            return Err(format!("entry {index} is a write that flushes itself, which nobody here asks for"));
        }
    }
    Ok(acts)
}

/// Writes a log. Marks are part of the written bytes.
///
/// # Errors It cannot be written.
pub fn write(acts: &[Act], mut to: impl Write) -> std::io::Result<()> {
    let entry = |words: [u64; 4]| {
        let mut sector = [0; SECTOR];
        for (place, word) in sector.chunks_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        sector
    };
    let entries = acts.iter().filter(|act| !matches!(act, Act::Mark(_))).count() as u64;
    to.write_all(&entry([MAGIC, VERSION, entries, SECTOR as u64]))?;
    for act in acts {
        match act {
            Act::Write(at, bytes) => {
                let sectors = (bytes.len() / SECTOR) as u64;
                to.write_all(&entry([at / SECTOR as u64, sectors, 0, 0]))?;
                to.write_all(&bytes[..bytes.len() / SECTOR * SECTOR])?;
            }
            Act::Flush => to.write_all(&entry([0, 0, FLUSH, 0]))?,
            Act::Mark(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read_as_it_was_written() {
        let (one, two) = (mark(7), mark(8));
        let acts = [
            Act::Write(1024, vec![1; 512]),
            Act::Flush,
            Act::Mark(7),
            Act::Write(4096, [vec![0; 512], one.to_vec()].concat()),
            Act::Write(8192, one.to_vec()),
            Act::Mark(8),
            Act::Write(8192, two.to_vec()),
            Act::Flush,
        ];
        let mut bytes = Vec::new();
        write(&acts, &mut bytes).unwrap();
        assert_eq!(read(bytes.as_slice()).unwrap(), acts);
        bytes.pop();
        assert!(read(bytes.as_slice()).unwrap_err().contains("entry 5 of 6"), "what is cut off is missed");
        bytes[0] ^= 1;
        assert!(read(bytes.as_slice()).is_err());
    }
}
