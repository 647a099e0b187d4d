// stdio.h with files, unistd.h, fcntl.h, sys/stat.h, dirent.h, poll.h, sys/uio.h, glob.h, ftw.h.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <wchar.h>
#include "check.h"

TEST(stdio_memory_streams)
{
	char *text;
	size_t size;
	FILE *stream = open_memstream(&text, &size);
	fprintf(stream, "%d and %s", 5, "more");
	CHECK(!fflush(stream) && size == 10);
	fseek(stream, 0, SEEK_SET);
	fputc('6', stream);
	CHECK(!fclose(stream));
	CHECK_STR(text, "6 and more");
	free(text);
	char buffer[16] = "first\nsecond\n";
	stream = fmemopen(buffer, sizeof buffer, "r+");
	char line[16];
	CHECK_STR(fgets(line, sizeof line, stream), "first\n");
	CHECK(fgetc(stream) == 's' && ungetc('S', stream) == 'S' && fgetc(stream) == 'S');
	CHECK(ftell(stream) == 7 && !fseek(stream, 2, SEEK_SET) && fputs("R", stream) >= 0);
	fclose(stream);
	CHECK_STR(buffer, "fiRst\nsecond\n");
}

static ssize_t give(void *cookie, char *to, size_t size)
{
	int *left = cookie;
	size_t count = size < (size_t)*left ? size : (size_t)*left;
	memset(to, 'z', count);
	*left -= count;
	return count;
}

TEST(stdio_own_streams)
{
	int left = 3000;
	FILE *stream = fopencookie(&left, "r", (cookie_io_functions_t){ .read = give });
	int count = 0;
	while (fgetc(stream) == 'z')
		count++;
	CHECK(count == 3000 && feof(stream) && !ferror(stream));
	fclose(stream);
}

static int to(char *out, const char *format, ...)
{
	va_list more;
	va_start(more, format);
	int count = vsprintf(out, format, more);
	va_end(more);
	return count;
}

TEST(stdio_variants_of_printf)
{
	char out[64], *made;
	CHECK(to(out, "%2$s %1$d", 5, "five") == 6 && !strcmp(out, "five 5"));
	CHECK(asprintf(&made, "%0*d", 8, 42) == 8 && !strcmp(made, "00000042"));
	free(made);
	CHECK(snprintf(0, 0, "%s", "counted") == 7);
	CHECK(sprintf(out, "%m") > 0);
	errno = 0;
	CHECK(snprintf(out, 4, "%lc", (wint_t)0x4e16) == -1 && errno == EILSEQ);
}

TEST(stdio_boot_file)
{
	FILE *file = fopen("/boot/lib/libc.so", "r");
	unsigned char head[4];
	CHECK(file && fread(head, 1, 4, file) == 4 && !memcmp(head, "\x7f" "ELF", 4));
	if (!file)
		return;
	CHECK(!fseeko(file, 0, SEEK_END) && ftello(file) > 100000);
	CHECK(fgetc(file) == EOF && feof(file));
	rewind(file);
	CHECK(!feof(file) && fgetc(file) == 0x7f && fileno(file) > 2);
	CHECK(fputc('x', file) == EOF && ferror(file));
	CHECK(!fclose(file));
	errno = 0;
	CHECK(!fopen("/boot/none", "r") && errno == ENOENT);
	errno = 0;
	CHECK(!fopen("/boot/none", "bad") && errno == EINVAL);
}

TEST(stdio_written_file)
{
	const char *name = "/tmp/ctests-file";
	FILE *file = fopen(name, "w+");
	CHECK(file != 0);
	if (!file)
		return;
	for (int i = 0; i < 10000; i++)
		fprintf(file, "line %d\n", i);
	rewind(file);
	char *line = 0;
	size_t room = 0;
	int count = 0, number;
	while (getline(&line, &room, file) > 0 && sscanf(line, "line %d", &number) == 1 && number == count)
		count++;
	CHECK_INT(count, 10000);
	free(line);
	CHECK(!fseek(file, 10, SEEK_SET) && fwrite("XX", 1, 2, file) == 2 && !fclose(file));
	file = fopen(name, "a");
	fputs("last\n", file);
	CHECK(!fclose(file));
	file = fopen(name, "r");
	char text[32];
	CHECK(fscanf(file, "%*s %*d %31[^\n]", text) == 1);
	CHECK_STR(text, "linXX1");
	fseek(file, -5, SEEK_END);
	CHECK_STR(fgets(text, sizeof text, file), "last\n");
	file = freopen("/boot/lib/libc.so", "r", file);
	CHECK(file && fgetc(file) == 0x7f);
	fclose(file);
	struct stat info;
	CHECK(!stat(name, &info) && S_ISREG(info.st_mode) && info.st_size == 98890 + 5);
	CHECK(!rename(name, "/tmp/ctests-other") && access(name, F_OK) == -1 && !remove("/tmp/ctests-other"));
}

