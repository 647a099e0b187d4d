/* The calls of the component shmif: a file that threads and processes share. */
#include "kernel.h"

#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>

extern char **environ;

static const char file[] = "/tmp/rump-bus";
enum { LENGTH = 1 << 20, END = 255 };

/* One side of the bus: whoever finds its own kind of number writes the next one. */
struct side {
	int fd, watch;
	void *memory;
	_Atomic(uint32_t) *turn;
};

static struct side join_bus(void)
{
	struct side side = { -1, -1, NULL, NULL };
	int error = -1;
	CHECK_INT(rumpuser_open(file, OPEN_BOTH | OPEN_CREATE, &side.fd), 0);
	RELEASES(1, error = rumpcomp_shmif_mmap(side.fd, LENGTH, &side.memory));
	CHECK_INT(error, 0);
	RELEASES(1, error = rumpcomp_shmif_watchsetup(&side.watch, side.fd));
	CHECK_INT(error, 0);
	CHECK(side.watch != side.fd);
	side.turn = (_Atomic(uint32_t) *)side.memory + 4;
	return side;
}

static void leave_bus(struct side side)
{
	rumpuser_unmap(side.memory, LENGTH);
	CHECK_INT(rumpuser_close(side.watch), 0);
	CHECK_INT(rumpuser_close(side.fd), 0);
}

/* Takes each second turn, and waits for the others by nothing but the bus. */
static void take_turns(struct side side, uint32_t turn)
{
	for (; turn < END; turn += 2) {
		for (int tries = 0; *side.turn != turn; tries++) {
			int error = -1;
			RELEASES(1, error = rumpcomp_shmif_watchwait(side.watch));
			CHECK_INT(error, 0);
			if (error || tries == 5000) {
				fail(__FILE__, __LINE__, "turn %u does not come", (unsigned)turn);
				return;
			}
		}
		*side.turn = turn + 1;
	}
}

static void other_side(void *arg)
{
	(void)arg;
	struct side side = join_bus();
	take_turns(side, 1);
	leave_bus(side);
}

void answer_on_bus(void)
{
	other_side(NULL);
}

/* There is one CPU: the other thread gets it only while this one waits. */
TEST(shmif_two_threads)
{
	remove(file);
	struct side side = join_bus();
	void *thread = begin(other_side, NULL);
	take_turns(side, 0);
	join(thread);
	CHECK_INT(*side.turn, END);
	leave_bus(side);
}

TEST(shmif_two_processes)
{
	remove(file);
	struct side side = join_bus();
	char *args[] = { (char *)program, "bus", NULL };
	pid_t child = -1;
	int status = -1;
	CHECK_INT(posix_spawn(&child, program, NULL, NULL, args, environ), 0);
	take_turns(side, 0);
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK_INT(*side.turn, END);
	leave_bus(side);
}

TEST(shmif_length)
{
	uint64_t size = 0;
	void *part = NULL, *more = NULL;
	remove(file);
	struct side side = join_bus();
	CHECK_INT(rumpuser_getfileinfo(file, &size, NULL), 0);
	CHECK_INT(size, LENGTH);
	/* A shorter mapping does not cut the file; both show the same memory. */
	CHECK_INT(rumpcomp_shmif_mmap(side.fd, 100, &part), 0);
	CHECK_INT(rumpuser_getfileinfo(file, &size, NULL), 0);
	CHECK_INT(size, LENGTH);
	*side.turn = 17;
	CHECK(part && ((uint32_t *)part)[4] == 17);
	rumpuser_unmap(part, 100);
	/* Mappings are counted, and given back: the limit is 3 MiB. */
	for (int i = 0; i < 10; i++) {
		CHECK_INT(rumpcomp_shmif_mmap(side.fd, LENGTH, &part), 0);
		rumpuser_unmap(part, LENGTH);
	}
	CHECK_INT(rumpcomp_shmif_mmap(side.fd, 2 * LENGTH, &part), 0);
	CHECK_INT(rumpcomp_shmif_mmap(side.fd, 4096, &more), E_NOMEM);
	rumpuser_unmap(part, 2 * LENGTH);
	CHECK_INT(rumpcomp_shmif_mmap(side.fd, 0, &part), E_INVAL);
	CHECK_INT(rumpcomp_shmif_mmap(side.fd, (size_t)-1, &part), E_INVAL);
	CHECK_INT(rumpcomp_shmif_mmap(side.fd, SIZE_MAX / 2, &part), E_NOMEM);
	leave_bus(side);
}

TEST(shmif_wrong_files)
{
	int fd = -1, watch = -1, error = -1;
	void *memory = NULL;
	remove(file);
	struct side side = join_bus();
	CHECK_INT(rumpcomp_shmif_watchsetup(&watch, 200), E_BADF);
	CHECK_INT(rumpcomp_shmif_mmap(200, LENGTH, &memory), E_BADF);
	RELEASES(1, error = rumpcomp_shmif_watchwait(200));
	CHECK_INT(error, E_BADF);
	/* Nobody shares a directory, writes to what is read only, or to what is not memory of the file system. */
	CHECK_INT(rumpuser_open("/tmp", OPEN_READ, &fd), 0);
	CHECK_INT(rumpcomp_shmif_watchsetup(&watch, fd), E_INVAL);
	CHECK_INT(rumpcomp_shmif_mmap(fd, LENGTH, &memory), E_INVAL);
	CHECK_INT(rumpuser_close(fd), 0);
	CHECK_INT(rumpuser_open(file, OPEN_READ, &fd), 0);
	CHECK_INT(rumpcomp_shmif_mmap(fd, LENGTH, &memory), E_ACCES);
	CHECK(rumpcomp_shmif_mmap(fd, LENGTH + 1, &memory) != 0);
	CHECK_INT(rumpuser_close(fd), 0);
	CHECK_INT(rumpuser_open("/boot/lib/libc.so", OPEN_READ, &fd), 0);
	CHECK_INT(rumpcomp_shmif_mmap(fd, 4096, &memory), E_ACCES);
	CHECK_INT(rumpuser_close(fd), 0);
	CHECK(memory == NULL);
	CHECK_INT(watch, -1);
	leave_bus(side);
	remove(file);
}
