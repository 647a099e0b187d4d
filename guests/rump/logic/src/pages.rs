//! Which pages of the kernel's memory are in use.

/// The size of a page.
pub const PAGE: usize = 4096;
/// Pages of one word of the map.
const WORD: usize = 64;

/// An allocator of runs of pages: a bit for each page, and the first run that fits.
///
/// The map is the caller's memory. An allocation looks at each page at most twice.
#[derive(Debug)]
pub struct Pages<'m> {
    /// A set bit is a page in use.
    map: &'m mut [u64],
    count: usize,
    /// The number of the first page from an address that is aligned to anything.
    base: usize,
    /// No page before this one is free.
    lowest: usize,
    used: usize,
}

/// Pages were freed that are not in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongFree;

impl<'m> Pages<'m> {
    /// Number of words of the map for `count` pages.
    pub const fn words(count: usize) -> usize {
        count.div_ceil(WORD)
    }

    /// All pages are free. `base` is the first page's address in pages; alignment counts from address zero. There are as
    /// many pages as the map has bits, at most `count`.
    pub fn new(map: &'m mut [u64], count: usize, base: usize) -> Pages<'m> {
        map.fill(0);
        let count = count.min(map.len().saturating_mul(WORD)).min(usize::MAX - base);
        Pages { map, count, base, lowest: 0, used: 0 }
    }

    /// Number of pages in use.
    #[cfg(test)]
    pub fn used(&self) -> usize {
        self.used
    }

    fn is_used(&self, page: usize) -> bool {
        self.map[page / WORD] >> (page % WORD) & 1 != 0
    }

    /// The first free page at `page` or after it, at most `end`.
    fn next_free(&self, mut page: usize, end: usize) -> usize {
        while page < end {
            let taken = self.map[page / WORD] >> (page % WORD);
            let skipped = taken.trailing_ones() as usize;
            if skipped == 0 {
                return page;
            }
            // Ones that the shift brought in are zeroes: a word that is full ends at the next one.
            page += skipped;
        }
        end
    }

    /// The first page at `page` or after it whose address is a multiple of `align` pages.
    fn aligned(&self, page: usize, align: usize) -> Option<usize> {
        (self.base + page).checked_next_multiple_of(align).map(|aligned| aligned - self.base)
    }

    /// Takes `count` pages in a row whose address is a multiple of `align` pages; returns the first one.
    pub fn take(&mut self, count: usize, align: usize) -> Option<usize> {
        if count == 0 || align == 0 || count > self.count - self.used {
            return None;
        }
        self.lowest = self.next_free(self.lowest, self.count);
        let mut start = self.lowest;
        loop {
            start = self.aligned(self.next_free(start, self.count), align)?;
            let end = start.checked_add(count).filter(|end| *end <= self.count)?;
            match (start..end).rev().find(|page| self.is_used(*page)) {
                // No run that fits begins at or before a page in use.
                Some(used) => start = used + 1,
                None => {
                    (start..end).for_each(|page| self.map[page / WORD] |= 1 << (page % WORD));
                    self.used += count;
                    return Some(start);
                }
            }
        }
    }

    /// Gives pages back.
    ///
    /// # Errors
    /// One of them is not in use. None is freed then.
    pub fn give(&mut self, start: usize, count: usize) -> Result<(), WrongFree> {
        let end = start.checked_add(count).filter(|end| *end <= self.count).ok_or(WrongFree)?;
        if count == 0 || (start..end).any(|page| !self.is_used(page)) {
            return Err(WrongFree);
        }
        (start..end).for_each(|page| self.map[page / WORD] &= !(1 << (page % WORD)));
        self.used -= count;
        self.lowest = self.lowest.min(start);
        Ok(())
    }
}
