//! The unit tests of `std` that need only the public interface of `std`: the component's files, in modules at the paths
//! that they expect, against the installed `std`. Unit tests that use internals need a `std` of their own and are not
//! included.
#![feature(
    const_default, const_trait_impl, assert_matches, bufreader_peek, buf_read_has_data_left, can_vector, core_io_borrowed_buf, dirfd, exit_status_error, fs_set_times, io_const_error, io_error_uncategorized, read_buf, read_buf_at, seek_stream_len, tcp_linger, tcplistener_into_incoming, test, thread_id_value, thread_spawn_hook, try_reserve_kind, unix_socket_peek, write_all_vectored, file_buffered, extract_if, anonymous_pipe, read_array, hash_set_entry, map_try_insert, internal_output_capture
)]
#![cfg_attr(target_os = "linux", feature(unix_socket_ancillary_data))]
#![allow(unused_features, unused_imports, internal_features, dead_code, stable_features)]

extern crate std as realstd;
extern crate test;

pub use std::*;

#[path = "src/test_helpers.rs"]
mod test_helpers;

#[path = "src/fs"]
mod fs {
    pub use std::fs::*;
    mod tests;
}

#[path = "src/net"]
mod net {
    pub use std::net::*;
    pub mod test;
    mod ip_addr {
        mod tests;
    }
    mod socket_addr {
        mod tests;
    }
    mod tcp {
        mod tests;
    }
    mod udp {
        mod tests;
    }
}

#[path = "src/process"]
mod process {
    pub use std::process::*;
    mod tests;
}

#[path = "src/thread"]
mod thread {
    pub use std::thread::*;
    mod tests;
}

#[path = "src/io"]
mod io {
    pub use std::io::*;
    /// Same as in `std`.
    const DEFAULT_BUF_SIZE: usize = 8 << 10;
    mod buffered {
        mod tests;
    }
    mod cursor {
        mod tests;
    }
    mod copy {
        mod tests;
    }
    mod pipe {
        mod tests;
    }
    mod util {
        mod tests;
    }
}

#[path = "src/collections/hash"]
mod collections {
    pub use std::collections::*;
    mod map {
        pub use std::collections::hash_map::*;
        mod tests;
    }
    mod set {
        pub use std::collections::hash_set::*;
        mod tests;
    }
}

#[path = "src/os/fd"]
mod os_fd {
    mod tests;
}

#[path = "src/os/unix/net"]
mod os_unix_net {
    pub use std::os::unix::net::*;
    mod tests;
}