TEST(stdio_temporary_files)
{
	FILE *file = tmpfile();
	CHECK(file && fputs("temporary", file) >= 0);
	if (file) {
		rewind(file);
		char text[16];
		CHECK_STR(fgets(text, sizeof text, file), "temporary");
		fclose(file);
	}
	char name[] = "/tmp/ctests-XXXXXX", folder[] = "/tmp/ctests-XXXXXX";
	int fd = mkstemp(name);
	CHECK(fd >= 0 && !strchr(name, 'X') && write(fd, "x", 1) == 1 && !close(fd) && !unlink(name));
	CHECK(mkdtemp(folder) && !rmdir(folder));
}

TEST(stdio_pipes_and_buffers)
{
	int ends[2];
	CHECK(!pipe(ends));
	FILE *in = fdopen(ends[0], "r"), *out = fdopen(ends[1], "w");
	char buffer[BUFSIZ];
	CHECK(!setvbuf(out, buffer, _IOFBF, sizeof buffer));
	fprintf(out, "%d %g", 12, 0.5);
	struct pollfd poll_in = { ends[0], POLLIN };
	CHECK(poll(&poll_in, 1, 0) == 0 && __fpending(out) == 6);
	CHECK(!fflush(out) && poll(&poll_in, 1, 1000) == 1 && poll_in.revents & POLLIN);
	fclose(out);
	int i;
	double d;
	CHECK(fscanf(in, "%d %lf", &i, &d) == 2 && i == 12 && d == 0.5 && fgetc(in) == EOF && feof(in));
	fclose(in);
}

static void *write_lines(void *file)
{
	for (int i = 0; i < 200; i++)
		fprintf(file, "%s %s\n", "one", "line");
	return 0;
}

TEST(stdio_locked_streams)
{
	char *text;
	size_t size;
	FILE *stream = open_memstream(&text, &size);
	pthread_t threads[4];
	flockfile(stream);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], 0, write_lines, stream);
	CHECK(!ftrylockfile(stream));
	funlockfile(stream);
	usleep(2000);
	CHECK(putc_unlocked('!', stream) == '!');
	funlockfile(stream);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], 0);
	fclose(stream);
	CHECK(size == 800 * 9 + 1 && text[0] == '!');
	int whole = 1;
	for (size_t at = 1; at < size; at += 9)
		whole &= !memcmp(text + at, "one line\n", 9);
	CHECK(whole);
	free(text);
}

TEST(unistd_descriptors)
{
	int fd = open("/boot/lib/libc.so", O_RDONLY | O_CLOEXEC);
	char head[4];
	CHECK(fd > 2 && pread(fd, head, 4, 1) == 4 && head[0] == 'E' && read(fd, head, 1) == 1 && head[0] == 0x7f);
	CHECK(lseek(fd, 0, SEEK_CUR) == 1 && fcntl(fd, F_GETFD) == FD_CLOEXEC && fcntl(fd, F_GETFL) == O_RDONLY);
	int copy = dup(fd);
	CHECK(copy > fd && lseek(copy, 5, SEEK_SET) == 5 && lseek(fd, 0, SEEK_CUR) == 5 && !close(copy));
	char a[2], b[2];
	struct iovec parts[2] = { { a, 2 }, { b, 2 } };
	lseek(fd, 0, SEEK_SET);
	CHECK(readv(fd, parts, 2) == 4 && a[0] == 0x7f && b[1] == 'F');
	void *map = mmap(0, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	CHECK(map != MAP_FAILED && !memcmp(map, "\x7f" "ELF", 4) && !munmap(map, 4096));
	CHECK(!close(fd));
	errno = 0;
	CHECK(close(fd) == -1 && errno == EBADF);
	errno = 0;
	CHECK(open("/boot/none", O_RDONLY) == -1 && errno == ENOENT);
}

TEST(unistd_waiting)
{
	int ends[2];
	CHECK(!pipe(ends));
	fd_set set;
	FD_ZERO(&set);
	FD_SET(ends[0], &set);
	struct timeval none = { 0 };
	CHECK(select(ends[0] + 1, &set, 0, 0, &none) == 0);
	write(ends[1], "x", 1);
	FD_SET(ends[0], &set);
	CHECK(select(ends[0] + 1, &set, 0, 0, 0) == 1 && FD_ISSET(ends[0], &set));
	close(ends[0]);
	close(ends[1]);
	int counter = eventfd(3, EFD_CLOEXEC);
	eventfd_t value;
	CHECK(counter >= 0 && !eventfd_write(counter, 4) && !eventfd_read(counter, &value) && value == 7);
	close(counter);
}

TEST(unistd_system)
{
	struct utsname names;
	CHECK(!uname(&names));
	CHECK_STR(names.machine, "x86_64");
	CHECK(sysconf(_SC_PAGESIZE) == 4096 && sysconf(_SC_NPROCESSORS_ONLN) >= 1 && getpid() > 0);
	struct rlimit limit;
	CHECK(!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur > 16);
	unsigned char random[300] = { 0 };
	int all = 0;
	CHECK(getrandom(random, 300, 0) == 300);
	for (int i = 280; i < 300; i++)
		all |= random[i];
	CHECK(all);
	char name[64];
	CHECK(!gethostname(name, sizeof name) && *name);
	CHECK(getcwd(name, sizeof name) && name[0] == '/');
}

TEST(statvfs_everywhere)
{
	// The part that belongs to the name space itself is a file system too: it is full, but its size is not 0.
	static const char *const paths[] = { "/", "/boot", "/tmp" };
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
		struct statvfs info;
		int fd = open(paths[i], O_RDONLY | O_DIRECTORY);
		CHECK(!statvfs(paths[i], &info) && info.f_bsize > 0 && info.f_frsize > 0 && info.f_blocks > 0);
		CHECK(info.f_bfree <= info.f_blocks && info.f_bavail <= info.f_bfree && info.f_namemax > 0);
		CHECK(fd >= 0 && !fstatvfs(fd, &info) && info.f_blocks > 0 && !close(fd));
	}
}

