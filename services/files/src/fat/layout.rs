//! The on-disk layout of a volume, read from its bytes: tables, directories, chains. `fatfs` does not expose it.

use std::io::{ErrorKind, Result};
use std::ops::Range;

use super::time;
use super::volume::Volume;

/// Size of a directory entry in bytes.
pub const ENTRY: u64 = 32;
/// The first byte of a free entry, and of all entries behind the last one.
const DELETED: u8 = 0xe5;
const END: u8 = 0;
/// Attributes: directory; volume label; part of a long name.
const DIRECTORY: u8 = 0x10;
const LABEL: u8 = 0x08;
const LONG: u8 = 0x0f;
const READ_ONLY: u8 = 0x01;
/// Offsets in an entry: attributes, date of the last access, upper half of the cluster, time and date of the last
/// change, lower half of the cluster, size.
const ATTRIBUTES: usize = 11;
const ACCESSED: usize = 18;
const MODIFIED: usize = 22;
const HIGH: usize = 20;
const LOW: usize = 26;
const SIZE: usize = 28;
/// Offsets of the characters in a part of a long name.
const CHARACTERS: [usize; 13] = [1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30];

/// The geometry of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bits of a table entry: 12, 16 or 32.
    pub bits: u32,
    /// Position of the first table in bytes from the volume's start, and the number of tables, which are adjacent.
    pub table: Range<u64>,
    pub tables: u64,
    /// The root directory on FAT12 and FAT16.
    pub root: Range<u64>,
    /// The root directory's first cluster on FAT32.
    pub root_cluster: u32,
    /// Position of cluster 2.
    pub data: u64,
    /// Size of a cluster in bytes.
    pub cluster: u64,
    /// Clusters are numbered from 2 to this number, exclusive.
    pub end: u32,
}

/// The location of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The root directory of FAT12 and FAT16.
    Root,
    /// A chain that begins at this cluster.
    Chain(u32),
}

/// A name in a directory.
#[derive(Clone, Debug)]
pub struct Found {
    /// The long name, or the short one if there is no long name.
    pub name: String,
    /// The entry, and its position on the volume.
    pub entry: [u8; ENTRY as usize],
    pub at: u64,
    /// Positions of the entries of the long name.
    pub long: Vec<u64>,
}

impl Found {
    pub fn is_directory(&self) -> bool {
        self.entry[ATTRIBUTES] & DIRECTORY != 0
    }

    /// The first cluster; 0 for none.
    pub fn cluster(&self) -> u32 {
        let half = |at: usize| u32::from(u16::from_le_bytes([self.entry[at], self.entry[at + 1]]));
        half(HIGH) << 16 | half(LOW)
    }

    pub fn size(&self) -> u32 {
        self.entry[SIZE..].first_chunk().map_or(0, |size| u32::from_le_bytes(*size))
    }

    /// Its short name.
    pub fn short(&self) -> String {
        short_name(&self.entry)
    }

    /// Whether the entry has the read-only attribute.
    pub fn is_read_only(&self) -> bool {
        self.entry[ATTRIBUTES] & READ_ONLY != 0
    }

    /// The times of the last access and of the last change, in nanoseconds since 1970.
    pub fn times(&self) -> (i64, i64) {
        let word = |at: usize| u16::from_le_bytes([self.entry[at], self.entry[at + 1]]);
        (time::of_entry(word(ACCESSED), 0), time::of_entry(word(MODIFIED + 2), word(MODIFIED)))
    }

    /// Makes the entry point to another chain.
    pub fn set_cluster(&mut self, cluster: u32) {
        let [a, b, c, d] = cluster.to_le_bytes();
        self.entry[LOW..LOW + 2].copy_from_slice(&[a, b]);
        self.entry[HIGH..HIGH + 2].copy_from_slice(&[c, d]);
    }

    pub fn set_size(&mut self, size: u32) {
        self.entry[SIZE..].copy_from_slice(&size.to_le_bytes());
    }

    /// This entry with everything but the name from another one: attributes, times, chain, size.
    pub fn with_all_of(&self, other: &Found) -> [u8; ENTRY as usize] {
        let mut entry = other.entry;
        entry[..ATTRIBUTES].copy_from_slice(&self.entry[..ATTRIBUTES]);
        // The byte that says which parts of the short name are in lower case belongs to the name.
        entry[12] = self.entry[12];
        entry
    }
}

