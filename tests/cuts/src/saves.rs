//! Files that `churn save` saves again and again, and which of them must be there after a cut.

use crate::Random;
use crate::plan::Tree;

/// The number of files.
pub const FILES: u64 = 4;

/// The name of the file that save `number` writes.
pub fn name(number: u64) -> String {
    format!("saved {}", number % FILES)
}

/// The content of a save: it contains the number, from which the rest and the length follow.
pub fn content(number: u64) -> Vec<u8> {
    let mut lot = Random::new(number);
    let words = 1 + lot.below(4000);
    let word = |at: usize| number.wrapping_add(at as u64 * 0x0001_0000_0000_0000).to_le_bytes();
    (0..words).flat_map(word).collect()
}

/// Checks that all saves from `first` to `last` are there, or later ones of the same file.
///
/// # Errors A sentence that says which one is not.
pub fn check(found: &Tree, first: u64, last: u64) -> Result<(), String> {
    for file in 0..FILES {
        let name = name(file);
        let newest = (first..=last).rev().find(|number| number % FILES == file);
        let Some(content_found) = found.get(&name) else {
            if newest.is_some() {
                return Err(format!("{name} is gone"));
            }
            continue;
        };
        let number = content_found.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        if number % FILES != file || *content_found != content(number) {
            return Err(format!("{name} is no whole save ({} bytes, number {number})", content_found.len()));
        }
        // One more save may be complete than was reported.
        if newest.is_some_and(|newest| number < newest) || number > last + 1 {
            return Err(format!("{name} is save {number}, of {last}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_save_is_noticed() {
        let mut found: Tree = (5..=8).map(|number| (name(number), content(number))).collect();
        assert_eq!((check(&found, 1, 8), check(&found, 1, 7)), (Ok(()), Ok(())));
        assert!(check(&found, 1, 9).is_err());
        found.insert(name(8), content(4));
        assert!(check(&found, 1, 8).is_err());
        found.insert(name(8), content(8)[..8].to_vec());
        assert!(check(&found, 1, 8).is_err() || content(8).len() == 8);
        found.remove(&name(8));
        assert!(check(&found, 1, 8).is_err());
    }
}
