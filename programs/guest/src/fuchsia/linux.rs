//! Numbers and structures of the Linux interface on x86-64, and the results of system calls.

use zx::Status;

/// Ends a system call or the guest early.
#[derive(Debug)]
pub enum Stop {
    /// The call fails with this error number.
    Errno(u64),
    /// The call waits, and is made again after an event.
    Wait,
    /// The system below the guest did not behave as expected.
    Broken(String),
}

impl From<Status> for Stop {
    #[track_caller]
    fn from(status: Status) -> Stop {
        Stop::Broken(format!("a call of the system's gave {status} ({})", std::panic::Location::caller()))
    }
}

/// The result of a system call.
pub type Result<T> = std::result::Result<T, Stop>;

/// Makes a call fail.
pub fn fails<T>(errno: u64) -> Result<T> {
    Err(Stop::Errno(errno))
}

/// Error numbers.
pub mod errno {
    pub const ENOENT: u64 = 2;
    pub const ESRCH: u64 = 3;
    pub const EINTR: u64 = 4;
    pub const ENOEXEC: u64 = 8;
    pub const EBADF: u64 = 9;
    pub const ECHILD: u64 = 10;
    pub const ENOMEM: u64 = 12;
    pub const EFAULT: u64 = 14;
    pub const EINVAL: u64 = 22;
    pub const EMFILE: u64 = 24;
    pub const ENOTTY: u64 = 25;
    pub const ESPIPE: u64 = 29;
    pub const EROFS: u64 = 30;
    pub const EPIPE: u64 = 32;
    pub const ENOSYS: u64 = 38;
}

/// System call numbers.
pub mod nr {
    pub const READ: u64 = 0;
    pub const WRITE: u64 = 1;
    pub const CLOSE: u64 = 3;
    pub const LSEEK: u64 = 8;
    pub const MMAP: u64 = 9;
    pub const MPROTECT: u64 = 10;
    pub const MUNMAP: u64 = 11;
    pub const BRK: u64 = 12;
    pub const RT_SIGACTION: u64 = 13;
    pub const RT_SIGPROCMASK: u64 = 14;
    pub const RT_SIGRETURN: u64 = 15;
    pub const IOCTL: u64 = 16;
    pub const SCHED_YIELD: u64 = 24;
    pub const DUP2: u64 = 33;
    pub const PAUSE: u64 = 34;
    pub const NANOSLEEP: u64 = 35;
    pub const SETITIMER: u64 = 38;
    pub const GETPID: u64 = 39;
    pub const CLONE: u64 = 56;
    pub const FORK: u64 = 57;
    pub const VFORK: u64 = 58;
    pub const EXECVE: u64 = 59;
    pub const EXIT: u64 = 60;
    pub const WAIT4: u64 = 61;
    pub const KILL: u64 = 62;
    pub const UNAME: u64 = 63;
    pub const FCNTL: u64 = 72;
    pub const GETCWD: u64 = 79;
    pub const READLINK: u64 = 89;
    pub const SYSINFO: u64 = 99;
    pub const GETUID: u64 = 102;
    pub const GETGID: u64 = 104;
    pub const GETEUID: u64 = 107;
    pub const GETEGID: u64 = 108;
    pub const GETPPID: u64 = 110;
    pub const PRCTL: u64 = 157;
    pub const ARCH_PRCTL: u64 = 158;
    pub const GETTID: u64 = 186;
    pub const SET_TID_ADDRESS: u64 = 218;
    pub const CLOCK_GETTIME: u64 = 228;
    pub const CLOCK_NANOSLEEP: u64 = 230;
    pub const EXIT_GROUP: u64 = 231;
    pub const OPENAT: u64 = 257;
    pub const NEWFSTATAT: u64 = 262;
    pub const PIPE2: u64 = 293;
    pub const PRLIMIT64: u64 = 302;
    pub const GETRANDOM: u64 = 318;
}

/// Signal numbers.
pub mod sig {
    pub const ILL: u32 = 4;
    pub const TRAP: u32 = 5;
    pub const BUS: u32 = 7;
    pub const FPE: u32 = 8;
    pub const KILL: u32 = 9;
    pub const SEGV: u32 = 11;
    pub const PIPE: u32 = 13;
    pub const ALRM: u32 = 14;
    pub const CHLD: u32 = 17;
    pub const CONT: u32 = 18;
    pub const STOP: u32 = 19;
    pub const URG: u32 = 23;
    pub const WINCH: u32 = 28;
    pub const SYS: u32 = 31;
    /// The highest signal number.
    pub const LAST: u32 = 64;
}

/// A structure whose fields are set by offset.
pub struct Layout<const N: usize>(pub [u8; N]);

impl<const N: usize> Layout<N> {
    /// All zeros.
    pub fn new() -> Self {
        Layout([0; N])
    }

    /// Sets a field of eight bytes.
    pub fn long(&mut self, at: usize, value: u64) -> &mut Self {
        self.0[at..at + 8].copy_from_slice(&value.to_le_bytes());
        self
    }

    /// Sets a field of four bytes.
    pub fn word(&mut self, at: usize, value: u32) -> &mut Self {
        self.0[at..at + 4].copy_from_slice(&value.to_le_bytes());
        self
    }

    /// Reads a field of eight bytes.
    pub fn get(&self, at: usize) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.0[at..at + 8]);
        u64::from_le_bytes(bytes)
    }
}
