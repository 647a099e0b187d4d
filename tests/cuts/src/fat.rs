//! A reader of FAT16 and FAT32 that shares no code with the tested one: it gives the names and contents that the bytes
//! hold.

use std::collections::HashSet;

use crate::image::Image;
use crate::plan::Tree;

/// Most levels of nested directories.
const DEEPEST: usize = 20;

struct Volume<'a> {
    image: &'a Image,
    /// Whether it is FAT32.
    wide: bool,
    table: u64,
    data: u64,
    cluster: u64,
    clusters: u64,
    /// Files whose names begin with this are left out.
    hidden: &'a str,
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from(bytes[at]) | u64::from(bytes[at + 1]) << 8
}

fn long(bytes: &[u8], at: usize) -> u64 {
    word(bytes, at) | word(bytes, at + 2) << 16
}

impl Volume<'_> {
    fn next(&self, cluster: u64) -> u64 {
        if self.wide {
            long(&self.image.at(self.table + 4 * cluster, 4), 0) & 0x0fff_ffff
        } else {
            word(&self.image.at(self.table + 2 * cluster, 2), 0)
        }
    }

    /// The bytes of a cluster chain.
    fn chain(&self, first: u64) -> Result<Vec<u8>, String> {
        let (mut bytes, mut at, mut seen) = (Vec::new(), first, HashSet::new());
        let last = if self.wide { 0x0fff_fff8 } else { 0xfff8 };
        while at < last {
            if at < 2 || at >= self.clusters + 2 || !seen.insert(at) {
                return Err(format!("a chain goes to {at}"));
            }
            bytes.extend(self.image.at(self.data + (at - 2) * self.cluster, self.cluster as usize));
            at = self.next(at);
        }
        Ok(bytes)
    }

    fn directory(&self, entries: &[u8], prefix: &str, depth: usize, tree: &mut Tree) -> Result<(), String> {
        if depth > DEEPEST {
            return Err("directories lie too deep in each other".to_owned());
        }
        let mut units: Vec<u16> = Vec::new();
        for entry in entries.chunks(32) {
            match (entry[0], entry[11]) {
                (0, _) => return Ok(()),
                (0xe5, _) => units.clear(),
                (_, 0x0f) => {
                    let places = [1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30];
                    let part: Vec<u16> = places.map(|at| word(entry, at) as u16).into();
                    units = [part, std::mem::take(&mut units)].concat();
                }
                (b'.', _) => {}
                (_, attributes) if attributes & 8 != 0 => {}
                (_, attributes) => {
                    let name: Vec<u16> = units.drain(..).take_while(|unit| *unit != 0 && *unit != 0xffff).collect();
                    if name.is_empty() {
                        return Err(format!("a file in {prefix:?} has lost its long name"));
                    }
                    let name = String::from_utf16_lossy(&name);
                    if name.starts_with(self.hidden) {
                        continue;
                    }
                    let first = word(entry, 20) << 16 | word(entry, 26);
                    let bytes = if first == 0 { Vec::new() } else { self.chain(first)? };
                    let path = format!("{prefix}{name}");
                    if attributes & 0x10 != 0 {
                        let path = format!("{path}/");
                        self.directory(&bytes, &path, depth + 1, tree)?;
                        tree.insert(path, Vec::new());
                    } else {
                        let size = long(entry, 28) as usize;
                        let content = bytes.get(..size).ok_or_else(|| format!("{path} is longer than its clusters"))?;
                        tree.insert(path, content.to_vec());
                    }
                }
            }
        }
        Ok(())
    }
}

/// Reads an image, without the files whose names begin with `hidden`. Every name in it must be a long name.
///
/// # Errors A sentence that says which bytes are invalid.
pub fn read(image: &Image, hidden: &str) -> Result<Tree, String> {
    let header = image.at(0, 512);
    let sector = word(&header, 11);
    let wide = word(&header, 22) == 0;
    let length = if wide { long(&header, 36) } else { word(&header, 22) } * sector;
    let total = if word(&header, 19) == 0 { long(&header, 32) } else { word(&header, 19) } * sector;
    let table = word(&header, 14) * sector;
    let root = table + u64::from(header[16]) * length;
    let data = root + word(&header, 17) * 32;
    let cluster = u64::from(header[13]) * sector;
    let clusters = total.checked_sub(data).and_then(|bytes| bytes.checked_div(cluster));
    let clusters = clusters.ok_or("there is no FAT on it")?;
    let volume = Volume { image, wide, table, data, cluster, clusters, hidden };
    let mut tree = Tree::new();
    let root = if wide { volume.chain(long(&header, 44))? } else { image.at(root, (data - root) as usize) };
    volume.directory(&root, "", 0, &mut tree)?;
    Ok(tree)
}
