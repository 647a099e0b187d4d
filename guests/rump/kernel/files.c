/* Files and block I/O. */
#include "kernel.h"

#include <stdio.h>
#include <string.h>

static const char file[] = "/tmp/rump-kernel";

static int open_file(int flags)
{
	int fd = -1, error = -1;
	RELEASES(1, error = rumpuser_open(file, flags, &fd));
	CHECK_INT(error, 0);
	CHECK(fd >= 0);
	return fd;
}

static void close_file(int fd)
{
	int error = -1;
	RELEASES(1, error = rumpuser_close(fd));
	CHECK_INT(error, 0);
}

TEST(file_names_and_flags)
{
	int fd = -1;
	char name[2000];
	remove(file);
	CHECK_INT(rumpuser_open("", OPEN_READ, &fd), E_NOENT);
	CHECK_INT(rumpuser_open("disk:", OPEN_READ, &fd), E_NXIO);
	CHECK_INT(rumpuser_open(file, OPEN_BOTH, &fd), E_NOENT);
	CHECK_INT(rumpuser_open(file, 3, &fd), E_INVAL);
	CHECK_INT(rumpuser_open(file, 64, &fd), E_INVAL);
	memset(name, 'a', sizeof name - 1);
	name[sizeof name - 1] = 0;
	CHECK_INT(rumpuser_open(name, OPEN_READ, &fd), E_NAMETOOLONG);
	CHECK_INT(rumpuser_getfileinfo(name, NULL, NULL), E_NAMETOOLONG);
	close_file(open_file(OPEN_BOTH | OPEN_CREATE));
	close_file(open_file(OPEN_WRITE | OPEN_CREATE | OPEN_BIO));
	CHECK_INT(rumpuser_open(file, OPEN_BOTH | OPEN_CREATE | OPEN_EXCLUSIVE, &fd), E_EXIST);
	CHECK_INT(rumpuser_close(-1), E_BADF);
	CHECK_INT(rumpuser_close(200), E_BADF);
}

TEST(file_information)
{
	uint64_t size = 7;
	int type = 7, fd = open_file(OPEN_BOTH | OPEN_CREATE);
	size_t moved;
	struct piece piece = { "twelve bytes", 12 };
	CHECK_INT(rumpuser_iovwrite(fd, &piece, 1, 0, &moved), 0);
	close_file(fd);
	RELEASES(0, CHECK_INT(rumpuser_getfileinfo(file, &size, &type), 0));
	CHECK_INT(size, 12);
	CHECK_INT(type, 2);
	CHECK_INT(rumpuser_getfileinfo("/tmp", NULL, &type), 0);
	CHECK_INT(type, 1);
	CHECK_INT(rumpuser_getfileinfo(file, NULL, NULL), 0);
	CHECK_INT(rumpuser_getfileinfo("/nothing/here", &size, &type), E_NOENT);
}

TEST(file_pieces)
{
	int fd = open_file(OPEN_BOTH | OPEN_CREATE), error = -1;
	size_t moved = 0;
	char one[5] = "", two[8] = "";
	struct piece out[3] = { { "The ", 4 }, { "", 0 }, { "quick", 5 } };
	struct piece in[2] = { { one, 4 }, { two, 7 } };
	RELEASES(1, error = rumpuser_iovwrite(fd, out, 3, 100, &moved));
	CHECK_INT(error, 0);
	CHECK_INT(moved, 9);
	RELEASES(1, error = rumpuser_iovread(fd, in, 2, 100, &moved));
	CHECK_INT(error, 0);
	CHECK_INT(moved, 9);
	CHECK(!strcmp(one, "The ") && !strcmp(two, "quick"));
	/* At the file's own place, which is its beginning. */
	CHECK_INT(rumpuser_iovwrite(fd, out, 3, -1, &moved), 0);
	CHECK_INT(rumpuser_iovwrite(fd, out, 3, -1, &moved), 0);
	CHECK_INT(rumpuser_iovread(fd, in, 1, 9, &moved), 0);
	CHECK(!strcmp(one, "The "));
	CHECK_INT(rumpuser_iovread(fd, in, 1, -2, &moved), E_INVAL);
	CHECK_INT(rumpuser_iovread(fd, in, 1025, 0, &moved), E_INVAL);
	CHECK_INT(rumpuser_iovread(fd, in, (size_t)-1, 0, &moved), E_INVAL);
	CHECK_INT(rumpuser_iovread(201, in, 2, 0, &moved), E_BADF);
	CHECK_INT(rumpuser_iovread(fd, in, 2, 1 << 20, &moved), 0);
	CHECK_INT(moved, 0);
	RELEASES(1, error = rumpuser_syncfd(fd, 2 | 8, 0, 0));
	CHECK_INT(error, 0);
	RELEASES(0, error = rumpuser_syncfd(fd, 1, 0, 0));
	CHECK_INT(error, 0);
	CHECK_INT(rumpuser_syncfd(fd, 0, 0, 0), E_INVAL);
	CHECK_INT(rumpuser_syncfd(fd, 64 | 2, 0, 0), E_INVAL);
	CHECK_INT(rumpuser_syncfd(201, 2, 0, 0), E_BADF);
	close_file(fd);
}

enum { REQUESTS = 200, SECTOR = 512 };

