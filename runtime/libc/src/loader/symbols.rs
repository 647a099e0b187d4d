//! Symbol look-up in one image: by GNU hash table (with its Bloom filter) or by the System V one.
//!
//! Versions are not looked at: nothing built for this target has them. A malformed table finds nothing; every loop ends
//! because it advances in a table that lies in one segment.

use super::elf::{Dynamic, Image, Symbol};

/// A name and its hash, computed once for a search over many images.
pub struct Name<'a> {
    text: &'a [u8],
    gnu: u32,
}

impl<'a> Name<'a> {
    /// Prepares a search for `text` (without NUL).
    pub fn new(text: &'a [u8]) -> Self {
        let gnu = text.iter().fold(5381u32, |hash, &byte| hash.wrapping_mul(33).wrapping_add(u32::from(byte)));
        Self { text, gnu }
    }

    /// The hash of the older tables, which hardly any image has.
    fn sysv(&self) -> u32 {
        self.text.iter().fold(0u32, |hash, &byte| {
            let hash = (hash << 4).wrapping_add(u32::from(byte));
            let high = hash & 0xf000_0000;
            (hash ^ high >> 24) & !high
        })
    }
}

/// A GNU hash table, looked through once: bounds and sizes are checked when an image is loaded, not at each search.
#[derive(Clone, Copy, Debug)]
pub struct GnuTable {
    /// As many words as a power of two.
    bloom: &'static [u64],
    shift: u32,
    /// At least one.
    buckets: &'static [u32],
    /// The chains' hashes; they end with the segment, which is further than they go.
    chains: &'static [u32],
    /// The symbol of the first of them.
    first: u32,
}

impl GnuTable {
    /// The table at `vaddr`; `None` if it is malformed.
    pub fn parse(image: &Image, vaddr: usize) -> Option<Self> {
        let [buckets, first, bloom_words, shift]: [u32; 4] = image.read(vaddr)?;
        if buckets == 0 || !bloom_words.is_power_of_two() || shift >= 32 {
            return None;
        }
        let bloom = vaddr.checked_add(16)?;
        let bucket_table = bloom.checked_add(bloom_words as usize * 8)?;
        let chains = bucket_table.checked_add(buckets as usize * 4)?;
        Some(Self {
            bloom: image.longs(bloom, bloom_words as usize)?,
            shift,
            buckets: image.words(bucket_table, buckets as usize)?,
            chains: image.words_to_end(chains)?,
            first,
        })
    }

    /// Where the chain of a hash starts; `None` if no symbol has it.
    fn chain(&self, hash: u32) -> Option<u32> {
        let word = *self.bloom.get((hash / 64) as usize & (self.bloom.len() - 1))?;
        let mask = 1u64 << (hash % 64) | 1u64 << ((hash >> self.shift) % 64);
        if word & mask != mask {
            return None;
        }
        self.buckets.get((hash % self.buckets.len() as u32) as usize)?.checked_sub(self.first)
    }
}

/// The definition of `name` that `image` offers to others.
pub fn find(image: &Image, dynamic: &Dynamic, name: &Name) -> Option<Symbol> {
    match (&dynamic.gnu_hash, dynamic.sysv_hash) {
        (Some(table), _) => find_gnu(image, dynamic, table, name),
        (_, Some(table)) => find_sysv(image, dynamic, table, name),
        _ => None,
    }
}

fn candidate(image: &Image, dynamic: &Dynamic, index: u32, name: &Name) -> Option<Symbol> {
    let symbol = dynamic.symbol(image, index as usize)?;
    let fits = symbol.is_defined() && symbol.is_global();
    (fits && dynamic.is_string(image, symbol.name as usize, name.text)).then_some(symbol)
}

fn find_gnu(image: &Image, dynamic: &Dynamic, table: &GnuTable, name: &Name) -> Option<Symbol> {
    let start = table.chain(name.gnu)?;
    for (link, &hash) in (start..).zip(table.chains.get(start as usize..)?) {
        if hash | 1 == name.gnu | 1
            && let Some(symbol) = candidate(image, dynamic, table.first.checked_add(link)?, name)
        {
            return Some(symbol);
        }
        if hash & 1 != 0 {
            return None;
        }
    }
    None
}

fn find_sysv(image: &Image, dynamic: &Dynamic, table: usize, name: &Name) -> Option<Symbol> {
    let [buckets, chains]: [u32; 2] = image.read(table)?;
    if buckets == 0 {
        return None;
    }
    let bucket_table = table.checked_add(8)?;
    let chain_table = bucket_table.checked_add(buckets as usize * 4)?;
    let mut index: u32 = image.read(bucket_table.checked_add((name.sysv() % buckets) as usize * 4)?)?;
    // A chain has at most `chains` links; more is a loop.
    for _ in 0..chains {
        if index == 0 {
            return None;
        }
        if let Some(symbol) = candidate(image, dynamic, index, name) {
            return Some(symbol);
        }
        index = image.read(chain_table.checked_add(index as usize * 4)?)?;
    }
    None
}

/// Entries of the symbol table, where a hash table tells.
pub fn count(image: &Image, dynamic: &Dynamic) -> usize {
    gnu_count(dynamic).or_else(|| Some(image.read::<[u32; 2]>(dynamic.sysv_hash?)?[1] as usize)).unwrap_or(0)
}

/// The GNU table does not say how many symbols there are: the last chain's end does.
fn gnu_count(dynamic: &Dynamic) -> Option<usize> {
    let table = dynamic.gnu_hash.as_ref()?;
    let Some(last) = table.buckets.iter().max()?.checked_sub(table.first) else { return Some(table.first as usize) };
    let end = table.chains.get(last as usize..)?.iter().position(|hash| hash & 1 != 0)?;
    Some(table.first as usize + last as usize + end + 1)
}

/// The defined symbol that covers `vaddr`, or the nearest below it.
pub fn nearest(image: &Image, dynamic: &Dynamic, vaddr: usize) -> Option<Symbol> {
    let mut best: Option<Symbol> = None;
    for index in 1..count(image, dynamic) {
        let Some(symbol) = dynamic.symbol(image, index) else { break };
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
