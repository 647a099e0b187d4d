//! Symbol look-up in one image: by GNU hash table (with its Bloom filter) or by the System V one.
//!
//! Symbol versions are ignored, because files for this target have none. In a malformed table nothing is found; every
//! loop ends, because it advances in a table within one segment.
//!
//! To start a program, the linker binds a few hundred symbols, and searches one image after the other for each. So
//! [`Search`] extracts the tables from the image once, and a search only checks the bounds of slices.

use super::elf::{Dynamic, Image, Symbol};

/// A name and its hash, computed once for a search over many images.
#[derive(Clone, Copy)]
pub struct Name<'a> {
    text: &'a [u8],
    gnu: u32,
}

/// The hash of an empty name; the next function adds a byte.
const GNU_START: u32 = 5381;
fn gnu_more(hash: u32, byte: u8) -> u32 {
    hash.wrapping_mul(33).wrapping_add(u32::from(byte))
}

impl<'a> Name<'a> {
    /// Prepares a search for `text` (without NUL).
    pub fn new(text: &'a [u8]) -> Self {
        Self { text, gnu: text.iter().fold(GNU_START, |hash, &byte| gnu_more(hash, byte)) }
    }

    /// The name itself.
    pub fn text(&self) -> &'a [u8] {
        self.text
    }

    fn sysv(&self) -> u32 {
        self.text.iter().fold(0u32, |hash, &byte| {
            let hash = (hash << 4).wrapping_add(u32::from(byte));
            let high = hash & 0xf000_0000;
            (hash ^ high >> 24) & !high
        })
    }
}

/// The symbol table, string table and GNU hash table of an image; each extends to the end of its segment.
#[derive(Clone, Default, Debug)]
pub struct Search {
    symbols: &'static [Symbol],
    strings: &'static [u8],
    gnu: Option<Gnu>,
}

#[derive(Clone, Debug)]
struct Gnu {
    /// Index of the first symbol in the hash table.
    first: u32,
    shift: u32,
    /// Its length is a power of two.
    bloom: &'static [u64],
    /// Not empty.
    buckets: &'static [u32],
    chains: &'static [u32],
}

impl Gnu {
    fn new(image: &Image, vaddr: usize) -> Option<Self> {
        let &[buckets, first, bloom_words, shift] = image.table::<u32>(vaddr)?.first_chunk()?;
        // Symbol 0 is not a symbol.
        if buckets == 0 || first == 0 || !bloom_words.is_power_of_two() || shift >= 32 {
            return None;
        }
        let bloom = vaddr.checked_add(16)?;
        let after = bloom.checked_add(bloom_words as usize * 8)?;
        let (buckets, chains) = image.table(after)?.split_at_checked(buckets as usize)?;
        Some(Gnu { first, shift, bloom: image.table(bloom)?.get(..bloom_words as usize)?, buckets, chains })
    }

    /// Symbols with the same hash as the name.
    fn candidates(&self, name: &Name) -> Candidates<'_> {
        let word = self.bloom.get((name.gnu as usize / 64) & (self.bloom.len() - 1)).copied().unwrap_or(0);
        let mask = 1u64 << (name.gnu % 64) | 1u64 << ((name.gnu >> self.shift) % 64);
        let index = match word & mask == mask {
            true => self.buckets.get(name.gnu as usize % self.buckets.len()).copied().unwrap_or(0),
            false => 0,
        };
        Candidates { table: self, hash: name.gnu, index }
    }
}

/// Iterator of [`Gnu::candidates`].
struct Candidates<'a> {
    table: &'a Gnu,
    hash: u32,
    /// Next index of the chain; below the table's first index at the end.
    index: u32,
}

impl Iterator for Candidates<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        loop {
            let index = self.index;
            let hash = *self.table.chains.get(index.checked_sub(self.table.first)? as usize)?;
            self.index = if hash & 1 != 0 { 0 } else { index.checked_add(1)? };
            if hash | 1 == self.hash | 1 {
                return Some(index);
            }
            if hash & 1 != 0 {
                return None;
            }
        }
    }
}

