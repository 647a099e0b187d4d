//! Calls to `fatfs`, with bounded fuel and with panics caught; and operations that `fatfs` lacks.

use std::collections::HashMap;
use std::io::{self, Seek, SeekFrom, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use fatfs::FsOptions;
use file_protocol::{Error, Kind, Result};

use super::layout::{Found, Layout, Place};
use super::nodes::{Inode, ROOT};
use super::volume::{Plan, Volume};
use super::{ASCII, CLOCK, ENTRY, Fat, Fs, LARGE, LARGEST, NAMES, REMOVED, ZEROES, check, of_io};
use crate::blocks::Blocks;
use crate::system::{FileSystem, Node};

/// Bytes by which one slice extends a file.
const SLICE_BYTES: u64 = 4 << 20;

impl Fat {
    /// Mounts the volume on a disk.
    ///
    /// # Errors
    /// A message: there is no volume, or it is damaged.
    pub fn mount(disk: Box<dyn Blocks>) -> std::result::Result<Fat, String> {
        let mut read_only = disk.read_only();
        let volume = Volume::new(disk);
        volume.refuel();
        let layout = Layout::read(&volume).map_err(|error| format!("there is no FAT file system on it: {error}"))?;
        volume.set_layout(layout.clone(), if layout.bits == 32 { 0x41 } else { 0x25 });
        match check::after_a_cut(&volume, &layout, read_only) {
            Ok(true) => {}
            Ok(false) => read_only = true,
            Err(error) => return Err(format!("its FAT file system makes no sense: {error}")),
        }
        let options = FsOptions::new().time_provider(&CLOCK).oem_cp_converter(&ASCII).update_accessed_date(false);
        let parts = volume.clone();
        let made = catch_unwind(AssertUnwindSafe(move || Fs::new(parts, options)));
        let fs = match made {
            Ok(Ok(fs)) => fs,
            Ok(Err(error)) => return Err(format!("there is no FAT file system on it: {error}")),
            Err(_) => return Err("its FAT file system makes no sense".to_owned()),
        };
        let wide = fs.fat_type() == fatfs::FatType::Fat32;
        let header: io::Result<([u8; 2], [u8; 2])> = volume.at(11).and_then(|sector| Ok((sector, volume.at(48)?)));
        let (sector, summary) = header.map_err(|error| error.to_string())?;
        let summary = u64::from(u16::from_le_bytes(sector)) * u64::from(u16::from_le_bytes(summary));
        let mut fat = Fat {
            fs: Box::leak(Box::new(fs)),
            volume,
            nodes: HashMap::from([(ROOT, Inode::root())]),
            names: HashMap::new(),
            next: ROOT + 1,
            read_only,
            layout,
            changed: false,
            broken: false,
            failed: false,
            lost: false,
            summary: wide.then_some(summary).filter(|at| *at > 0),
            held: 0,
            unlinked: Vec::new(),
        };
        if !fat.read_only {
            fat.remove_leftovers();
        }
        Ok(fat)
    }

    /// Removes files that had no name but were still open when the machine was turned off.
    pub(super) fn remove_leftovers(&mut self) {
        let found = self.guard(|fat| {
            let mut found = Vec::new();
            for entry in fat.fs.root_dir().iter() {
                let entry = entry?;
                if entry.is_file() && entry.file_name().starts_with(REMOVED) {
                    found.push(entry.file_name());
                }
            }
            Ok(found)
        });
        // If the volume cannot be read, later requests report that.
        for name in found.unwrap_or_default() {
            if self.begin().is_ok() {
                let removed = self.guard(|fat| fat.fs.root_dir().remove(&name));
                let _ = self.end(Plan::Shrink, removed);
            }
        }
        self.settle();
    }

    /// Calls `fatfs` with bounded fuel, and catches panics.
    pub(super) fn guard<T>(&mut self, call: impl FnOnce(&mut Fat) -> io::Result<T>) -> Result<T> {
        if self.broken {
            return Err(Error::Damaged);
        }
        self.volume.refuel();
        match catch_unwind(AssertUnwindSafe(|| call(self))) {
            Ok(done) => done.map_err(|error| of_io(&error)),
            Err(_) => {
                crate::say("the volume makes no sense; nothing is read or written any more");
                (self.broken, self.lost) = (true, self.volume.is_pending());
                Err(Error::Damaged)
            }
        }
    }

    pub(super) fn check_change(&mut self) -> Result<()> {
        if self.read_only {
            return Err(Error::ReadOnly);
        }
        self.changed = true;
        Ok(())
    }

    /// Number of free clusters, and bytes of a cluster.
    pub(super) fn free(&mut self) -> Result<(u64, u64)> {
        let stats = self.guard(|fat| fat.fs.stats())?;
        Ok((stats.free_clusters().into(), stats.cluster_size().into()))
    }

    /// Begins a request that changes names. File content is written first, so that a failed request can be undone by
    /// itself.
    pub(super) fn begin(&mut self) -> Result<()> {
        self.check_change()?;
        self.write_back(Plan::Grow)
    }

    /// Ends a request: writes its changes to the disk, or undoes them.
    pub(super) fn end<T>(&mut self, plan: Plan, done: Result<T>) -> Result<T> {
        match done {
            Ok(done) => self.write_back(plan).map(|()| done),
            Err(error) => {
                self.volume.discard();
                Err(error)
            }
        }
    }

    pub(super) fn write_back(&mut self, plan: Plan) -> Result<()> {
        self.disk_done(self.volume.write_back(plan))
    }

    /// A failed disk write ends all writing. The disk's state is consistent, and further writes could break that.
    pub(super) fn disk_done(&mut self, done: io::Result<()>) -> Result<()> {
        done.map_err(|error| {
            if !self.failed {
                crate::say(&format!("the disk failed ({error}); from here on it is only read"));
            }
            (self.failed, self.read_only, self.lost) = (true, true, true);
            self.volume.discard();
            Error::Damaged
        })
    }

    /// Finds an entry by name.
    fn entry(&mut self, directory: Node, name: &str) -> Result<Found> {
        let place = self.place(directory)?;
        let small = name.to_lowercase();
        self.guard(|fat| {
            let names = fat.layout.names(&fat.volume, place, NAMES)?;
            names.into_iter().find(|found| found.name.to_lowercase() == small).ok_or(io::ErrorKind::NotFound.into())
        })
    }

    /// Makes the last cluster of a directory point to its first.
    #[cfg(test)]
    pub(crate) fn bite_tail(&mut self, directory: Node) {
        let Ok(Place::Chain(first)) = self.place(directory) else { panic!("it has no chain") };
        let mut last = first;
        loop {
            match self.layout.next(&self.volume, last).unwrap() {
                next if self.layout.is_cluster(next) => last = next,
                _ => break,
            }
        }
        // Fills the cluster so that no entry there marks the end of the names.
        for at in (self.layout.offset(last)..).step_by(ENTRY).take(self.layout.cluster as usize / ENTRY) {
            if self.volume.at(at).unwrap() == [0] {
                self.volume.put(at, &[0xe5]).unwrap();
            }
        }
        self.layout.set_next(&self.volume, last, first).unwrap();
        self.volume.write_back(Plan::Grow).unwrap();
        self.volume.clean().unwrap();
    }

    /// Runs `call`; also returns how much of the volume's fuel it takes.
    #[cfg(test)]
    pub(crate) fn fuel_for<T>(&mut self, call: impl FnOnce(&mut Fat) -> T) -> (T, u64) {
        self.volume.refuel();
        let before = self.volume.fuel();
        let done = call(self);
        (done, before - self.volume.fuel())
    }

    /// The location of a directory.
    pub(super) fn place(&self, directory: Node) -> Result<Place> {
        if directory == ROOT {
            return Ok(self.layout.root_place());
        }
        match self.inode(directory)? {
            inode if inode.kind != Kind::Directory => Err(Error::NotDirectory),
            inode if inode.removed.is_some() => Err(Error::NotFound),
            inode => Ok(Place::Chain(inode.cluster)),
        }
    }

    /// Chooses the hidden name in the root that a file has while it is open without a name.
    pub(super) fn hide(&mut self, node: Node) -> Result<String> {
        let hidden = format!("{REMOVED}{node}");
        self.close_handle(node);
        let root = self.dir(ROOT)?;
        // An earlier run may have left a file that it could not remove.
        match self.guard(|_| root.open_file(&hidden).map(drop)) {
            Err(Error::NotFound) => Ok(hidden),
            Err(error) => Err(error),
            Ok(()) => Err(Error::Exists),
        }
    }

    /// Handles a file that now has a hidden name only. If it is large and not open, it is removed in slices and held
    /// until then.
    pub(super) fn has_hidden_name(&mut self, node: Node, hidden: String) -> Result<()> {
        let inode = self.inode_mut(node)?;
        (inode.above, inode.name, inode.removed) = (ROOT, hidden.clone(), Some(hidden));
        if inode.holders == 0 {
            inode.holders = 1;
            self.unlinked.push(node);
        }
        Ok(())
    }

    /// Removes a file that has a hidden name.
    pub(super) fn remove_hidden(&mut self, node: Node) {
        self.close_handle(node);
        let hidden = self.nodes.remove(&node).and_then(|inode| inode.removed).unwrap_or_default();
        if !hidden.is_empty() && self.begin().is_ok() {
            // The next start removes it if that fails now.
            let removed = self.guard(|fat| fat.fs.root_dir().remove(&hidden));
            let _ = self.end(Plan::Shrink, removed);
        }
    }

    /// Renames an entry, within a directory or to another one. A power cut leaves the old name, both names, or the new
    /// name.
    pub(super) fn move_entry(&mut self, from: (Node, &str), to: (Node, &str)) -> Result<()> {
        let added = self.add_entry(from, to);
        self.end(Plan::Grow, added)?;
        let old = self.entry(from.0, from.1)?;
        let taken = self.guard(|fat| Layout::delete(&fat.volume, &old));
        self.end(Plan::Shrink, taken)
    }

    /// Temporarily adds a second name to a chain.
    fn add_entry(&mut self, from: (Node, &str), to: (Node, &str)) -> Result<()> {
        let target = self.dir(to.0)?;
        self.guard(|_| target.create_file(to.1).map(drop))?;
        let (old, new) = (self.entry(from.0, from.1)?, self.entry(to.0, to.1)?);
        self.guard(|fat| fat.volume.put(new.at, &new.with_all_of(&old)))
    }

    /// Renames a file over an existing one, which is removed; returns the name as it is written. A power cut leaves the
    /// old or the new content under the name.
    ///
    /// 1. If the other file is open, its chain gets a second, hidden name.
    /// 2. The entry of the name gets the chain, the size and the times of the file: one sector.
    /// 3. The file's old entry is removed.
    /// 4. The clusters of the replaced file are freed: in memory, the removed entry points to them. The disk never sees
    ///    that.
    pub(super) fn rename_over(&mut self, from: (Node, &str), directory: Node, over: Node) -> Result<String> {
        let inode = self.inode(over)?;
        let (name, held, large) = (inode.name.clone(), inode.holders > 0, inode.size > LARGE);
        self.close_handle(over);
        let mut hidden = None;
        if held || large {
            let made = self.hide(over).and_then(|hidden| {
                let added = self.add_entry((directory, &name), (ROOT, &hidden));
                self.end(Plan::Grow, added).map(|()| hidden)
            });
            match made {
                Ok(name) => hidden = Some(name),
                Err(Error::Full) if !held => {}
                Err(error) => return Err(error),
            }
        }
        let (file, target) = (self.entry(from.0, from.1)?, self.entry(directory, &name)?);
        let put = self.guard(|fat| fat.volume.put(target.at, &target.with_all_of(&file)));
        self.end(Plan::Grow, put)?;
        let mut old = self.entry(from.0, from.1)?;
        let (cluster, size) = if hidden.is_some() { (0, 0) } else { (target.cluster(), target.size()) };
        old.set_cluster(cluster);
        old.set_size(size);
        let source = self.dir(from.0)?;
        let removed = self.guard(|fat| {
            fat.volume.put(old.at, &old.entry)?;
            source.remove(from.1)
        });
        self.end(Plan::Shrink, removed)?;
        match hidden {
            Some(hidden) => {
                self.has_hidden_name(over, hidden)?;
            }
            None => drop(self.nodes.remove(&over)),
        }
        Ok(name)
    }

    /// Corrects the first entries of a new directory. `fatfs` gives `.` and `..` long names in addition to the short
    /// ones, which no other system expects, and makes `..` name the root's cluster, where the format wants a zero.
    pub(super) fn mend_dots(&self, cluster: u64, in_root: bool) -> io::Result<()> {
        let mut entries: [u8; 4 * ENTRY] = self.volume.at(cluster)?;
        let is = |at: usize, name: &[u8; 11]| entries[at..].starts_with(name);
        if !is(ENTRY, b".          ") || !is(3 * ENTRY, b"..         ") {
            return Ok(());
        }
        entries.copy_within(ENTRY..2 * ENTRY, 0);
        entries.copy_within(3 * ENTRY.., ENTRY);
        entries[2 * ENTRY..].fill(0);
        if in_root {
            // The cluster number's upper and lower half.
            entries[ENTRY + 20..ENTRY + 22].fill(0);
            entries[ENTRY + 26..ENTRY + 28].fill(0);
        }
        self.volume.put(cluster, &entries)
    }

    /// Extends a file with zeros by one slice; returns whether it is done.
    pub(super) fn extend(&mut self, file: Node, from: u64, whole: u64) -> Result<bool> {
        if whole > LARGEST {
            return Err(Error::TooLarge);
        }
        let (free, cluster) = self.free()?;
        if whole.div_ceil(cluster).saturating_sub(from.div_ceil(cluster)) > free {
            return Err(Error::Full);
        }
        let to = whole.min(from + SLICE_BYTES);
        let zeroes = vec![0; ZEROES];
        let mut at = from;
        while at < to {
            let len = (to - at).min(ZEROES as u64) as usize;
            at += self.write_at(file, at, &zeroes[..len])? as u64;
        }
        self.write_back(Plan::Grow)?;
        Ok(to == whole)
    }

    /// Writes within a file or at its end.
    pub(super) fn write_at(&mut self, file: Node, offset: u64, bytes: &[u8]) -> Result<usize> {
        let volume = self.volume.clone();
        let size = self.inode(file)?.size;
        let written = self.with_file(file, |place| {
            place.seek(SeekFrom::Start(offset))?;
            let mut done = 0;
            while done < bytes.len() {
                match volume.content(|| place.write(&bytes[done..])) {
                    Ok(0) => break,
                    Ok(len) => done += len,
                    Err(error) if done == 0 => return Err(error),
                    Err(_) => break,
                }
            }
            place.flush()?;
            Ok(done)
        })?;
        // Content need not stay in memory. If the disk fails this write, only this file gets the error.
        if let Err(error) = self.volume.write_content() {
            crate::say(&format!("the disk did not take what a file holds ({error})"));
            self.with_file(file, |place| {
                place.seek(SeekFrom::Start(size))?;
                place.truncate()?;
                place.flush()
            })?;
            return Err(Error::Damaged);
        }
        if let Some(inode) = self.nodes.get_mut(&file) {
            inode.size = inode.size.max(offset + written as u64);
            inode.modified = crate::now();
        }
        Ok(written)
    }
}
