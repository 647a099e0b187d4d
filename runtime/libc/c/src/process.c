// Starting programs and waiting for them, on top of fdio_spawn_etc: posix_spawn, system, wait and waitpid.
//
// Processes have no process IDs here; a parent keeps a child's handle. A child's pid is the low bits of its koid, and
// the table below maps it to the handle. fork and exec do not exist.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <lib/fdio/spawn.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zircon/process.h>
#include <zircon/syscalls.h>
#include "../process/fdop.h"
#include "lock.h"
#include "pthread_impl.h"
#include "syscall.h"
#undef malloc
#undef calloc
#undef realloc
#undef free

struct child {
	pid_t pid;
	zx_handle_t process;
	// It had ended before the program began to ignore ends of children.
	_Bool stays;
	// Of system, which alone waits for it.
	_Bool own;
};

static volatile int lock[1];
static struct child *children;
static size_t count, room;
// The program ignores ends of children (SIG_IGN or SA_NOCLDWAIT for SIGCHLD).
static _Bool ignores;
// Total run time of children that have been waited for.
static zx_duration_t run_time;

// Lets SIGCHLD be delivered for a child.
void __libc_child_started(zx_handle_t process);

hidden zx_duration_t __c_run_time_of_children(void)
{
	LOCK(lock);
	zx_duration_t time = run_time;
	UNLOCK(lock);
	return time;
}

static int has_ended(zx_handle_t process)
{
	zx_signals_t seen = 0;
	return zx_object_wait_one(process, ZX_TASK_TERMINATED, 0, &seen) == ZX_OK;
}

// Forgets the children whose ends the program ignores. The caller has the lock.
static void forget_ignored(void)
{
	for (size_t i = 0; ignores && i < count;) {
		if (!children[i].stays && !children[i].own && has_ended(children[i].process)) {
			zx_handle_close(children[i].process);
			children[i] = children[--count];
		} else {
			i++;
		}
	}
}

// The program begins or ceases to ignore ends of children.
hidden void __c_ignore_children(_Bool now)
{
	LOCK(lock);
	forget_ignored();
	for (size_t i = 0; i < count && now && !ignores; i++)
		children[i].stays = has_ended(children[i].process);
	ignores = now;
	UNLOCK(lock);
}

static pid_t remember(zx_handle_t process, _Bool own)
{
	zx_info_handle_basic_t info;
	if (zx_object_get_info(process, ZX_INFO_HANDLE_BASIC, &info, sizeof info, 0, 0) != ZX_OK)
		return -1;
	pid_t pid = info.koid & INT_MAX;
	LOCK(lock);
	forget_ignored();
	if (count == room) {
		struct child *more = realloc(children, (room + 16) * sizeof *more);
		if (!more) {
			UNLOCK(lock);
			return -1;
		}
		children = more;
		room += 16;
	}
	children[count++] = (struct child){ pid, process, 0, own };
	UNLOCK(lock);
	return pid;
}

// What waitpid says of a return code.
hidden int __c_wait_status(int64_t code)
{
	// Zircon's return codes of processes that were killed.
	if (code == ZX_TASK_RETCODE_EXCEPTION_KILL)
		return SIGABRT;
	if (code <= ZX_TASK_RETCODE_SYSCALL_KILL && code >= ZX_TASK_RETCODE_CRITICAL_PROCESS_KILL)
		return SIGKILL;
	return (code & 0xff) << 8;
}

// Reads an ended child's result and, unless it is to stay, removes the child from the table.
static int reap(size_t index, int *status, struct rusage *usage, int stays)
{
	struct child child = children[index];
	zx_info_process_t info = { 0 };
	zx_info_task_runtime_t ran = { 0 };
	zx_object_get_info(child.process, ZX_INFO_PROCESS, &info, sizeof info, 0, 0);
	zx_object_get_info(child.process, ZX_INFO_TASK_RUNTIME, &ran, sizeof ran, 0, 0);
	if (usage)
		*usage = (struct rusage){ .ru_utime = { ran.cpu_time / 1000000000, ran.cpu_time / 1000 % 1000000 } };
	if (!stays) {
		run_time += ran.cpu_time;
		zx_handle_close(child.process);
		children[index] = children[--count];
	}
	if (status)
		*status = __c_wait_status(info.return_code);
	return child.pid;
}

