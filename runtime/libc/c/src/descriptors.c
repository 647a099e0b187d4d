// System calls on files that musl's sources make: libfdio's functions, under musl's names.
//
// The functions of libfdio are weak here (../internal/weak.h). Without libfdio there are no descriptors, so every
// descriptor is invalid.
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include "pthread_impl.h"
#include "syscall.h"

// Converts a result to a system call's.
static long raw(long result)
{
	return result == -1 ? -errno : result;
}

// musl's sources hold locks of streams during these calls, so they are no cancellation points.
#define UNCANCELLED(call)                  \
	({                                 \
		unsigned old = __cancel_off(); \
		long result = raw(call);   \
		__cancel_on(old);          \
		result;                    \
	})
#define ANSWER(function, ...) return function ? UNCANCELLED(function(__VA_ARGS__)) : -EBADF
// Without libfdio, no path exists.
#define ANSWER_PATH(function, ...) return function ? UNCANCELLED(function(__VA_ARGS__)) : -ENOENT

long __on_SYS_open(const char *path, int flags, ...)
{
	va_list more;
	va_start(more, flags);
	int mode = flags & O_CREAT ? va_arg(more, int) : 0;
	va_end(more);
	ANSWER_PATH(open, path, flags, mode);
}

long __on_SYS_close(int fd) { ANSWER(close, fd); }
long __on_SYS_read(int fd, void *data, size_t size) { ANSWER(read, fd, data, size); }
long __on_SYS_write(int fd, const void *data, size_t size) { ANSWER(write, fd, data, size); }
long __on_SYS_readv(int fd, const struct iovec *parts, int count) { ANSWER(readv, fd, parts, count); }
long __on_SYS_writev(int fd, const struct iovec *parts, int count) { ANSWER(writev, fd, parts, count); }
long __on_SYS_unlinkat(int at, const char *path, int flags) { ANSWER_PATH(unlinkat, at, path, flags); }
long __on_SYS_readlinkat(int at, const char *path, char *to, size_t size) { ANSWER_PATH(readlinkat, at, path, to, size); }

long __on_SYS_fcntl(int fd, int command, ...)
{
	va_list more;
	va_start(more, command);
	long argument = va_arg(more, long);
	va_end(more);
	ANSWER(fcntl, fd, command, argument);
}

long __on_SYS_ioctl(int fd, unsigned long request, ...)
{
	va_list more;
	va_start(more, request);
	void *argument = va_arg(more, void *);
	va_end(more);
	ANSWER(ioctl, fd, request, argument);
}

off_t __lseek(int fd, off_t offset, int from)
{
	if (lseek)
		return lseek(fd, offset, from);
	errno = EBADF;
	return -1;
}

int __fstat(int fd, struct stat *out)
{
	if (fstat)
		return fstat(fd, out);
	errno = EBADF;
	return -1;
}

int __dup3(int fd, int to, int flags)
{
	if (dup3)
		return dup3(fd, to, flags);
	errno = EBADF;
	return -1;
}
