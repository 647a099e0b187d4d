// Copy-on-write after fork: processes share memory until one of them writes, and each sees its own content, in three
// sub-domains and over several generations. Vector registers, open files and signal handlers are inherited, too.
#include "linux.h"

enum { PAGES = 200 };
static u64 pages[PAGES][512] = { [7] = { 7 } };
static u64 *volatile absolute = &pages[7][0];
static volatile int handled;

static void count(int signal, u8 *info, u64 *context) { handled++; }

static void fill(u64 with) {
    for (u64 i = 0; i < PAGES; i++) pages[i][i] = with + i;
}

static int is(u64 with) {
    for (u64 i = 0; i < PAGES; i++)
        if (pages[i][i] != with + i) return 0;
    return 1;
}

static int generation(int depth) {
    MUST(is(1000 + depth));
    fill(1001 + depth);
    if (depth == 4) return 0;
    long child = call(FORK, 0, 0, 0);
    MUST(child >= 0);
    if (child == 0) leave(generation(depth + 1));
    fill(5);
    int status = wait_for(child);
    MUST(is(5));
    return status >> 8;
}

int main(int count_of, char **arguments) {
    MUST(*absolute == 7);
    u64 stack = 11;
    int ends[2], back[2];
    MUST(call(PIPE2, ends, 0, 0) == 0 && call(PIPE2, back, 0, 0) == 0);
    fill(1);
    handle(SIGUSR1, count, 0, 0);
    fill_vectors(0x1234567);
    long children[2];
    for (u64 n = 0; n < 2; n++) {
        long child = children[n] = call(FORK, 0, 0, 0);
        if (child == 0) {
            MUST(vectors_are(0x1234567));
            MUST(is(1) && stack == 11);
            fill(100 * (n + 1)), stack = n;
            fill_vectors(n << 40);
            // Reports its write, and checks again when all have written.
            u64 word = n;
            MUST(call(WRITE, back[1], &word, 8) == 8);
            MUST(call(READ, ends[0], &word, 8) == 8 && word == 77);
            MUST(is(100 * (n + 1)) && stack == n && vectors_are(n << 40));
            MUST(call(KILL, call(GETPID, 0, 0, 0), SIGUSR1, 0) == 0 && handled == 1);
            MUST(vectors_are(n << 40));
            leave(40 + n);
        }
        MUST(child > 0);
    }
    MUST(vectors_are(0x1234567) && is(1));
    u64 word, sum = 0;
    for (int n = 0; n < 2; n++) MUST(call(READ, back[0], &word, 8) == 8), sum += word + 1;
    MUST(sum == 3 && is(1) && stack == 11);
    fill(9), word = 77;
    for (int n = 0; n < 2; n++) MUST(call(WRITE, ends[1], &word, 8) == 8);
    MUST(wait_for(children[0]) == 40 << 8 && wait_for(children[1]) == 41 << 8);
    MUST(is(9) && stack == 11 && handled == 0 && vectors_are(0x1234567));
    int status;
    MUST(call6(WAIT4, -1ul, (u64)&status, 0, 0, 0, 0) == -ECHILD);

    fill(1000);
    tell("generations", generation(0));

    // Many children, one after the other: their resources must be freed.
    for (u64 n = 0; n < 40; n++) {
        long child = call(FORK, 0, 0, 0);
        if (child == 0) fill(n), leave(is(n) ? n : 99);
        MUST(wait_for(child) == (int)n << 8);
    }
    // A pipe ends when its last writer closes it, and a write without a reader fails.
    call(CLOSE, back[1], 0, 0);
    MUST(call(READ, back[0], &word, 8) == 0);
    call(CLOSE, ends[0], 0, 0);
    handle(SIGPIPE, count, 0, 0);
    MUST(call(WRITE, ends[1], &word, 8) == -EPIPE && handled == 1);
    say("forked\n");
    return 0;
}