// Children of both kinds, also those of this thread alone: there is one kind, and each thread may wait for all.
#define OF_ALL_KINDS (__WALL | __WNOTHREAD)

// Of a child's resource usage, only the run time is known. No child stops, so WUNTRACED and WCONTINUED change nothing.
static pid_t wait_for(pid_t pid, int *status, int options, struct rusage *usage)
{
	if (usage)
		memset(usage, 0, sizeof *usage);
	if (pid == INT_MIN) {
		errno = ESRCH;
		return -1;
	}
	// Each child is a group of its own. A program that waits for this process's group has not put its children into
	// others, so it means all of them.
	if (!pid || (pid < -1 && pid == -getpid()))
		pid = -1;
	else if (pid < -1)
		pid = -pid;
	pthread_testcancel();
	for (;;) {
		zx_wait_item_t items[ZX_WAIT_MANY_MAX_ITEMS];
		size_t waiting = 0;
		_Bool more = 0;
		LOCK(lock);
		forget_ignored();
		for (size_t i = 0; i < count; i++) {
			if (pid > 0 ? children[i].pid != pid : children[i].own)
				continue;
			// One that is ignored and has ended since then is forgotten in the next round.
			if ((!ignores || children[i].stays || children[i].own) && has_ended(children[i].process)) {
				pid = reap(i, status, usage, options & WNOWAIT);
				UNLOCK(lock);
				return pid;
			}
			if (waiting < ZX_WAIT_MANY_MAX_ITEMS)
				items[waiting++] = (zx_wait_item_t){ children[i].process, ZX_TASK_TERMINATED, 0 };
			else
				more = 1;
		}
		UNLOCK(lock);
		if (!waiting) {
			errno = ECHILD;
			return -1;
		}
		if (options & WNOHANG)
			return 0;
		// If there are more children than one call can wait for, poll the others every 10 ms.
		zx_time_t until = more ? zx_clock_get_monotonic() + 10000000 : ZX_TIME_INFINITE;
		// If another thread reaps a child meanwhile and closes its handle, the wait ends.
		__libc_wait((uintptr_t)zx_object_wait_many, (uintptr_t)items, waiting, until, 0);
		pthread_testcancel();
	}
}

pid_t wait4(pid_t pid, int *status, int options, struct rusage *usage)
{
	if (options & ~(WNOHANG | WUNTRACED | WCONTINUED | OF_ALL_KINDS)) {
		errno = EINVAL;
		return -1;
	}
	return wait_for(pid, status, options, usage);
}

// Only for the end of children: none stops.
int waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
	pid_t pid = type == P_ALL ? -1 : type == P_PGID ? -(pid_t)id : (pid_t)id;
	if (options & ~(WNOHANG | WNOWAIT | WEXITED | WSTOPPED | WCONTINUED | OF_ALL_KINDS) || !(options & WEXITED)
		|| (type != P_ALL && type != P_PID && type != P_PGID) || (type == P_PID && pid <= 0) || (type == P_PGID && pid > 0)) {
		errno = EINVAL;
		return -1;
	}
	if (type == P_PGID && pid == -1) {
		// The group of process 1, which is no child.
		errno = ECHILD;
		return -1;
	}
	int status = 0;
	pid = wait_for(pid, &status, options, 0);
	if (pid < 0)
		return -1;
	if (!info)
		return 0;
	memset(info, 0, sizeof *info);
	if (pid) {
		info->si_signo = SIGCHLD;
		info->si_code = WIFEXITED(status) ? CLD_EXITED : CLD_KILLED;
		info->si_pid = pid;
		info->si_status = WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status);
	}
	return 0;
}

pid_t waitpid(pid_t pid, int *status, int options)
{
	return wait4(pid, status, options, 0);
}

pid_t wait(int *status)
{
	return waitpid(-1, status, 0);
}

pid_t wait3(int *status, int options, struct rusage *usage)
{
	return wait4(-1, status, options, usage);
}

hidden long __on_SYS_wait4(pid_t pid, int *status, int options, void *usage)
{
	pid = waitpid(pid, status, options);
	return pid < 0 ? -errno : pid;
}

