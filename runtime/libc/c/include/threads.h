// Threads of the C standard, with extensions of Zircon's library: initialisers, and threads with names.
#ifndef _THREADS_H
#define _THREADS_H

#include <features.h>
#include <time.h>

#define __NEED_cnd_t
#define __NEED_mtx_t
#include <bits/alltypes.h>

#ifdef __cplusplus
extern "C" {
typedef unsigned long thrd_t;
#else
typedef struct __pthread *thrd_t;
#define thread_local _Thread_local
#endif

// Results.
enum { thrd_success, thrd_busy, thrd_error, thrd_nomem, thrd_timedout };

typedef int (*thrd_start_t)(void *);

int thrd_create(thrd_t *, thrd_start_t, void *);
thrd_t thrd_current(void);
int thrd_detach(thrd_t);
int thrd_equal(thrd_t, thrd_t);
_Noreturn void thrd_exit(int);
int thrd_join(thrd_t, int *);
int thrd_sleep(const struct timespec *, struct timespec *);
void thrd_yield(void);

typedef int once_flag;
#define ONCE_FLAG_INIT 0

void call_once(once_flag *, void (*)(void));

// Types of mutexes. Every mutex supports timeouts; none is recursive.
enum { mtx_plain, mtx_recursive, mtx_timed };

int mtx_init(mtx_t *, int);
void mtx_destroy(mtx_t *);
int mtx_lock(mtx_t *);
int mtx_timedlock(mtx_t *__restrict, const struct timespec *__restrict);
int mtx_trylock(mtx_t *);
int mtx_unlock(mtx_t *);

int cnd_init(cnd_t *);
void cnd_destroy(cnd_t *);
int cnd_broadcast(cnd_t *);
int cnd_signal(cnd_t *);
int cnd_timedwait(cnd_t *__restrict, mtx_t *__restrict, const struct timespec *__restrict);
int cnd_wait(cnd_t *, mtx_t *);

typedef unsigned tss_t;
typedef void (*tss_dtor_t)(void *);
#define TSS_DTOR_ITERATIONS 4

int tss_create(tss_t *, tss_dtor_t);
void tss_delete(tss_t);
void *tss_get(tss_t);
int tss_set(tss_t, void *);

#if defined(_GNU_SOURCE) || defined(_BSD_SOURCE)
#define MTX_INIT {}
#define CND_INIT {}

// The kernel keeps the first 31 bytes of the name.
int thrd_create_with_name(thrd_t *, thrd_start_t, void *, const char *);
#endif

#ifdef __cplusplus
}
#endif

#endif
