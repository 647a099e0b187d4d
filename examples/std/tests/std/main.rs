//! A test for each line of the table.

mod alloc;
mod differs;
mod env;
mod io;
mod panic;
mod process;
mod roles;
mod thread;

use std::process::ExitCode;

use std_table::table::{Proof, Status, TABLE};

/// Lists test functions with their names.
macro_rules! tests {
    ($($module:ident: $($name:ident)*;)*) => {
        [$($((concat!(stringify!($module), "::", stringify!($name)), $module::$name as _),)*)*]
    };
}

fn main() -> ExitCode {
    if let Ok(role) = std::env::var("CHILD") {
        return roles::be(&role);
    }
    let mut tests: Vec<descriptors::Test> = tests! {
        alloc: alignments too_much_is_an_error too_much_ends_the_process;
        env: arguments executable places working_directory;
        io: random_states_differ lines_of_input lines_stay_whole no_terminals pipes descriptors;
        panic: backtraces caught thousands hooks in_drop_aborts in_c_function_aborts;
        process: argument_zero a_copy environments bare_names many_arguments too_many_arguments stdio both_outputs waiting exit_codes
            exit_in_a_thread aborts own_id;
        thread: spawning names stack_sizes thousand parking sleeping parallelism destructors;
    }
    .into();
    let differs: [descriptors::Test; 6] = tests! {
        differs: exec_panics killed_has_no_signal current_dir_is_ignored spawn_errors spawn_of_bad_files
            spawn_without_a_library;
    };
    check_table(&tests, &differs);
    if cfg!(target_os = "fuchsia") {
        tests.extend(differs);
    }
    descriptors::run(&tests)
}

/// Checks that each test has a line of the right status in the table, and each line a test.
fn check_table(works: &[descriptors::Test], differs: &[descriptors::Test]) {
    let of = |status| match status {
        Status::Works => works,
        Status::Differs => differs,
        Status::Unsupported => &[],
    };
    for entry in TABLE {
        if let Proof::Test(name) = entry.proof {
            let there = of(entry.status).iter().any(|(test, _)| *test == name);
            assert!(there, "{}: {}: no test {name} of the kind {:?}", entry.module, entry.api, entry.status);
        }
    }
    for (name, _) in works.iter().chain(differs) {
        assert!(TABLE.iter().any(|entry| entry.proof == Proof::Test(name)), "{name} stands in no line of the table");
    }
}
