/* Memory, clocks, parameters, threads, and what is not there. */
#include "kernel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096 };

/* main.c limits the memory to this. */
enum { PAGES = 768 };

TEST(memory_alignment)
{
	void *pieces[16];
	for (int align = 0; align <= 65536; align = align ? align * 4 : 1024) {
		for (int i = 0; i < 16; i++) {
			CHECK_INT(rumpuser_malloc(PAGE * (1 + i % 3) - i, align, &pieces[i]), 0);
			CHECK((uintptr_t)pieces[i] % (align < PAGE ? PAGE : align) == 0);
			memset(pieces[i], i, PAGE * (1 + i % 3) - i);
		}
		for (int i = 0; i < 16; i++) {
			CHECK_INT(*(char *)pieces[i], i);
			rumpuser_free(pieces[i], PAGE * (1 + i % 3) - i);
		}
	}
	void *unchanged = &pieces;
	CHECK_INT(rumpuser_malloc(PAGE, 3000, &unchanged), E_INVAL);
	CHECK_INT(rumpuser_malloc(PAGE, -4096, &unchanged), E_INVAL);
	CHECK_INT(rumpuser_malloc((size_t)-1, 0, &unchanged), E_NOMEM);
	CHECK(unchanged == &pieces);
}

TEST(memory_limit)
{
	static void *pieces[PAGES];
	void *more;
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < PAGES; i++) {
			CHECK_INT(rumpuser_malloc(PAGE, 0, &pieces[i]), 0);
			*(int *)pieces[i] = i;
		}
		RELEASES(0, CHECK_INT(rumpuser_malloc(PAGE, 0, &more), E_NOMEM));
		/* What is freed can be had again, and nothing else. */
		rumpuser_free(pieces[5], PAGE);
		CHECK_INT(rumpuser_malloc(2 * PAGE, 0, &more), E_NOMEM);
		CHECK_INT(rumpuser_malloc(PAGE, 0, &more), 0);
		CHECK(more == pieces[5]);
		*(int *)more = 5;
		for (int i = 0; i < PAGES; i++) {
			CHECK_INT(*(int *)pieces[i], i);
			rumpuser_free(pieces[i], PAGE);
		}
		/* In one piece; it goes back to the system, and comes as zeroes. */
		CHECK_INT(rumpuser_malloc(PAGES * PAGE, 0, &more), 0);
		memset(more, 1, PAGES * PAGE);
		rumpuser_free(more, PAGES * PAGE);
		CHECK_INT(rumpuser_malloc(PAGES * PAGE, 0, &more), 0);
		CHECK_INT(*(char *)more, 0);
		rumpuser_free(more, PAGES * PAGE);
		CHECK_INT(rumpuser_malloc((PAGES + 1) * PAGE, 0, &more), E_NOMEM);
	}
}

TEST(memory_maps)
{
	void *map = NULL, *second = NULL;
	CHECK_INT(rumpuser_anonmmap(NULL, 3 * PAGE, 0, 0, &map), 0);
	memset(map, 1, 3 * PAGE);
	CHECK_INT(rumpuser_anonmmap(NULL, 2 * PAGE, 16, 0, &second), 0);
	CHECK((uintptr_t)second % 65536 == 0);
	CHECK_INT(*(char *)second, 0);
	rumpuser_unmap(second, 2 * PAGE);
	CHECK_INT(rumpuser_anonmmap(NULL, PAGE, 0, 1, &second), E_NOSYS);
	CHECK_INT(rumpuser_anonmmap(NULL, PAGE, 60, 0, &second), E_INVAL);
	CHECK_INT(rumpuser_anonmmap(NULL, PAGE, -1, 0, &second), E_INVAL);
	CHECK_INT(rumpuser_anonmmap(NULL, 0, 0, 0, &second), E_INVAL);
	CHECK_INT(rumpuser_anonmmap(NULL, (size_t)-1, 0, 0, &second), E_INVAL);
	/* The limit counts maps by themselves. */
	CHECK_INT(rumpuser_anonmmap(NULL, (PAGES - 2) * PAGE, 0, 0, &second), E_NOMEM);
	rumpuser_unmap(map, 3 * PAGE);
	for (int i = 0; i < 5; i++) {
		CHECK_INT(rumpuser_anonmmap(NULL, PAGES * PAGE, 0, 0, &map), 0);
		rumpuser_unmap(map, PAGES * PAGE);
	}
}