impl Search {
    /// The tables of an image at these addresses; `None` if they cannot be read, or are writable.
    pub fn new(image: &Image, strings: usize, symbols: usize, gnu: Option<usize>) -> Option<Self> {
        let gnu = gnu.and_then(|vaddr| Gnu::new(image, vaddr));
        Some(Search { symbols: image.table(symbols)?, strings: image.table(strings)?, gnu })
    }

    /// The symbol at `index`.
    pub fn symbol(&self, index: usize) -> Option<Symbol> {
        self.symbols.get(index).copied()
    }

    /// The string at `offset` of the string table, without its NUL.
    pub fn string(&self, offset: usize) -> Option<&'static [u8]> {
        self.name(offset).map(|name| name.text)
    }

    /// Like [`Search::string`], with its hash.
    pub fn name(&self, offset: usize) -> Option<Name<'static>> {
        let bytes = self.strings.get(offset..)?;
        let mut gnu = GNU_START;
        for (len, &byte) in bytes.iter().enumerate() {
            if byte == 0 {
                return Some(Name { text: &bytes[..len], gnu });
            }
            gnu = gnu_more(gnu, byte);
        }
        None
    }

    /// The symbol at `index`, if other images see it and it has this name.
    fn defines(&self, index: u32, name: &Name) -> Option<Symbol> {
        let symbol = self.symbols.get(index as usize)?;
        if !symbol.is_defined() || !symbol.is_global() {
            return None;
        }
        let rest = self.strings.get(symbol.name as usize..)?.strip_prefix(name.text)?;
        (rest.first() == Some(&0)).then_some(*symbol)
    }
}

/// The definition of `name` in `image` that other images see.
pub fn find(image: &Image, dynamic: &Dynamic, name: &Name) -> Option<Symbol> {
    let search = &dynamic.search;
    match (&search.gnu, dynamic.sysv_hash) {
        (Some(table), _) => table.candidates(name).find_map(|index| search.defines(index, name)),
        (None, Some(table)) => find_sysv(image, search, table, name),
        (None, None) => None,
    }
}

fn find_sysv(image: &Image, search: &Search, table: usize, name: &Name) -> Option<Symbol> {
    let [buckets, chains]: [u32; 2] = image.read(table)?;
    if buckets == 0 {
        return None;
    }
    let bucket_table = table.checked_add(8)?;
    let chain_table = bucket_table.checked_add(buckets as usize * 4)?;
    let mut index: u32 = image.read(bucket_table.checked_add((name.sysv() % buckets) as usize * 4)?)?;
    // A chain has at most `chains` links; a longer one is a loop.
    for _ in 0..chains {
        if index == 0 {
            return None;
        }
        if let Some(symbol) = search.defines(index, name) {
            return Some(symbol);
        }
        index = image.read(chain_table.checked_add(index as usize * 4)?)?;
    }
    None
}

/// Number of entries in the symbol table, if a hash table gives it.
pub fn count(image: &Image, dynamic: &Dynamic) -> usize {
    let by_gnu = dynamic.search.gnu.as_ref().and_then(gnu_count);
    by_gnu.or_else(|| Some(image.read::<[u32; 2]>(dynamic.sysv_hash?)?[1] as usize)).unwrap_or(0)
}

/// The GNU hash table does not hold the number of symbols; the end of the last chain gives it.
fn gnu_count(table: &Gnu) -> Option<usize> {
    let mut last = table.buckets.iter().copied().max()?;
    if last < table.first {
        return Some(table.first as usize);
    }
    loop {
        let hash = *table.chains.get((last - table.first) as usize)?;
        last = last.checked_add(1)?;
        if hash & 1 != 0 {
            return Some(last as usize);
        }
    }
}

/// The defined symbol that covers `vaddr`, or the nearest below it.
pub fn nearest(image: &Image, dynamic: &Dynamic, vaddr: usize) -> Option<Symbol> {
    let mut best: Option<Symbol> = None;
    for index in 1..count(image, dynamic) {
        let Some(symbol) = dynamic.search.symbol(index) else { break };
        let value = symbol.value as usize;
        if !symbol.is_defined() || symbol.is_tls() || symbol.is_absolute() || value > vaddr {
            continue;
        }
        if best.is_none_or(|best| best.value < symbol.value) {
            best = Some(symbol);
        }
    }
    best.filter(|symbol| symbol.size == 0 || vaddr - (symbol.value as usize) < symbol.size as usize)
}
