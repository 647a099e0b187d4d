// Flags: a call does what a flag says, or fails.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"

extern const char *program;

#define FAILS(call, error)                  \
	do {                                \
		errno = 0;                  \
		CHECK_INT((call), -1);      \
		CHECK_INT(errno, error);    \
	} while (0)

TEST(flags_of_open)
{
	static const int refused[] = { O_DIRECT, O_ASYNC, 1 << 30 };
	for (int i = 0; i < 3; i++) {
		FAILS(open("/tmp/ctests-flags", O_RDWR | O_CREAT | refused[i], 0600), EINVAL);
		FAILS(access("/tmp/ctests-flags", F_OK), ENOENT);
	}
	FAILS(open("/tmp", O_RDWR | O_TMPFILE, 0600), EOPNOTSUPP);
	int fd = open("/tmp/ctests-flags", O_RDWR | O_CREAT | O_NOCTTY | O_LARGEFILE | O_NONBLOCK, 0600);
	CHECK(fd >= 0 && fcntl(fd, F_GETFL) == (O_RDWR | O_NONBLOCK));
	// What F_SETFL cannot change, it does not change in silence.
	FAILS(fcntl(fd, F_SETFL, O_ASYNC), EINVAL);
	FAILS(fcntl(fd, F_SETFL, O_DIRECT), EINVAL);
	CHECK(!fcntl(fd, F_SETFL, O_APPEND) && fcntl(fd, F_GETFL) == (O_RDWR | O_APPEND));
	CHECK(!fcntl(fd, F_SETFL, O_NOATIME) && fcntl(fd, F_GETFL) == (O_RDWR | O_NOATIME));
	CHECK(!close(fd));
	// No read changes a time; F_SETFL cannot change when writes are durable.
	static const int kept[] = { O_NOATIME, O_SYNC, O_DSYNC };
	for (int i = 0; i < 3; i++) {
		char bytes[8];
		struct stat before, after;
		fd = open("/tmp/ctests-flags", O_RDWR | kept[i]);
		CHECK(fd >= 0 && fcntl(fd, F_GETFL) == (O_RDWR | kept[i]));
		CHECK_INT(write(fd, "abc", 3), 3);
		CHECK_INT(pwrite(fd, "de", 2, 3), 2);
		CHECK(!fstat(fd, &before));
		CHECK_INT(pread(fd, bytes, 8, 0), 5);
		CHECK(!memcmp(bytes, "abcde", 5) && !fstat(fd, &after));
		CHECK(before.st_atim.tv_sec == after.st_atim.tv_sec && before.st_atim.tv_nsec == after.st_atim.tv_nsec);
		if (i)
			CHECK(!fcntl(fd, F_SETFL, O_APPEND) && fcntl(fd, F_GETFL) == (O_RDWR | O_APPEND | kept[i]));
		CHECK(!close(fd));
	}
	CHECK(!unlink("/tmp/ctests-flags"));
}