hidden _Bool __c_kill_child(int pid, _Bool really)
{
	_Bool found = 0;
	LOCK(lock);
	forget_ignored();
	for (size_t i = 0; i < count && !found; i++) {
		found = children[i].pid == pid;
		if (found && really)
			zx_task_kill(children[i].process);
	}
	UNLOCK(lock);
	return found;
}

static int error_of(zx_status_t status)
{
	switch (status) {
	case ZX_ERR_NOT_FOUND: return ENOENT;
	case ZX_ERR_NO_MEMORY: return ENOMEM;
	case ZX_ERR_ACCESS_DENIED: return EACCES;
	case ZX_ERR_NOT_FILE: return EACCES;
	case ZX_ERR_BAD_HANDLE: return EBADF;
	case ZX_ERR_INVALID_ARGS: return ENOEXEC;
	case ZX_ERR_NOT_SUPPORTED: return ENOTSUP;
	default: return EIO;
	}
}

// The child's descriptors while the file actions are performed: for each, the descriptor of this process that it
// copies, or -1.
struct table {
	int of[256];
	// Descriptors that file actions opened and that must be closed afterwards.
	int opened[256];
	int opened_count;
};

static int play(struct table *table, const struct fdop *op)
{
	switch (op->cmd) {
	case FDOP_CLOSE:
		if (op->fd >= 0 && op->fd < 256)
			table->of[op->fd] = -1;
		return 0;
	case FDOP_DUP2:
		if (op->srcfd < 0 || op->srcfd >= 256 || op->fd < 0 || op->fd >= 256)
			return EBADF;
		// A descriptor that would be closed in the child can still be copied, as POSIX demands.
		if (table->of[op->srcfd] < 0) {
			if (fcntl(op->srcfd, F_GETFD) < 0)
				return EBADF;
			table->of[op->fd] = op->srcfd;
		} else {
			table->of[op->fd] = table->of[op->srcfd];
		}
		return 0;
	case FDOP_OPEN: {
		if (op->fd < 0 || op->fd >= 256 || table->opened_count == 256)
			return EBADF;
		int fd = open(op->path, op->oflag | O_CLOEXEC, op->mode);
		if (fd < 0)
			return errno;
		table->opened[table->opened_count++] = fd;
		table->of[op->fd] = fd;
		return 0;
	}
	default:
		// The child always starts in its parent's working directory.
		return ENOTSUP;
	}
}

// Attributes of every child: its parent's user, all signals at their defaults and unblocked, its own process group and
// session, and the only scheduling policy (attributes cannot hold another). A request for these attributes succeeds; a
// request for others fails.
static int allowed(const posix_spawnattr_t *attributes)
{
	if (!attributes)
		return 0;
	int flags = attributes->__flags;
	const sigset_t *mask = &attributes->__mask;
	if (flags & POSIX_SPAWN_SETPGROUP && attributes->__pgrp)
		return ENOTSUP;
	if (flags & POSIX_SPAWN_SETSIGMASK && !sigisemptyset(mask))
		return ENOTSUP;
	return 0;
}