impl Layout {
    /// Reads the geometry.
    ///
    /// # Errors
    /// Errors of the disk. `InvalidData`: there is no valid volume.
    pub fn read(volume: &Volume) -> Result<Layout> {
        let sector: [u8; 64] = volume.at(0)?;
        let word = |at: usize| u64::from(u16::from_le_bytes([sector[at], sector[at + 1]]));
        let long = |at: usize| sector[at..].first_chunk().map_or(0, |word| u64::from(u32::from_le_bytes(*word)));
        let either = |short: u64, wide: u64| if short != 0 { short } else { wide };
        let (bytes, per_cluster, tables) = (word(11), u64::from(sector[13]), u64::from(sector[16]));
        let (total, table_size) = (either(word(19), long(32)), either(word(22), long(36)));
        let wrong = || ErrorKind::InvalidData.into();
        if !matches!(bytes, 512 | 1024 | 2048 | 4096) || per_cluster == 0 || tables == 0 || table_size == 0 {
            return Err(wrong());
        }
        let first = word(14) * bytes;
        let table = first..first + table_size * bytes;
        let root_start = first + tables * table_size * bytes;
        let root = root_start..root_start + (word(17) * ENTRY).next_multiple_of(bytes);
        let clusters = (total * bytes).checked_sub(root.end).ok_or_else(wrong)? / (bytes * per_cluster);
        let bits = match clusters {
            0..4085 => 12,
            4085..65525 => 16,
            _ => 32,
        };
        // Each cluster needs an entry in the table and a number.
        let places = table_size * bytes * 8 / u64::from(bits);
        let end = u32::try_from((clusters + 2).min(places)).map_err(|_| wrong())?;
        Ok(Layout {
            bits,
            table,
            tables,
            data: root.end,
            root,
            root_cluster: long(44) as u32,
            cluster: bytes * per_cluster,
            end,
        })
    }

    /// The range of all tables.
    pub fn all_tables(&self) -> Range<u64> {
        self.table.start..self.table.start + self.tables * (self.table.end - self.table.start)
    }

    /// The location of the root directory.
    pub fn root_place(&self) -> Place {
        if self.bits == 32 { Place::Chain(self.root_cluster) } else { Place::Root }
    }

    /// The cluster that contains a byte of the volume.
    pub fn cluster_of(&self, offset: u64) -> Option<u32> {
        let number = u32::try_from(offset.checked_sub(self.data)? / self.cluster).ok()?.checked_add(2)?;
        (number < self.end).then_some(number)
    }

    /// Position of a cluster.
    pub fn offset(&self, cluster: u32) -> u64 {
        self.data + u64::from(cluster - 2) * self.cluster
    }

    /// Position of a cluster's entry in a table that begins at 0, and by how many bits the entry is shifted.
    fn entry_place(&self, cluster: u32) -> (u64, u32) {
        let bit = u64::from(cluster) * u64::from(self.bits);
        (bit / 8, (bit % 8) as u32)
    }

    /// Extracts the value of an entry from these bytes.
    fn value(&self, bytes: [u8; 4], shift: u32) -> u32 {
        let value = u32::from_le_bytes(bytes) >> shift;
        match self.bits {
            12 => value & 0xfff,
            16 => value & 0xffff,
            _ => value & 0x0fff_ffff,
        }
    }

    /// A cluster's entry, from bytes of a table that begin at `from`; `None` if they do not contain all of it.
    pub fn entry_in(&self, bytes: &[u8], from: u64, cluster: u32) -> Option<u32> {
        let (at, shift) = self.entry_place(cluster);
        let at = usize::try_from(at.checked_sub(from)?).ok()?;
        let len = (self.bits + shift).div_ceil(8) as usize;
        let mut word = [0; 4];
        word[..len].copy_from_slice(bytes.get(at..at + len)?);
        Some(self.value(word, shift))
    }

    /// Copies a cluster's entry between two copies of the part of a table that begins at `start`. Both contain the
    /// whole entry.
    pub fn copy_entry(&self, from: &[u8], to: &mut [u8], start: u64, cluster: u32) {
        let (at, shift) = self.entry_place(cluster);
        let Some(at) = at.checked_sub(start).and_then(|at| usize::try_from(at).ok()) else { return };
        let mask = if self.bits == 32 { u32::MAX } else { ((1_u32 << self.bits) - 1) << shift };
        let len = (self.bits + shift).div_ceil(8) as usize;
        for (index, mask) in mask.to_le_bytes().into_iter().take(len).enumerate() {
            if let (Some(from), Some(to)) = (from.get(at + index), to.get_mut(at + index)) {
                *to = *to & !mask | from & mask;
            }
        }
    }

    /// The clusters whose entries overlap this range of a table.
    pub fn clusters_in(&self, range: Range<u64>) -> Range<u32> {
        let first = range.start * 8 / u64::from(self.bits);
        let last = (range.end * 8).div_ceil(u64::from(self.bits));
        (first as u32).max(2)..(last.min(u64::from(self.end)) as u32)
    }