static struct request {
	size_t bytes;
	int error, calls;
	bool had_cpu, was_thread;
} requests[REQUESTS];
static atomic_int finished;

static void done(void *arg, size_t bytes, int error)
{
	struct request *request = arg;
	request->bytes = bytes;
	request->error = error;
	request->calls++;
	request->was_thread = me() && rumpuser_curlwp() == me();
	request->had_cpu = me() && me()->runs;
	finished++;
}

/* One request, until it is done. */
static struct request one(int fd, int op, void *data, size_t len, int64_t offset)
{
	memset(&requests[0], 0, sizeof requests[0]);
	finished = 0;
	rumpuser_bio(fd, op, data, len, offset, done, &requests[0]);
	CHECK(me()->runs);
	UNTIL(finished == 1);
	CHECK(requests[0].had_cpu && requests[0].was_thread);
	CHECK_INT(requests[0].calls, 1);
	return requests[0];
}

static char sectors[REQUESTS][SECTOR], check[REQUESTS][SECTOR];

/* More requests at once than there are places, to sectors in an order of their own. */
static void many(int fd, int op, char data[REQUESTS][SECTOR], int step)
{
	memset(requests, 0, sizeof requests);
	finished = 0;
	for (int i = 0; i < REQUESTS; i++) {
		int sector = i * step % REQUESTS;
		rumpuser_bio(fd, op, data[sector], SECTOR, (int64_t)sector * SECTOR, done, &requests[sector]);
		CHECK(me()->runs);
	}
	UNTIL(finished == REQUESTS);
	for (int i = 0; i < REQUESTS; i++) {
		struct request *request = &requests[i];
		CHECK_INT(request->calls, 1);
		CHECK_INT(request->error, 0);
		CHECK_INT(request->bytes, SECTOR);
		CHECK(request->had_cpu && request->was_thread);
	}
}

TEST(bio_transfers)
{
	remove(file);
	int fd = open_file(OPEN_BOTH | OPEN_CREATE | OPEN_BIO);
	/* Steps without a common divisor with the number reach all sectors. */
	static const int steps[] = { 1, 7, 77, 199 };
	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < REQUESTS; i++)
			memset(sectors[i], i + round, SECTOR);
		many(fd, round % 2 ? BIO_WRITE : BIO_WRITE | BIO_SYNC, sectors, steps[round]);
		memset(check, 0, sizeof check);
		many(fd, BIO_READ, check, steps[3 - round]);
		CHECK(!memcmp(sectors, check, sizeof check));
	}
	CHECK_INT(wrong_upcalls, 0);
	close_file(fd);
}

TEST(bio_errors)
{
	int fd = open_file(OPEN_READ | OPEN_BIO);
	static char data[4 * SECTOR];
	/* What ends before the request does is shorter. */
	struct request request = one(fd, BIO_READ, data, 2 * SECTOR, (int64_t)(REQUESTS - 1) * SECTOR);
	CHECK_INT(request.error, 0);
	CHECK_INT(request.bytes, SECTOR);
	request = one(fd, BIO_READ, data, SECTOR, (int64_t)1 << 30);
	CHECK_INT(request.error, 0);
	CHECK_INT(request.bytes, 0);
	CHECK_INT(one(fd, BIO_WRITE, data, SECTOR, 0).error, E_BADF);
	CHECK_INT(one(202, BIO_READ, data, SECTOR, 0).error, E_BADF);
	CHECK_INT(one(fd, 0, data, SECTOR, 0).error, E_INVAL);
	CHECK_INT(one(fd, BIO_READ, data, SECTOR - 1, 0).error, E_INVAL);
	CHECK_INT(one(fd, BIO_READ, data, SECTOR, 1).error, E_INVAL);
	CHECK_INT(one(fd, BIO_READ, data, SECTOR, -SECTOR).error, E_INVAL);
	CHECK_INT(one(fd, BIO_READ, data, (size_t)-SECTOR, 0).error, E_INVAL);
	request = one(fd, BIO_READ, data, 0, 0);
	CHECK_INT(request.error, 0);
	CHECK_INT(request.bytes, 0);
	close_file(fd);
}

static void write_sectors(void *arg)
{
	int self = *(int *)arg, fd = open_file(OPEN_BOTH | OPEN_BIO);
	for (int i = self; i < REQUESTS; i += 4)
		rumpuser_bio(fd, BIO_WRITE, sectors[i], SECTOR, (int64_t)i * SECTOR, done, &requests[i]);
	UNTIL(finished == REQUESTS);
	close_file(fd);
}

TEST(bio_from_several_threads)
{
	set_cpus(2);
	memset(requests, 0, sizeof requests);
	finished = 0;
	void *threads[4];
	int selves[4];
	for (int i = 0; i < REQUESTS; i++)
		memset(sectors[i], 3 * i, SECTOR);
	for (int i = 0; i < 4; i++) {
		selves[i] = i;
		threads[i] = begin(write_sectors, &selves[i]);
	}
	for (int i = 0; i < 4; i++)
		join(threads[i]);
	int fd = open_file(OPEN_READ | OPEN_BIO);
	memset(check, 0, sizeof check);
	many(fd, BIO_READ, check, 3);
	CHECK(!memcmp(sectors, check, sizeof check));
	close_file(fd);
	remove(file);
	set_cpus(1);
}
