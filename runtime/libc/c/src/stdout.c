// Buffering of standard output: by line, unless it is a file.
//
// Other systems distinguish a terminal from a pipe, and only a terminal is line-buffered. Here both are Zircon sockets,
// and a user at a terminal must not wait until the program ends to see its output. Rust's standard library does the
// same.
#include <sys/stat.h>
#include "stdio_impl.h"

static int is_file(int fd)
{
	struct stat info;
	return !__fstat(fd, &info) && S_ISREG(info.st_mode);
}

// The first write. It decides how later writes are buffered, unless setvbuf has done so.
size_t __stdout_write(FILE *out, const unsigned char *bytes, size_t count)
{
	int decided = out->flags & F_SVB;
	if (!decided && is_file(out->fd))
		out->lbf = EOF;
	return (out->write = __stdio_write)(out, bytes, count);
}
