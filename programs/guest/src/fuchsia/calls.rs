//! The Linux system calls that the guest implements.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use abi::hafnon_vproc_state_t;

use super::files::{self, File};
use super::kernel::{Go, Kernel};
use super::linux::{Layout, Result, Stop, errno, fails, nr, sig};
use super::memory::{Memory, PAGE};
use super::program;
use super::space::{self, Content, Space, page_behind};
use super::task::{Action, Info, Task};

/// Maximum length of a path, and of an argument list.
const PATH: usize = 4096;
const LIST: usize = 1024;
/// Maximum number of bytes of one read or write.
const PART: u64 = 1 << 16;

/// A call's arguments.
#[derive(Clone, Copy)]
struct Args([u64; 6]);

impl Kernel<'_> {
    /// Carries out the system call at which a process has stopped.
    pub fn call(&mut self, task: &mut Task) -> Result<()> {
        let state = task.state;
        let args = Args([state.rdi, state.rsi, state.rdx, state.r10, state.r8, state.r9]);
        let done = self.answer(task, state.rax, args);
        self.trace(|| format!("{}: call {} {:x?}: {done:x?}", task.pid, state.rax, args.0));
        (task.waits, task.in_call) = (false, false);
        self.counts.calls += 1;
        match done {
            Ok(Some(value)) => task.state.rax = value,
            // The call has already set all registers.
            Ok(None) => self.go = Go::Enter,
            Err(Stop::Errno(errno)) => task.state.rax = errno.wrapping_neg(),
            Err(Stop::Wait) => {
                self.go = Go::Enter;
                (task.waits, task.in_call) = (true, true);
                task.state.ip -= 2;
            }
            Err(broken) => return Err(broken),
        }
        Ok(())
    }

    fn answer(&mut self, task: &mut Task, number: u64, args: Args) -> Result<Option<u64>> {
        let [a, b, c, d, ..] = args.0;
        Ok(Some(match number {
            nr::READ => self.read(task, a, b, c)?,
            nr::WRITE => self.write(task, a, b, c)?,
            nr::CLOSE => {
                task.files.get(a)?;
                task.files.put(a, None)?;
                self.wake();
                0
            }
            nr::LSEEK => task.files.get(a)?.seek(b as i64, c)?,
            nr::OPENAT => self.open(task, b, c)?,
            nr::NEWFSTATAT => self.stat(task, a, b, c)?,
            nr::PIPE2 => self.pipe(task, a, b)?,
            nr::DUP2 => {
                let file = task.files.get(a)?;
                if a != b {
                    task.files.put(b, Some((file, false)))?;
                    self.wake();
                }
                b
            }
            nr::FCNTL => fcntl(task, a, b, c)?,
            nr::IOCTL => return task.files.get(a).and(fails(errno::ENOTTY)),
            nr::MMAP => self.mmap(task, args)?,
            nr::MUNMAP => self.memory_of(task, a, b, |space, memory, end| space.unmap(memory, a, end))?,
            nr::MPROTECT => {
                let access = space::access_of(c);
                self.memory_of(task, a, b, |space, memory, end| space.protect(memory, a, end, access))?
            }
            nr::BRK => self.brk(task, a)?,
            nr::RT_SIGACTION => self.sigaction(task, a, b, c)?,
            nr::RT_SIGPROCMASK => self.sigprocmask(task, a, b, c)?,
            nr::RT_SIGRETURN => return self.return_from_handler(task).map(|()| None),
            nr::KILL => self.kill(task, a, b)?,
            nr::PAUSE => return Err(Stop::Wait),
            nr::NANOSLEEP => self.sleep(task, a)?,
            nr::CLOCK_NANOSLEEP if b == 0 => self.sleep(task, c)?,
            nr::SETITIMER => self.setitimer(task, a, b, c)?,
            nr::CLOCK_GETTIME => self.clock(task, a, b)?,
            nr::SCHED_YIELD => {
                self.time_is_over = true;
                0
            }
            nr::GETPID | nr::GETTID | nr::SET_TID_ADDRESS => task.pid.into(),
            nr::GETPPID => task.parent.into(),
            nr::GETUID | nr::GETGID | nr::GETEUID | nr::GETEGID => 0,
            // Accepts only the flags with which C libraries store the child's number, and those of `vfork`, for which
            // the parent waits.
            nr::CLONE if a & !(0x0120_0000 | 0xff) == 0 && b == 0 => {
                self.fork(task, (a & 0x0100_0000 != 0).then_some(d))?
            }
            nr::FORK | nr::VFORK => self.fork(task, None)?,
            nr::EXECVE => return self.execve(task, a, b, c).map(|()| None),
            nr::EXIT | nr::EXIT_GROUP => {
                task.end = Some((a as u32 & 0xff) << 8);
                0
            }
            nr::WAIT4 => self.wait4(task, a as i32, b, c)?,
            nr::UNAME => {
                let mut names = [0; 6 * 65];
                let all = ["Linux", "guest", "6.1.0", "guest", "x86_64", "(none)"];
                names.chunks_mut(65).zip(all).for_each(|(to, name)| to[..name.len()].copy_from_slice(name.as_bytes()));
                self.put(task, a, &names)?
            }
            nr::GETCWD => {
                let here =
                    std::env::current_dir().map_or("/".into(), |path| path.into_os_string().into_encoded_bytes());
                let here = [here, vec![0]].concat();
                self.put(task, a, &here[..here.len().min(b as usize)])?;
                here.len() as u64
            }
            nr::READLINK => {
                if self.string(task, a)? != b"/proc/self/exe" {
                    return fails(errno::ENOENT);
                }
                let path = task.program.0.clone();
                let len = path.len().min(c as usize);
                self.put(task, b, &path[..len])?;
                len as u64
            }
            nr::SYSINFO => {
                let (all, taken) = self.memory.pages();
                let mut info = Layout::<112>::new();
                info.long(32, all as u64 * PAGE).long(40, (all - taken) as u64 * PAGE).word(104, 1);
                self.put(task, a, &info.0)?
            }
            // The process's name.
            nr::PRCTL if a == 16 => {
                let mut name = [0; 16];
                let path = task.program.0.clone();
                let last = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
                name.iter_mut().take(15).zip(last).for_each(|(to, byte)| *to = *byte);
                self.put(task, b, &name)?
            }
            nr::ARCH_PRCTL if a == 0x1002 && b < 1 << 47 => {
                task.state.fs_base = b;
                task.state.rax = 0;
                return Ok(None);
            }
            // Only the query of the stack's limit. It cannot be changed.
            nr::PRLIMIT64 if b == 3 && c == 0 => {
                let mut limits = Layout::<16>::new();
                limits.long(0, 8 << 20).long(8, 8 << 20);
                self.put(task, d, &limits.0)?
            }
            nr::GETRANDOM => {
                let mut bytes = vec![0; b.min(256) as usize];
                zx::cprng_draw(&mut bytes);
                self.put(task, a, &bytes)?;
                bytes.len() as u64
            }
            _ => {
                self.counts.unknown += 1;
                return fails(errno::ENOSYS);
            }
        }))
    }

    /// Writes to the program's memory.
    pub fn put(&mut self, task: &mut Task, address: u64, bytes: &[u8]) -> Result<u64> {
        let Some(space) = &mut task.space else { return fails(errno::EFAULT) };
        space.write((&mut self.memory, &mut self.counts), address, bytes).map(|()| 0)
    }

    /// Reads a structure from the program's memory.
    pub fn get<const N: usize>(&mut self, task: &mut Task, address: u64) -> Result<Layout<N>> {
        let mut layout = Layout::new();
        self.take(task, address, &mut layout.0).map(|()| layout)
    }

    /// Reads bytes from the program's memory.
    pub fn take(&mut self, task: &mut Task, address: u64, bytes: &mut [u8]) -> Result<()> {
        let Some(space) = &mut task.space else { return fails(errno::EFAULT) };
        space.read((&mut self.memory, &mut self.counts), address, bytes)
    }

    fn string(&mut self, task: &mut Task, address: u64) -> Result<Vec<u8>> {
        let mut string = Vec::new();
        while string.len() < PATH {
            let at = address.wrapping_add(string.len() as u64);
            let mut part = vec![0; (PAGE - at % PAGE).min(64) as usize];
            self.take(task, at, &mut part)?;
            let end = part.iter().position(|byte| *byte == 0);
            string.extend(&part[..end.unwrap_or(part.len())]);
            if end.is_some() {
                return Ok(string);
            }
        }
        fails(errno::EINVAL)
    }

    fn strings(&mut self, task: &mut Task, address: u64) -> Result<Vec<Vec<u8>>> {
        let mut strings = Vec::new();
        while address != 0 && strings.len() < LIST {
            match self.get::<8>(task, address.wrapping_add(strings.len() as u64 * 8))?.get(0) {
                0 => return Ok(strings),
                string => strings.push(self.string(task, string)?),
            }
        }
        if address == 0 { Ok(strings) } else { fails(errno::EINVAL) }
    }

    fn read(&mut self, task: &mut Task, number: u64, address: u64, len: u64) -> Result<u64> {
        let file = task.files.get(number)?;
        let mut bytes = vec![0; len.min(PART) as usize];
        let len = file.read(&mut bytes)?;
        self.put(task, address, &bytes[..len])?;
        if matches!(*file, File::PipeOut(_)) {
            self.wake();
        }
        Ok(len as u64)
    }

    fn write(&mut self, task: &mut Task, number: u64, address: u64, len: u64) -> Result<u64> {
        let file = task.files.get(number)?;
        let mut bytes = vec![0; len.min(PART) as usize];
        self.take(task, address, &mut bytes)?;
        let written = file.write(&bytes);
        if matches!(written, Err(Stop::Errno(errno::EPIPE))) {
            task.signals.raise(sig::PIPE, Info::default());
        }
        if matches!(*file, File::PipeIn(_)) {
            self.wake();
        }
        written.map(|written| written as u64)
    }

    fn open(&mut self, task: &mut Task, path: u64, flags: u64) -> Result<u64> {
        let path = self.string(task, path)?;
        let file = match path.as_slice() {
            b"/dev/null" => File::Null,
            // Files cannot be written or created.
            _ if flags & 0o103 != 0 => return fails(errno::EROFS),
            path => File::Regular { data: self.file(path)?, at: 0.into() },
        };
        task.files.add(file.into(), 0, flags & 0o2_000_000 != 0)
    }

    fn stat(&mut self, task: &mut Task, number: u64, path: u64, to: u64) -> Result<u64> {
        let path = self.string(task, path)?;
        let (mode, size) = match path.as_slice() {
            b"" => task.files.get(number)?.mode(),
            path if Path::new(OsStr::from_bytes(path)).is_dir() => (0o040_755, 0),
            path => (0o100_755, self.file(path)?.len() as u64),
        };
        let mut stat = Layout::<144>::new();
        stat.long(8, 1).long(16, 1).word(24, mode).long(48, size).long(56, PAGE).long(64, size.div_ceil(512));
        self.put(task, to, &stat.0)
    }

    fn pipe(&mut self, task: &mut Task, to: u64, flags: u64) -> Result<u64> {
        let (out, into) = files::pipe();
        let closes = flags & 0o2_000_000 != 0;
        let out = task.files.add(out.into(), 0, closes)?;
        let into = task.files.add(into.into(), 0, closes)?;
        let mut both = Layout::<8>::new();
        both.word(0, out as u32).word(4, into as u32);
        self.put(task, to, &both.0)
    }

    /// Carries out an operation on a range of memory.
    fn memory_of(
        &mut self,
        task: &mut Task,
        start: u64,
        len: u64,
        work: impl FnOnce(&mut Space, &mut Memory, u64) -> Result<()>,
    ) -> Result<u64> {
        let end = start.checked_add(len).and_then(page_behind).filter(|end| *end <= space::TOP);
        match (&mut task.space, end) {
            (Some(space), Some(end)) if start.is_multiple_of(PAGE) && end > start => {
                work(space, &mut self.memory, end).map(|()| 0)
            }
            (Some(_), Some(end)) if start == end && start.is_multiple_of(PAGE) => Ok(0),
            _ => fails(errno::EINVAL),
        }
    }

    /// Maps private memory, of zeros or of a file.
    fn mmap(&mut self, task: &mut Task, args: Args) -> Result<u64> {
        const PRIVATE: u64 = 2;
        const FIXED: u64 = 0x10;
        const ANONYMOUS: u64 = 0x20;
        let [address, len, prot, flags, number, offset] = args.0;
        let len = page_behind(len).filter(|len| *len != 0 && *len <= space::TOP);
        let (Some(len), Some(space), PRIVATE) = (len, &mut task.space, flags & 3) else { return fails(errno::EINVAL) };
        let at = match flags & FIXED != 0 {
            true if address.is_multiple_of(PAGE) => Some(address),
            true => return fails(errno::EINVAL),
            false => space.room(len),
        };
        let Some((at, end)) = at.and_then(|at| Some((at, at.checked_add(len)?))) else { return fails(errno::ENOMEM) };
        let content = match flags & ANONYMOUS != 0 {
            true => None,
            false => match &*task.files.get(number)? {
                File::Regular { data, .. } => {
                    let rest = (data.len() as u64).saturating_sub(offset);
                    Some(Content { data: data.clone(), from: offset as usize, at, len: len.min(rest) })
                }
                _ => return fails(errno::EBADF),
            },
        };
        space.map(&mut self.memory, (at, end), space::access_of(prot), content)?;
        Ok(at)
    }

    /// Moves the end of the heap; returns it.
    fn brk(&mut self, task: &mut Task, to: u64) -> Result<u64> {
        let Some(space) = &mut task.space else { return fails(errno::ENOMEM) };
        let (start, now) = space.heap;
        let (Some(new), Some(old)) = (page_behind(to), page_behind(now)) else { return Ok(now) };
        if to < start || new > old && (new > space::TOP || space.has(old, new)) {
            return Ok(now);
        }
        match new.cmp(&old) {
            std::cmp::Ordering::Greater => space.map(&mut self.memory, (old, new), space::access_of(3), None)?,
            std::cmp::Ordering::Less => space.unmap(&mut self.memory, new, old)?,
            std::cmp::Ordering::Equal => {}
        }
        space.heap.1 = to;
        Ok(to)
    }

    fn sleep(&mut self, task: &mut Task, wanted: u64) -> Result<u64> {
        let wanted = self.get::<16>(task, wanted)?;
        let now = Instant::now();
        let until = match task.until {
            Some(until) => until,
            None => match now.checked_add(Duration::new(wanted.get(0), wanted.get(8).min(999_999_999) as u32)) {
                Some(until) => until,
                None => return fails(errno::EINVAL),
            },
        };
        task.until = (until > now).then_some(until);
        if task.until.is_some() { Err(Stop::Wait) } else { Ok(0) }
    }

    fn setitimer(&mut self, task: &mut Task, which: u64, new: u64, old: u64) -> Result<u64> {
        // Only real-time timers, without reporting the previous setting.
        if which != 0 || old != 0 {
            return fails(errno::EINVAL);
        }
        let new = self.get::<32>(task, new)?;
        let time = |at| Duration::from_secs(new.get(at)).checked_add(Duration::from_micros(new.get(at + 8)));
        let (Some(every), Some(first)) = (time(0), time(16)) else { return fails(errno::EINVAL) };
        let Some(at) = Instant::now().checked_add(first) else { return fails(errno::EINVAL) };
        task.alarm = (!first.is_zero()).then_some((at, every));
        Ok(0)
    }

    fn clock(&mut self, task: &mut Task, clock: u64, to: u64) -> Result<u64> {
        let now = match clock {
            0 => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            1 => Duration::from_nanos(zx::MonotonicInstant::now().0.max(0) as u64),
            _ => return fails(errno::EINVAL),
        };
        let mut told = Layout::<16>::new();
        told.long(0, now.as_secs()).long(8, now.subsec_nanos().into());
        self.put(task, to, &told.0)
    }

    fn fork(&mut self, task: &mut Task, tell: Option<u64>) -> Result<u64> {
        let Some(space) = &mut task.space else { return fails(errno::ENOMEM) };
        let other = space.fork(&mut self.memory)?;
        self.go = Go::Enter;
        let vector = self.vector(space)?;
        if !self.set_vector(&other, &vector)? {
            return Err(Stop::Broken("vector registers cannot be loaded".into()));
        }
        self.last += 1;
        self.counts.forks += 1;
        let mut child = task.child(self.last, other);
        child.state.rax = 0;
        if let Some(tell) = tell {
            let pid = child.pid.to_le_bytes();
            self.put(&mut child, tell, &pid)?;
        }
        child.waits = true;
        self.tasks.insert(child.pid, child);
        self.wake();
        Ok(self.last.into())
    }

    fn execve(&mut self, task: &mut Task, path: u64, arguments: u64, environment: u64) -> Result<()> {
        let path = match self.string(task, path)? {
            path if path == b"/proc/self/exe" => task.program.0.clone(),
            path => whole(&path),
        };
        let told = (self.strings(task, arguments)?, self.strings(task, environment)?);
        let data = if path == task.program.0 { task.program.1.clone() } else { self.file(&path)? };
        let mut space = Space::new(&mut self.memory)?;
        let told = (told.0.as_slice(), told.1.as_slice());
        let state = match program::load(&mut space, (&mut self.memory, &mut self.counts), &data, &path, told) {
            Ok(state) => state,
            Err(stop) => {
                space.end(&mut self.memory)?;
                return Err(stop);
            }
        };
        if let Some(old) = task.space.replace(space) {
            old.end(&mut self.memory)?;
        }
        task.state = hafnon_vproc_state_t { rax: 0, ..state };
        task.program = (path, data);
        task.files.keep();
        for action in task.signals.actions.iter_mut().filter(|action| action.handler > 1) {
            *action = Action::default();
        }
        Ok(())
    }

    fn wait4(&mut self, task: &mut Task, wanted: i32, status: u64, options: u64) -> Result<u64> {
        let mut children = self.tasks.values().filter(|child| child.parent == task.pid);
        let wanted = u32::try_from(wanted).ok().filter(|pid| *pid != 0);
        let mut children = children.by_ref().filter(|child| wanted.is_none_or(|pid| pid == child.pid)).peekable();
        if children.peek().is_none() {
            return fails(errno::ECHILD);
        }
        let Some((pid, end)) = children.find_map(|child| Some((child.pid, child.end?))) else {
            return if options & 1 != 0 { Ok(0) } else { Err(Stop::Wait) };
        };
        if status != 0 {
            self.put(task, status, &end.to_le_bytes())?;
        }
        self.tasks.remove(&pid);
        Ok(pid.into())
    }
}

/// An absolute path from the root.
pub fn whole(path: &[u8]) -> Vec<u8> {
    let path = Path::new(OsStr::from_bytes(path));
    std::path::absolute(path).map_or_else(|_| path.into(), PathBuf::into_os_string).into_vec()
}

/// Implements `fcntl`.
fn fcntl(task: &mut Task, number: u64, command: u64, argument: u64) -> Result<u64> {
    const DUPFD: u64 = 0;
    const DUPFD_CLOEXEC: u64 = 1030;
    let file = task.files.get(number)?;
    match command {
        DUPFD | DUPFD_CLOEXEC => task.files.add(file, argument, command == DUPFD_CLOEXEC),
        1 => Ok((*task.files.closes(number)?).into()),
        2 => {
            *task.files.closes(number)? = argument & 1 != 0;
            Ok(0)
        }
        3 => Ok(file.way()),
        _ => fails(errno::EINVAL),
    }
}