TEST(flags_of_names)
{
	int fd = open("/tmp/ctests-flags", O_RDWR | O_CREAT, 0600), other = 1 << 28;
	struct stat info;
	CHECK(fd >= 0 && !symlink("ctests-flags", "/tmp/ctests-link"));
	FAILS(fstatat(AT_FDCWD, "/tmp/ctests-flags", &info, other), EINVAL);
	FAILS(faccessat(AT_FDCWD, "/tmp/ctests-flags", R_OK, other), EINVAL);
	FAILS(faccessat(AT_FDCWD, "/tmp/ctests-flags", 8, 0), EINVAL);
	FAILS(unlinkat(AT_FDCWD, "/tmp/ctests-flags", other), EINVAL);
	FAILS(linkat(AT_FDCWD, "/tmp/ctests-flags", AT_FDCWD, "/tmp/ctests-second", other), EINVAL);
	FAILS(fchmodat(AT_FDCWD, "/tmp/ctests-flags", 0700, other), EINVAL);
	FAILS(fchownat(AT_FDCWD, "/tmp/ctests-flags", 0, 0, other), EINVAL);
	FAILS(utimensat(AT_FDCWD, "/tmp/ctests-flags", 0, other), EINVAL);
	FAILS(access("/tmp/ctests-second", F_OK), ENOENT);
	CHECK(!faccessat(AT_FDCWD, "/tmp/ctests-flags", R_OK | W_OK, AT_EACCESS));
	// The descriptor itself.
	CHECK(!fstatat(fd, "", &info, AT_EMPTY_PATH) && S_ISREG(info.st_mode) && (info.st_mode & 0777) == 0600);
	CHECK(!fchownat(fd, "", 0, 0, AT_EMPTY_PATH));
	struct timespec times[2] = { { 1000, 0 }, { 2000, 0 } };
	CHECK(!utimensat(fd, "", times, AT_EMPTY_PATH) && !fstat(fd, &info) && info.st_mtim.tv_sec == 2000);
	CHECK(!fstatat(AT_FDCWD, "", &info, AT_EMPTY_PATH) && S_ISDIR(info.st_mode));
	FAILS(fstatat(fd, "", &info, 0), ENOENT);
	CHECK(!fstatat(AT_FDCWD, "/tmp/ctests-link", &info, AT_SYMLINK_NOFOLLOW) && S_ISLNK(info.st_mode));
	CHECK(!close(fd) && !unlink("/tmp/ctests-link") && !unlink("/tmp/ctests-flags"));
}