TEST(clock_sleep)
{
	int64_t s0, s1, wall;
	long n0, n1, wall_rest;
	int error = -1;
	RELEASES(0, CHECK_INT(rumpuser_clock_gettime(1, &s0, &n0), 0));
	RELEASES(1, error = rumpuser_clock_sleep(0, 0, 3000000));
	CHECK_INT(error, 0);
	CHECK_INT(rumpuser_clock_gettime(1, &s1, &n1), 0);
	CHECK((s1 - s0) * 1000000000 + n1 - n0 >= 3000000);
	/* Until a time of the clock. */
	int64_t until = s1 * 1000000000 + n1 + 5000000;
	RELEASES(1, error = rumpuser_clock_sleep(1, until / 1000000000, (long)(until % 1000000000)));
	CHECK_INT(error, 0);
	CHECK_INT(rumpuser_clock_gettime(1, &s1, &n1), 0);
	CHECK(s1 * 1000000000 + n1 >= until);
	/* A time that has passed, and one before time. */
	CHECK_INT(rumpuser_clock_sleep(1, 0, 0), 0);
	CHECK_INT(rumpuser_clock_sleep(0, -1, -1), 0);
	CHECK_INT(rumpuser_clock_gettime(0, &wall, &wall_rest), 0);
	CHECK(wall >= 0 && wall_rest >= 0 && wall_rest < 1000000000);
	CHECK_INT(rumpuser_clock_gettime(2, &wall, &wall_rest), E_INVAL);
	CHECK_INT(rumpuser_clock_sleep(7, 0, 0), E_INVAL);
}

TEST(parameters)
{
	char value[64];
	CHECK_INT(rumpuser_getparam("_RUMPUSER_NCPU", value, sizeof value), 0);
	CHECK(!strcmp(value, "1"));
	setenv("RUMP_NCPU", "4", 1);
	CHECK_INT(rumpuser_getparam("_RUMPUSER_NCPU", value, sizeof value), 0);
	CHECK(!strcmp(value, "4"));
	setenv("RUMP_NCPU", "many", 1);
	CHECK_INT(rumpuser_getparam("_RUMPUSER_NCPU", value, sizeof value), 0);
	CHECK(!strcmp(value, "1"));
	CHECK_INT(rumpuser_getparam("_RUMPUSER_HOSTNAME", value, sizeof value), 0);
	CHECK(value[0]);
	CHECK_INT(rumpuser_getparam("RUMP_MEMLIMIT", value, sizeof value), 0);
	CHECK_INT(atoi(value), PAGES * PAGE);
	CHECK_INT(rumpuser_getparam("RUMP_MEMLIMIT", value, 7), E_2BIG);
	CHECK_INT(rumpuser_getparam("RUMP_VERBOSE", value, sizeof value), E_NOENT);
	setenv("RUMP_VERBOSE", "yes", 1);
	CHECK_INT(rumpuser_getparam("RUMP_VERBOSE", value, 4), 0);
	CHECK(!strcmp(value, "yes"));
	CHECK_INT(rumpuser_getparam("RUMP_VERBOSE", value, 3), E_2BIG);
	CHECK_INT(rumpuser_getparam("RUMP_VERBOSE", value, 0), E_2BIG);
	CHECK_INT(rumpuser_getparam("_RUMPUSER_OTHER", value, sizeof value), E_NOENT);
	CHECK_INT(rumpuser_getparam("A=B", value, sizeof value), E_INVAL);
	CHECK_INT(rumpuser_getparam("", value, sizeof value), E_INVAL);
}

