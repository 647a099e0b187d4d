// sys/epoll.h: level- and edge-triggered waits, one event only, several threads, sockets that change their state, and what
// is refused.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include "check.h"

static void put(int set, int operation, int fd, unsigned events, unsigned long long data)
{
	struct epoll_event event = { .events = events, .data.u64 = data };
	CHECK_INT(epoll_ctl(set, operation, fd, &event), 0);
}

// Waits for one event at most, and returns its bits; 0 if there is none within the time.
static unsigned next(int set, int milliseconds, unsigned long long *data)
{
	struct epoll_event event = { 0 };
	int count = epoll_wait(set, &event, 1, milliseconds);
	CHECK(count == 0 || count == 1);
	if (data)
		*data = event.data.u64;
	return count == 1 ? event.events : 0;
}

TEST(epoll_level)
{
	int set = epoll_create1(EPOLL_CLOEXEC), fds[2];
	char bytes[8];
	CHECK(set >= 0);
	CHECK_INT(fcntl(set, F_GETFD), FD_CLOEXEC);
	CHECK_INT(pipe(fds), 0);
	put(set, EPOLL_CTL_ADD, fds[0], EPOLLIN, 0x1234567890abcdefull);
	CHECK_INT(next(set, 0, 0), 0);
	CHECK_INT(write(fds[1], "abc", 3), 3);
	unsigned long long data;
	// As long as there is something to read.
	CHECK_INT(next(set, -1, &data), EPOLLIN);
	CHECK(data == 0x1234567890abcdefull);
	CHECK_INT(next(set, -1, 0), EPOLLIN);
	CHECK_INT(read(fds[0], bytes, 1), 1);
	CHECK_INT(next(set, -1, 0), EPOLLIN);
	CHECK_INT(read(fds[0], bytes, 8), 2);
	CHECK_INT(next(set, 0, 0), 0);
	CHECK_INT(write(fds[1], "d", 1), 1);
	CHECK_INT(next(set, -1, 0), EPOLLIN);
	close(fds[1]);
	CHECK_INT(next(set, -1, 0), EPOLLIN | EPOLLHUP);
	close(fds[0]);
	// A closed descriptor is no longer in the set.
	CHECK_INT(next(set, 0, 0), 0);
	close(set);
}

TEST(epoll_edge)
{
	int set = epoll_create(1), pair[2];
	char bytes[8];
	CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	put(set, EPOLL_CTL_ADD, pair[0], EPOLLIN | EPOLLOUT | EPOLLET, 7);
	CHECK_INT(next(set, -1, 0), EPOLLOUT);
	CHECK_INT(next(set, 0, 0), 0);
	for (int round = 0; round < 100; round++) {
		CHECK_INT(write(pair[1], "x", 1), 1);
		CHECK_INT(next(set, -1, 0), EPOLLIN | EPOLLOUT);
		// The byte has been told of.
		CHECK_INT(next(set, 0, 0), 0);
		CHECK_INT(read(pair[0], bytes, 8), 1);
		CHECK_INT(next(set, 0, 0), 0);
	}
	// What was read before the call is no event.
	CHECK_INT(write(pair[1], "y", 1), 1);
	CHECK_INT(read(pair[0], bytes, 8), 1);
	CHECK_INT(next(set, 0, 0) & EPOLLIN, 0);
	// EPOLL_CTL_MOD tells of what there is.
	put(set, EPOLL_CTL_MOD, pair[0], EPOLLOUT | EPOLLET, 8);
	unsigned long long data;
	CHECK_INT(next(set, -1, &data), EPOLLOUT);
	CHECK_INT(data, 8);
	CHECK_INT(next(set, 0, 0), 0);
	CHECK_INT(epoll_ctl(set, EPOLL_CTL_DEL, pair[0], 0), 0);
	close(pair[1]);
	CHECK_INT(next(set, 0, 0), 0);
	close(pair[0]);
	close(set);
}

