//! The tour: runs a few programs one after another, with a sentence before each.

use init::config::Command;

use crate::runner::{Connection, End, Runner};

struct Stop {
    program: &'static str,
    arguments: &'static [&'static str],
    words: &'static str,
}

const STOPS: &[Stop] = &[
    Stop {
        program: "ping-pong",
        arguments: &[],
        words: "Two threads send messages to each other over a channel, the system's basic means of communication.",
    },
    Stop { program: "primes", arguments: &[], words: "Eight ordinary std threads share the work of a prime sieve." },
    Stop {
        program: "sha256",
        arguments: &[],
        words: "A crate from the registry, unchanged, hashes the programs in the boot image.",
    },
    Stop {
        program: "family",
        arguments: &[],
        words: "A process starts children, which start children; they answer through pipes.",
    },
    Stop {
        program: "demand",
        arguments: &[],
        words: "Memory is committed when it is touched, so an object may be larger than what there is.",
    },
    Stop { program: "crash", arguments: &[], words: "Programs that go wrong take down nobody but themselves." },
];

/// Runs all stops. Returns 0, or 1 if a program did not behave as expected.
pub fn run(runner: &Runner) -> i64 {
    let link = runner.link;
    link.say("Hafnon: ordinary programs on the seL4 microkernel.");
    link.say(&format!(
        "{} MiB of memory, {} processor(s); every program below is a process of its own.",
        zx::system_get_physmem() >> 20,
        zx::system_get_num_cpus()
    ));
    let mut failed = 0;
    for (index, stop) in STOPS.iter().enumerate() {
        if runner.tasks.ending() {
            return 1;
        }
        link.say(&format!("\n[{}/{}] {}", index + 1, STOPS.len(), stop.program));
        link.say(stop.words);
        let command = Command::new(&format!("/boot/bin/{}", stop.program), stop.arguments);
        match runner.run(&command, &Connection::default()) {
            End::Returned(0) => continue,
            End::Returned(code) => link.complain(&format!("{} ended with {code}", stop.program)),
            End::TimedOut(_) => link.complain(&format!("{} did not end", stop.program)),
            End::NotStarted(reason) => link.complain(&format!("{}: {reason}", command.program)),
        }
        failed += 1;
    }
    link.say("\nThat was the tour.");
    i64::from(failed > 0)
}
