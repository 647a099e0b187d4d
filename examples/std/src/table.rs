//! The table. It has no dependencies, so that a tool can include this file as it is.

/// How a part of std behaves on x86_64-unknown-fuchsia here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// As std promises.
    Works,
    /// It returns `io::ErrorKind::Unsupported`, at once.
    Unsupported,
    /// It behaves differently from other systems; the note says how.
    Differs,
}

/// The proof of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A test of this package, by name.
    Test(&'static str),
    /// A suite of Rust's own tests, or a program of one.
    Rust(&'static str),
    /// Tests of another example: its name, and the prefix of the tests' names.
    Example(&'static str, &'static str),
}

/// A line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The module of std.
    pub module: &'static str,
    /// The part of the module, in std's own terms.
    pub api: &'static str,
    /// How it behaves.
    pub status: Status,
    /// The proof.
    pub proof: Proof,
    /// A note.
    pub note: &'static str,
}

use Proof::{Example, Rust, Test};
use Status::{Differs, Works};

const fn entry(module: &'static str, api: &'static str, status: Status, proof: Proof, note: &'static str) -> Entry {
    Entry { module, api, status, proof, note }
}

/// All lines, by module.
#[rustfmt::skip]
pub const TABLE: &[Entry] = &[
    entry("alloc", "`GlobalAlloc` of `System`: any size, large alignments, growing and shrinking", Works, Test("alloc::alignments"), ""),
    entry("alloc", "`try_reserve` beyond all memory", Works, Test("alloc::too_much_is_an_error"), "`TryReserveError`"),
    entry("alloc", "a collection that cannot grow", Works, Test("alloc::too_much_ends_the_process"), "the process aborts with a message, as std says"),
    entry("alloc, collections, rc, string, vec, …", "everything that is computed", Works, Rust("alloctests"), ""),
    entry("backtrace", "`Backtrace::capture`, `force_capture`", Works, Test("panic::backtraces"), "in the symbolizer's markup, as on Fuchsia: the host's tool puts names in; see [debugging.md](debugging.md)"),
    entry("core", "everything that is computed", Works, Rust("coretests"), ""),
    entry("env", "`args`, `args_os`", Works, Test("env::arguments"), "any bytes but NUL"),
    entry("env", "`var`, `vars`, `set_var`, `remove_var`", Works, Rust("env_modify"), ""),
    entry("env", "`current_exe`", Works, Test("env::executable"), "made of the first argument, as std does on this target; a program started by a bare name gets that name below the working directory"),
    entry("env", "`temp_dir`", Works, Test("env::places"), "`/tmp`, or `TMPDIR`"),
    entry("env", "`home_dir`", Works, Test("env::places"), "`HOME`; `None` without"),
    entry("env", "`current_dir`, `set_current_dir`", Works, Test("env::working_directory"), "a path of the process, not of the kernel; children inherit it"),
    entry("env", "`join_paths`, `split_paths`", Works, Rust("env"), ""),
    entry("error", "`Report`, sources", Works, Rust("error"), ""),
    entry("fs", "files: `OpenOptions`, reading, writing, seeking, `set_len`, locks", Works, Example("files", "open_flags"), "`/tmp` is a file system in memory; `/boot` can only be read"),
    entry("fs", "directories: `create_dir_all`, `read_dir`, `remove_dir_all`", Works, Example("files", "directories"), ""),
    entry("fs", "`hard_link`, symbolic links, `canonicalize`", Works, Example("files", "links"), ""),
    entry("fs", "`rename`, `remove_file`, also of what is open", Works, Example("files", "rename"), ""),
    entry("fs", "`Metadata`, permissions, times", Works, Example("files", "permissions_and_times"), ""),
    entry("hash", "`RandomState`", Works, Test("io::random_states_differ"), "from `zx_cprng_draw`"),
    entry("io", "`stdin`: `read_line`, `lines`, end of input", Works, Test("io::lines_of_input"), ""),
    entry("io", "`stdout`, `stderr`: also from many threads", Works, Test("io::lines_stay_whole"), ""),
    entry("io", "`IsTerminal`", Works, Test("io::no_terminals"), "`false`, also at the console: see [CAVEATS](../CAVEATS.md)"),
    entry("io", "`pipe`", Works, Test("io::pipes"), ""),
    entry("io", "`copy` between pipes, vectored reads and writes", Works, Example("descriptors", "pipes::"), ""),
    entry("net", "`TcpListener`, `TcpStream`: all of both, timeouts, non-blocking, both families", Works, Example("network", "tcp"), "over IPv6 only on the machine's own loop"),
    entry("net", "`UdpSocket`", Works, Example("network", "udp"), ""),
    entry("net", "`UdpSocket::join_multicast_v4`, `leave_multicast_v4`", Works, Example("network", "udp"), "on the loopback, and over a card"),
    entry("net", "`UdpSocket::join_multicast_v6`, `leave_multicast_v6`", Works, Example("network", "udp"), "on the loopback, and over a card"),
    entry("net", "`ToSocketAddrs`", Works, Example("network", "names"), "without a network card, names of hosts are an error at once"),
    entry("os::fd", "`OwnedFd`, `try_clone`, `AsFd`", Works, Test("io::descriptors"), ""),
    entry("os::fuchsia", "`raw`, `fs::MetadataExt`", Works, Example("descriptors", "files::metadata"), ""),
    entry("os::unix::net", "`UnixStream::pair`, `UnixDatagram::pair`", Works, Example("descriptors", "pipes::stream_pair"), ""),
    entry("os::unix::net", "`UnixListener`, `UnixStream`, `UnixDatagram` with names", Works, Example("descriptors", "sockets::"), "below `/tmp`, and `/disk` on ext4"),
    entry("os::unix::process", "`CommandExt::exec`", Differs, Test("differs::exec_panics"), "std panics (`not implemented`): a process cannot become another program"),
    entry("os::unix::process", "`ExitStatusExt::signal`", Differs, Test("differs::killed_has_no_signal"), "always `None`: there are no signals; a killed child has the code -1024, one that an exception ended -1028"),
    entry("os::unix::process", "`arg0`", Works, Test("process::argument_zero"), ""),
    entry("panic", "`catch_unwind`, `resume_unwind`, `panic_any`", Works, Test("panic::caught"), ""),
    entry("panic", "thousands of caught panics in one thread", Works, Test("panic::thousands"), ""),
    entry("panic", "`set_hook`, `take_hook`", Works, Test("panic::hooks"), ""),
    entry("panic", "a panic in `drop` while unwinding", Works, Test("panic::in_drop_aborts"), "aborts"),
    entry("panic", "a panic that would leave an `extern \"C\"` function", Works, Test("panic::in_c_function_aborts"), "aborts"),
    entry("path", "everything", Works, Rust("path"), ""),
    entry("process", "`Command`: `spawn`, `status`, `output`", Works, Example("descriptors", "children::"), ""),
    entry("process", "`Command`: `env`, `env_remove`, `env_clear`", Works, Test("process::environments"), ""),
    entry("process", "`Command`: a bare name", Works, Test("process::bare_names"), "looked for in the child's `PATH`, otherwise in the parent's, otherwise in `/boot/bin`"),
    entry("process", "`Command`: arguments of any bytes, many, long", Works, Test("process::many_arguments"), "arguments and environment together: 64 KiB, one start message of Zircon"),
    entry("process", "`Command`: more than that", Works, Test("process::too_many_arguments"), "an error of `spawn`"),
    entry("process", "`Command::current_dir`", Differs, Test("differs::current_dir_is_ignored"), "std ignores it on this target; `set_current_dir` before the start does it"),
    entry("process", "`Command`: a program in a writable file system", Works, Test("process::a_copy"), ""),
    entry("process", "`Command::spawn`: missing programs, directories, too many arguments", Differs, Test("differs::spawn_errors"), "the error comes at once, but its kind is `Uncategorized`: std takes Zircon's status for an error number. `raw_os_error` is that status, and its name is the text: -25 missing, -52 a directory, -14 too many arguments"),
    entry("process", "`Command::spawn`: files that are no programs", Differs, Test("differs::spawn_of_bad_files"), "the same: -10 for text, another processor's program, a truncated one; -30 without permission to execute"),
    entry("process", "`Command::spawn`: a program whose library is missing", Differs, Test("differs::spawn_without_a_library"), "the same: -25; what libraries need in turn is found missing by the child, which ends with 127"),
    entry("process", "`Stdio`: `inherit`, `piped`, `null`, a `File`", Works, Test("process::stdio"), ""),
    entry("process", "`Child`: megabytes on output and errors at once", Works, Test("process::both_outputs"), ""),
    entry("process", "`Child`: `wait`, `try_wait`, `kill`, `id`", Works, Test("process::waiting"), "`id` is the handle to the process"),
    entry("process", "`ExitStatus::code`: all 32 bits", Works, Test("process::exit_codes"), ""),
    entry("process", "`exit` from any thread, destructors of the C library", Works, Test("process::exit_in_a_thread"), ""),
    entry("process", "`abort`", Works, Test("process::aborts"), ""),
    entry("process", "`id`", Works, Test("process::own_id"), ""),
    entry("sync", "everything", Works, Rust("sync"), "locks are fair as std's own futex locks are; owners are not lent priority"),
    entry("thread", "`spawn`, `join`, `scope`, `Builder`, `ThreadId`", Works, Test("thread::spawning"), ""),
    entry("thread", "names", Works, Test("thread::names"), "the kernel knows them too, up to 31 bytes"),
    entry("thread", "`Builder::stack_size`: tiny, large, impossible", Works, Test("thread::stack_sizes"), "`spawn` fails for a size that is not available"),
    entry("thread", "a thousand at once", Works, Test("thread::thousand"), ""),
    entry("thread", "`park`, `park_timeout`, `unpark`", Works, Test("thread::parking"), ""),
    entry("thread", "`sleep`, `yield_now`", Works, Test("thread::sleeping"), ""),
    entry("thread", "`available_parallelism`", Works, Test("thread::parallelism"), "1: there is one processor"),
    entry("thread_local", "destructors, also of the main thread", Works, Test("thread::destructors"), ""),
    entry("thread_local", "everything else", Works, Rust("thread_local"), ""),
    entry("time", "`Instant`, `SystemTime`", Works, Rust("time"), "the time of day is read from the PC's clock once, at the start"),
];
