/* Operations that take two: threads of one process, or two processes. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "meter.h"

/* One side of an echo: waits for the other side's message, in a call of its own if asked to, and takes it. */
static void take(int end, char *bytes, size_t len, int wait) {
    struct pollfd item = {.fd = end, .events = POLLIN};
    if (wait) CHECK(poll(&item, 1, -1));
    CHECK(read(end, bytes, len));
}

static void echo(const char *name, size_t len, int wait) {
    static char bytes[1024];
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends));
    pid_t child = fork();
    CHECK(child);
    if (child == 0) {
        ROUNDS(TIMES) {
            take(ends[1], bytes, len, wait);
            CHECK(write(ends[1], bytes, len));
        }
        _exit(0);
    }
    samples round_trip = {0};
    ROUNDS(TIMES) TIME(round_trip, {
        CHECK(write(ends[0], bytes, len));
        take(ends[0], bytes, len, wait);
    });
    CHECK(waitpid(child, NULL, 0));
    CHECK(close(ends[0]) | close(ends[1]));
    meter_report(name, &round_trip);
}

/* A byte there and back between two processes. */
static void pipes(void) {
    char byte = 0;
    int there[2], back[2];
    CHECK(pipe(there) | pipe(back));
    pid_t child = fork();
    CHECK(child);
    if (child == 0) {
        ROUNDS(TIMES) {
            CHECK(read(there[0], &byte, 1));
            CHECK(write(back[1], &byte, 1));
        }
        _exit(0);
    }
    samples round_trip = {0};
    ROUNDS(TIMES) TIME(round_trip, {
        CHECK(write(there[1], &byte, 1));
        CHECK(read(back[0], &byte, 1));
    });
    CHECK(waitpid(child, NULL, 0));
    CHECK(close(there[0]) | close(there[1]) | close(back[0]) | close(back[1]));
    meter_report("pipe_pingpong", &round_trip);
}

/* Two threads with a word each: a thread wakes the other one, then waits for a change of its own word. */
static _Atomic uint32_t words[2];

static void wake(int which) {
    atomic_store(&words[which], 1);
    CHECK(syscall(SYS_futex, &words[which], FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0));
}

static void await(int which) {
    while (atomic_load(&words[which]) == 0) syscall(SYS_futex, &words[which], FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    atomic_store(&words[which], 0);
}

static void *futex_partner(void *_) {
    ROUNDS(TIMES) {
        await(1);
        wake(0);
    }
    return _;
}

static void futexes(void) {
    pthread_t thread;
    samples round_trip = {0};
    if (pthread_create(&thread, NULL, futex_partner, NULL)) failed("pthread_create");
    ROUNDS(TIMES) TIME(round_trip, {
        wake(1);
        await(0);
    });
    pthread_join(thread, NULL);
    meter_report("futex_pingpong", &round_trip);
}

static int events[2];

static void *event_partner(void *_) {
    uint64_t one = 1;
    ROUNDS(TIMES) {
        CHECK(read(events[1], &one, sizeof one));
        CHECK(write(events[0], &one, sizeof one));
    }
    return _;
}

static void eventfds(void) {
    pthread_t thread;
    samples round_trip = {0};
    uint64_t one = 1;
    CHECK(events[0] = eventfd(0, 0));
    CHECK(events[1] = eventfd(0, 0));
    if (pthread_create(&thread, NULL, event_partner, NULL)) failed("pthread_create");
    ROUNDS(TIMES) TIME(round_trip, {
        CHECK(write(events[1], &one, sizeof one));
        CHECK(read(events[0], &one, sizeof one));
    });
    pthread_join(thread, NULL);
    meter_report("eventfd_pingpong", &round_trip);
}

void parties_run(void) {
    pipes();
    echo("echo_poll_4", 4, 1);
    echo("echo_poll_1024", 1024, 1);
    echo("echo_4", 4, 0);
    futexes();
    eventfds();
}