TEST(epoll_counter)
{
	int set = epoll_create1(0), counter = eventfd(0, EFD_NONBLOCK);
	put(set, EPOLL_CTL_ADD, counter, EPOLLIN | EPOLLET, 1);
	CHECK_INT(next(set, 0, 0), 0);
	// Each write is an event, also if the counter is never read.
	for (int round = 0; round < 10; round++) {
		CHECK_INT(eventfd_write(counter, 1), 0);
		CHECK_INT(next(set, -1, 0), EPOLLIN);
		CHECK_INT(next(set, 0, 0), 0);
	}
	eventfd_t value;
	CHECK_INT(eventfd_read(counter, &value), 0);
	CHECK_INT(value, 10);
	CHECK_INT(next(set, 0, 0), 0);
	close(counter);
	close(set);
}

TEST(epoll_once)
{
	int set = epoll_create1(0), fds[2];
	CHECK_INT(pipe(fds), 0);
	put(set, EPOLL_CTL_ADD, fds[0], EPOLLIN | EPOLLONESHOT, 1);
	CHECK_INT(write(fds[1], "ab", 2), 2);
	CHECK_INT(next(set, -1, 0), EPOLLIN);
	CHECK_INT(next(set, 0, 0), 0);
	CHECK_INT(write(fds[1], "c", 1), 1);
	CHECK_INT(next(set, 0, 0), 0);
	put(set, EPOLL_CTL_MOD, fds[0], EPOLLIN | EPOLLONESHOT, 1);
	CHECK_INT(next(set, -1, 0), EPOLLIN);
	CHECK_INT(next(set, 0, 0), 0);
	close(fds[0]);
	close(fds[1]);
	close(set);
}

// Events of many descriptors come a few at a time, and none is left out.
TEST(epoll_many)
{
	enum { COUNT = 200 };
	int set = epoll_create1(0), fds[COUNT][2];
	char seen[COUNT] = { 0 };
	for (int i = 0; i < COUNT; i++) {
		CHECK_INT(pipe(fds[i]), 0);
		put(set, EPOLL_CTL_ADD, fds[i][0], EPOLLIN | EPOLLET, i);
		CHECK_INT(write(fds[i][1], "x", 1), 1);
	}
	int all = 0;
	while (all < COUNT) {
		struct epoll_event events[7];
		int count = epoll_wait(set, events, 7, -1);
		CHECK(count > 0 && count <= 7);
		if (count <= 0)
			break;
		for (int i = 0; i < count; i++) {
			CHECK_INT(seen[events[i].data.u64], 0);
			seen[events[i].data.u64] = 1;
		}
		all += count;
	}
	CHECK_INT(next(set, 0, 0), 0);
	for (int i = 0; i < COUNT; i++) {
		close(fds[i][0]);
		close(fds[i][1]);
	}
	close(set);
}

static void *writes(void *fd)
{
	for (int i = 0; i < 1000; i++)
		if (write(*(int *)fd, "x", 1) != 1)
			break;
	return 0;
}

// No event is lost between a thread that writes and one that reads until nothing is left.
TEST(epoll_threads)
{
	int set = epoll_create1(0), pair[2], all = 0;
	CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
	put(set, EPOLL_CTL_ADD, pair[0], EPOLLIN | EPOLLET, 1);
	pthread_t thread;
	CHECK_INT(pthread_create(&thread, 0, writes, &pair[1]), 0);
	while (all < 1000) {
		CHECK_INT(next(set, -1, 0), EPOLLIN);
		char bytes[3];
		ssize_t count;
		while ((count = read(pair[0], bytes, sizeof bytes)) > 0)
			all += count;
		CHECK(count == -1 && errno == EAGAIN);
	}
	CHECK_INT(all, 1000);
	pthread_join(thread, 0);
	close(pair[0]);
	close(pair[1]);
	close(set);
}

