//! Analyses a book with common libraries, and prints a report that is the same on every system.
//!
//! `regex` splits the book into sentences, a pool of threads (`rayon`) hashes (`sha2`) and counts them, and the report
//! is JSON (`serde_json`). The order of the threads must not affect the result: everything that they compute is merged
//! by commutative operations, and then sorted.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::process::ExitCode;

use rayon::prelude::*;
use regex::Regex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The results about the book.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Report {
    title: String,
    bytes: usize,
    sha256: String,
    words: u64,
    different_words: usize,
    sentences: usize,
    longest_sentence: String,
    words_per_sentence: f64,
    /// The fold over the hashes of all sentences.
    sentence_hashes: String,
    most_frequent: Vec<(String, u64)>,
    /// Words with the enclitic `-que` ("and"), by the word that they are joined to.
    joined_by_que: BTreeMap<String, u64>,
    people: Vec<String>,
    /// Words by their length in letters.
    lengths: BTreeMap<usize, u64>,
}

type Counts = BTreeMap<String, u64>;

fn main() -> ExitCode {
    // Four threads everywhere, so that the work is distributed even on a machine with one processor.
    let pool = match rayon::ThreadPoolBuilder::new().num_threads(4).build() {
        Ok(pool) => pool,
        Err(error) => {
            eprintln!("same-source: no threads: {error}");
            return ExitCode::FAILURE;
        }
    };
    let report = pool.install(|| read("De finibus bonorum et malorum, liber primus", lipsum::LIBER_PRIMUS));
    match print(&report) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("same-source: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the report and its hash; parses it first, so that the parser is tested, too.
fn print(report: &Report) -> Result<(), serde_json::Error> {
    let json = serde_json::to_string_pretty(report)?;
    let again: Report = serde_json::from_str(&json)?;
    assert_eq!(&again, report, "what was written is what is read");
    println!("{json}");
    println!("sha256 of this report: {}", hex(&Sha256::digest(json.as_bytes())));
    Ok(())
}

fn read(title: &str, book: &str) -> Report {
    let sentences = sentences(book);
    let counts = count_words(&sentences);
    let words = counts.values().sum();
    Report {
        title: title.to_owned(),
        bytes: book.len(),
        sha256: hex(&Sha256::digest(book.as_bytes())),
        words,
        different_words: counts.len(),
        sentences: sentences.len(),
        longest_sentence: sentences.iter().max_by_key(|text| text.len()).cloned().unwrap_or_default(),
        words_per_sentence: words as f64 / sentences.len().max(1) as f64,
        sentence_hashes: hash_all(&sentences),
        most_frequent: most_frequent(&counts, 10),
        joined_by_que: joined_by_que(&counts),
        people: people(&sentences),
        lengths: lengths(&counts),
    }
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is constant and right")
}

/// The sentences, with each run of white space replaced by one blank.
fn sentences(book: &str) -> Vec<String> {
    let (end, space) = (pattern(r"[.?!]+\s+"), pattern(r"\s+"));
    let parts: Vec<&str> = end.split(book).filter(|part| !part.trim().is_empty()).collect();
    parts.par_iter().map(|part| space.replace_all(part.trim(), " ").into_owned()).collect()
}

/// How often each word occurs, in lower case. Each thread counts separately; the counts are added up.
fn count_words(sentences: &[String]) -> Counts {
    let word = pattern(r"\p{Alphabetic}+");
    let add = |mut counts: Counts, word: &str| {
        *counts.entry(word.to_lowercase()).or_default() += 1;
        counts
    };
    sentences
        .par_iter()
        .fold(Counts::new, |counts, text| word.find_iter(text).fold(counts, |counts, word| add(counts, word.as_str())))
        .reduce(Counts::new, |mut left, right| {
            for (word, count) in right {
                *left.entry(word).or_default() += count;
            }
            left
        })
}

/// The exclusive-or of all hashes: the result does not depend on the order of the threads.
fn hash_all(sentences: &[String]) -> String {
    let all = sentences
        .par_iter()
        .map(|text| <[u8; 32]>::from(Sha256::digest(text.as_bytes())))
        .reduce(|| [0; 32], |left, right| std::array::from_fn(|index| left[index] ^ right[index]));
    hex(&all)
}

fn most_frequent(counts: &Counts, limit: usize) -> Vec<(String, u64)> {
    let mut all: Vec<_> = counts.iter().map(|(word, count)| (word.clone(), *count)).collect();
    all.par_sort_by(|left, right| right.1.cmp(&left.1).then_with(|| left.0.cmp(&right.0)));
    all.truncate(limit);
    all
}

fn joined_by_que(counts: &Counts) -> Counts {
    let joined = pattern(r"^(?<word>\p{Alphabetic}{4,})que$");
    let joined = |word: &String| joined.captures(word).map(|found| found["word"].to_owned());
    counts.iter().filter_map(|(word, count)| Some((joined(word)?, *count))).collect()
}

/// Capitalised words inside sentences: mostly names.
fn people(sentences: &[String]) -> Vec<String> {
    let name = pattern(r"[a-z,;] (?<name>\p{Uppercase}\p{Lowercase}{3,})");
    let mut names: Vec<String> = sentences
        .par_iter()
        .flat_map_iter(|text| name.captures_iter(text).map(|found| found["name"].to_owned()))
        .collect();
    names.par_sort_unstable();
    names.dedup();
    names
}

fn lengths(counts: &Counts) -> BTreeMap<usize, u64> {
    let mut lengths = BTreeMap::new();
    for (word, count) in counts {
        *lengths.entry(word.chars().count()).or_default() += count;
    }
    lengths
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_book() {
        let report = read("small", "Arma virumque cano. Arma\n cano,  Brute!  Arma?");
        assert_eq!(report.sentences, 3);
        assert_eq!(report.words, 7);
        assert_eq!(report.most_frequent[0], ("arma".to_owned(), 3));
        assert_eq!(report.longest_sentence, "Arma virumque cano");
        assert!(report.joined_by_que.contains_key("virum"));
        assert_eq!(report.people, ["Brute"]);
    }

    #[test]
    fn threads_do_not_show() {
        let one = read("book", lipsum::LIBER_PRIMUS);
        for _ in 0..5 {
            assert_eq!(read("book", lipsum::LIBER_PRIMUS), one);
        }
    }

    #[test]
    fn known_hash() {
        assert_eq!(hex(&Sha256::digest(b"abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
