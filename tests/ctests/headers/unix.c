// sys/un.h: named UNIX sockets, in the parts that C programs see and Rust programs do not.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include "check.h"

static struct sockaddr_un named(const char *name)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	snprintf(address.sun_path, sizeof address.sun_path, "/tmp/un-%d-%s", (int)getpid(), name);
	unlink(address.sun_path);
	return address;
}

static int events(int fd, short wanted)
{
	struct pollfd entry = { .fd = fd, .events = wanted };
	return poll(&entry, 1, 0) == 1 ? entry.revents : 0;
}

TEST(un_addresses)
{
	struct sockaddr_un address = named("a"), second = named("second"), told;
	socklen_t size = sizeof told;
	int listens = socket(AF_UNIX, SOCK_STREAM, 0), value;
	CHECK(!getsockname(listens, (void *)&told, &size) && size == offsetof(struct sockaddr_un, sun_path));
	CHECK(listen(listens, 1) == -1 && errno == EINVAL);
	CHECK(accept(listens, 0, 0) == -1 && errno == EINVAL);
	CHECK(getpeername(listens, (void *)&told, &size) == -1 && errno == ENOTCONN);
	CHECK(send(listens, "x", 1, MSG_NOSIGNAL) == -1 && errno == ENOTCONN);
	// Too short, too long, and of another family.
	CHECK(bind(listens, (void *)&address, 1) == -1 && errno == EINVAL);
	CHECK(bind(listens, (void *)&address, sizeof address + 1) == -1 && errno == EINVAL);
	struct sockaddr other = { .sa_family = AF_INET };
	CHECK(bind(listens, &other, sizeof other) == -1 && (errno == EINVAL || errno == EAFNOSUPPORT));
	// Without a terminating NUL: the length of the address determines the name.
	size_t length = strlen(address.sun_path);
	CHECK(!bind(listens, (void *)&address, offsetof(struct sockaddr_un, sun_path) + length));
	CHECK(bind(listens, (void *)&second, sizeof second) == -1 && errno == EINVAL);
	CHECK(access(second.sun_path, F_OK) == -1 && errno == ENOENT);
	size = sizeof told;
	CHECK(!getsockname(listens, (void *)&told, &size) && told.sun_family == AF_UNIX);
	CHECK_INT(size, offsetof(struct sockaddr_un, sun_path) + length + 1);
	CHECK_STR(told.sun_path, address.sun_path);
	// The part that does not fit is cut off, and the full length is returned.
	char little[4] = "";
	size = sizeof little;
	CHECK(!getsockname(listens, (void *)little, &size) && size == offsetof(struct sockaddr_un, sun_path) + length + 1);
	CHECK(little[2] == '/' && little[3] == 't');
	struct stat stat_;
	CHECK(!stat(address.sun_path, &stat_) && S_ISSOCK(stat_.st_mode) && !stat_.st_size);
	CHECK(open(address.sun_path, O_RDWR) == -1 && errno == ENXIO);
	CHECK(truncate(address.sun_path, 0) == -1);
	size = sizeof value;
	CHECK(!getsockopt(listens, SOL_SOCKET, SO_ACCEPTCONN, &value, &size) && !value);
	CHECK(!listen(listens, 1) && !getsockopt(listens, SOL_SOCKET, SO_ACCEPTCONN, &value, &size) && value);
	CHECK(!getsockopt(listens, SOL_SOCKET, SO_DOMAIN, &value, &size) && value == AF_UNIX);
	CHECK(!getsockopt(listens, SOL_SOCKET, SO_TYPE, &value, &size) && value == SOCK_STREAM);
	int datagrams = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	CHECK(fcntl(datagrams, F_GETFD) & FD_CLOEXEC && fcntl(datagrams, F_GETFL) & O_NONBLOCK);
	CHECK(connect(datagrams, (void *)&address, sizeof address) == -1 && errno == EPROTOTYPE);
	CHECK(listen(datagrams, 1) == -1 && errno == EOPNOTSUPP);
	CHECK(recv(datagrams, &value, 1, 0) == -1 && errno == EAGAIN);
	close(datagrams);
	close(listens);
	CHECK(!unlink(address.sun_path));
	CHECK(socket(AF_UNIX, SOCK_STREAM, 7) == -1 && errno == EPROTONOSUPPORT);
}