// Sockets that are in the set before they connect or listen.
TEST(epoll_states)
{
	int set = epoll_create1(0), listener = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof address;
	put(set, EPOLL_CTL_ADD, listener, EPOLLIN, 1);
	// A socket that neither listens nor is connected has hung up.
	CHECK(next(set, -1, 0) & EPOLLHUP);
	CHECK_INT(bind(listener, (void *)&address, sizeof address), 0);
	CHECK_INT(listen(listener, 4), 0);
	CHECK_INT(getsockname(listener, (void *)&address, &size), 0);
	CHECK_INT(next(set, 0, 0), 0);
	int client = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	put(set, EPOLL_CTL_ADD, client, EPOLLOUT | EPOLLET, 2);
	int result = connect(client, (void *)&address, sizeof address);
	CHECK(result == 0 || errno == EINPROGRESS);
	unsigned seen[3] = { 0 };
	while (!(seen[1] & EPOLLIN) || !(seen[2] & EPOLLOUT) || seen[2] & EPOLLHUP) {
		unsigned long long who;
		unsigned events = next(set, -1, &who);
		CHECK(events && who <= 2);
		seen[who] = events;
	}
	int accepted = accept(listener, 0, 0);
	CHECK(accepted >= 0);
	close(accepted);
	close(client);
	// The end of a connection that is asked for before there is one.
	int early = epoll_create1(0);
	client = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	result = connect(client, (void *)&address, sizeof address);
	CHECK(result == 0 || errno == EINPROGRESS);
	put(early, EPOLL_CTL_ADD, client, EPOLLRDHUP, 4);
	accepted = accept(listener, 0, 0);
	CHECK(accepted >= 0);
	CHECK_INT(next(early, 0, 0), 0);
	CHECK_INT(shutdown(accepted, SHUT_WR), 0);
	CHECK_INT(next(early, 10000, 0), EPOLLRDHUP);
	close(early);
	close(accepted);
	close(client);
	close(listener);

	struct sockaddr_un name = { .sun_family = AF_UNIX, .sun_path = "/tmp/epoll-states" };
	unlink(name.sun_path);
	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK_INT(bind(listener, (void *)&name, sizeof name), 0);
	put(set, EPOLL_CTL_ADD, listener, EPOLLIN | EPOLLET, 3);
	next(set, 0, 0);
	CHECK_INT(listen(listener, 4), 0);
	client = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK_INT(connect(client, (void *)&name, sizeof name), 0);
	CHECK_INT(next(set, -1, 0), EPOLLIN);
	close(client);
	close(listener);
	unlink(name.sun_path);
	close(set);
}

