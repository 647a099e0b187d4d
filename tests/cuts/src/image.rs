//! The bytes of a disk. Images that differ little share pages.

use std::io::{Result, Write};
use std::rc::Rc;

/// Bytes in a page.
const PAGE: usize = 4096;

/// A disk's bytes. A clone increments one reference count for each page.
#[derive(Clone, Debug)]
pub struct Image {
    pages: Vec<Rc<[u8; PAGE]>>,
    size: u64,
}

impl Image {
    /// An image with these bytes.
    pub fn new(bytes: &[u8]) -> Image {
        let zeroes = Rc::new([0; PAGE]);
        let page = |bytes: &[u8]| {
            if bytes.iter().all(|byte| *byte == 0) {
                return zeroes.clone();
            }
            let mut page = [0; PAGE];
            page[..bytes.len()].copy_from_slice(bytes);
            Rc::new(page)
        };
        Image { pages: bytes.chunks(PAGE).map(page).collect(), size: bytes.len() as u64 }
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Reads from an offset up to the end of the image; returns the number of bytes read.
    pub fn read(&self, at: u64, bytes: &mut [u8]) -> usize {
        let len = bytes.len().min(self.size.saturating_sub(at) as usize);
        let mut done = 0;
        while done < len {
            let (page, from) = place(at + done as u64);
            let count = (PAGE - from).min(len - done);
            bytes[done..done + count].copy_from_slice(&self.pages[page][from..from + count]);
            done += count;
        }
        len
    }

    /// The bytes at an offset; zeroes beyond the end.
    pub fn at(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.read(at, &mut bytes);
        bytes
    }

    /// Writes the part of these bytes that lies on the disk.
    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        let len = bytes.len().min(self.size.saturating_sub(at) as usize);
        let mut done = 0;
        while done < len {
            let (page, from) = place(at + done as u64);
            let count = (PAGE - from).min(len - done);
            Rc::make_mut(&mut self.pages[page])[from..from + count].copy_from_slice(&bytes[done..done + count]);
            done += count;
        }
    }

    /// Writes the whole image to a file.
    ///
    /// # Errors The file cannot be written.
    pub fn save(&self, mut to: impl Write) -> Result<()> {
        let mut left = self.size as usize;
        for page in &self.pages {
            to.write_all(&page[..left.min(PAGE)])?;
            left = left.saturating_sub(PAGE);
        }
        Ok(())
    }
}

fn place(at: u64) -> (usize, usize) {
    (at as usize / PAGE, at as usize % PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_keeps_its_snapshot() {
        let bytes: Vec<u8> = (0..10_000_u32).map(|at| (at / 7) as u8).collect();
        let mut image = Image::new(&bytes);
        let before = image.clone();
        image.write(4090, &[0xff; 20]);
        image.write(9_995, &[0xee; 20]);
        let mut expected = bytes.clone();
        expected[4090..4110].fill(0xff);
        expected[9_995..].fill(0xee);
        let saved = |image: &Image| {
            let mut saved = Vec::new();
            image.save(&mut saved).unwrap();
            saved
        };
        assert_eq!((saved(&image), saved(&before)), (expected.clone(), bytes));
        assert_eq!(image.at(4000, 200), expected[4000..4200]);
        assert_eq!((image.at(9_990, 20).len(), image.read(9_990, &mut [0; 20])), (20, 10));
    }
}