    /// The successor of a cluster in its chain: 0 for a free cluster, a value that is not a cluster at the end.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn next(&self, volume: &Volume, cluster: u32) -> Result<u32> {
        let (at, shift) = self.entry_place(cluster);
        let mut bytes = [0; 4];
        let len = (self.bits + shift).div_ceil(8) as usize;
        for (index, byte) in bytes[..len].iter_mut().enumerate() {
            [*byte] = volume.at(self.table.start + at + index as u64)?;
        }
        Ok(self.value(bytes, shift))
    }

    /// Sets a cluster's entry in all tables.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn set_next(&self, volume: &Volume, cluster: u32, value: u32) -> Result<()> {
        let (at, shift) = self.entry_place(cluster);
        let len = (self.bits + shift).div_ceil(8) as usize;
        let mask = if self.bits == 32 { 0x0fff_ffff } else { ((1_u32 << self.bits) - 1) << shift };
        for table in 0..self.tables {
            let place = self.table.start + table * (self.table.end - self.table.start) + at;
            let mut bytes = [0; 4];
            for (index, byte) in bytes[..len].iter_mut().enumerate() {
                [*byte] = volume.at(place + index as u64)?;
            }
            let word = u32::from_le_bytes(bytes) & !mask | value << shift & mask;
            volume.put(place, &word.to_le_bytes()[..len])?;
        }
        Ok(())
    }

    /// The value that ends a chain.
    pub fn last(&self) -> u32 {
        if self.bits == 32 { 0x0fff_ffff } else { (1 << self.bits) - 1 }
    }

    /// Whether this is a valid cluster number.
    pub fn is_cluster(&self, number: u32) -> bool {
        (2..self.end).contains(&number)
    }

    /// The names in a directory without `.`, `..` and the volume label, at most `most`.
    ///
    /// # Errors
    /// Errors of the disk. `InvalidData`: the directory is longer than allowed, or its chain has a cycle.
    pub fn names(&self, volume: &Volume, place: Place, most: usize) -> Result<Vec<Found>> {
        // A directory has at most 65,536 entries.
        const MOST: u64 = 65_536 * ENTRY;
        let (mut found, mut long, mut read) = (Vec::new(), Vec::new(), 0);
        let (mut range, mut cluster) = match place {
            Place::Root => (self.root.clone(), 0),
            Place::Chain(first) if self.is_cluster(first) => {
                (self.offset(first)..self.offset(first) + self.cluster, first)
            }
            Place::Chain(_) => return Err(ErrorKind::InvalidData.into()),
        };
        loop {
            for at in range.clone().step_by(ENTRY as usize) {
                let entry: [u8; ENTRY as usize] = volume.at(at)?;
                read += ENTRY;
                match (entry[0], entry[ATTRIBUTES]) {
                    (END, _) => return Ok(found),
                    (DELETED, _) => long.clear(),
                    (_, LONG) => long.push((at, entry)),
                    (_, attributes) if attributes & LABEL != 0 || entry[0] == b'.' => long.clear(),
                    _ => {
                        let name = long_name(&long, &entry).unwrap_or_else(|| short_name(&entry));
                        let places = long.drain(..).map(|(at, _)| at).collect();
                        found.push(Found { name, entry, at, long: places });
                        if found.len() >= most {
                            return Ok(found);
                        }
                    }
                }
            }
            if cluster == 0 {
                return Ok(found);
            }
            cluster = self.next(volume, cluster)?;
            if !self.is_cluster(cluster) {
                return Ok(found);
            }
            if read >= MOST {
                return Err(ErrorKind::InvalidData.into());
            }
            range = self.offset(cluster)..self.offset(cluster) + self.cluster;
        }
    }

    /// Removes a name's entries, the short one last. A power cut leaves the name or none, and no chain changes.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn delete(volume: &Volume, found: &Found) -> Result<()> {
        found.long.iter().chain([&found.at]).try_for_each(|at| volume.put(*at, &[DELETED]))
    }
}

fn short_name(entry: &[u8; ENTRY as usize]) -> String {
    let part = |bytes: &[u8], small: bool| {
        let part: String = bytes.iter().map(|byte| if byte.is_ascii() { char::from(*byte) } else { '?' }).collect();
        let part = part.trim_end().to_owned();
        if small { part.to_ascii_lowercase() } else { part }
    };
    // Bits that other systems use for parts in lower case.
    let (name, extension) = (part(&entry[..8], entry[12] & 8 != 0), part(&entry[8..11], entry[12] & 16 != 0));
    if extension.is_empty() { name } else { format!("{name}.{extension}") }
}

/// The long name, if all its parts are present and belong to this short name.
fn long_name(parts: &[(u64, [u8; ENTRY as usize])], entry: &[u8; ENTRY as usize]) -> Option<String> {
    let sum = entry[..11].iter().fold(0_u8, |sum, byte| sum.rotate_right(1).wrapping_add(*byte));
    let mut units = Vec::new();
    for (index, (_, part)) in parts.iter().rev().enumerate() {
        if usize::from(part[0] & 0x3f) != index + 1 || part[13] != sum {
            return None;
        }
        units.extend(CHARACTERS.map(|at| u16::from_le_bytes([part[at], part[at + 1]])));
    }
    let (_, first) = parts.first()?;
    if first[0] & 0x40 == 0 {
        return None;
    }
    let end = units.iter().position(|unit| *unit == 0).unwrap_or(units.len());
    Some(String::from_utf16_lossy(&units[..end]))
}
