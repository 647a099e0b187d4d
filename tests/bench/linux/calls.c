/* Calls that concern one process: the null call, the clock, descriptors, what is queued and taken by the same thread. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "meter.h"

static void handler(int signal) { (void)signal; }

/* A signal to oneself: the call, the handler, and back. */
static void signals(void) {
    samples handled = {0};
    pid_t own = getpid();
    if (signal(SIGUSR1, handler) == SIG_ERR) failed("signal");
    ROUNDS(TIMES) TIME(handled, CHECK(kill(own, SIGUSR1)));
    meter_report("signal", &handled);
}

static void zeroes(void) {
    samples reads = {0};
    char byte;
    int zero = open("/dev/zero", O_RDONLY);
    CHECK(zero);
    ROUNDS(TIMES) TIME(reads, CHECK(read(zero, &byte, 1)));
    CHECK(close(zero));
    meter_report("read_zero", &reads);
}

static void null_and_clock(void) {
    samples null = {0}, clock = {0}, own = {0};
    ROUNDS(TIMES) TIME(own, CHECK(syscall(SYS_getpid)));
    meter_report("getpid", &own);
    struct timespec now;
    ROUNDS(TIMES) TIME(null, CHECK(syscall(SYS_getppid)));
    ROUNDS(TIMES) TIME(clock, CHECK(clock_gettime(CLOCK_MONOTONIC, &now)));
    meter_report("getppid", &null);
    meter_report("clock_gettime", &clock);
}

static void descriptors(void) {
    samples dups = {0}, closes = {0}, create = {0}, last = {0}, signal = {0}, take = {0}, ready = {0};
    samples selected = {0};
    int event = eventfd(0, 0), copy;
    CHECK(event);
    ROUNDS(TIMES) {
        TIME(dups, CHECK(copy = dup(event)));
        TIME(closes, CHECK(close(copy)));
    }
    uint64_t one = 1;
    struct pollfd item = {.fd = event, .events = POLLIN};
    ROUNDS(TIMES) {
        TIME(signal, CHECK(write(event, &one, sizeof one)));
        TIME(ready, CHECK(poll(&item, 1, -1)));
        fd_set set;
        FD_ZERO(&set);
        FD_SET(event, &set);
        TIME(selected, CHECK(select(event + 1, &set, NULL, NULL, NULL)));
        TIME(take, CHECK(read(event, &one, sizeof one)));
    }
    CHECK(close(event));
    ROUNDS(TIMES) {
        TIME(create, CHECK(event = eventfd(0, 0)));
        TIME(last, CHECK(close(event)));
    }
    meter_report("dup", &dups);
    meter_report("close", &closes);
    meter_report("eventfd", &create);
    meter_report("eventfd_close", &last);
    meter_report("eventfd_write", &signal);
    meter_report("eventfd_read", &take);
    meter_report("poll_ready", &ready);
    meter_report("select_ready", &selected);
}

static void epolls(void) {
    samples ready = {0};
    int event = eventfd(1, 0), set = epoll_create1(0);
    struct epoll_event item = {.events = EPOLLIN};
    CHECK(event);
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, event, &item));
    ROUNDS(TIMES) TIME(ready, CHECK(epoll_wait(set, &item, 1, -1)));
    meter_report("epoll_ready", &ready);
    close(event);
    close(set);
}

/* `len` bytes are written to one end and read from the other. */
static void through(const char *write_name, const char *read_name, int from, int to, size_t len) {
    static char bytes[4096];
    samples writes = {0}, reads = {0};
    ROUNDS(TIMES) {
        TIME(writes, CHECK(write(from, bytes, len)));
        TIME(reads, CHECK(read(to, bytes, len)));
    }
    meter_report(write_name, &writes);
    meter_report(read_name, &reads);
}

static void queues(void) {
    int ends[2];
    CHECK(pipe(ends));
    through("pipe_write_8", "pipe_read_8", ends[1], ends[0], 8);
    through("pipe_write_64", "pipe_read_64", ends[1], ends[0], 64);
    CHECK(close(ends[0]) | close(ends[1]));
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    through("stream_write_64", "stream_read_64", ends[0], ends[1], 64);
    CHECK(close(ends[0]) | close(ends[1]));
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends));
    through("datagram_write_64", "datagram_read_64", ends[0], ends[1], 64);
    CHECK(close(ends[0]) | close(ends[1]));
    samples create = {0}, closes = {0};
    ROUNDS(TIMES) {
        TIME(create, CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends)));
        TIME(closes, CHECK(close(ends[0]) | close(ends[1])));
    }
    meter_report("datagram_create", &create);
    meter_report("datagram_close", &closes);
}

/* A datagram of 64 bytes with a descriptor, sent and received. */
static void descriptor_through(void) {
    int ends[2], event = eventfd(0, 0);
    CHECK(event);
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends));
    char bytes[64] = {0};
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {.iov_base = bytes, .iov_len = sizeof bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control};
    samples both = {0};
    ROUNDS(TIMES) {
        message.msg_controllen = sizeof control;
        control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.head), &event, sizeof event);
        TIME(both, {
            CHECK(sendmsg(ends[0], &message, 0));
            CHECK(recvmsg(ends[1], &message, 0));
        });
        int received;
        memcpy(&received, CMSG_DATA(&control.head), sizeof received);
        CHECK(close(received));
    }
    meter_report("datagram_descriptor", &both);
    CHECK(close(ends[0]) | close(ends[1]) | close(event));
}

/* Many bytes at once, in one call each way. */
static void bulk(void) {
    static char bytes[1 << 16];
    static const struct {
        size_t len;
        const char *names[4];
    } sizes[] = {
        {1 << 10, {"datagram_bulk_1024", "stream_bulk_1024", "file_write_1024", "file_read_1024"}},
        {1 << 14, {"datagram_bulk_16384", "stream_bulk_16384", "file_write_16384", "file_read_16384"}},
        {1 << 16, {"datagram_bulk_65536", "stream_bulk_65536", "file_write_65536", "file_read_65536"}},
    };
    int datagram[2], stream[2], file = memfd_create("bulk", 0);
    CHECK(file);
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, datagram));
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, stream));
    CHECK(pwrite(file, bytes, sizeof bytes, 0));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        samples all[4] = {0};
        ssize_t len = (ssize_t)sizes[i].len;
        ROUNDS(400) {
            TIME(all[0], {
                CHECK(write(datagram[0], bytes, len));
                CHECK(read(datagram[1], bytes, len));
            });
            TIME(all[1], {
                CHECK(write(stream[0], bytes, len));
                if (recv(stream[1], bytes, len, MSG_WAITALL) != len) failed("a stream's bytes");
            });
            TIME(all[2], CHECK(pwrite(file, bytes, len, 0)));
            TIME(all[3], CHECK(pread(file, bytes, len, 0)));
        }
        for (int which = 0; which < 4; which++) meter_report(sizes[i].names[which], &all[which]);
    }
    close(file);
}

void calls_run(void) {
    null_and_clock();
    signals();
    zeroes();
    descriptors();
    epolls();
    queues();
    descriptor_through();
    bulk();
}