static int only(const unsigned char *bytes, size_t size, int value)
{
	size_t same = 0;
	while (same < size && bytes[same] == value)
		same++;
	return same == size;
}

TEST(devices)
{
	unsigned char bytes[300], other[300];
	struct stat info;
	int fd = open("/dev/zero", O_RDWR);
	memset(bytes, 1, sizeof bytes);
	CHECK(fd >= 0 && read(fd, bytes, sizeof bytes) == sizeof bytes && only(bytes, sizeof bytes, 0));
	bytes[7] = 1;
	CHECK(pread(fd, bytes, 8, 1000000) == 8 && !bytes[7] && write(fd, "gone", 4) == 4 && lseek(fd, 5, SEEK_SET) == 0);
	CHECK(!fstat(fd, &info) && S_ISCHR(info.st_mode) && !close(fd));
	static const char *const names[] = { "/dev/random", "/dev/urandom" };
	for (int i = 0; i < 2; i++) {
		fd = open(names[i], O_RDONLY);
		memset(bytes, 0, sizeof bytes);
		memset(other, 0, sizeof other);
		CHECK(fd >= 0 && read(fd, bytes, sizeof bytes) == sizeof bytes && read(fd, other, sizeof other) == sizeof other);
		CHECK(memcmp(bytes, other, sizeof bytes) && !only(bytes + 200, 100, 0) && !close(fd));
	}
	fd = open("/dev/null", O_RDWR);
	CHECK(fd >= 0 && read(fd, bytes, sizeof bytes) == 0 && write(fd, "gone", 4) == 4 && !close(fd));
	errno = 0;
	CHECK(open("/dev/zero/x", O_RDONLY) == -1 && errno == ENOTDIR);
	errno = 0;
	CHECK(open("/dev/full", O_RDONLY) == -1 && errno == ENOENT);
}

TEST(bin_is_boot_bin)
{
	struct stat here, there;
	CHECK(!access("/bin/sh", X_OK) && !stat("/bin/sh", &here) && !stat("/boot/bin/sh", &there));
	CHECK(here.st_ino == there.st_ino && here.st_dev == there.st_dev && here.st_size == there.st_size);
	errno = 0;
	CHECK(access("/bin/none", F_OK) == -1 && errno == ENOENT);
	int fd = open("/bin/sh", O_RDONLY);
	void *map = mmap(0, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	CHECK(fd >= 0 && map != MAP_FAILED && !memcmp(map, "\x7f" "ELF", 4) && !munmap(map, 4096) && !close(fd));
}

TEST(dirent_boot)
{
	DIR *folder = opendir("/boot");
	struct dirent *entry;
	int found = 0, count = 0;
	while (folder && (entry = readdir(folder))) {
		count++;
		found |= !strcmp(entry->d_name, "lib") && entry->d_type == DT_DIR;
	}
	CHECK(found && count > 3);
	rewinddir(folder);
	int again = 0;
	while (readdir(folder))
		again++;
	CHECK(again == count && !closedir(folder));
	struct dirent **list;
	int sorted = scandir("/boot/lib", &list, 0, alphasort);
	CHECK(sorted >= 5 && !strcmp(list[0]->d_name, "."));
	for (int i = 0; i < sorted; i++)
		free(list[i]);
	free(list);
	errno = 0;
	CHECK(!opendir("/boot/none") && errno == ENOENT);
}

static int walked;

static int walk(const char *path, const struct stat *info, int type, struct FTW *where)
{
	walked += type == FTW_F && !strcmp(path + where->base, "libc.so");
	return 0;
}

TEST(glob_and_walk)
{
	glob_t found;
	CHECK(!glob("/boot/l*/lib[cf]*.so", 0, 0, &found) && found.gl_pathc == 2);
	CHECK_STR(found.gl_pathv[0], "/boot/lib/libc.so");
	globfree(&found);
	CHECK(glob("/boot/none*", 0, 0, &found) == GLOB_NOMATCH);
	CHECK(!nftw("/boot", walk, 8, FTW_PHYS) && walked == 1);
}
