//! Files, pipes, UNIX sockets and child processes.
#![forbid(unsafe_code)]

mod children;
mod files;
mod pipes;
mod sockets;

use std::process::ExitCode;

/// Lists test functions with their names.
macro_rules! tests {
    ($($module:ident: $($name:ident)*;)*) => {
        vec![$($((concat!(stringify!($module), "::", stringify!($name)), $module::$name as fn()),)*)*]
    };
}

fn main() -> ExitCode {
    if let Ok(role) = std::env::var("CHILD") {
        return children::be(&role);
    }
    #[allow(unused_mut, reason = "there are more in one system than in others")]
    let mut tests: Vec<descriptors::Test> = tests! {
        children: exit_code output_and_errors environment cleared_environment arguments much_output kill null_input file_as_input
            panic_code missing_program broken_pipe no_descriptor_stays pipeline many_at_once;
        pipes: whole_stream end_of_stream vectored try_clone_keeps_it_open wrong_direction
            stream_pair datagram_pair timed_threads shut_down reset_by_unread_bytes;
        sockets: names names_without_sockets closed_for_the_next_call reset_before_accept another_process listener_dies
            connection_of_a_closed_client more_than_the_queue_holds datagrams more_datagrams_than_there_is_room_for
            datagrams_of_another_process;
        files: null directories_are_no_files missing canonical_paths;
    };
    #[cfg(target_os = "fuchsia")]
    tests.extend(tests! { files: reads seeks metadata lists nothing_can_be_changed working_directory many_open; });
    descriptors::run(&tests)
}
