// Three processes compute without system calls, each with its own general and vector registers. Without preemption,
// none of them would ever end.
#include "linux.h"

static volatile int rang, stop;

static void ring(int signal, u8 *info, u64 *context) {
    rang++;
    fill_vectors(0xdead);
}
static void end(int signal, u8 *info, u64 *context) { stop = 1; }

// Computes only in registers, and checks them at the end.
static u64 steps(u64 own, u64 times) {
    u64 sum = own, n = times;
    fill_vectors(own);
    asm volatile(
        "1: lea 1(%0), %0\n rol $3, %0\n xor %2, %0\n vpxor %%xmm0, %%xmm1, %%xmm0\n vpxor %%xmm0, %%xmm1, %%xmm0\n"
        " dec %1\n jnz 1b"
        : "+r"(sum), "+r"(n) : "r"(own));
    // The 128-bit form of these instructions clears the upper half of the register.
    u64 upper[4];
    asm volatile("vmovdqu %%ymm0, (%0)" : : "r"(upper) : "memory");
    MUST(upper[0] == own && upper[1] == own + 1 && upper[2] == 0 && upper[3] == 0);
    asm volatile("vinsertf128 $1, (%0), %%ymm0, %%ymm0" : : "r"((u64[]){ own + 2, own + 3 }) : "memory");
    MUST(vectors_are(own));
    return sum;
}

static u64 plain(u64 own, u64 times) {
    u64 sum = own;
    while (times--) sum += 1, sum = sum << 3 | sum >> 61, sum ^= own;
    return sum;
}

int main(int count, char **arguments) {
    const u64 times = 40000;
    handle(SIGUSR2, end, SA_RESTART, 0);
    long children[2];
    for (u64 n = 0; n < 2; n++) {
        children[n] = call(FORK, 0, 0, 0);
        if (children[n] == 0) {
            u64 own = (n + 1) << 32, turns = 0, wanted = plain(own, times);
            while (!stop) {
                MUST(steps(own, times) == wanted);
                turns++;
            }
            leave(turns ? 60 + n : 98);
        }
    }
    // An alarm every few milliseconds, between any two instructions.
    handle(SIGALRM, ring, 0, 0);
    u64 timer[4] = { 0, 12000, 0, 12000 };
    MUST(call(SETITIMER, 0, timer, 0) == 0);
    u64 own = 5ul << 40, wanted = plain(own, times);
    while (rang < 12) MUST(steps(own, times) == wanted);
    timer[1] = timer[3] = 0;
    MUST(call(SETITIMER, 0, timer, 0) == 0);
    for (int n = 0; n < 2; n++) MUST(call(KILL, children[n], SIGUSR2, 0) == 0);
    for (int n = 0; n < 2; n++) tell("child", wait_for(children[n]) >> 8);
    // A process that is killed while it computes, and one that sleeps.
    long child = call(FORK, 0, 0, 0);
    if (child == 0) for (;;) {}
    u64 time[2] = { 0, 30000000 };
    MUST(call(NANOSLEEP, time, 0, 0) == 0);
    MUST(call(KILL, child, SIGKILL, 0) == 0);
    tell("killed by", wait_for(child) & 127);
    say("preempted\n");
    return 0;
}
