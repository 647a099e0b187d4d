/* Rump CPUs, threads and upcalls of the kernel for tests. CPUs are tokens, on locks of the C library. */
#include "kernel.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct rumpuser_mtx *scheduler_mutex;
atomic_int wrong_upcalls;

static pthread_mutex_t tokens_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t tokens_changed = PTHREAD_COND_INITIALIZER;
static int tokens;
/* All of them, with those in use. */
static int cpus;
static _Thread_local struct lwp *mine;

static void take_cpu(void)
{
	pthread_mutex_lock(&tokens_mutex);
	while (tokens <= 0)
		pthread_cond_wait(&tokens_changed, &tokens_mutex);
	tokens--;
	pthread_mutex_unlock(&tokens_mutex);
}

static void give_cpu(int count)
{
	pthread_mutex_lock(&tokens_mutex);
	tokens += count;
	pthread_cond_broadcast(&tokens_changed);
	pthread_mutex_unlock(&tokens_mutex);
}

void start_cpus(int count)
{
	tokens = cpus = count;
	rumpuser_mutex_init(&scheduler_mutex, SPIN);
}

void set_cpus(int count)
{
	pthread_mutex_lock(&tokens_mutex);
	/* A thread that the case has not waited for may still have one. */
	tokens += count - cpus;
	cpus = count;
	pthread_cond_broadcast(&tokens_changed);
	pthread_mutex_unlock(&tokens_mutex);
}

struct lwp *me(void)
{
	return mine;
}

static void run(struct lwp *lwp)
{
	CHECK(rumpuser_curlwp() == NULL);
	rumpuser_curlwpop(LWP_SET, lwp);
	CHECK(rumpuser_curlwp() == lwp);
	CHECK(!lwp->runs);
	lwp->runs = true;
}

static void stop(struct lwp *lwp)
{
	CHECK(rumpuser_curlwp() == lwp);
	rumpuser_curlwpop(LWP_CLEAR, lwp);
	CHECK(rumpuser_curlwp() == NULL);
	CHECK(lwp->runs);
	lwp->runs = false;
}

static void make_lwp(void)
{
	mine = calloc(1, sizeof *mine);
	rumpuser_curlwpop(LWP_CREATE, mine);
}

static void schedule(void)
{
	take_cpu();
	/* A thread that nobody has introduced gets a thread of the kernel for the visit. */
	if (!mine)
		make_lwp();
	run(mine);
}

static void unschedule(void)
{
	stop(mine);
	give_cpu(1);
}

static void backend_unschedule(int unused, int *locks, void *interlock)
{
	(void)unused;
	struct lwp *lwp = mine;
	lwp->told = *locks = lwp->locks;
	lwp->locks = 0;
	lwp->interlock = interlock;
	lwp->releases++;
	stop(lwp);
	if (interlock && interlock == scheduler_mutex)
		rumpuser_mutex_enter_nowrap(scheduler_mutex);
	give_cpu(1);
}

static void backend_schedule(int locks, void *interlock)
{
	struct lwp *lwp = mine;
	if (interlock && interlock == scheduler_mutex)
		rumpuser_mutex_exit(scheduler_mutex);
	/* If the mutex is free now, it is taken after the CPU. */
	else if (interlock) {
		struct lwp *owner;
		rumpuser_mutex_owner(interlock, &owner);
		lwp->had_mutex = owner == lwp;
	}
	take_cpu();
	CHECK_INT(locks, lwp->told);
	CHECK(interlock == lwp->interlock);
	lwp->locks = locks;
	run(lwp);
}

static int newlwp(int pid)
{
	CHECK_INT(pid, 0);
	CHECK(mine && mine->runs);
	return 0;
}

static void wrong(void)
{
	wrong_upcalls++;
}
static void wrong_switch(struct lwp *lwp)
{
	(void)lwp;
	wrong();
}
static int wrong_rfork(void *a, int b, const char *c)
{
	(void)a, (void)b, (void)c;
	wrong();
	return E_NOSYS;
}
static struct lwp *wrong_curlwp(void)
{
	wrong();
	return NULL;
}
static int wrong_syscall(int a, void *b, long *c)
{
	(void)a, (void)b, (void)c;
	wrong();
	return E_NOSYS;
}
static void wrong_exec(const char *name)
{
	(void)name;
	wrong();
}
static int wrong_getpid(void)
{
	wrong();
	return 0;
}

const struct upcalls upcalls = { schedule, unschedule, backend_unschedule, backend_schedule, wrong_switch, wrong,
	wrong_rfork, newlwp, wrong_curlwp, wrong_syscall, wrong, wrong_exec, wrong_getpid, { 0 } };

void enter_kernel(void)
{
	schedule();
}

void leave_kernel(void)
{
	unschedule();
	rumpuser_curlwpop(LWP_DESTROY, mine);
	free(mine);
	mine = NULL;
}

struct start {
	void (*run)(void *);
	void *arg;
	void *cookie;
};

static void *first(void *arg)
{
	struct start *start = arg;
	enter_kernel();
	start->run(start->arg);
	leave_kernel();
	rumpuser_thread_exit();
}

void *begin(void (*function)(void *), void *arg)
{
	struct start *start = calloc(1, sizeof *start);
	start->run = function;
	start->arg = arg;
	CHECK_INT(rumpuser_thread_create(first, start, "kernel", 1, -1, -1, &start->cookie), 0);
	return start;
}

void join(void *thread)
{
	struct start *start = thread;
	RELEASES(1, CHECK_INT(rumpuser_thread_join(start->cookie), 0));
	free(start);
}

void pause_inside(void)
{
	struct timespec millisecond = { 0, 1000000 };
	nanosleep(&millisecond, NULL);
}

void pause_outside(void)
{
	rumpuser_clock_sleep(0, 0, 1000000);
}
