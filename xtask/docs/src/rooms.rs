//! The rooms of the tree, and how many lines of code each has: a table of docs/architecture.md.
//!
//! A line counts unless it is blank. Files with Rust, C, headers, assembly and TOML count; a file in a folder of a room
//! is the room's.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use xtask_build::cargo;
use xtask_common::paths::Paths;

/// The endings of files that count.
const CODE: [&str; 5] = ["rs", "c", "h", "S", "toml"];
/// By how much a figure on the page may deviate before it must be updated, in percent.
const OFF: u64 = 10;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rooms {
    room: Vec<Room>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Room {
    /// Its path in the tree.
    place: PathBuf,
    /// What it is for.
    holds: String,
    /// Its lines before the rooms were made.
    before: u64,
    #[serde(skip)]
    now: u64,
}

/// The table; the old one, if no figure deviates by more than a tenth.
///
/// # Errors
/// A file cannot be read, a folder at the top of the tree is no room, or a room has no code.
pub fn part(paths: &Paths, old: &str) -> Result<String> {
    let mut rooms: Rooms = toml::from_str(include_str!("rooms.toml")).context("in xtask/docs/src/rooms.toml")?;
    let mut files = BTreeMap::new();
    for path in cargo::sources(&paths.workspace)? {
        if path.extension().is_some_and(|extension| CODE.iter().any(|code| extension == *code)) {
            let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            files.insert(paths.short(&path).to_path_buf(), lines(&text));
        }
    }
    count(&mut rooms.room, &files)?;
    Ok(if is_near(old, &rooms.room) { old.into() } else { table(&rooms.room) })
}

/// Number of lines that are not blank.
fn lines(text: &str) -> u64 {
    text.lines().filter(|line| !line.trim().is_empty()).map(|_| 1).sum()
}

/// Counts the lines of each room.
fn count(rooms: &mut [Room], files: &BTreeMap<PathBuf, u64>) -> Result<()> {
    for (file, lines) in files {
        // Files at the top, and those of tools, are in no room.
        let is_top = file.parent().is_none_or(|folder| folder.as_os_str().is_empty()) || file.starts_with(".cargo");
        let mut has_room = is_top;
        for room in rooms.iter_mut().filter(|room| file.starts_with(&room.place)) {
            room.now += lines;
            has_room = true;
        }
        if !has_room {
            bail!("xtask/docs/src/rooms.toml has no room for {}", file.display());
        }
    }
    match rooms.iter().find(|room| room.now == 0) {
        Some(room) => bail!("xtask/docs/src/rooms.toml: no code is in {}", room.place.display()),
        None => Ok(()),
    }
}

fn is_top(room: &Room) -> bool {
    room.place.components().count() == 1
}

fn table(rooms: &[Room]) -> String {
    let mut table = String::from("| room | holds | before | now |\n|---|---|--:|--:|\n");
    for room in rooms {
        let mark = if is_top(room) { "**" } else { "" };
        let (place, holds, now) = (room.place.display(), &room.holds, room.now);
        let before = if room.before == 0 { "–".into() } else { format!("{mark}{}{mark}", room.before) };
        let _ = writeln!(table, "| {mark}`{place}/`{mark} | {holds} | {before} | {mark}{now}{mark} |");
    }
    let sum = |lines: fn(&Room) -> u64| -> u64 { rooms.iter().filter(|room| is_top(room)).map(lines).sum() };
    let _ = writeln!(table, "| **all** | | **{}** | **{}** |", sum(|room| room.before), sum(|room| room.now));
    table
}

/// Whether a table differs from that of these rooms only in figures of today, and in none by much.
fn is_near(old: &str, rooms: &[Room]) -> bool {
    let new = table(rooms);
    let near = |(old, new): (&str, &str)| match (today(old), today(new)) {
        (Some((old, before)), Some((new, now))) => old == new && before.abs_diff(now) * 100 <= now * OFF,
        _ => old == new,
    };
    old.lines().count() == new.lines().count() && old.lines().zip(new.lines()).all(near)
}

/// A row of the table: the rest of it, and its last figure.
fn today(row: &str) -> Option<(&str, u64)> {
    let (rest, now) = row.strip_suffix(" |")?.rsplit_once("| ")?;
    Some((rest, now.trim_matches('*').parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(place: &str, now: u64) -> Room {
        Room { place: place.into(), holds: "things".into(), before: 40, now }
    }

    #[test]
    fn a_line_counts_unless_it_is_blank() {
        assert_eq!(lines("// a\n\n  \nb\n"), 2);
    }

    #[test]
    fn files_are_in_rooms() {
        let mut rooms = [room("a", 0), room("a/b", 0)];
        let mut files: BTreeMap<PathBuf, u64> =
            [("a/c.rs", 1), ("a/b/d/e.rs", 2), ("top.toml", 4)].map(|(path, lines)| (path.into(), lines)).into();
        count(&mut rooms, &files).expect("rooms");
        assert_eq!(rooms.each_ref().map(|room| room.now), [3, 2]);
        files.insert("ab/f.rs".into(), 1);
        assert!(count(&mut rooms, &files).is_err());
        assert!(count(&mut [room("empty", 0)], &BTreeMap::new()).is_err());
    }

    #[test]
    fn a_table_is_good_until_a_figure_is_far_off() {
        let rooms = |now| [room("a", 1000), room("a/b", now)];
        let old = table(&rooms(100));
        assert!(is_near(&old, &rooms(105)) && is_near(&old, &rooms(95)));
        assert!(!is_near(&old, &rooms(120)) && !is_near(&old, &rooms(105)[..1]) && !is_near("", &rooms(100)));
    }
}
