//! The check after a power cut: of a volume whose flag says that it was in use.
//!
//! The order in which changes reach the disk ([`super::volume`]) can leave three kinds of damage, and this module
//! repairs each. Lost clusters are freed. A chain that is longer than its file needs is cut. When a rename leaves two
//! names on one chain, a hidden name is removed, the second name of a directory is removed, and any other gets a copy
//! of the chain. Other damage has another cause: it is reported, the volume becomes read-only, and the flag stays.

use std::collections::HashMap;
use std::io::Result;

use super::REMOVED;
use super::layout::{Found, Layout, Place};
use super::volume::{Plan, Volume};
use crate::blocks::Blocks;

/// Maximum number of directories and names to check: more than any real disk has.
const MOST: usize = 10_000_000;
/// Maximum depth of nested directories.
const DEEPEST: usize = 128;
/// Bytes of one copy.
const PIECE: usize = 512;

/// The result of the check.
#[derive(Debug, Default)]
pub struct Report {
    /// Clusters that are allocated and belong to no file.
    pub lost: Vec<u32>,
    /// For each chain that is longer than its file needs: the last cluster that the file needs.
    pub long: Vec<u32>,
    /// Files that share their first cluster with another file.
    shared: Vec<Found>,
    /// Directories with a second name in the same directory.
    renamed: Vec<Found>,
    /// Damage that is not repaired, as messages.
    pub wrong: Vec<String>,
}

struct Walk<'a> {
    volume: &'a Volume,
    layout: &'a Layout,
    /// For each cluster the number of the chain that it belongs to; 0 for none.
    owners: Vec<u32>,
    /// Files by first cluster.
    files: HashMap<u32, Found>,
    /// Directories by first cluster, and the directory that contains each.
    directories: HashMap<u32, String>,
    chains: u32,
    names: usize,
    report: Report,
}

impl Walk<'_> {
    fn wrong(&mut self, path: &str, what: &str) {
        if self.report.wrong.len() < 20 {
            self.report.wrong.push(format!("{path} {what}"));
        }
    }

    /// Follows a chain; returns its clusters. Reports a chain that shares clusters with another.
    fn chain(&mut self, path: &str, first: u32) -> Result<Vec<u32>> {
        self.chains += 1;
        let (mut clusters, mut at) = (Vec::new(), first);
        loop {
            if !self.layout.is_cluster(at) {
                self.wrong(path, "begins outside of the volume");
                return Ok(clusters);
            }
            match self.owners[at as usize] {
                0 => self.owners[at as usize] = self.chains,
                own if own == self.chains => {
                    self.wrong(path, "leads in a circle");
                    return Ok(clusters);
                }
                _ => {
                    self.wrong(path, "shares clusters with another file");
                    return Ok(clusters);
                }
            }
            clusters.push(at);
            let next = self.layout.next(self.volume, at)?;
            // All values from 7 below the last one up end a chain.
            if next >= self.layout.last() - 7 {
                return Ok(clusters);
            }
            if !self.layout.is_cluster(next) {
                self.wrong(path, "has a chain that ends in a cluster that is free or bad");
                return Ok(clusters);
            }
            at = next;
        }
    }

    fn file(&mut self, path: &str, found: Found) -> Result<()> {
        let (first, size) = (found.cluster(), u64::from(found.size()));
        if first == 0 {
            if size > 0 {
                self.wrong(path, "has a size and no clusters");
            }
            return Ok(());
        }
        // A rename was cut: the whole chain has two names.
        if let Some(other) = self.files.get(&first) {
            if other.size() == found.size() {
                let hidden = other.name.starts_with(REMOVED);
                self.report.shared.push(if hidden { other.clone() } else { found.clone() });
            } else {
                self.wrong(path, "has the clusters of another file");
            }
            return Ok(());
        }
        let clusters = self.chain(path, first)?;
        let needed = size.div_ceil(self.layout.cluster);
        match (clusters.len() as u64).cmp(&needed) {
            std::cmp::Ordering::Less => self.wrong(path, "is longer than its clusters"),
            std::cmp::Ordering::Equal => {}
            // A file of size 0 keeps its first cluster, because its entry names it.
            std::cmp::Ordering::Greater if clusters.len() > 1 => {
                self.report.long.push(clusters[(needed.max(1) - 1) as usize]);
            }
            std::cmp::Ordering::Greater => {}
        }
        self.files.insert(first, found);
        Ok(())
    }

    fn directory(&mut self, path: &str, place: Place, depth: usize) -> Result<()> {
        if depth > DEEPEST {
            self.wrong(path, "lies too deep");
            return Ok(());
        }
        if let Place::Chain(first) = place {
            let before = self.report.wrong.len();
            self.chain(path, first)?;
            if self.report.wrong.len() > before {
                return Ok(());
            }
        }
        for found in self.layout.names(self.volume, place, MOST)? {
            self.names += 1;
            if self.names > MOST {
                self.wrong(path, "has too many names");
                return Ok(());
            }
            self.volume.refuel();
            // A rename from one name to another in the same directory was cut.
            if found.is_directory() && self.directories.get(&found.cluster()).is_some_and(|above| above == path) {
                self.report.renamed.push(found);
                continue;
            }
            let above = path;
            let path = format!("{path}/{}", found.name);
            if found.is_directory() {
                self.directories.insert(found.cluster(), above.to_owned());
                self.directory(&path, Place::Chain(found.cluster()), depth + 1)?;
            } else {
                self.file(&path, found)?;
            }
        }
        Ok(())
    }
}

