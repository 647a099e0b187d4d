/* Mutexes, locks for readers and writers, conditions. */
#include "kernel.h"

#include <stdlib.h>

enum { THREADS = 4 };

static struct rumpuser_mtx *mutex;
static struct rumpuser_cv *condition;
static struct rumpuser_rw *rw;
static volatile int number;
static atomic_int state, waiters;

/* A number that no two threads may change at once; sometimes the thread loses its CPU meanwhile. */
static void bump(bool may_wait)
{
	int seen = number;
	if (may_wait && seen % 16 == 0)
		pause_outside();
	number = seen + 1;
}

/* Another thread: enters, says so, and leaves when it is told to. It has no CPU while it holds the mutex. */
static void hold(void *unused)
{
	(void)unused;
	rumpuser_mutex_enter(mutex);
	state = 1;
	UNTIL(state == 2);
	rumpuser_mutex_exit(mutex);
}

static struct lwp *victim;

/* Waits for the mutex with one CPU. */
static void contend(void *arg)
{
	victim = me();
	me()->locks = 3;
	int expected = *(int *)arg;
	RELEASES(expected, rumpuser_mutex_enter(mutex));
	CHECK_INT(me()->locks, 3);
	me()->locks = 0;
	rumpuser_mutex_exit(mutex);
}

TEST(mutex_enter_releases_the_cpu)
{
	rumpuser_mutex_init(&mutex, OWNED);
	state = 0;
	victim = NULL;
	void *holder = begin(hold, NULL);
	UNTIL(state == 1);
	struct lwp *owner = NULL;
	rumpuser_mutex_owner(mutex, &owner);
	CHECK(owner && owner != me());
	CHECK_INT(rumpuser_mutex_tryenter(mutex), E_BUSY);
	int once = 1;
	void *thread = begin(contend, &once);
	/* The holder can run only because the waiting thread has released the one CPU. */
	UNTIL(victim && victim->releases == 1 && !victim->runs);
	state = 2;
	join(holder);
	join(thread);
	RELEASES(0, rumpuser_mutex_enter(mutex));
	rumpuser_mutex_owner(mutex, &owner);
	CHECK(owner == me());
	rumpuser_mutex_exit(mutex);
	rumpuser_mutex_owner(mutex, &owner);
	CHECK(owner == NULL);
	rumpuser_mutex_destroy(mutex);
}

TEST(mutex_spin_keeps_the_cpu)
{
	for (int flags = SPIN; flags <= (SPIN | OWNED); flags += OWNED) {
		set_cpus(2);
		rumpuser_mutex_init(&mutex, flags);
		victim = NULL;
		rumpuser_mutex_enter(mutex);
		int never = 0;
		void *thread = begin(contend, &never);
		UNTIL(victim);
		for (int i = 0; i < 20; i++) {
			pause_outside();
			CHECK(victim->runs);
		}
		rumpuser_mutex_exit(mutex);
		join(thread);
		rumpuser_mutex_destroy(mutex);
		set_cpus(1);
	}
}

static void contend_nowrap(void *unused)
{
	(void)unused;
	victim = me();
	RELEASES(0, rumpuser_mutex_enter_nowrap(mutex));
	rumpuser_mutex_exit(mutex);
}

TEST(mutex_nowrap_keeps_the_cpu)
{
	set_cpus(2);
	rumpuser_mutex_init(&mutex, OWNED);
	victim = NULL;
	rumpuser_mutex_enter(mutex);
	void *thread = begin(contend_nowrap, NULL);
	UNTIL(victim);
	for (int i = 0; i < 20; i++) {
		pause_outside();
		CHECK(victim->runs);
	}
	rumpuser_mutex_exit(mutex);
	join(thread);
	rumpuser_mutex_destroy(mutex);
	set_cpus(1);
}

static void count_up(void *arg)
{
	int flags = *(int *)arg;
	for (int i = 0; i < rounds; i++) {
		if (flags & SPIN || i % 2)
			rumpuser_mutex_enter(mutex);
		else
			while (rumpuser_mutex_tryenter(mutex))
				pause_outside();
		/* The holder of a spin mutex keeps its CPU. */
		bump(!(flags & SPIN));
		rumpuser_mutex_exit(mutex);
	}
}

