// Shared by the programs for the test guest: raw Linux system calls, no library, and messages on standard output. The
// same programs run on Linux and must print the same there.

typedef unsigned long u64;
typedef unsigned int u32;
typedef unsigned char u8;

enum {
    READ = 0, WRITE = 1, CLOSE = 3, MMAP = 9, MPROTECT = 10, MUNMAP = 11, SIGACTION = 13, SIGPROCMASK = 14, SIGRETURN = 15,
    PAUSE = 34, NANOSLEEP = 35, SETITIMER = 38, GETPID = 39, FORK = 57, EXECVE = 59, EXIT = 60, WAIT4 = 61, KILL = 62,
    PIPE2 = 293,
};
enum { SIGILL = 4, SIGTRAP = 5, SIGFPE = 8, SIGKILL = 9, SIGUSR1 = 10, SIGSEGV = 11, SIGUSR2 = 12, SIGPIPE = 13, SIGALRM = 14, SIGTERM = 15, SIGCHLD = 17 };
enum { EINTR = 4, ECHILD = 10, EFAULT = 14, ENOMEM = 12, EPIPE = 32 };

static inline long call6(long n, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f) {
    long result;
    register u64 r10 asm("r10") = d, r8 asm("r8") = e, r9 asm("r9") = f;
    asm volatile("syscall" : "=a"(result) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
    return result;
}
#define call(n, a, b, c) call6(n, (u64)(a), (u64)(b), (u64)(c), 0, 0, 0)

// The compiler generates calls to these functions.
void *memset(void *to, int value, u64 count) {
    for (u64 i = 0; i < count; i++) ((volatile u8 *)to)[i] = value;
    return to;
}
void *memcpy(void *to, const void *from, u64 count) {
    for (u64 i = 0; i < count; i++) ((volatile u8 *)to)[i] = ((const u8 *)from)[i];
    return to;
}

static void say(const char *text) {
    u64 len = 0;
    while (text[len]) len++;
    call(WRITE, 1, text, len);
}

static void tell(const char *what, u64 value) {
    char line[128];
    u64 len = 0;
    while (what[len]) line[len] = what[len], len++;
    line[len++] = ' ';
    char digits[20];
    int n = 0;
    do digits[n++] = '0' + value % 10; while (value /= 10);
    while (n) line[len++] = digits[--n];
    line[len++] = '\n';
    call(WRITE, 1, line, len);
}

static _Noreturn void leave(int code) {
    for (;;) call(EXIT, code, 0, 0);
}

// If the condition is false, exits with the line number.
static void must(int holds, int line) {
    if (holds) return;
    tell("wrong in line", line);
    leave(90);
}
#define MUST(condition) must(!!(condition), __LINE__)

struct action {
    void (*handler)(int, u8 *, u64 *);
    u64 flags;
    void (*restorer)(void);
    u64 mask;
};

void restore(void);
asm("restore: mov $15, %eax; syscall");

enum { SA_RESTART = 0x10000000, SA_NODEFER = 0x40000000, SA_RESETHAND = 0x80000000 };

static void handle(int signal, void (*handler)(int, u8 *, u64 *), u64 flags, u64 mask) {
    struct action action = { handler, flags | 0x04000004, restore, mask };
    MUST(call6(SIGACTION, signal, (u64)&action, 0, 8, 0, 0) == 0);
}

// Indices into the context that a handler gets.
enum { AT_R8 = 5, AT_R12 = 9, AT_RBX = 16, AT_RAX = 18, AT_RSP = 20, AT_RIP = 21, AT_FLAGS = 22, AT_TRAP = 25, AT_CR2 = 27 };

static int wait_for(long pid) {
    int status = -1;
    long found;
    while ((found = call6(WAIT4, pid, (u64)&status, 0, 0, 0, 0)) == -EINTR) {}
    MUST(found == pid);
    return status;
}

// Fills the vector registers with `from`, `from + 1`, ... word by word, including the upper halves.
static void fill_vectors(u64 from) {
    u64 words[16][4];
    for (int i = 0; i < 64; i++) words[i / 4][i % 4] = from + i;
    asm volatile(
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n vmovdqu \\n*32(%0), %%ymm\\n\n .endr" : : "r"(words) : "memory");
}

static int vectors_are(u64 from) {
    u64 words[16][4];
    asm volatile(
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n vmovdqu %%ymm\\n, \\n*32(%0)\n .endr" : : "r"(words) : "memory");
    for (int i = 0; i < 64; i++)
        if (words[i / 4][i % 4] != from + i) return 0;
    return 1;
}

int main(int count, char **arguments);
asm(".globl _start\n_start: xor %ebp, %ebp; mov (%rsp), %edi; lea 8(%rsp), %rsi; and $-16, %rsp; call main; mov %eax, %edi; mov $60, %eax; syscall");