// Neither epoll nor poll returns before its time, or later than that, for what was not asked for.
static void nothing(int fd, unsigned events)
{
	int set = epoll_create1(0);
	put(set, EPOLL_CTL_ADD, fd, events, 0);
	CHECK_INT(next(set, 0, 0), 0);
	CHECK_INT(next(set, 5, 0), 0);
	close(set);
	struct pollfd one = { fd, events };
	struct timespec before, after;
	clock_gettime(CLOCK_MONOTONIC, &before);
	CHECK_INT(poll(&one, 1, 5), 0);
	clock_gettime(CLOCK_MONOTONIC, &after);
	CHECK((after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec >= 5000000);
}

// A descriptor with something to read, of which only other events are asked.
static void unread(int fd, int peer)
{
	CHECK_INT(write(peer, "abc", 3), 3);
	struct pollfd arrives = { fd, POLLIN };
	CHECK_INT(poll(&arrives, 1, -1), 1);
	nothing(fd, 0);
	nothing(fd, EPOLLRDHUP);
	nothing(fd, EPOLLRDHUP | EPOLLPRI);
	int set = epoll_create1(0);
	put(set, EPOLL_CTL_ADD, fd, EPOLLRDHUP, 0);
	CHECK_INT(next(set, 0, 0), 0);
	// What was asked for still comes.
	close(peer);
	CHECK(next(set, -1, 0) & EPOLLRDHUP);
	struct pollfd ends = { fd, POLLRDHUP };
	CHECK(poll(&ends, 1, -1) == 1 && ends.revents & POLLRDHUP);
	close(set);
	close(fd);
}

TEST(epoll_unasked)
{
	int fds[2];
	CHECK_INT(pipe(fds), 0);
	unread(fds[0], fds[1]);
	CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	unread(fds[0], fds[1]);

	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_un name = { .sun_family = AF_UNIX, .sun_path = "/tmp/epoll-unasked" };
	unlink(name.sun_path);
	for (int unix = 0; unix < 2; unix++) {
		void *to = unix ? (void *)&name : (void *)&address;
		socklen_t size = unix ? sizeof name : sizeof address;
		int listener = socket(unix ? AF_UNIX : AF_INET, SOCK_STREAM, 0);
		int client = socket(unix ? AF_UNIX : AF_INET, SOCK_STREAM, 0);
		CHECK_INT(bind(listener, to, size), 0);
		CHECK_INT(listen(listener, 4), 0);
		if (!unix)
			CHECK_INT(getsockname(listener, to, &size), 0);
		CHECK_INT(connect(client, to, size), 0);
		struct pollfd arrives = { listener, POLLIN };
		CHECK_INT(poll(&arrives, 1, -1), 1);
		nothing(listener, 0);
		nothing(listener, EPOLLOUT);
		nothing(listener, EPOLLRDHUP);
		int accepted = accept(listener, 0, 0);
		CHECK(accepted >= 0);
		unread(accepted, client);
		close(listener);
	}
	unlink(name.sun_path);

	// Datagrams have no end.
	int receiver = socket(AF_UNIX, SOCK_DGRAM, 0), sender = socket(AF_UNIX, SOCK_DGRAM, 0);
	CHECK_INT(bind(receiver, (void *)&name, sizeof name), 0);
	CHECK_INT(sendto(sender, "x", 1, 0, (void *)&name, sizeof name), 1);
	nothing(receiver, 0);
	nothing(receiver, EPOLLRDHUP);
	close(receiver);
	close(sender);
	unlink(name.sun_path);
}

// Calls leave nothing behind: the port waits once for each object.
TEST(epoll_always)
{
	enum { COUNT = 200 };
	int set = epoll_create1(0), fds[COUNT] = { socket(AF_UNIX, SOCK_DGRAM, 0) };
	for (int i = 0; i < COUNT; i++) {
		if (i)
			fds[i] = dup(fds[0]);
		put(set, EPOLL_CTL_ADD, fds[i], EPOLLIN | EPOLLOUT, i);
	}
	// More waits than a process may have.
	for (int round = 0; round < 60000 / COUNT; round++) {
		struct epoll_event events[COUNT];
		CHECK_INT(epoll_wait(set, events, COUNT, -1), COUNT);
	}
	for (int i = 0; i < COUNT; i++)
		close(fds[i]);
	close(set);
}

// A datagram socket that is shut down can be written at once, with an error.
TEST(epoll_shutdown)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX, .sun_path = "/tmp/epoll-shutdown" };
	unlink(name.sun_path);
	int receiver = socket(AF_UNIX, SOCK_DGRAM, 0), sender = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	CHECK_INT(bind(receiver, (void *)&name, sizeof name), 0);
	CHECK_INT(connect(sender, (void *)&name, sizeof name), 0);
	static char bytes[1000];
	while (send(sender, bytes, sizeof bytes, 0) > 0)
		;
	CHECK_INT(errno, EAGAIN);
	int set = epoll_create1(0);
	put(set, EPOLL_CTL_ADD, sender, EPOLLOUT, 0);
	CHECK_INT(next(set, 0, 0), 0);
	CHECK_INT(shutdown(sender, SHUT_WR), 0);
	CHECK_INT(next(set, 10000, 0), EPOLLOUT);
	close(set);
	close(sender);
	close(receiver);
	unlink(name.sun_path);
}