TEST(mutex_contention)
{
	for (int flags = SPIN; flags <= (SPIN | OWNED); flags++) {
		for (int cpus = 1; cpus <= 3; cpus++) {
			set_cpus(cpus);
			rumpuser_mutex_init(&mutex, flags);
			number = 0;
			void *threads[THREADS];
			for (int i = 0; i < THREADS; i++)
				threads[i] = begin(count_up, &flags);
			for (int i = 0; i < THREADS; i++)
				join(threads[i]);
			CHECK_INT(number, THREADS * rounds);
			rumpuser_mutex_destroy(mutex);
			set_cpus(1);
		}
	}
}

static void write_and_read(void *arg)
{
	int self = *(int *)arg, held;
	for (int i = 0; i < rounds; i++) {
		bool writes = (i + self) % 3 == 0;
		if (i % 4 || rumpuser_rw_tryenter(writes ? WRITER : READER, rw))
			rumpuser_rw_enter(writes ? WRITER : READER, rw);
		rumpuser_rw_held(WRITER, rw, &held);
		CHECK_INT(held, writes);
		if (writes) {
			CHECK_INT(waiters, 0);
			bump(true);
			if (i % 2)
				rumpuser_rw_downgrade(rw);
		} else {
			waiters++;
			rumpuser_rw_held(READER, rw, &held);
			CHECK_INT(held, 1);
			waiters--;
			int error = rumpuser_rw_tryupgrade(rw);
			CHECK(error == 0 || error == E_BUSY);
			rumpuser_rw_held(WRITER, rw, &held);
			CHECK_INT(held, error == 0);
			if (!error)
				bump(true);
			else
				atomic_fetch_add(&state, 1);
		}
		rumpuser_rw_exit(rw);
	}
}

TEST(rwlock_contention)
{
	rumpuser_rw_init(&rw);
	for (int cpus = 1; cpus <= 3; cpus++) {
		set_cpus(cpus);
		state = waiters = 0;
		number = 0;
		void *threads[THREADS];
		int selves[THREADS], writes = 0;
		for (int i = 0; i < THREADS; i++) {
			selves[i] = i;
			threads[i] = begin(write_and_read, &selves[i]);
			for (int round = 0; round < rounds; round++)
				writes += (round + i) % 3 == 0;
		}
		for (int i = 0; i < THREADS; i++)
			join(threads[i]);
		/* Each round writes, or reads and becomes a writer, or could not. */
		CHECK_INT(number, THREADS * rounds - state);
		CHECK(number >= writes);
		int held;
		rumpuser_rw_held(READER, rw, &held);
		CHECK_INT(held, 0);
		set_cpus(1);
	}
	rumpuser_rw_destroy(rw);
}

static void write_once(void *unused)
{
	(void)unused;
	victim = me();
	RELEASES(1, rumpuser_rw_enter(WRITER, rw));
	CHECK_INT(state, 1);
	state = 2;
	rumpuser_rw_exit(rw);
}

static void read_once(void *unused)
{
	(void)unused;
	rumpuser_rw_enter(READER, rw);
	waiters++;
	rumpuser_rw_exit(rw);
}

TEST(rwlock_writers_come_first)
{
	rumpuser_rw_init(&rw);
	victim = NULL;
	state = waiters = 0;
	RELEASES(0, rumpuser_rw_enter(READER, rw));
	CHECK_INT(rumpuser_rw_tryenter(READER, rw), 0);
	rumpuser_rw_exit(rw);
	CHECK_INT(rumpuser_rw_tryenter(WRITER, rw), E_BUSY);
	void *writer = begin(write_once, NULL);
	UNTIL(victim && victim->releases == 1);
	/* The writer is in its wait soon after it has released the CPU. */
	UNTIL(rumpuser_rw_tryenter(READER, rw) == E_BUSY ? true : (rumpuser_rw_exit(rw), false));
	void *reader = begin(read_once, NULL);
	for (int i = 0; i < 10; i++)
		pause_outside();
	CHECK_INT(waiters, 0);
	/* Neither an upgrade nor a downgrade lets the writer in between. */
	CHECK_INT(rumpuser_rw_tryupgrade(rw), 0);
	rumpuser_rw_downgrade(rw);
	for (int i = 0; i < 10; i++)
		pause_outside();
	CHECK_INT(state, 0);
	state = 1;
	rumpuser_rw_exit(rw);
	join(writer);
	join(reader);
	CHECK_INT(state, 2);
	CHECK_INT(waiters, 1);
	rumpuser_rw_destroy(rw);
}