/// Checks the whole volume.
///
/// # Errors
/// Errors of the disk.
pub fn look(volume: &Volume, layout: &Layout) -> Result<Report> {
    let mut walk = Walk {
        volume,
        layout,
        owners: vec![0; layout.end as usize],
        files: HashMap::new(),
        directories: HashMap::new(),
        chains: 0,
        names: 0,
        report: Report::default(),
    };
    walk.directory("", layout.root_place(), 0)?;
    let (mut report, owners) = (walk.report, walk.owners);
    for cluster in (2..layout.end).filter(|cluster| owners[*cluster as usize] == 0) {
        volume.refuel();
        let value = layout.next(volume, cluster)?;
        // The value for a bad cluster is 8 below the last one.
        if value != 0 && value != layout.last() - 8 {
            report.lost.push(cluster);
        }
    }
    Ok(report)
}

/// Checks the volume on a disk; returns all faults as messages.
///
/// # Errors
/// A message: there is no volume, or the disk fails.
pub fn faults(disk: Box<dyn Blocks>) -> std::result::Result<Vec<String>, String> {
    let volume = Volume::new(disk);
    volume.refuel();
    let found = Layout::read(&volume).and_then(|layout| look(&volume, &layout)).map_err(|error| error.to_string())?;
    let mut faults = found.wrong;
    let counts = [(found.lost.len(), "lost clusters"), (found.long.len(), "chains too long")];
    let counts =
        counts.into_iter().chain([(found.shared.len() + found.renamed.len(), "names on the clusters of another")]);
    faults.extend(counts.filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")));
    Ok(faults)
}

/// Checks a volume whose flag is set, and repairs the effects of a power cut. Returns whether it may be written.
///
/// # Errors
/// Errors of the disk.
pub fn after_a_cut(volume: &Volume, layout: &Layout, read_only: bool) -> Result<bool> {
    if !volume.is_in_use()? {
        return Ok(true);
    }
    let report = look(volume, layout)?;
    let (lost, shared) = (report.lost.len(), report.shared.len() + report.renamed.len());
    crate::say(&format!(
        "it was in use when the power went: {lost} lost clusters, {} chains too long, {shared} names twice, {} other faults",
        report.long.len(),
        report.wrong.len()
    ));
    for wrong in &report.wrong {
        crate::say(&wrong.escape_debug().to_string());
    }
    if !report.wrong.is_empty() {
        crate::say("it is only read; `fsck.vfat` mends it");
        return Ok(false);
    }
    if read_only {
        return Ok(false);
    }
    mend(volume, layout, &report)
}

fn mend(volume: &Volume, layout: &Layout, report: &Report) -> Result<bool> {
    let mut free = Vec::new();
    for last in &report.long {
        volume.refuel();
        let mut at = layout.next(volume, *last)?;
        layout.set_next(volume, *last, layout.last())?;
        volume.write_back(Plan::Shrink)?;
        while layout.is_cluster(at) {
            free.push(at);
            at = layout.next(volume, at)?;
        }
    }
    // Lost clusters can hold a copy.
    free.extend(&report.lost);
    for cluster in free {
        volume.refuel();
        layout.set_next(volume, cluster, 0)?;
    }
    volume.write_back(Plan::Shrink)?;
    for found in &report.shared {
        volume.refuel();
        if found.name.starts_with(REMOVED) {
            Layout::delete(volume, found)?;
            volume.write_back(Plan::Shrink)?;
        } else if !copy(volume, layout, found)? {
            crate::say("there is no room to give each of two names its own content; it is only read");
            return Ok(false);
        }
    }
    for found in &report.renamed {
        volume.refuel();
        Layout::delete(volume, found)?;
        volume.write_back(Plan::Shrink)?;
    }
    volume.clean()?;
    Ok(true)
}

/// Gives a name its own copy of its chain. Returns whether there was room.
fn copy(volume: &Volume, layout: &Layout, found: &Found) -> Result<bool> {
    let (mut chain, mut at) = (Vec::new(), found.cluster());
    while layout.is_cluster(at) && chain.len() < layout.end as usize {
        chain.push(at);
        at = layout.next(volume, at)?;
    }
    let mut fresh = Vec::new();
    for cluster in 2..layout.end {
        volume.refuel();
        if fresh.len() == chain.len() {
            break;
        }
        if layout.next(volume, cluster)? == 0 {
            fresh.push(cluster);
        }
    }
    if fresh.len() < chain.len() {
        return Ok(false);
    }
    for (from, to) in chain.iter().zip(&fresh) {
        volume.refuel();
        for at in (0..layout.cluster).step_by(PIECE) {
            let bytes: [u8; PIECE] = volume.at(layout.offset(*from) + at)?;
            volume.content(|| volume.put(layout.offset(*to) + at, &bytes))?;
        }
        volume.write_content()?;
    }
    for (index, cluster) in fresh.iter().enumerate() {
        layout.set_next(volume, *cluster, fresh.get(index + 1).copied().unwrap_or(layout.last()))?;
    }
    let mut found = found.clone();
    if let Some(first) = fresh.first() {
        found.set_cluster(*first);
    }
    volume.put(found.at, &found.entry)?;
    volume.write_back(Plan::Grow)?;
    Ok(true)
}
