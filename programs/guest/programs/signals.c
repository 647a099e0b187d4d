// Signals: handlers that change the interrupted registers, nested handlers, masks, default actions, interrupted system
// calls, and the restoration of all registers after a handler.
#include "linux.h"

static volatile int seen[65], order;
static volatile u64 at, code;

static void note(int signal, u8 *info, u64 *context) { seen[signal] = ++order; }
static void skip(int signal, u8 *info, u64 *context) {
    seen[signal]++;
    at = *(u64 *)(info + 16), code = *(u32 *)(info + 8);
    fill_vectors(1);
    context[AT_RIP] = context[AT_R12];
    context[AT_RBX] += 5;
}
static void outer(int signal, u8 *info, u64 *context) {
    call(KILL, call(GETPID, 0, 0, 0), SIGUSR2, 0);
    MUST(seen[SIGUSR2] == 0);
    call(KILL, call(GETPID, 0, 0, 0), SIGTERM, 0);
    MUST(seen[SIGTERM] == 1);
    note(signal, info, context);
}
static void clobber(int signal, u8 *info, u64 *context) {
    fill_vectors(3);
    asm volatile("std; cld; fninit; fld1" ::: "memory");
    seen[signal]++;
}
static void broken(int signal, u8 *info, u64 *context) {
    // Makes the saved vector state invalid.
    for (int i = 512; i < 576; i++) ((u8 *)context[28])[i] = 0xff;
}

// Continues at label 2 if the instruction fails, with 5 added to rbx.
#define FAILS(instruction) ({ \
    u64 rbx = 1; \
    fill_vectors(7); \
    asm volatile("lea 2f(%%rip), %%r12\n1: " instruction "\n2:" : "+b"(rbx) : : "r12", "rax", "rcx", "rdx", "memory"); \
    MUST(vectors_are(7)); \
    rbx == 6; })

static int of_child(void (*work)(void)) {
    long child = call(FORK, 0, 0, 0);
    if (child == 0) work(), leave(0);
    return wait_for(child);
}
static void null(void) { *(volatile int *)8 = 1; }
static void jump(void) { ((void (*)(void))0x123456789000)(); }
static void kernel(void) { ((void (*)(void))0xffffffff80000000)(); }
static void illegal(void) { asm volatile("ud2"); }
static void masked(void) {
    u64 set = 1 << (SIGILL - 1);
    call6(SIGPROCMASK, 0, (u64)&set, 0, 8, 0, 0);
    handle(SIGILL, note, 0, 0);
    asm volatile("ud2");
}
static void no_stack(void) {
    handle(SIGILL, note, 0, 0);
    asm volatile("mov $8, %rsp; ud2");
}
static void no_vectors(void) {
    handle(SIGUSR1, broken, 0, 0);
    call(KILL, call(GETPID, 0, 0, 0), SIGUSR1, 0);
}
static void waits(void) {
    handle(SIGALRM, note, 0, 0);
    u64 timer[4] = { 0, 0, 0, 20000 };
    MUST(call(SETITIMER, 0, timer, 0) == 0);
    MUST(call(PAUSE, 0, 0, 0) == -EINTR && seen[SIGALRM]);
    int ends[2];
    MUST(call(PIPE2, ends, 0, 0) == 0 && call(SETITIMER, 0, timer, 0) == 0);
    char byte;
    MUST(call(READ, ends[0], &byte, 1) == -EINTR);
    // This call is restarted, and the child writes later.
    handle(SIGALRM, note, SA_RESTART, 0);
    MUST(call(SETITIMER, 0, timer, 0) == 0);
    long child = call(FORK, 0, 0, 0);
    u64 time[2] = { 0, 60000000 };
    if (child == 0) call(NANOSLEEP, time, 0, 0), call(WRITE, ends[1], "x", 1), leave(0);
    MUST(call(READ, ends[0], &byte, 1) == 1 && byte == 'x');
    wait_for(child);
}