/* A condition and its mutex, with these flags. */
static void make_condition(int flags)
{
	rumpuser_mutex_init(&mutex, flags);
	rumpuser_cv_init(&condition);
	state = waiters = 0;
}

static void unmake_condition(void)
{
	rumpuser_cv_destroy(condition);
	rumpuser_mutex_destroy(mutex);
}

static void wait_once(void *unused)
{
	(void)unused;
	me()->locks = 2;
	rumpuser_mutex_enter_nowrap(mutex);
	waiters++;
	while (!state)
		RELEASES(1, rumpuser_cv_wait(condition, mutex));
	struct lwp *owner;
	rumpuser_mutex_owner(mutex, &owner);
	CHECK(owner == me());
	waiters--;
	CHECK_INT(me()->locks, 2);
	me()->locks = 0;
	victim = me();
	rumpuser_mutex_exit(mutex);
	/* The case reads this thread's state before it ends. */
	UNTIL(victim == NULL);
}

/* The order of CPU and mutex after a wait, for each kind of mutex that says its owner. */
TEST(condition_order)
{
	for (int flags = OWNED; flags <= (SPIN | OWNED); flags++) {
		make_condition(flags);
		victim = NULL;
		void *thread = begin(wait_once, NULL);
		int waiting = 0;
		UNTIL((rumpuser_cv_has_waiters(condition, &waiting), waiting));
		CHECK_INT(waiting, 1);
		/* The waiting thread has released the mutex. */
		UNTIL(rumpuser_mutex_tryenter(mutex) == 0);
		state = 1;
		rumpuser_cv_signal(condition);
		rumpuser_mutex_exit(mutex);
		UNTIL(victim);
		/* With both flags, nobody holds the mutex when the CPU is asked for. */
		CHECK_INT(victim->had_mutex, flags == OWNED);
		victim = NULL;
		join(thread);
		rumpuser_cv_has_waiters(condition, &waiting);
		CHECK_INT(waiting, 0);
		unmake_condition();
	}
}

static void take_and_keep(void *unused)
{
	(void)unused;
	rumpuser_mutex_enter_nowrap(mutex);
	state = 1;
	rumpuser_cv_signal(condition);
	/* With the mutex held, the waiting thread gets no CPU: the mutex comes first. */
	for (int i = 0; i < 20; i++) {
		pause_outside();
		CHECK(!victim->runs);
	}
	rumpuser_mutex_exit(mutex);
}

static void wait_for_spin(void *unused)
{
	(void)unused;
	victim = me();
	rumpuser_mutex_enter(mutex);
	waiters = 1;
	while (!state)
		RELEASES(1, rumpuser_cv_wait(condition, mutex));
	rumpuser_mutex_exit(mutex);
}

TEST(condition_spin_takes_the_mutex_first)
{
	set_cpus(2);
	make_condition(SPIN);
	void *thread = begin(wait_for_spin, NULL);
	UNTIL(waiters && !victim->runs);
	void *other = begin(take_and_keep, NULL);
	join(other);
	join(thread);
	unmake_condition();
	set_cpus(1);
}

static void wait_for_cpu(void *unused)
{
	(void)unused;
	/* As the scheduler does it: the mutex is not held, and comes with the release of the CPU. */
	waiters = 1;
	while (!state)
		RELEASES(1, rumpuser_cv_wait(condition, scheduler_mutex));
}

TEST(condition_scheduler_mutex)
{
	rumpuser_cv_init(&condition);
	state = waiters = 0;
	void *thread = begin(wait_for_cpu, NULL);
	UNTIL(waiters);
	rumpuser_mutex_enter_nowrap(scheduler_mutex);
	state = 1;
	rumpuser_cv_broadcast(condition);
	rumpuser_mutex_exit(scheduler_mutex);
	/* A spin mutex is taken before the CPU: the wait leaves it held by nobody only if the scheduler gave it back. */
	join(thread);
	CHECK_INT(rumpuser_mutex_tryenter(scheduler_mutex), 0);
	rumpuser_mutex_exit(scheduler_mutex);
	rumpuser_cv_destroy(condition);
}

