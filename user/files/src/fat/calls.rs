//! Calling `fatfs`: with fuel and caught; and what it does not do by itself.

use std::collections::HashMap;
use std::io::{self, Seek, SeekFrom, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use fatfs::FsOptions;
use file_protocol::{Error, Result};

use super::nodes::{Inode, ROOT};
use super::volume::{Blocks, Volume};
use super::{ASCII, CLOCK, ENTRY, Fat, Fs, LARGEST, LONGEST_NAME, REMOVED, ZEROES, of_io};
use crate::system::{FileSystem, Node};

impl Fat {
    /// The volume on a disk.
    ///
    /// # Errors
    /// A sentence: there is none, or it makes no sense.
    pub fn mount(disk: Box<dyn Blocks>) -> std::result::Result<Fat, String> {
        let read_only = disk.read_only();
        let volume = Volume::new(disk);
        let options = FsOptions::new().time_provider(&CLOCK).oem_cp_converter(&ASCII).update_accessed_date(false);
        let parts = volume.clone();
        let made = catch_unwind(AssertUnwindSafe(move || Fs::new(parts, options)));
        let fs = match made {
            Ok(Ok(fs)) => fs,
            Ok(Err(error)) => return Err(format!("there is no FAT file system on it: {error}")),
            Err(_) => return Err("its FAT file system makes no sense".to_owned()),
        };
        let wide = fs.fat_type() == fatfs::FatType::Fat32;
        volume.set_flag(if wide { 0x41 } else { 0x25 });
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
            changed: false,
            broken: false,
            summary: wide.then_some(summary).filter(|at| *at > 0),
            held: 0,
        };
        if !fat.read_only {
            fat.remove_leftovers();
        }
        Ok(fat)
    }

    /// Removes what was open and removed when the machine was turned off.
    pub(super) fn remove_leftovers(&mut self) {
        let found = self.guard(|fat| {
            let mut found = Vec::new();
            for entry in fat.fs.root_dir().iter() {
                let entry = entry?;
                if entry.is_file() && entry.file_name().starts_with(REMOVED) {
                    found.push(entry.file_name());
                }
            }
            for name in found {
                fat.changed = true;
                fat.fs.root_dir().remove(&name)?;
            }
            Ok(())
        });
        // A volume that cannot be read says so to whoever uses it.
        let _ = found;
        self.settle();
    }

    /// Calls `fatfs`: with fuel, and caught.
    pub(super) fn guard<T>(&mut self, call: impl FnOnce(&mut Fat) -> io::Result<T>) -> Result<T> {
        if self.broken {
            return Err(Error::Damaged);
        }
        self.volume.refuel();
        match catch_unwind(AssertUnwindSafe(|| call(self))) {
            Ok(done) => done.map_err(|error| of_io(&error)),
            Err(_) => {
                eprintln!("the volume makes no sense; nothing is read or written any more");
                self.broken = true;
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

    /// Clusters that are free, and bytes of one.
    pub(super) fn free(&mut self) -> Result<(u64, u64)> {
        let stats = self.guard(|fat| fat.fs.stats())?;
        Ok((stats.free_clusters().into(), stats.cluster_size().into()))
    }

    /// That a name can be added. `fatfs` leaves half a name where it finds out in between that there is no room.
    pub(super) fn check_room_for_name(&mut self) -> Result<()> {
        let (free, cluster) = self.free()?;
        if free * cluster < LONGEST_NAME { Err(Error::Full) } else { Ok(()) }
    }

    /// Mends the first entries of a new directory: `fatfs` gives `.` and `..` long names beside the short ones, which no other system
    /// wants to see, and has `..` name the root's cluster where a zero belongs.
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
            // The number's upper and lower half.
            entries[ENTRY + 20..ENTRY + 22].fill(0);
            entries[ENTRY + 26..ENTRY + 28].fill(0);
        }
        self.volume.put(cluster, &entries)
    }

    /// Makes a file longer by zeroes.
    pub(super) fn extend(&mut self, file: Node, from: u64, to: u64) -> Result<()> {
        if to > LARGEST {
            return Err(Error::TooLarge);
        }
        let (free, cluster) = self.free()?;
        if to.div_ceil(cluster).saturating_sub(from.div_ceil(cluster)) > free {
            return Err(Error::Full);
        }
        let zeroes = vec![0; ZEROES];
        let mut at = from;
        while at < to {
            let len = (to - at).min(ZEROES as u64) as usize;
            at += self.write_at(file, at, &zeroes[..len])? as u64;
            // What it writes need not stay in memory.
            self.volume.write_back().map_err(|_| Error::Damaged)?;
        }
        Ok(())
    }

    /// Writes within a file or at its end.
    pub(super) fn write_at(&mut self, file: Node, offset: u64, bytes: &[u8]) -> Result<usize> {
        let written = self.with_file(file, |place| {
            place.seek(SeekFrom::Start(offset))?;
            let mut done = 0;
            while done < bytes.len() {
                match place.write(&bytes[done..]) {
                    Ok(0) => break,
                    Ok(len) => done += len,
                    Err(error) if done == 0 => return Err(error),
                    Err(_) => break,
                }
            }
            place.flush()?;
            Ok(done)
        })?;
        if let Some(inode) = self.nodes.get_mut(&file) {
            inode.size = inode.size.max(offset + written as u64);
            inode.modified = crate::now();
        }
        Ok(written)
    }
}