int main(int count, char **arguments) {
    u64 pid = call(GETPID, 0, 0, 0);
    for (int signal = SIGILL; signal <= SIGSEGV; signal++)
        if (signal != SIGKILL) handle(signal, skip, 0, 0);
    MUST(FAILS("ud2") && seen[SIGILL] == 1 && code == 2);
    MUST(FAILS("xor %%eax, %%eax; xor %%edx, %%edx; div %%eax") && seen[SIGFPE] == 1 && code == 1);
    MUST(FAILS("movb $1, 0x10") && seen[SIGSEGV] == 1 && at == 0x10 && code == 1);
    MUST(FAILS("mov $restore, %%rax; movb $1, (%%rax)") && seen[SIGSEGV] == 2 && at == (u64)restore && code == 2);
    MUST(FAILS("hlt") && seen[SIGSEGV] == 3);
    MUST(FAILS("mov $0x800000000000, %%rax; movb $1, (%%rax)") && seen[SIGSEGV] == 4);
    MUST(FAILS("mov %%cr3, %%rax") && seen[SIGSEGV] == 5);
    MUST(FAILS("int3") && seen[SIGTRAP] == 1);
    say("failures\n");

    // A signal that arrives while masked is delivered after unmasking. Of several pending signals, the handler of the
    // lowest one runs last.
    handle(SIGUSR1, outer, 0, 1 << (SIGUSR2 - 1));
    handle(SIGUSR2, note, 0, 0);
    handle(SIGTERM, note, SA_RESETHAND, 0);
    MUST(call(KILL, pid, SIGUSR1, 0) == 0);
    MUST(seen[SIGTERM] == 1 && seen[SIGUSR1] == 2 && seen[SIGUSR2] == 3);
    u64 set = 1 << (SIGUSR2 - 1), old;
    MUST(call6(SIGPROCMASK, 0, (u64)&set, (u64)&old, 8, 0, 0) == 0 && old == 0);
    for (int i = 0; i < 3; i++) MUST(call(KILL, pid, SIGUSR2, 0) == 0);
    MUST(seen[SIGUSR2] == 3);
    MUST(call6(SIGPROCMASK, 1, (u64)&set, 0, 8, 0, 0) == 0 && seen[SIGUSR2] == 4);
    say("order\n");

    // All registers.
    handle(SIGUSR1, clobber, 0, 0);
    fill_vectors(99);
    u64 sum;
    asm volatile(
        "mov %1, %%rdi; mov $10, %%esi; mov $1, %%ebx; mov $2, %%edx; mov $4, %%r8d; mov $8, %%r9d; mov $16, %%r10d\n"
        "mov $32, %%r12d; mov $64, %%r13d; mov $128, %%r14d; mov $256, %%r15d; push $512; fldpi; mov $62, %%eax; stc; syscall\n"
        "pushf; pop %%rcx; and $1, %%ecx; add %%rcx, %%rax; add %%rbx, %%rax; add %%rdx, %%rax; add %%r8, %%rax; add %%r9, %%rax\n"
        "add %%r10, %%rax; add %%r12, %%rax; add %%r13, %%rax; add %%r14, %%rax; add %%r15, %%rax; pop %%rcx; add %%rcx, %%rax\n"
        "fldpi; fucomip %%st(1), %%st; fstp %%st(0); mov $0, %%ecx; setne %%cl; shl $20, %%rcx; add %%rcx, %%rax"
        : "=&a"(sum) : "r"(pid)
        : "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory");
    MUST(vectors_are(99) && seen[SIGUSR1] == 3);
    tell("registers", sum);

    // Default actions.
    for (int signal = SIGILL; signal <= SIGSEGV; signal++)
        if (signal != SIGKILL) handle(signal, 0, 0, 0);
    void (*ends[])(void) = { null, jump, kernel, illegal, masked, no_stack, no_vectors, waits };
    for (int i = 0; i < 8; i++) tell("ends by", of_child(ends[i]) & 127);
    // The parent gets SIGCHLD at a child's end. Its default action does not end the parent.
    handle(SIGCHLD, note, SA_RESTART, 0);
    MUST(of_child(illegal) && seen[SIGCHLD]);
    say("signalled\n");
    return 0;
}