static void wait_nowrap(void *unused)
{
	(void)unused;
	victim = me();
	rumpuser_mutex_enter_nowrap(mutex);
	waiters = 1;
	while (!state)
		RELEASES(0, rumpuser_cv_wait_nowrap(condition, mutex));
	rumpuser_mutex_exit(mutex);
}

TEST(condition_nowrap_keeps_the_cpu)
{
	set_cpus(2);
	make_condition(SPIN);
	void *thread = begin(wait_nowrap, NULL);
	UNTIL(waiters);
	for (int i = 0; i < 20; i++) {
		pause_outside();
		CHECK(victim->runs);
	}
	rumpuser_mutex_enter(mutex);
	state = 1;
	rumpuser_cv_signal(condition);
	rumpuser_mutex_exit(mutex);
	join(thread);
	unmake_condition();
	set_cpus(1);
}

TEST(condition_timeout)
{
	make_condition(OWNED);
	rumpuser_mutex_enter(mutex);
	for (long nanoseconds = 0; nanoseconds <= 20000000; nanoseconds += 10000000) {
		int64_t s0, s1;
		long n0, n1;
		int error = 0;
		rumpuser_clock_gettime(1, &s0, &n0);
		RELEASES(1, error = rumpuser_cv_timedwait(condition, mutex, 0, nanoseconds));
		rumpuser_clock_gettime(1, &s1, &n1);
		CHECK_INT(error, E_TIMEDOUT);
		CHECK((s1 - s0) * 1000000000 + n1 - n0 >= nanoseconds);
		struct lwp *owner;
		rumpuser_mutex_owner(mutex, &owner);
		CHECK(owner == me());
	}
	int error = -1;
	RELEASES(1, error = rumpuser_cv_timedwait(condition, mutex, -5, 0));
	CHECK_INT(error, E_TIMEDOUT);
	int waiting;
	rumpuser_cv_has_waiters(condition, &waiting);
	CHECK_INT(waiting, 0);
	rumpuser_mutex_exit(mutex);
	unmake_condition();
}

/* Threads pass tokens on: each takes one and puts one back. Some wait with a deadline that never comes. */
static void pass_tokens(void *arg)
{
	int self = *(int *)arg;
	for (int i = 0; i < rounds; i++) {
		rumpuser_mutex_enter(mutex);
		while (number == 0) {
			if ((i + self) % 3)
				rumpuser_cv_wait(condition, mutex);
			else
				CHECK_INT(rumpuser_cv_timedwait(condition, mutex, 600, 0), 0);
		}
		number--;
		rumpuser_mutex_exit(mutex);
		if (i % 16 == self)
			pause_outside();
		rumpuser_mutex_enter(mutex);
		number++;
		if (i % 5)
			rumpuser_cv_signal(condition);
		rumpuser_mutex_exit(mutex);
		if (i % 5 == 0)
			rumpuser_cv_broadcast(condition);
	}
}

/* Not with spin mutexes alone: their waiters hold them before they have a CPU, so threads with a CPU must not wait. */
TEST(condition_no_lost_wakeups)
{
	for (int flags = OWNED; flags <= (SPIN | OWNED); flags++) {
		for (int cpus = 1; cpus <= 2; cpus++) {
			set_cpus(cpus);
			make_condition(flags);
			number = 1;
			void *threads[THREADS];
			int selves[THREADS];
			for (int i = 0; i < THREADS; i++) {
				selves[i] = i;
				threads[i] = begin(pass_tokens, &selves[i]);
			}
			for (int i = 0; i < THREADS; i++)
				join(threads[i]);
			CHECK_INT(number, 1);
			int waiting;
			rumpuser_cv_has_waiters(condition, &waiting);
			CHECK_INT(waiting, 0);
			unmake_condition();
			set_cpus(1);
		}
	}
}