static int spawn(pid_t *restrict out, const char *restrict path, const posix_spawn_file_actions_t *actions,
	const posix_spawnattr_t *restrict attributes, char *const argv[restrict], char *const envp[restrict], _Bool own)
{
	if (!fdio_spawn_etc)
		return ENOSYS;
	int refused = allowed(attributes);
	if (refused)
		return refused;
	struct table *table = malloc(sizeof *table);
	fdio_spawn_action_t *gifts = malloc(256 * sizeof *gifts);
	int error = table && gifts ? 0 : ENOMEM;
	if (!error) {
		table->opened_count = 0;
		for (int fd = 0; fd < 256; fd++) {
			int flags = fcntl(fd, F_GETFD);
			table->of[fd] = flags >= 0 && !(flags & FD_CLOEXEC) ? fd : -1;
		}
	}
	if (!error && actions && actions->__actions) {
		// The list's last entry is the first that was added.
		const struct fdop *op = actions->__actions;
		while (op->next)
			op = op->next;
		for (; op && !error; op = op->prev)
			error = play(table, op);
	}
	if (!error) {
		size_t given = 0;
		for (int fd = 0; fd < 256; fd++) {
			if (table->of[fd] >= 0)
				gifts[given++] = (fdio_spawn_action_t){ .action = FDIO_SPAWN_ACTION_CLONE_FD,
					.fd = { table->of[fd], fd } };
		}
		// Its SIGCHLD comes when waitpid knows it.
		uint32_t flags = HAFNON_FDIO_SPAWN_UNTOLD
			| (FDIO_SPAWN_CLONE_ALL & ~(FDIO_SPAWN_CLONE_STDIO | FDIO_SPAWN_CLONE_ENVIRON));
		char *const none[] = { 0 };
		zx_handle_t process;
		zx_status_t status = fdio_spawn_etc(0, flags, path, (const char *const *)argv,
			(const char *const *)(envp ? envp : none), given, gifts, &process, 0);
		error = status == ZX_OK ? 0 : error_of(status);
		if (!error) {
			// Another thread may wait for the child, and close its handle, as soon as it is known.
			zx_handle_t told = ZX_HANDLE_INVALID;
			zx_handle_duplicate(process, ZX_RIGHT_SAME_RIGHTS, &told);
			pid_t pid = told ? remember(process, own) : -1;
			if (pid < 0) {
				// A child that nobody can wait for.
				zx_task_kill(process);
				zx_handle_close(process);
				error = ENOMEM;
			} else {
				if (out)
					*out = pid;
				// As in POSIX, system's caller gets no signal for its child.
				if (!own)
					__libc_child_started(told);
			}
			zx_handle_close(told);
		}
	}
	for (int i = 0; table && i < table->opened_count; i++)
		close(table->opened[i]);
	free(gifts);
	free(table);
	return error;
}

// No cancellation point: it opens and closes files, and the caller must learn of a child that runs.
int posix_spawn(pid_t *restrict out, const char *restrict path, const posix_spawn_file_actions_t *actions,
	const posix_spawnattr_t *restrict attributes, char *const argv[restrict], char *const envp[restrict])
{
	unsigned old = __cancel_off();
	int error = spawn(out, path, actions, attributes, argv, envp, 0);
	__cancel_on(old);
	return error;
}

int posix_spawnp(pid_t *restrict out, const char *restrict file, const posix_spawn_file_actions_t *actions,
	const posix_spawnattr_t *restrict attributes, char *const argv[restrict], char *const envp[restrict])
{
	if (strchr(file, '/'))
		return posix_spawn(out, file, actions, attributes, argv, envp);
	const char *next = getenv("PATH");
	if (!next)
		next = "/boot/bin";
	int error = ENOENT;
	while (next) {
		size_t length = strcspn(next, ":");
		char path[PATH_MAX];
		if (length + strlen(file) + 2 <= sizeof path) {
			memcpy(path, next, length);
			strcpy(path + length, length ? "/" : "./");
			strcat(path, file);
			int found = posix_spawn(out, path, actions, attributes, argv, envp);
			if (found != ENOENT && found != EACCES)
				return found;
			if (found == EACCES)
				error = EACCES;
		}
		next = next[length] ? next + length + 1 : 0;
	}
	return error;
}

static void end_child(void *pid)
{
	if (__c_kill_child(*(pid_t *)pid, 1))
		waitpid(*(pid_t *)pid, 0, 0);
}

// A thread that is cancelled in it ends the child, which nothing else waits for. POSIX blocks SIGCHLD meanwhile, so that a
// handler does not take the child; but that would block it for all threads. So other waits pass over this child.
int system(const char *command)
{
	if (!command)
		return access && !access("/boot/bin/sh", X_OK);
	char *const argv[] = { "sh", "-c", (char *)command, 0 };
	pid_t pid;
	unsigned old = __cancel_off();
	int status = spawn(&pid, "/bin/sh", 0, 0, argv, __environ, 1);
	__cancel_on(old);
	if (status) {
		errno = status;
		return -1;
	}
	pthread_cleanup_push(end_child, &pid);
	if (waitpid(pid, &status, 0) < 0)
		status = -1;
	pthread_cleanup_pop(0);
	return status;
}
