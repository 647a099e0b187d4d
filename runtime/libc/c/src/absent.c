// Functions of POSIX and Linux that no process can perform here: each fails at once with an error.
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <sys/stat.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define ABSENT(error, result, function, ...) \
	result function(__VA_ARGS__)         \
	{                                    \
		errno = error;               \
		return (result)-1;           \
	}

// A process starts with one program (posix_spawn) and runs it until it ends.
ABSENT(ENOSYS, pid_t, fork, void)
ABSENT(ENOSYS, pid_t, _Fork, void)
ABSENT(ENOSYS, pid_t, vfork, void)
ABSENT(ENOSYS, int, execve, const char *path, char *const argv[], char *const envp[])
ABSENT(ENOSYS, int, fexecve, int fd, char *const argv[], char *const envp[])
ABSENT(ENOSYS, int, daemon, int here, int open)
// Process groups and sessions; there is no controlling terminal.
ABSENT(ENOSYS, pid_t, setsid, void)
ABSENT(ENOSYS, int, setpgid, pid_t pid, pid_t group)
ABSENT(ENOSYS, pid_t, setpgrp, void)
ABSENT(ENOTTY, pid_t, tcgetpgrp, int fd)
ABSENT(ENOTTY, int, tcsetpgrp, int fd, pid_t group)
// Users.
ABSENT(ENOSYS, int, setuid, uid_t id)
ABSENT(ENOSYS, int, setgid, gid_t id)
ABSENT(ENOSYS, int, seteuid, uid_t id)
ABSENT(ENOSYS, int, setegid, gid_t id)
ABSENT(ENOSYS, int, setreuid, uid_t real, uid_t effective)
ABSENT(ENOSYS, int, setregid, gid_t real, gid_t effective)
ABSENT(ENOSYS, int, setresuid, uid_t real, uid_t effective, uid_t saved)
ABSENT(ENOSYS, int, setresgid, gid_t real, gid_t effective, gid_t saved)
ABSENT(ENOSYS, int, setgroups, size_t count, const gid_t list[])
ABSENT(ENOSYS, int, initgroups, const char *name, gid_t group)
ABSENT(EPERM, int, sethostname, const char *name, size_t size)
ABSENT(ENOSYS, int, chroot, const char *path)
// Timers that send signals, and waiting for signals.
ABSENT(ENOSYS, int, setitimer, int which, const struct itimerval *restrict wanted, struct itimerval *restrict old)
ABSENT(ENOSYS, int, getitimer, int which, struct itimerval *out)
ABSENT(ENOSYS, int, timer_create, clockid_t clock, struct sigevent *restrict event, timer_t *restrict out)
ABSENT(ENOSYS, int, timer_delete, timer_t timer)
ABSENT(ENOSYS, int, timer_settime, timer_t timer, int flags, const struct itimerspec *restrict wanted, struct itimerspec *restrict old)
ABSENT(ENOSYS, int, timer_gettime, timer_t timer, struct itimerspec *out)
ABSENT(ENOSYS, int, timer_getoverrun, timer_t timer)
ABSENT(ENOSYS, int, killpg, pid_t group, int signal)
ABSENT(ENOSYS, int, sigqueue, pid_t pid, int signal, const union sigval value)
ABSENT(ENOSYS, int, pause, void)
ABSENT(ENOSYS, int, sigsuspend, const sigset_t *mask)
ABSENT(ENOSYS, int, sigwaitinfo, const sigset_t *restrict set, siginfo_t *restrict info)
ABSENT(ENOSYS, int, sigtimedwait, const sigset_t *restrict set, siginfo_t *restrict info, const struct timespec *restrict until)
// Only a program with the clock's handle can set the UTC clock (zx_clock_update).
ABSENT(EPERM, int, clock_settime, clockid_t clock, const struct timespec *time)
ABSENT(EPERM, int, settimeofday, const struct timeval *time, const struct timezone *zone)
ABSENT(EPERM, int, adjtime, const struct timeval *by, struct timeval *old)
ABSENT(ENOSYS, int, getloadavg, double list[], int count)
ABSENT(ENOSYS, int, getpriority, int which, id_t who)
ABSENT(ENOSYS, int, setpriority, int which, id_t who, int priority)
ABSENT(ENOSYS, int, nice, int more)
ABSENT(ENOSYS, int, sched_rr_get_interval, pid_t pid, struct timespec *out)
// Memory is never paged out, and cannot be locked.
ABSENT(ENOSYS, int, mlock, const void *address, size_t size)
ABSENT(ENOSYS, int, munlock, const void *address, size_t size)
ABSENT(ENOSYS, int, mlockall, int flags)
ABSENT(ENOSYS, int, munlockall, void)
ABSENT(ENOSYS, void *, mremap, void *old, size_t old_size, size_t new_size, int flags, ...)
ABSENT(ENOSYS, int, memfd_create, const char *name, unsigned flags)
ABSENT(ENOSYS, int, sem_close, sem_t *semaphore)
ABSENT(ENOSYS, int, sem_unlink, const char *name)
// Pseudo-terminals, and nodes other than files and directories.
ABSENT(ENOSYS, int, posix_openpt, int flags)
ABSENT(ENOSYS, int, grantpt, int fd)
ABSENT(ENOSYS, int, unlockpt, int fd)
ABSENT(EOPNOTSUPP, int, mkfifoat, int at, const char *path, mode_t mode)
ABSENT(EOPNOTSUPP, int, mknodat, int at, const char *path, mode_t mode, dev_t device)
ABSENT(ENOMEM, int, brk, void *end)
ABSENT(ENOMEM, void *, sbrk, intptr_t more)

sem_t *sem_open(const char *name, int flags, ...)
{
	errno = ENOSYS;
	return SEM_FAILED;
}

int sigwait(const sigset_t *restrict set, int *restrict out)
{
	return ENOSYS;
}

// There are no alarms.
unsigned alarm(unsigned seconds)
{
	errno = ENOSYS;
	return 0;
}

char *ptsname(int fd)
{
	errno = ENOTTY;
	return 0;
}

int ptsname_r(int fd, char *name, size_t size)
{
	return ENOTTY;
}

char *ttyname(int fd)
{
	errno = ENOTTY;
	return 0;
}

int ttyname_r(int fd, char *name, size_t size)
{
	return ENOTTY;
}

// No path leads to a terminal.
char *ctermid(char *out)
{
	static char none[1];
	if (!out)
		return none;
	*out = 0;
	return out;
}
