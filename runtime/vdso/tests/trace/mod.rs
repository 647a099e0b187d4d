//! Simulates seL4 and the server on Linux: a child process calls an entry point, and this process, as its tracer, gives
//! their answers. `PTRACE_SYSEMU` stops the child at each `syscall` instruction, and Linux does not execute the call.

use std::ptr;

use libc::{c_int, c_void, pid_t, user_regs_struct};

/// Values that the tests load into rbx, rbp and r12 to r15 before a call, and expect there after it.
pub const MARKS: [u64; 6] = [0x1111, 0x2222, 0x3333, 0x4444, 0x5555, 0x6666];

core::arch::global_asm!(
    // rdi: a Frame. Calls the function with the arguments, stores result and registers, and stops for the tracer.
    "trampoline:",
    "push rdi",
    "mov rax, rdi",
    "push [rax + 64]",
    "push [rax + 56]",
    "mov rbx, 0x1111",
    "mov rbp, 0x2222",
    "mov r12, 0x3333",
    "mov r13, 0x4444",
    "mov r14, 0x5555",
    "mov r15, 0x6666",
    "mov rdi, [rax + 0]",
    "mov rsi, [rax + 8]",
    "mov rdx, [rax + 16]",
    "mov rcx, [rax + 24]",
    "mov r8, [rax + 32]",
    "mov r9, [rax + 40]",
    "mov r10, rax",
    "mov rax, [rax + 48]",
    "xchg rax, r10",
    "call r10",
    "add rsp, 16",
    "pop rdi",
    "mov [rdi + 72], rax",
    "mov [rdi + 80], rbx",
    "mov [rdi + 88], rbp",
    "mov [rdi + 96], r12",
    "mov [rdi + 104], r13",
    "mov [rdi + 112], r14",
    "mov [rdi + 120], r15",
    "int3",
    "ud2",
);

unsafe extern "C" {
    fn trampoline(frame: *mut Frame) -> !;
}

/// The data of the trampoline. The trampoline's code contains the offsets of the fields as numbers.
#[repr(C)]
#[derive(Clone, Copy)]
struct Frame {
    first_six: [u64; 6],
    function: u64,
    last_two: [u64; 2],
    result: u64,
    registers: [u64; 6],
}

/// The memory that parent and child share.
#[repr(C, align(4096))]
struct Shared {
    /// The thread's IPC buffer.
    buffer: [u64; 512],
    /// Memory that arguments of a call can point to.
    data: Data,
    frame: Frame,
}

/// A page.
pub type Data = [u64; 512];

/// Number of words of a message that the tests check and answer.
pub const WORDS: usize = 20;

/// A message as the server receives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// seL4's operation (rdx) and slot (rdi).
    pub operation: (i64, u64),
    /// The tag (rsi).
    pub tag: u64,
    /// The first words.
    pub words: [u64; WORDS],
}

/// The answer of the simulated server.
pub enum Reply {
    /// The call returns this result.
    Done(i64),
    /// The call returns this result after the thread has yielded.
    AfterOthers(i64),
    /// The thread receives a message: badge, tag and words.
    Message(u64, u64, [u64; WORDS]),
    /// Before the reply, the word of the data at this index gets this value.
    Changes(usize, u64, Box<Reply>),
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It returned, with a result and these registers (see [`MARKS`]).
    Returned(i64, [u64; 6]),
    /// It executed an undefined instruction.
    Trapped,
}

/// Calls a function with arguments, with `reply` as the server. Returns how the call ended, and all messages.
///
/// After each message, rsp, rcx, r11 and the registers of a reply hold other values, as after a call of seL4.
pub fn call(
    function: unsafe extern "C" fn(),
    args: [u64; 8],
    reply: impl FnMut(&Message) -> Reply,
) -> (End, Vec<Message>) {
    call_with(function, &mut [0; 512], |_| args, reply)
}