TEST(random)
{
	static char bytes[3000], zeroes[3000];
	size_t got = 0;
	for (int flags = 0; flags < 4; flags++) {
		memset(bytes, 0, sizeof bytes);
		RELEASES(0, CHECK_INT(rumpuser_getrandom(bytes, sizeof bytes, flags, &got), 0));
		CHECK(got > 0 && got <= sizeof bytes);
		CHECK(memcmp(bytes, zeroes, got));
	}
	CHECK_INT(rumpuser_getrandom(bytes, 1, 4, &got), E_INVAL);
}

static void *thread(void *arg)
{
	enter_kernel();
	++*(atomic_int *)arg;
	leave_kernel();
	rumpuser_thread_exit();
}

TEST(threads)
{
	atomic_int count = 0;
	void *cookies[20];
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 20; i++)
			CHECK_INT(rumpuser_thread_create(thread, &count, "many", i % 2, i % 4 ? i * 11 : -1, -1, &cookies[i]), 0);
		for (int i = 1; i < 20; i += 2)
			RELEASES(1, CHECK_INT(rumpuser_thread_join(cookies[i]), 0));
		/* The others end without anybody's waiting. */
		UNTIL(count == 20 * (round + 1));
	}
	CHECK_INT(rumpuser_thread_create(thread, &count, NULL, 0, 0, 0, NULL), 0);
	UNTIL(count == 61);
}

TEST(thread_context)
{
	struct lwp *before = rumpuser_curlwp(), other;
	CHECK(before == me());
	rumpuser_curlwpop(LWP_CLEAR, before);
	CHECK(rumpuser_curlwp() == NULL);
	rumpuser_curlwpop(LWP_CREATE, &other);
	CHECK(rumpuser_curlwp() == NULL);
	rumpuser_curlwpop(LWP_SET, &other);
	CHECK(rumpuser_curlwp() == &other);
	rumpuser_curlwpop(LWP_CLEAR, &other);
	rumpuser_curlwpop(LWP_DESTROY, &other);
	rumpuser_curlwpop(LWP_SET, before);
	CHECK(rumpuser_curlwp() == before);
}

TEST(console)
{
	for (const char *c = "rump console: one line\nrump console: the rest"; *c; c++)
		RELEASES(0, rumpuser_putchar(*c));
	rumpuser_putchar('\n');
	static char longer[1000];
	memset(longer, 'x', sizeof longer - 1);
	rumpuser_dprintf("rump console: %s %d%c\n", "number", 17, '!');
	rumpuser_dprintf("%s", longer);
	rumpuser_dprintf("\nrump console: after a text that was cut\n");
}

TEST(errors_are_the_kernels)
{
	rumpuser_seterrno(E_NOSYS);
	CHECK_INT(errno, E_NOSYS);
	rumpuser_seterrno(0);
	CHECK_INT(errno, 0);
}

TEST(what_is_not_there)
{
	void *map;
	size_t len = 0;
	CHECK_INT(rumpuser_kill(1, 13), E_NOSYS);
	CHECK_INT(rumpuser_kill(-1, 15), E_NOSYS);
	CHECK_INT(rumpuser_daemonize_begin(), E_NOSYS);
	CHECK_INT(rumpuser_daemonize_done(0), E_NOSYS);
	rumpuser_dl_bootstrap(NULL, NULL, NULL);
	CHECK_INT(rumpuser_sp_init("unix:///x", "a", "b", "c"), E_NOSYS);
	CHECK_INT(rumpuser_sp_copyin(NULL, NULL, NULL, 0), E_NOSYS);
	CHECK_INT(rumpuser_sp_copyinstr(NULL, NULL, NULL, &len), E_NOSYS);
	CHECK_INT(rumpuser_sp_copyout(NULL, NULL, NULL, 0), E_NOSYS);
	CHECK_INT(rumpuser_sp_copyoutstr(NULL, NULL, NULL, &len), E_NOSYS);
	CHECK_INT(rumpuser_sp_anonmmap(NULL, 1, &map), E_NOSYS);
	CHECK_INT(rumpuser_sp_raise(NULL, 1), E_NOSYS);
	rumpuser_sp_fini(NULL);
}