TEST(flags_of_mmap)
{
	const int anonymous = MAP_PRIVATE | MAP_ANONYMOUS;
	static const int refused[] = { MAP_GROWSDOWN, MAP_HUGETLB, MAP_LOCKED, MAP_32BIT, 1 << 28 };
	for (int i = 0; i < 5; i++) {
		errno = 0;
		CHECK(mmap(0, 4096, PROT_READ, anonymous | refused[i], -1, 0) == MAP_FAILED);
		CHECK_INT(errno, EOPNOTSUPP);
	}
	errno = 0;
	CHECK(mmap(0, 4096, PROT_READ | 64, anonymous, -1, 0) == MAP_FAILED && errno == EINVAL);
	errno = 0;
	CHECK(mmap(0, 4096, PROT_READ, MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == EINVAL);
	const int hints = MAP_NORESERVE | MAP_STACK | MAP_POPULATE;
	char *memory = mmap(0, 3 * 4096, PROT_READ | PROT_WRITE, anonymous | hints, -1, 0);
	CHECK(memory != MAP_FAILED);
	memory[4096] = 1;
	// Something is mapped there, so nothing is replaced.
	errno = 0;
	CHECK(mmap(memory + 4096, 4096, PROT_READ, anonymous | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED);
	CHECK_INT(errno, EEXIST);
	CHECK_INT(memory[4096], 1);
	CHECK(!munmap(memory + 4096, 4096));
	CHECK(mmap(memory + 4096, 4096, PROT_READ, anonymous | MAP_FIXED_NOREPLACE, -1, 0) == memory + 4096);
	CHECK_INT(memory[4096], 0);
	CHECK(!munmap(memory, 3 * 4096));
	CHECK_INT(posix_madvise(0, 4096, 99), EINVAL);
}

TEST(flags_of_time)
{
	struct timespec time = { 0, 1 };
	CHECK_INT(clock_nanosleep(CLOCK_MONOTONIC, 2, &time, 0), EINVAL);
	CHECK_INT(clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, &time, 0), EINVAL);
	// Sleeping does not use the clock up.
	CHECK_INT(clock_nanosleep(CLOCK_PROCESS_CPUTIME_ID, 0, &time, 0), ENOTSUP);
	// The kernel samples run times.
	CHECK(!clock_getres(CLOCK_PROCESS_CPUTIME_ID, &time) && time.tv_sec == 0 && time.tv_nsec == 2000000);
	CHECK(!clock_getres(CLOCK_MONOTONIC, &time) && time.tv_sec == 0 && time.tv_nsec == 1);
	char byte;
	FAILS(getrandom(&byte, 1, 8), EINVAL);
	CHECK_INT(getrandom(&byte, 1, GRND_NONBLOCK), 1);
	CHECK_INT(getrandom(&byte, 1, GRND_INSECURE), 1);
}

static pid_t start(const char *argument)
{
	char *argv[] = { (char *)program, "--child", "exit", (char *)argument, 0 };
	pid_t pid = -1;
	CHECK(!posix_spawn(&pid, program, 0, 0, argv, 0));
	return pid;
}

TEST(flags_of_wait)
{
	siginfo_t info;
	int status;
	FAILS(waitpid(-1, &status, 0), ECHILD);
	pid_t pid = start("5");
	FAILS(waitpid(pid, &status, 1 << 20), EINVAL);
	CHECK(waitid(P_PID, pid, &info, WEXITED | WNOWAIT | __WALL | __WNOTHREAD) == 0 && info.si_pid == pid);
	FAILS(waitid(P_PID, pid, &info, 0), EINVAL);
	FAILS(waitid(P_PID, pid, &info, WSTOPPED), EINVAL);
	FAILS(waitid(99, pid, &info, WEXITED), EINVAL);
	FAILS(waitid(P_PID, pid + 1, &info, WEXITED), ECHILD);
	FAILS(waitpid(INT_MIN, &status, WNOHANG), ESRCH);
	// It stays until it is taken.
	for (int i = 0; i < 2; i++) {
		memset(&info, 0, sizeof info);
		CHECK(!waitid(i ? P_ALL : P_PID, pid, &info, WEXITED | WNOWAIT));
		CHECK(info.si_signo == SIGCHLD && info.si_pid == pid && info.si_code == CLD_EXITED && info.si_status == 5);
	}
	CHECK_INT(getpgid(pid), pid);
	CHECK(waitpid(-pid, &status, WUNTRACED | WCONTINUED) == pid && WEXITSTATUS(status) == 5);
	FAILS(waitid(P_PID, pid, &info, WEXITED), ECHILD);
	// Children of this process's group are all.
	FAILS(waitpid(0, &status, 0), ECHILD);
	pid = start("1");
	CHECK(!waitid(P_PGID, 0, &info, WEXITED | WNOWAIT) && info.si_pid == pid);
	CHECK(!waitid(P_PGID, getpgrp(), &info, WEXITED | WNOWAIT) && info.si_pid == pid);
	CHECK(waitpid(0, &status, 0) == pid && WEXITSTATUS(status) == 1);
	pid = start("2");
	CHECK(waitpid(-getpgrp(), &status, 0) == pid && WEXITSTATUS(status) == 2);
	pid = start("0");
	while (!waitid(P_PGID, pid, &info, WEXITED | WNOHANG) && !info.si_pid)
		sched_yield();
	CHECK_INT(info.si_pid, pid);
	// What is no process is none.
	FAILS(getpgid(pid), ESRCH);
	FAILS(getsid(pid), ESRCH);
	FAILS(sched_getscheduler(pid), ESRCH);
	cpu_set_t set;
	FAILS(sched_getaffinity(pid, sizeof set, &set), ESRCH);
	CHECK(getpgid(0) == getpid() && !sched_getaffinity(getpid(), sizeof set, &set));
}

TEST(flags_of_sockets)
{
	int pair[2];
	FAILS(socketpair(AF_UNIX, SOCK_STREAM, 17, pair), EPROTONOSUPPORT);
	FAILS(socketpair(AF_INET, SOCK_STREAM, 0, pair), EOPNOTSUPP);
	CHECK(!socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
	char text[8], more[2];
	FAILS(send(pair[0], "x", 1, MSG_OOB), EOPNOTSUPP);
	FAILS(recv(pair[0], text, 1, MSG_ERRQUEUE), EOPNOTSUPP);
	// A datagram that is cut off says so, in one buffer and in two.
	for (int count = 1; count <= 2; count++) {
		struct iovec vectors[2] = { { text, 3 }, { more, 2 } };
		struct msghdr message = { .msg_iov = vectors, .msg_iovlen = count };
		ssize_t room = count == 1 ? 3 : 5;
		CHECK(write(pair[0], "abcdefgh", 8) == 8 && write(pair[0], "abcde", room) == room);
		CHECK_INT(recvmsg(pair[1], &message, 0), room);
		CHECK_INT(message.msg_flags, MSG_TRUNC);
		CHECK(!memcmp(text, "abc", 3) && (count == 1 || !memcmp(more, "de", 2)));
		CHECK_INT(recvmsg(pair[1], &message, 0), room);
		CHECK_INT(message.msg_flags, 0);
	}
	// What these allow or forbid cannot happen here.
	CHECK_INT(send(pair[0], "x", 1, MSG_MORE | MSG_CONFIRM | MSG_NOSIGNAL), 1);
	CHECK_INT(recv(pair[1], text, 8, MSG_CMSG_CLOEXEC), 1);
	close(pair[0]);
	close(pair[1]);
}

static char big[5 << 18];

static void *sends(void *fd)
{
	for (size_t done = 0; done < sizeof big;) {
		ssize_t sent = send(*(int *)fd, big + done, sizeof big - done, MSG_NOSIGNAL);
		if (sent <= 0)
			break;
		done += sent;
	}
	return 0;
}

// MSG_WAITALL waits for all bytes of all buffers.
TEST(flags_of_recvmsg)
{
	static char parts[2][sizeof big / 2];
	int pair[2];
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	for (size_t i = 0; i < sizeof big; i++)
		big[i] = i * 7 >> 3;
	pthread_t thread;
	CHECK(!pthread_create(&thread, 0, sends, &pair[0]));
	struct iovec vectors[2] = { { parts[0], sizeof parts[0] }, { parts[1], sizeof parts[1] } };
	struct msghdr message = { .msg_iov = vectors, .msg_iovlen = 2 };
	CHECK_INT(recvmsg(pair[1], &message, MSG_WAITALL), sizeof big);
	CHECK(!memcmp(parts, big, sizeof big));
	close(pair[1]);
	CHECK(!pthread_join(thread, 0));
	close(pair[0]);
}

TEST(flags_of_others)
{
	CHECK(!dlopen(0, 0) && !dlopen(0, RTLD_NOW | 1 << 20) && dlopen(0, RTLD_NOW | RTLD_GLOBAL));
	struct sockaddr_in address = { .sin_family = AF_INET };
	char host[64];
	CHECK_INT(getnameinfo((void *)&address, sizeof address, host, sizeof host, 0, 0, 1 << 20), EAI_BADFLAGS);
	CHECK(!getnameinfo((void *)&address, sizeof address, host, sizeof host, 0, 0, NI_NUMERICHOST));
	// An IPv4 address for a caller that wants IPv6.
	struct addrinfo hints = { .ai_family = AF_INET6, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST }, *found;
	CHECK(getaddrinfo("192.0.2.7", "80", &hints, &found));
	hints.ai_flags |= AI_V4MAPPED;
	if (!getaddrinfo("192.0.2.7", "80", &hints, &found)) {
		inet_ntop(AF_INET6, &((struct sockaddr_in6 *)found->ai_addr)->sin6_addr, host, sizeof host);
		CHECK_STR(host, "::ffff:192.0.2.7");
		freeaddrinfo(found);
	} else {
		CHECK(!"AI_V4MAPPED finds the address");
	}
	int fds[2];
	CHECK(!pipe(fds));
	CHECK_INT(posix_fadvise(fds[0], 0, 0, POSIX_FADV_NORMAL), ESPIPE);
	CHECK_INT(posix_fallocate(fds[0], 0, 1), ESPIPE);
	close(fds[0]);
	close(fds[1]);
	int fd = open("/tmp/ctests-flags", O_RDWR | O_CREAT, 0600);
	CHECK_INT(posix_fadvise(fd, 0, 0, 77), EINVAL);
	CHECK_INT(posix_fallocate(fd, LLONG_MAX, 2), EFBIG);
	CHECK(!close(fd) && !unlink("/tmp/ctests-flags"));
}
