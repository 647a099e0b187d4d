//! A log of transactions: adds rows to an SQLite database, or checks it.
#![forbid(unsafe_code)]

use std::env;
use std::error::Error;
use std::process::ExitCode;

use rusqlite::Connection;

const USAGE: &str = "usage: database FILE add N [delete|wal] | database FILE check";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("database: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [file, "add", n] => add(file, n.parse()?, "delete"),
        [file, "add", n, mode @ ("delete" | "wal")] => add(file, n.parse()?, mode),
        [file, "check"] => check(file),
        _ => Err(USAGE.into()),
    }
}

/// Opens the database for one process only: the write-ahead log of mode `wal` then needs no shared memory.
fn open(file: &str) -> rusqlite::Result<Connection> {
    let database = Connection::open(file)?;
    database.pragma_update(None, "locking_mode", "exclusive")?;
    Ok(database)
}

fn add(file: &str, n: u64, mode: &str) -> Result<(), Box<dyn Error>> {
    let mut database = open(file)?;
    database.pragma_update(None, "journal_mode", mode)?;
    database.pragma_update(None, "synchronous", "full")?;
    database.execute("create table if not exists log (n integer primary key, text text)", ())?;
    let last = database.query_row("select coalesce(max(n), 0) from log", (), |row| row.get::<_, u64>(0))?;
    for n in last + 1..=last.saturating_add(n) {
        let transaction = database.transaction()?;
        transaction.execute("insert into log values (?1, hex(randomblob(300)))", [n])?;
        transaction.commit()?;
        println!("committed {n}");
    }
    Ok(())
}

fn check(file: &str) -> Result<(), Box<dyn Error>> {
    let database = open(file)?;
    let verdict: String = database.query_row("pragma integrity_check", (), |row| row.get(0))?;
    if verdict != "ok" {
        return Err(format!("SQLite says: {verdict}").into());
    }
    let (rows, last): (u64, u64) = database
        .query_row("select count(*), coalesce(max(n), 0) from log", (), |row| Ok((row.get(0)?, row.get(1)?)))?;
    if rows != last {
        return Err(format!("there are {rows} rows, but the last has number {last}").into());
    }
    println!("{rows} rows, whole");
    Ok(())
}