TEST(un_backlog)
{
	struct sockaddr_un address = named("b");
	int listens = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	CHECK(!bind(listens, (void *)&address, sizeof address));
	int client[4];
	for (int i = 0; i < 4; i++)
		client[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	CHECK(connect(client[0], (void *)&address, sizeof address) == -1 && errno == ECONNREFUSED);
	CHECK(!listen(listens, 1));
	CHECK(accept(listens, 0, 0) == -1 && errno == EAGAIN);
	CHECK(!events(listens, POLLIN | POLLOUT));
	// The queue has room for one connection more than requested.
	CHECK(!connect(client[0], (void *)&address, sizeof address) && !connect(client[1], (void *)&address, sizeof address));
	CHECK(connect(client[2], (void *)&address, sizeof address) == -1 && errno == EAGAIN);
	CHECK_INT(events(listens, POLLIN | POLLOUT), POLLIN);
	// A blocking connect waits until its timeout.
	struct timeval short_ = { .tv_usec = 30000 };
	CHECK(!fcntl(client[2], F_SETFL, 0) && !setsockopt(client[2], SOL_SOCKET, SO_SNDTIMEO, &short_, sizeof short_));
	CHECK(connect(client[2], (void *)&address, sizeof address) == -1 && errno == EAGAIN);
	// Data that was sent before is there after accept.
	CHECK(send(client[0], "first", 5, 0) == 5);
	int in = accept(listens, 0, 0);
	char bytes[8] = "";
	CHECK(in >= 0 && recv(in, bytes, sizeof bytes, MSG_PEEK) == 5 && recv(in, bytes, sizeof bytes, 0) == 5);
	CHECK_STR(bytes, "first");
	CHECK(connect(client[0], (void *)&address, sizeof address) == -1 && errno == EISCONN);
	// A connect that timed out has left the queue, so there is room again.
	CHECK(!connect(client[3], (void *)&address, sizeof address));
	CHECK_INT(events(listens, POLLIN), POLLIN);
	close(listens);
	// A connection that was not accepted ends when the listening socket is closed.
	struct pollfd end = { .fd = client[1], .events = POLLIN };
	CHECK(poll(&end, 1, -1) == 1 && end.revents & (POLLIN | POLLHUP));
	CHECK(send(client[1], "x", 1, MSG_NOSIGNAL) == -1);
	for (int i = 0; i < 4; i++)
		close(client[i]);
	close(in);
	unlink(address.sun_path);
}

TEST(un_datagrams)
{
	struct sockaddr_un one = named("one"), two = named("two"), from;
	socklen_t size = sizeof from;
	int a = socket(AF_UNIX, SOCK_DGRAM, 0), b = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	CHECK(!bind(a, (void *)&one, sizeof one) && !bind(b, (void *)&two, sizeof two));
	CHECK(!events(a, POLLIN));
	struct iovec parts[2] = { { "ab", 2 }, { "cde", 3 } };
	struct msghdr message = { .msg_name = &one, .msg_namelen = sizeof one, .msg_iov = parts, .msg_iovlen = 2 };
	CHECK(sendmsg(b, &message, 0) == 5);
	CHECK_INT(events(a, POLLIN | POLLOUT), POLLIN | POLLOUT);
	char bytes[8] = "";
	CHECK(recvfrom(a, bytes, sizeof bytes, MSG_PEEK, (void *)&from, &size) == 5);
	CHECK_STR(from.sun_path, two.sun_path);
	memset(&from, 0, sizeof from);
	struct iovec into[2] = { { bytes, 1 }, { bytes + 1, 6 } };
	struct msghdr received = { .msg_name = &from, .msg_namelen = sizeof from, .msg_iov = into, .msg_iovlen = 2 };
	CHECK(recvmsg(a, &received, 0) == 5);
	CHECK_STR(from.sun_path, two.sun_path);
	CHECK_STR(bytes, "abcde");
	// The queue gets full, and has room again.
	CHECK(!connect(b, (void *)&one, sizeof one));
	CHECK_INT(events(b, POLLOUT), POLLOUT);
	static char large[1000];
	int sent = 0;
	while (send(b, large, sizeof large, 0) == sizeof large)
		sent++;
	CHECK(errno == EAGAIN && sent > 0 && !(events(b, POLLOUT) & POLLOUT));
	while (sent--)
		CHECK(recv(a, large, sizeof large, 0) == sizeof large);
	CHECK_INT(events(b, POLLOUT), POLLOUT);
	// The socket is no longer connected.
	struct sockaddr nobody = { .sa_family = AF_UNSPEC };
	CHECK(!connect(b, &nobody, sizeof nobody) && send(b, "x", 1, 0) == -1 && errno == ENOTCONN);
	// Sending to a socket that has shut down reading fails.
	CHECK(!shutdown(a, SHUT_RD) && sendto(b, "x", 1, MSG_NOSIGNAL, (void *)&one, sizeof one) == -1 && errno == EPIPE);
	CHECK(recv(a, bytes, sizeof bytes, 0) == 0);
	CHECK(!shutdown(a, SHUT_WR) && sendto(a, "x", 1, MSG_NOSIGNAL, (void *)&two, sizeof two) == -1 && errno == EPIPE);
	close(a);
	close(b);
	CHECK(!unlink(one.sun_path) && !unlink(two.sun_path));
}

static void *reads_later(void *from)
{
	static char bytes[1 << 16];
	usleep(300000);
	while (recv(*(int *)from, bytes, sizeof bytes, 0) < 60000)
		;
	return 0;
}

TEST(un_some_room)
{
	static char little[1000], large[60000];
	int pair[2];
	CHECK(!socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
	while (send(pair[0], little, sizeof little, MSG_DONTWAIT) == sizeof little)
		;
	// There is room, but not enough. A sender that waits for more must not poll in a loop.
	CHECK(recv(pair[1], little, sizeof little, 0) == sizeof little);
	pthread_t reader;
	CHECK(!pthread_create(&reader, 0, reads_later, &pair[1]));
	struct timespec before, after;
	CHECK(!clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before));
	CHECK(send(pair[0], large, sizeof large, 0) == sizeof large);
	CHECK(!clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after));
	CHECK((after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000 < 100);
	pthread_join(reader, 0);
	close(pair[0]);
	close(pair[1]);
}
