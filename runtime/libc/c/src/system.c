// Information about the system, and about users, of which there are none.
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/times.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <zircon/process.h>
#include <zircon/syscalls.h>
#include "features.h"

hidden zx_duration_t __c_run_time_of_children(void);
hidden _Bool __c_kill_child(int pid, _Bool really);

int uname(struct utsname *out)
{
	zx_string_view_t version = zx_system_get_version_string();
	memset(out, 0, sizeof *out);
	strcpy(out->sysname, "Hafnon");
	gethostname(out->nodename, sizeof out->nodename);
	strcpy(out->release, "0.1.0");
	size_t length = version.length < sizeof out->version - 1 ? version.length : sizeof out->version - 1;
	memcpy(out->version, version.c_str, length);
	strcpy(out->machine, "x86_64");
	return 0;
}

int getrlimit(int resource, struct rlimit *out)
{
	if (resource < 0 || resource >= RLIM_NLIMITS) {
		errno = EINVAL;
		return -1;
	}
	rlim_t limit = RLIM_INFINITY;
	if (resource == RLIMIT_STACK)
		limit = 8 << 20;
	else if (resource == RLIMIT_NOFILE)
		limit = sysconf(_SC_OPEN_MAX);
	else if (resource == RLIMIT_CORE)
		limit = 0;
	*out = (struct rlimit){ limit, limit };
	return 0;
}

// Limits belong to jobs (HAFNON_PROP_JOB_MEMORY_LIMIT and others), not to processes: a limit can only be set to its own
// value.
int setrlimit(int resource, const struct rlimit *limit)
{
	struct rlimit now;
	if (getrlimit(resource, &now))
		return -1;
	if (limit->rlim_cur == now.rlim_cur && limit->rlim_max == now.rlim_max)
		return 0;
	errno = limit->rlim_cur > limit->rlim_max ? EINVAL : limit->rlim_max > now.rlim_max ? EPERM : ENOSYS;
	return -1;
}

static struct timeval as_timeval(zx_duration_t time)
{
	return (struct timeval){ time / 1000000000, time / 1000 % 1000000 };
}

// Only the run time of a task is known.
int getrusage(int who, struct rusage *out)
{
	memset(out, 0, sizeof *out);
	if (who == RUSAGE_CHILDREN) {
		out->ru_utime = as_timeval(__c_run_time_of_children());
		return 0;
	}
	if (who != RUSAGE_SELF && who != RUSAGE_THREAD) {
		errno = EINVAL;
		return -1;
	}
	zx_info_task_runtime_t info;
	zx_handle_t task = who == RUSAGE_THREAD ? zx_thread_self() : zx_process_self();
	if (zx_object_get_info(task, ZX_INFO_TASK_RUNTIME, &info, sizeof info, 0, 0) != ZX_OK) {
		errno = ENOSYS;
		return -1;
	}
	out->ru_utime = as_timeval(info.cpu_time);
	return 0;
}

// The run time of another process can be read through its handle (ZX_INFO_TASK_RUNTIME).
int clock_getcpuclockid(pid_t pid, clockid_t *out)
{
	if (pid && pid != getpid())
		return EPERM;
	*out = CLOCK_PROCESS_CPUTIME_ID;
	return 0;
}

clock_t times(struct tms *out)
{
	struct rusage usage;
	memset(out, 0, sizeof *out);
	if (!getrusage(RUSAGE_SELF, &usage))
		out->tms_utime = usage.ru_utime.tv_sec * 1000000 + usage.ru_utime.tv_usec;
	if (!getrusage(RUSAGE_CHILDREN, &usage))
		out->tms_cutime = usage.ru_utime.tv_sec * 1000000 + usage.ru_utime.tv_usec;
	return zx_clock_get_monotonic() / 1000;
}

// That a user does not exist is not an error.
static int nobody(void **result)
{
	*result = 0;
	return 0;
}

struct passwd *getpwnam(const char *name) { return 0; }
struct passwd *getpwuid(uid_t uid) { return 0; }
struct passwd *getpwent(void) { return 0; }
void setpwent(void) {}
void endpwent(void) {}
struct group *getgrnam(const char *name) { return 0; }
struct group *getgrgid(gid_t gid) { return 0; }
struct group *getgrent(void) { return 0; }
void setgrent(void) {}
void endgrent(void) {}

int getpwnam_r(const char *name, struct passwd *entry, char *buffer, size_t size, struct passwd **result)
{
	return nobody((void **)result);
}

int getpwuid_r(uid_t uid, struct passwd *entry, char *buffer, size_t size, struct passwd **result)
{
	return nobody((void **)result);
}

int getgrnam_r(const char *name, struct group *entry, char *buffer, size_t size, struct group **result)
{
	return nobody((void **)result);
}

int getgrgid_r(gid_t gid, struct group *entry, char *buffer, size_t size, struct group **result)
{
	return nobody((void **)result);
}

char *getlogin(void)
{
	errno = ENXIO;
	return 0;
}

int getlogin_r(char *name, size_t size)
{
	return ENXIO;
}

int getresuid(uid_t *real, uid_t *effective, uid_t *saved)
{
	*real = *effective = *saved = 0;
	return 0;
}

int getresgid(gid_t *real, gid_t *effective, gid_t *saved)
{
	*real = *effective = *saved = 0;
	return 0;
}

int getgroups(int size, gid_t list[])
{
	return 0;
}

// A user's only group is the one in the argument.
int getgrouplist(const char *user, gid_t group, gid_t *groups, int *count)
{
	int room = *count;
	*count = 1;
	if (room < 1)
		return -1;
	*groups = group;
	return 1;
}

// Each process is its own process group and session.
pid_t getpgrp(void) { return getpid(); }
pid_t getpgid(pid_t pid)
{
	if (!pid || pid == getpid() || __c_kill_child(pid, 0))
		return pid ? pid : getpid();
	errno = ESRCH;
	return -1;
}

pid_t getsid(pid_t pid) { return getpgid(pid); }

// A shared mapping is the file's own memory, so nothing needs to be written back.
int msync(void *address, size_t size, int flags)
{
	if ((uintptr_t)address % 4096 || flags & ~(MS_ASYNC | MS_SYNC | MS_INVALIDATE) || (flags & MS_ASYNC && flags & MS_SYNC)) {
		errno = EINVAL;
		return -1;
	}
	return 0;
}

// POSIX's advice never changes memory; POSIX_MADV_DONTNEED does not either.
int posix_madvise(void *address, size_t size, int advice)
{
	return advice < POSIX_MADV_NORMAL || advice > POSIX_MADV_DONTNEED || (uintptr_t)address % 4096 ? EINVAL : 0;
}
