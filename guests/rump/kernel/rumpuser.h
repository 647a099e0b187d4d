/*
 * The hypercall interface as the library has it: rumpuser(3), revision 17. Written from the interface's description.
 * Errors are NetBSD's numbers.
 */
#ifndef RUMPUSER_H
#define RUMPUSER_H

#include <stddef.h>
#include <stdint.h>

enum { REVISION = 17 };
enum { E_NOENT = 2, E_NXIO = 6, E_2BIG = 7, E_BADF = 9, E_NOMEM = 12, E_ACCES = 13, E_BUSY = 16, E_EXIST = 17,
       E_ISDIR = 21, E_INVAL = 22, E_TIMEDOUT = 60, E_NAMETOOLONG = 63, E_NOSYS = 78 };

struct lwp;
struct rumpuser_mtx;
struct rumpuser_rw;
struct rumpuser_cv;
struct piece {
	void *base;
	size_t len;
};

/* The calls into the kernel, in their order; eight more places follow in the kernel's structure. */
struct upcalls {
	void (*schedule)(void);
	void (*unschedule)(void);
	void (*backend_unschedule)(int, int *, void *);
	void (*backend_schedule)(int, void *);
	void (*lwproc_switch)(struct lwp *);
	void (*lwproc_release)(void);
	int (*lwproc_rfork)(void *, int, const char *);
	int (*lwproc_newlwp)(int);
	struct lwp *(*lwproc_curlwp)(void);
	int (*syscall)(int, void *, long *);
	void (*lwpexit)(void);
	void (*execnotify)(const char *);
	int (*getpid)(void);
	void *spare[8];
};

int rumpuser_init(int revision, const struct upcalls *upcalls);
int rumpuser_malloc(size_t len, int align, void **to);
void rumpuser_free(void *memory, size_t len);
int rumpuser_anonmmap(void *wanted, size_t len, int align_bit, int executable, void **to);
void rumpuser_unmap(void *address, size_t len);

enum { OPEN_READ = 0, OPEN_WRITE = 1, OPEN_BOTH = 2, OPEN_CREATE = 4, OPEN_EXCLUSIVE = 8, OPEN_BIO = 16 };
enum { BIO_READ = 1, BIO_WRITE = 2, BIO_SYNC = 4 };
typedef void done_function(void *arg, size_t bytes, int error);
int rumpuser_open(const char *name, int flags, int *fd);
int rumpuser_close(int fd);
int rumpuser_getfileinfo(const char *name, uint64_t *size, int *type);
void rumpuser_bio(int fd, int op, void *data, size_t len, int64_t offset, done_function *done, void *arg);
int rumpuser_iovread(int fd, struct piece *pieces, size_t count, int64_t offset, size_t *moved);
int rumpuser_iovwrite(int fd, const struct piece *pieces, size_t count, int64_t offset, size_t *moved);
int rumpuser_syncfd(int fd, int flags, uint64_t start, uint64_t len);

int rumpuser_clock_gettime(int clock, int64_t *seconds, long *nanoseconds);
int rumpuser_clock_sleep(int clock, int64_t seconds, long nanoseconds);
int rumpuser_getparam(const char *name, void *to, size_t len);
void rumpuser_seterrno(int error);
int rumpuser_kill(int64_t pid, int signal);
_Noreturn void rumpuser_exit(int value);
void rumpuser_putchar(int character);
void rumpuser_dprintf(const char *format, ...);
int rumpuser_getrandom(void *to, size_t len, int flags, size_t *got);

int rumpuser_thread_create(void *(*run)(void *), void *arg, const char *name, int joins, int priority, int cpu,
	void **cookie);
_Noreturn void rumpuser_thread_exit(void);
int rumpuser_thread_join(void *cookie);
enum { LWP_CREATE, LWP_DESTROY, LWP_SET, LWP_CLEAR };
void rumpuser_curlwpop(int operation, struct lwp *lwp);
struct lwp *rumpuser_curlwp(void);

enum { SPIN = 1, OWNED = 2 };
void rumpuser_mutex_init(struct rumpuser_mtx **to, int flags);
void rumpuser_mutex_enter(struct rumpuser_mtx *mutex);
void rumpuser_mutex_enter_nowrap(struct rumpuser_mtx *mutex);
int rumpuser_mutex_tryenter(struct rumpuser_mtx *mutex);
void rumpuser_mutex_exit(struct rumpuser_mtx *mutex);
void rumpuser_mutex_destroy(struct rumpuser_mtx *mutex);
void rumpuser_mutex_owner(struct rumpuser_mtx *mutex, struct lwp **to);

enum { READER, WRITER };
void rumpuser_rw_init(struct rumpuser_rw **to);
void rumpuser_rw_enter(int kind, struct rumpuser_rw *lock);
int rumpuser_rw_tryenter(int kind, struct rumpuser_rw *lock);
int rumpuser_rw_tryupgrade(struct rumpuser_rw *lock);
void rumpuser_rw_downgrade(struct rumpuser_rw *lock);
void rumpuser_rw_exit(struct rumpuser_rw *lock);
void rumpuser_rw_destroy(struct rumpuser_rw *lock);
void rumpuser_rw_held(int kind, struct rumpuser_rw *lock, int *held);

void rumpuser_cv_init(struct rumpuser_cv **to);
void rumpuser_cv_destroy(struct rumpuser_cv *condition);
void rumpuser_cv_wait(struct rumpuser_cv *condition, struct rumpuser_mtx *mutex);
void rumpuser_cv_wait_nowrap(struct rumpuser_cv *condition, struct rumpuser_mtx *mutex);
int rumpuser_cv_timedwait(struct rumpuser_cv *condition, struct rumpuser_mtx *mutex, int64_t seconds, int64_t nanoseconds);
void rumpuser_cv_signal(struct rumpuser_cv *condition);
void rumpuser_cv_broadcast(struct rumpuser_cv *condition);
void rumpuser_cv_has_waiters(struct rumpuser_cv *condition, int *waiters);

void rumpuser_dl_bootstrap(void *modules, void *symbols, void *components);
int rumpuser_daemonize_begin(void);
int rumpuser_daemonize_done(int error);
int rumpuser_sp_init(const char *url, const char *system, const char *release, const char *machine);
int rumpuser_sp_copyin(void *client, const void *from, void *to, size_t len);
int rumpuser_sp_copyinstr(void *client, const void *from, void *to, size_t *len);
int rumpuser_sp_copyout(void *client, const void *from, void *to, size_t len);
int rumpuser_sp_copyoutstr(void *client, const void *from, void *to, size_t *len);
int rumpuser_sp_anonmmap(void *client, size_t len, void **to);
int rumpuser_sp_raise(void *client, int signal);
void rumpuser_sp_fini(void *client);

/* The calls of the component shmif. */
int rumpcomp_shmif_watchsetup(int *watch, int fd);
int rumpcomp_shmif_watchwait(int watch);
int rumpcomp_shmif_mmap(int fd, size_t len, void **to);

#endif
