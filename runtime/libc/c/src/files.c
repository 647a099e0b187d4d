// Older and shorter names for functions of libfdio.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

int eventfd_read(int fd, eventfd_t *out)
{
	return read(fd, out, sizeof *out) == sizeof *out ? 0 : -1;
}

int eventfd_write(int fd, eventfd_t more)
{
	return write(fd, &more, sizeof more) == sizeof more ? 0 : -1;
}

// Advice has no effect.
int posix_fadvise(int fd, off_t offset, off_t size, int advice)
{
	struct stat info;
	if (fstat(fd, &info))
		return EBADF;
	if (S_ISFIFO(info.st_mode))
		return ESPIPE;
	return size < 0 || advice < POSIX_FADV_NORMAL || advice > POSIX_FADV_NOREUSE ? EINVAL : 0;
}

int posix_fallocate(int fd, off_t offset, off_t size)
{
	struct stat info;
	if (offset < 0 || size <= 0)
		return EINVAL;
	if (fstat(fd, &info))
		return errno;
	if (!S_ISREG(info.st_mode))
		return S_ISFIFO(info.st_mode) ? ESPIPE : ENODEV;
	if (offset > INT64_MAX - size)
		return EFBIG;
	return info.st_size < offset + size && ftruncate(fd, offset + size) ? errno : 0;
}

int eaccess(const char *path, int mode)
{
	return faccessat(AT_FDCWD, path, mode, AT_EACCESS);
}

static int set_times(int at, const char *path, const struct timeval times[2], int flags)
{
	if (!times)
		return utimensat(at, path, 0, flags);
	struct timespec exact[2];
	for (int i = 0; i < 2; i++) {
		if (times[i].tv_usec < 0 || times[i].tv_usec >= 1000000) {
			errno = EINVAL;
			return -1;
		}
		exact[i] = (struct timespec){ times[i].tv_sec, times[i].tv_usec * 1000 };
	}
	return utimensat(at, path, exact, flags);
}

int utimes(const char *path, const struct timeval times[2])
{
	return set_times(AT_FDCWD, path, times, 0);
}

int futimesat(int at, const char *path, const struct timeval times[2])
{
	return set_times(at, path, times, 0);
}