/// Like [`call`], with data: `args` gets the data's address, and afterwards `data` holds what the function has written.
pub fn call_with(
    function: unsafe extern "C" fn(),
    data: &mut Data,
    args: impl FnOnce(u64) -> [u64; 8],
    mut reply: impl FnMut(&Message) -> Reply,
) -> (End, Vec<Message>) {
    let shared = Mapping::new();
    let args = args(shared.0 as u64 + std::mem::offset_of!(Shared, data) as u64);
    // SAFETY: the mapping is large enough, aligned and zeroed, and lives until the end of this function; no reference
    // to it is kept while the child runs.
    unsafe {
        let s = shared.0;
        (*s).buffer = [0xeeee_eeee_eeee_eeee; 512];
        (*s).data = *data;
        (*s).frame.function = function as usize as u64;
        (*s).frame.first_six.copy_from_slice(&args[..6]);
        (*s).frame.last_two.copy_from_slice(&args[6..]);
    }
    let child = Child::start(shared.0);
    let mut messages = Vec::new();
    let mut others = false;
    loop {
        match child.next_stop() {
            Stop::Syscall => {
                let mut regs = child.registers();
                // SAFETY: the child is stopped, so nothing writes to the buffer now.
                let buffer = unsafe { &mut (*shared.0).buffer };
                let message = Message {
                    operation: (regs.rdx.cast_signed(), regs.rdi),
                    tag: regs.rsi,
                    words: std::array::from_fn(|i| match i {
                        0 => regs.r10,
                        1 => regs.r8,
                        2 => regs.r9,
                        3 => regs.r15,
                        _ => buffer[1 + i],
                    }),
                };
                messages.push(message);
                // A yield is not a message: it has no reply, and the other registers keep their values.
                if !std::mem::take(&mut others) {
                    regs.rsi = 1;
                    (regs.rax, regs.rdi, regs.r8, regs.r9, regs.r15) = (0xbad, 0xbad, 0xbad, 0xbad, 0xbad);
                    let mut reply = reply(&message);
                    while let Reply::Changes(at, word, then) = reply {
                        // SAFETY: the child is stopped, so nothing else writes there now.
                        unsafe { (*shared.0).data[at] = word };
                        reply = *then;
                    }
                    match reply {
                        Reply::Done(value) => regs.r10 = value.cast_unsigned(),
                        Reply::AfterOthers(value) => {
                            regs.rsi = 1 << 12;
                            regs.r10 = value.cast_unsigned();
                            others = true;
                        }
                        Reply::Message(badge, tag, words) => {
                            (regs.rdi, regs.rsi) = (badge, tag);
                            (regs.r10, regs.r8, regs.r9, regs.r15) = (words[0], words[1], words[2], words[3]);
                            buffer[5..1 + WORDS].copy_from_slice(&words[4..]);
                        }
                        Reply::Changes(..) => unreachable!("done above"),
                    }
                } else {
                    // Linux has written its own result to rax.
                    regs.rax = regs.orig_rax;
                }
                (regs.rcx, regs.r11, regs.rsp) = (0xbad, 0xbad, 0xbad);
                child.set_registers(&regs);
            }
            Stop::Signal(libc::SIGTRAP) => {
                // SAFETY: the child is stopped, so nothing writes to the frame now.
                let frame = unsafe { (*shared.0).frame };
                // SAFETY: as above.
                *data = unsafe { (*shared.0).data };
                return (End::Returned(frame.result.cast_signed(), frame.registers), messages);
            }
            Stop::Signal(libc::SIGILL) => return (End::Trapped, messages),
            Stop::Signal(signal) => {
                panic!("signal {signal} after {messages:x?}, registers {:x?}", child.registers().rip)
            }
        }
    }
}

/// The mapping of the memory that a child shares.
struct Mapping(*mut Shared);

impl Mapping {
    fn new() -> Self {
        // SAFETY: a new anonymous mapping changes no existing memory.
        let at = unsafe {
            libc::mmap(
                ptr::null_mut(),
                size_of::<Shared>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(at, libc::MAP_FAILED, "no memory to share");
        Mapping(at.cast())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: nothing refers to the mapping any more.
        unsafe { libc::munmap(self.0.cast(), size_of::<Shared>()) };
    }
}

enum Stop {
    Syscall,
    Signal(c_int),
}

struct Child(pid_t);

impl Child {
    /// Starts a child, which stops before it enters the trampoline.
    fn start(shared: *mut Shared) -> Self {
        const ARCH_SET_GS: u64 = 0x1001;
        // SAFETY: the child makes only raw system calls, then runs the trampoline, which does not return.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "fork failed");
        if pid == 0 {
            // SAFETY: as above; GS is not in use on Linux.
            unsafe {
                let traced =
                    libc::ptrace(libc::PTRACE_TRACEME, 0, ptr::null_mut::<c_void>(), ptr::null_mut::<c_void>());
                if traced != 0 || libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, &raw mut (*shared).buffer) != 0 {
                    libc::_exit(1);
                }
                libc::syscall(libc::SYS_kill, libc::syscall(libc::SYS_getpid), libc::SIGSTOP);
                trampoline(&raw mut (*shared).frame);
            }
        }
        let child = Child(pid);
        assert_eq!(child.wait(), libc::SIGSTOP, "the child stops at its start");
        child.request(libc::PTRACE_SETOPTIONS, libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL);
        child
    }

    fn next_stop(&self) -> Stop {
        self.request(libc::PTRACE_SYSEMU, 0);
        match self.wait() {
            signal if signal == libc::SIGTRAP | 0x80 => Stop::Syscall,
            signal => Stop::Signal(signal),
        }
    }

    fn wait(&self) -> c_int {
        let mut status = 0;
        // SAFETY: the pointer is to a local variable.
        let pid = unsafe { libc::waitpid(self.0, &raw mut status, 0) };
        assert!(pid == self.0 && libc::WIFSTOPPED(status), "the child ended: status {status:#x}");
        libc::WSTOPSIG(status)
    }

    fn request(&self, request: libc::c_uint, data: c_int) {
        // SAFETY: these requests have no pointers.
        let done = unsafe { libc::ptrace(request, self.0, ptr::null_mut::<c_void>(), i64::from(data)) };
        assert_eq!(done, 0, "ptrace {request}: {}", std::io::Error::last_os_error());
    }

    fn registers(&self) -> user_regs_struct {
        // SAFETY: all zeros are a valid value of this structure of integers.
        let mut regs: user_regs_struct = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a local variable of the type that the request requires.
        let done = unsafe { libc::ptrace(libc::PTRACE_GETREGS, self.0, ptr::null_mut::<c_void>(), &raw mut regs) };
        assert_eq!(done, 0);
        regs
    }

    fn set_registers(&self, regs: &user_regs_struct) {
        // SAFETY: the pointer is to registers, which the request only reads.
        let done =
            unsafe { libc::ptrace(libc::PTRACE_SETREGS, self.0, ptr::null_mut::<c_void>(), ptr::from_ref(regs)) };
        assert_eq!(done, 0);
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: it is this process's child, and its end was not waited for yet.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, ptr::null_mut(), 0);
        }
    }
}
