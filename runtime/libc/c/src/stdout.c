// How standard output is kept: by the line, unless it is a file.
//
// Elsewhere a terminal is told from a pipe, and only the former gets lines at once. Here both are sockets, as Zircon has them, and
// whoever looks on must not wait for the end of the program to see its output. Rust's standard library does the same.
#include <sys/stat.h>
#include "stdio_impl.h"

static int is_file(int fd)
{
	struct stat info;
	return !__fstat(fd, &info) && S_ISREG(info.st_mode);
}

// The first write; how the rest is written is decided here, where setvbuf has not done so.
size_t __stdout_write(FILE *out, const unsigned char *bytes, size_t count)
{
	int decided = out->flags & F_SVB;
	if (!decided && is_file(out->fd))
		out->lbf = EOF;
	return (out->write = __stdio_write)(out, bytes, count);
}
