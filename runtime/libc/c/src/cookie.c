// fopencookie: streams on top of functions of the program.
//
// A stream is locked while such a function runs, so the function is not cancelled there.
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "pthread_impl.h"
#include "stdio_impl.h"

struct stream {
	FILE file;
	void *cookie;
	cookie_io_functions_t call;
	unsigned char room[UNGET + BUFSIZ];
};

#define UNCANCELLED(call)                      \
	({                                     \
		unsigned old = __cancel_off(); \
		__typeof__(call) result = call;\
		__cancel_on(old);              \
		result;                        \
	})

static ssize_t fetch(struct stream *stream, unsigned char *to, size_t size)
{
	if (!stream->call.read)
		return -1;
	return UNCANCELLED(stream->call.read(stream->cookie, (char *)to, size));
}

// The stream's buffer gets what the function reads, and the caller the beginning of that.
static size_t reads(FILE *file, unsigned char *to, size_t size)
{
	struct stream *stream = (struct stream *)file;
	int direct = size > file->buf_size;
	ssize_t count = direct ? fetch(stream, to, size) : fetch(stream, file->buf, file->buf_size);
	file->rpos = file->rend = file->buf;
	if (count <= 0) {
		file->flags |= count ? F_ERR : F_EOF;
		return 0;
	}
	if (direct)
		return count;
	size_t given = (size_t)count < size ? (size_t)count : size;
	memcpy(to, file->buf, given);
	file->rpos += given;
	file->rend += count;
	return given;
}

// Without a function, output goes nowhere. A function that takes nothing has failed.
static int drain(struct stream *stream, const unsigned char *data, size_t size, size_t *taken)
{
	for (*taken = 0; *taken < size;) {
		const char *rest = (const char *)data + *taken;
		ssize_t count = size - *taken;
		if (stream->call.write)
			count = UNCANCELLED(stream->call.write(stream->cookie, rest, size - *taken));
		if (count <= 0)
			return -1;
		*taken += count;
	}
	return 0;
}

static size_t writes(FILE *file, const unsigned char *data, size_t size)
{
	struct stream *stream = (struct stream *)file;
	size_t taken;
	int failed = drain(stream, file->wbase, file->wpos - file->wbase, &taken);
	taken = 0;
	if (!failed)
		failed = drain(stream, data, size, &taken);
	if (failed) {
		file->flags |= F_ERR;
		file->wpos = file->wbase = file->wend = 0;
		return taken;
	}
	file->wpos = file->wbase = file->buf;
	file->wend = file->buf + file->buf_size;
	return size;
}

static off_t seeks(FILE *file, off_t offset, int from)
{
	struct stream *stream = (struct stream *)file;
	if (from < SEEK_SET || from > SEEK_END) {
		errno = EINVAL;
		return -1;
	}
	if (!stream->call.seek) {
		errno = ENOTSUP;
		return -1;
	}
	int failed = UNCANCELLED(stream->call.seek(stream->cookie, &offset, from));
	return failed ? -1 : offset;
}

static int closes(FILE *file)
{
	struct stream *stream = (struct stream *)file;
	return stream->call.close ? UNCANCELLED(stream->call.close(stream->cookie)) : 0;
}

FILE *fopencookie(void *cookie, const char *mode, cookie_io_functions_t call)
{
	if (*mode != 'r' && *mode != 'w' && *mode != 'a') {
		errno = EINVAL;
		return 0;
	}
	struct stream *stream = calloc(1, sizeof *stream);
	if (!stream)
		return 0;
	stream->cookie = cookie;
	stream->call = call;
	FILE *file = &stream->file;
	if (!strchr(mode, '+'))
		file->flags = *mode == 'r' ? F_NOWR : F_NORD;
	file->fd = -1;
	file->lbf = EOF;
	file->buf = stream->room + UNGET;
	file->buf_size = BUFSIZ;
	file->read = reads;
	file->write = writes;
	file->seek = seeks;
	file->close = closes;
	return __ofl_add(file);
}
