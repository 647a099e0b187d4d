//! The reports of the hostile programs, what they leave behind, and the verdict.

use std::collections::BTreeMap;
use std::io;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use conformance::check::{Failure, Outcome, ensure};
use hostile::neighbour::Neighbour;
use hostile::usage::{Usage, root};
use zx::Job;

use crate::witnesses::{Witnesses, remove_files_of_others};

/// The services that must report success in a twentieth of their answers, and answer a twentieth of their requests, if
/// there were enough: without the raw disk, which belongs to the file system, and the names, which send no answers.
const SUCCEED: &[&str] = &["Clock", "Files", "Loader", "Network", "Socket"];
const ENOUGH: u64 = 1000;

/// What the hostile programs reported.
#[derive(Default)]
struct ReportedCounts {
    /// For each service: requests made, answers read, and answers that report success.
    asked: BTreeMap<String, [u64; 3]>,
    clients: u64,
    lost: u64,
    digest: u64,
}

impl ReportedCounts {
    fn sum(&self, which: usize) -> u64 {
        self.asked.values().map(|count| count[which]).sum()
    }

    fn tell(&self) {
        for (service, [made, answered, succeeded]) in &self.asked {
            println!("call {service} {made} {succeeded} 0 0");
            println!("answer {service} read {answered}");
        }
        println!(
            "fuzz: {} requests by {} processes, {} of which were ended by others; {} answers read, digest {:016x}",
            self.sum(0),
            self.clients,
            self.lost,
            self.sum(1),
            self.digest
        );
    }
}

/// Parses a number that another program wrote.
fn number(text: &str, radix: u32) -> Result<u64, Failure> {
    u64::from_str_radix(text, radix).map_err(|error| format!("{text}: {error}").into())
}

struct Watch {
    root: Job,
    witnesses: Witnesses,
    neighbour: Option<Neighbour>,
    /// Recorded after services have done everything for the first time.
    before: Option<Usage>,
    told: ReportedCounts,
}

impl Watch {
    fn new() -> Result<Watch, Failure> {
        Ok(Watch {
            root: root()?,
            witnesses: Witnesses::new()?,
            neighbour: Some(Neighbour::start_served()?),
            before: None,
            told: ReportedCounts::default(),
        })
    }

    /// Reads one line of a hostile program.
    fn line(&mut self, line: &str) -> Outcome {
        match line.split_whitespace().collect::<Vec<_>>().as_slice() {
            ["round"] => {
                self.witnesses.stand()?;
                self.neighbour.as_mut().ok_or("no neighbour")?.goes_on()
            }
            ["pause"] => {
                // No program makes requests now.
                self.neighbour = None;
                thread::sleep(Duration::from_secs(1));
                remove_files_of_others()?;
                self.before = Some(Usage::now(&self.root)?);
                self.told = ReportedCounts::default();
                self.neighbour = Some(Neighbour::start_served()?);
                Ok(())
            }
            ["asked", service, counts @ ..] => {
                let sums = self.told.asked.entry((*service).to_owned()).or_default();
                for (sum, count) in sums.iter_mut().zip(counts) {
                    *sum += number(count, 10)?;
                }
                Ok(())
            }
            ["clients", clients, lost, digest] => {
                self.told.clients += number(clients, 10)?;
                self.told.lost += number(lost, 10)?;
                self.told.digest = self.told.digest.rotate_left(1) ^ number(digest, 16)?;
                println!("fuzz: {} requests made", self.told.sum(0));
                Ok(())
            }
            _ => Err(format!("a hostile program says: {line}").into()),
        }
    }

    /// After the end of all hostile programs.
    fn end(&mut self) -> Outcome {
        self.told.tell();
        self.witnesses.stand()?;
        self.neighbour = None;
        remove_files_of_others()?;
        let before = self.before.take().ok_or("there was no pause")?;
        before.comes_back(&self.root)?;
        // Otherwise hardly any request was understood.
        for (service, [made, answered, succeeded]) in &self.told.asked {
            let judged = SUCCEED.contains(&service.as_str()) && *made >= ENOUGH;
            let few = judged && (answered * 20 < *made || succeeded * 20 < *answered);
            ensure(!few, &format!("{service}: {made} requests, {answered} answers read, {succeeded} were done"))?;
        }
        Ok(())
    }
}

/// The program.
pub fn watch() -> ExitCode {
    let whole = || -> Outcome {
        let mut watch = Watch::new()?;
        for line in io::stdin().lines() {
            watch.line(&line?)?;
        }
        watch.end()
    };
    match whole() {
        Ok(()) => {
            println!("fuzz: all is well");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            println!("fuzz: FAILED: {failure}");
            ExitCode::FAILURE
        }
    }
}