struct waiter {
	int set, stop, events;
};

// Takes events until the one that says to stop, whose number is 0.
static void *waits(void *argument)
{
	struct waiter *waiter = argument;
	for (;;) {
		unsigned long long data = 1;
		unsigned events = next(waiter->set, 10000, &data);
		CHECK(events != 0);
		if (!events || !data)
			return 0;
		char byte;
		while (read(data, &byte, 1) == 1)
			waiter->events++;
	}
}

// Two threads wait on one set; each byte is read once, and both end.
TEST(epoll_two_waiters)
{
	enum { COUNT = 300 };
	static const unsigned modes[] = { EPOLLIN, EPOLLIN | EPOLLET };
	for (int mode = 0; mode < 2; mode++) {
		int set = epoll_create1(0), pair[2], stop = eventfd(0, 0);
		CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
		put(set, EPOLL_CTL_ADD, pair[0], modes[mode], pair[0]);
		put(set, EPOLL_CTL_ADD, stop, EPOLLIN, 0);
		struct waiter waiters[2] = { { set, stop }, { set, stop } };
		pthread_t threads[2];
		for (int i = 0; i < 2; i++)
			CHECK_INT(pthread_create(&threads[i], 0, waits, &waiters[i]), 0);
		for (int i = 0; i < COUNT; i++)
			CHECK_INT(write(pair[1], "x", 1), 1);
		// Every byte is read before the end.
		int left = 1;
		for (int i = 0; i < 10000 && left; i++) {
			struct pollfd one = { pair[0], POLLIN };
			left = poll(&one, 1, 0);
			usleep(1000);
		}
		CHECK_INT(left, 0);
		eventfd_write(stop, 1);
		for (int i = 0; i < 2; i++)
			CHECK_INT(pthread_join(threads[i], 0), 0);
		CHECK_INT(waiters[0].events + waiters[1].events, COUNT);
		close(pair[0]);
		close(pair[1]);
		close(stop);
		close(set);
	}
}

// Changes of a set reach a thread that waits.
TEST(epoll_changes)
{
	int set = epoll_create1(0), fds[2], stop = eventfd(0, 0);
	CHECK_INT(pipe2(fds, O_NONBLOCK), 0);
	CHECK_INT(write(fds[1], "x", 1), 1);
	put(set, EPOLL_CTL_ADD, fds[0], 0, fds[0]);
	struct waiter waiter = { set, stop };
	pthread_t thread;
	CHECK_INT(pthread_create(&thread, 0, waits, &waiter), 0);
	usleep(5000);
	CHECK_INT(waiter.events, 0);
	put(set, EPOLL_CTL_MOD, fds[0], EPOLLIN, fds[0]);
	struct pollfd one = { fds[0], POLLIN };
	for (int i = 0; i < 10000 && poll(&one, 1, 0); i++)
		usleep(1000);
	CHECK_INT(poll(&one, 1, 0), 0);
	// Nobody takes what comes when it is no longer in the set.
	CHECK_INT(epoll_ctl(set, EPOLL_CTL_DEL, fds[0], 0), 0);
	CHECK_INT(write(fds[1], "y", 1), 1);
	usleep(5000);
	CHECK_INT(poll(&one, 1, 0), 1);
	put(set, EPOLL_CTL_ADD, stop, EPOLLIN, 0);
	eventfd_write(stop, 1);
	CHECK_INT(pthread_join(thread, 0), 0);
	CHECK_INT(waiter.events, 1);
	close(fds[0]);
	close(fds[1]);
	close(stop);
	close(set);
}

