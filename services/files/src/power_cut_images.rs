//! The file systems as the power-cut judge uses them ([`cuts::replay`]): on images in memory, whose writes and flushes
//! are logged.

use std::cell::RefCell;
use std::io::{ErrorKind, Result};
use std::rc::Rc;

use cuts::image::Image;
use cuts::log::Act;
use cuts::plan::Tree;
use cuts::replay::System;

use crate::blocks::Blocks;
use crate::ext4::Ext4;
use crate::ext4::device::Device;
use crate::fat::{self, Fat};
use crate::{FileSystem, contents, silently};

/// An image as a disk, and the log of its writes.
#[derive(Clone, Debug)]
struct Disk(Rc<RefCell<(Image, Vec<Act>)>>);

impl Disk {
    fn of(image: &Image) -> Disk {
        Disk(Rc::new(RefCell::new((image.clone(), Vec::new()))))
    }

    fn acts(&self) -> Vec<Act> {
        std::mem::take(&mut self.0.borrow_mut().1)
    }
}

impl Blocks for Disk {
    fn size(&self) -> u64 {
        self.0.borrow().0.size()
    }

    fn read_only(&self) -> bool {
        false
    }

    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let read = self.0.borrow().0.read(offset, bytes);
        if read == bytes.len() { Ok(()) } else { Err(ErrorKind::UnexpectedEof.into()) }
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let (image, acts) = &mut *self.0.borrow_mut();
        if offset + bytes.len() as u64 > image.size() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        image.write(offset, bytes);
        acts.push(Act::Write(offset, bytes.to_vec()));
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.0.borrow_mut().1.push(Act::Flush);
        Ok(())
    }
}

/// ext4: read after a mount, which replays the journal.
#[derive(Clone, Copy, Debug)]
pub struct Ext4Images;

impl System for Ext4Images {
    fn read(&self, image: &Image) -> std::result::Result<Tree, String> {
        silently(|| {
            let mut fs = Ext4::mount(Device::new(Box::new(Disk::of(image))))?;
            contents::all(&mut fs).map_err(|error| format!("it cannot be read: {error:?}"))
        })
    }

    fn start(&self, image: &Image) -> std::result::Result<Vec<Act>, String> {
        let disk = Disk::of(image);
        silently(|| Ext4::mount(Device::new(Box::new(disk.clone()))).map(drop))?;
        Ok(disk.acts())
    }
}

/// FAT: read by a reader that shares no code with this package. After a start, which checks and repairs the volume, a
/// second check finds nothing.
#[derive(Clone, Copy, Debug)]
pub struct FatImages;

impl System for FatImages {
    fn read(&self, image: &Image) -> std::result::Result<Tree, String> {
        cuts::fat::read(image, fat::REMOVED)
    }

    fn start(&self, image: &Image) -> std::result::Result<Vec<Act>, String> {
        let disk = Disk::of(image);
        let read_only = silently(|| Fat::mount(Box::new(disk.clone())).map(|mut fat| fat.information().read_only))?;
        if read_only {
            return Err("it is only read".to_owned());
        }
        let acts = disk.acts();
        match fat::faults(Box::new(disk))?.as_slice() {
            [] => Ok(acts),
            faults => Err(format!("there is still something to mend: {}", faults.join("; "))),
        }
    }
}