// A copy of a descriptor is a member of its own.
TEST(epoll_copies)
{
	int set = epoll_create1(0), fds[2], seen = 0;
	CHECK_INT(pipe(fds), 0);
	int copy = dup(fds[0]);
	put(set, EPOLL_CTL_ADD, fds[0], EPOLLIN, 1);
	put(set, EPOLL_CTL_ADD, copy, EPOLLIN, 2);
	CHECK_INT(write(fds[1], "x", 1), 1);
	struct epoll_event events[4];
	for (int round = 0; round < 10 && seen != 3; round++) {
		int count = epoll_wait(set, events, 4, 1000);
		for (int i = 0; i < count; i++)
			seen |= events[i].data.u64;
	}
	CHECK_INT(seen, 3);
	CHECK_INT(epoll_ctl(set, EPOLL_CTL_DEL, copy, 0), 0);
	CHECK_INT(epoll_wait(set, events, 4, 1000), 1);
	CHECK_INT(events[0].data.u64, 1);
	// A set's copy is the same set.
	int other = dup(set);
	put(other, EPOLL_CTL_ADD, copy, EPOLLIN, 2);
	CHECK_INT(epoll_ctl(set, EPOLL_CTL_DEL, fds[0], 0), 0);
	CHECK_INT(epoll_wait(set, events, 4, 1000), 1);
	CHECK_INT(events[0].data.u64, 2);
	close(other);
	close(set);
	close(copy);
	close(fds[0]);
	close(fds[1]);
}

TEST(epoll_refused)
{
	int set = epoll_create1(0), fds[2], file = open("/tmp/epoll-file", O_RDWR | O_CREAT, 0600);
	struct epoll_event event = { .events = EPOLLIN };
	CHECK_INT(pipe(fds), 0);
	CHECK_INT(epoll_create1(~EPOLL_CLOEXEC), -1);
	CHECK_INT(errno, EINVAL);
	CHECK_INT(epoll_create(0), -1);
	CHECK_INT(errno, EINVAL);
	CHECK_INT(epoll_ctl(set, EPOLL_CTL_MOD, fds[0], &event), -1);
	CHECK_INT(errno, ENOENT);
	CHECK_INT(epoll_ctl(set, EPOLL_CTL_DEL, fds[0], 0), -1);
	CHECK_INT(errno, ENOENT);
	put(set, EPOLL_CTL_ADD, fds[0], EPOLLIN, 0);
	CHECK_INT(epoll_ctl(set, EPOLL_CTL_ADD, fds[0], &event), -1);
	CHECK_INT(errno, EEXIST);
	CHECK_INT(epoll_ctl(set, 17, fds[0], &event), -1);
	CHECK_INT(errno, EINVAL);
	CHECK_INT(epoll_ctl(set, EPOLL_CTL_ADD, set, &event), -1);
	CHECK_INT(errno, EINVAL);
	CHECK_INT(epoll_ctl(set, EPOLL_CTL_ADD, file, &event), -1);
	CHECK_INT(errno, EPERM);
	CHECK_INT(epoll_ctl(set, EPOLL_CTL_ADD, -1, &event), -1);
	CHECK_INT(errno, EBADF);
	CHECK_INT(epoll_ctl(fds[0], EPOLL_CTL_ADD, fds[1], &event), -1);
	CHECK_INT(errno, EINVAL);
	CHECK_INT(epoll_wait(set, &event, 0, 0), -1);
	CHECK_INT(errno, EINVAL);
	CHECK_INT(epoll_wait(fds[0], &event, 1, 0), -1);
	CHECK_INT(errno, EINVAL);
	// A descriptor whose number another one had.
	close(fds[0]);
	close(fds[1]);
	CHECK_INT(pipe(fds), 0);
	put(set, EPOLL_CTL_ADD, fds[0], EPOLLIN, 5);
	unsigned long long data;
	CHECK_INT(write(fds[1], "x", 1), 1);
	CHECK_INT(next(set, -1, &data), EPOLLIN);
	CHECK_INT(data, 5);
	char byte;
	CHECK_INT(read(set, &byte, 1), -1);
	CHECK_INT(errno, EINVAL);
	close(fds[0]);
	close(fds[1]);
	close(file);
	unlink("/tmp/epoll-file");
	close(set);
}
