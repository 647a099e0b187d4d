// spawn.h, sys/wait.h, and ends of processes: the cases start this program again with arguments that say what to do.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/times.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zircon/assert.h>
#include "check.h"

extern char **environ;
extern const char *program;

int without_code(void);
int cancelled_exit(int code);
int cancel_without_handles(void);

static void *read_for_ever(void *unused)
{
	getchar();
	return unused;
}

// Runs when a case starts this program.
int child(int argc, char **argv)
{
	if (!strcmp(argv[0], "exit"))
		return atoi(argv[1]);
	if (!strcmp(argv[0], "abort")) {
		printf("a line\nand half of one");
		abort();
	}
	if (!strcmp(argv[0], "panic")) {
		printf("half a line");
		ZX_ASSERT(argc == 2);
		ZX_ASSERT_MSG(argc != 2, "there is %s", argv[1]);
	}
	if (!strcmp(argv[0], "compute")) {
		// Long enough to be measured.
		while (clock() < atol(argv[1]))
			;
		return 0;
	}
	if (!strcmp(argv[0], "without-code"))
		return without_code();
	if (!strcmp(argv[0], "sleep"))
		return sleep(argc > 1 ? atoi(argv[1]) : 100);
	if (!strcmp(argv[0], "cancel-without-handles"))
		return cancel_without_handles();
	if (!strcmp(argv[0], "cancelled-exit"))
		return cancelled_exit(atoi(argv[1]));
	if (!strcmp(argv[0], "shm")) {
		int fd = shm_open(argv[1], O_RDWR, 0);
		int *map = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		return map == MAP_FAILED ? 1 : (map[1024] += 2) != 42;
	}
	if (!strcmp(argv[0], "raise"))
		return raise(atoi(argv[1]));
	if (!strcmp(argv[0], "getpid")) {
		printf("%d", getpid());
		return 0;
	}
	if (!strcmp(argv[0], "print")) {
		// The output is not flushed here: exit does it.
		printf("%s from %s", argv[1], getenv("WHO"));
		return 0;
	}
	if (!strcmp(argv[0], "cat")) {
		int c;
		while ((c = getchar()) != EOF)
			putchar(c);
		return 0;
	}
	if (!strcmp(argv[0], "wait")) {
		// The process ends while one of its threads waits for input.
		pthread_t thread;
		pthread_create(&thread, 0, read_for_ever, 0);
		usleep(20000);
		printf("not lost");
		return 5;
	}
	return 99;
}

static int start_with(pid_t *pid, const char *what, const char *argument, const posix_spawn_file_actions_t *actions,
	const posix_spawnattr_t *attributes)
{
	char *const argv[] = { (char *)program, "--child", (char *)what, (char *)argument, 0 };
	char *const envp[] = { "WHO=me", 0 };
	return posix_spawn(pid, program, actions, attributes, argv, envp);
}

static pid_t start(const char *what, const char *argument, const posix_spawn_file_actions_t *actions)
{
	pid_t pid = -1;
	int error = start_with(&pid, what, argument, actions, 0);
	if (error)
		fail(__FILE__, __LINE__, "%s: %s", program, strerror(error));
	return pid;
}

TEST(spawn_exit_codes)
{
	int status;
	pid_t pid = start("exit", "7", 0);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 7);
	errno = 0;
	CHECK(waitpid(pid, &status, 0) == -1 && errno == ECHILD);
	pid = start("raise", "15", 0);
	CHECK(wait(&status) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 128 + 15);
	pid = start("sleep", 0, 0);
	CHECK(waitpid(pid, &status, WNOHANG) == 0 && !kill(pid, SIGKILL));
	CHECK(waitpid(-1, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	CHECK(posix_spawn(&pid, "/boot/none", 0, 0, (char *const[]){ "none", 0 }, environ) == ENOENT);
}

TEST(cancel_of_exit)
{
	int status;
	pid_t pid = start("cancelled-exit", "3", 0);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

// A child knows itself by the number by which its parent knows it.
TEST(spawn_pid)
{
	int ends[2], status;
	char text[64] = "", number[64];
	posix_spawn_file_actions_t actions;
	CHECK(!pipe2(ends, O_CLOEXEC) && !posix_spawn_file_actions_init(&actions));
	CHECK(!posix_spawn_file_actions_adddup2(&actions, ends[1], 1));
	pid_t pid = start("getpid", 0, &actions);
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	CHECK(read(ends[0], text, sizeof text - 1) > 0);
	snprintf(number, sizeof number, "%d", pid);
	CHECK_STR(text, number);
	CHECK(pid != getpid());
	close(ends[0]);
	close(ends[1]);
	posix_spawn_file_actions_destroy(&actions);
}

TEST(spawn_descriptors)
{
	int ends[2];
	char text[64] = "";
	posix_spawn_file_actions_t actions;
	CHECK(!pipe2(ends, O_CLOEXEC) && !posix_spawn_file_actions_init(&actions));
	CHECK(!posix_spawn_file_actions_adddup2(&actions, ends[1], 1) && !posix_spawn_file_actions_addclose(&actions, ends[0]));
	pid_t pid = start("print", "greetings", &actions);
	close(ends[1]);
	FILE *in = fdopen(ends[0], "r");
	CHECK(fgets(text, sizeof text, in) != 0);
	CHECK_STR(text, "greetings from me");
	fclose(in);
	int status;
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	posix_spawn_file_actions_destroy(&actions);
}

TEST(stdio_lines_come_at_once)
{
	int out[2], status;
	char text[64] = "";
	posix_spawn_file_actions_t actions;
	CHECK(!pipe2(out, O_CLOEXEC) && !posix_spawn_file_actions_init(&actions));
	posix_spawn_file_actions_adddup2(&actions, out[1], 1);
	pid_t pid = start("abort", 0, &actions);
	posix_spawn_file_actions_destroy(&actions);
	close(out[1]);
	CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	CHECK(read(out[0], text, sizeof text - 1) > 0);
	CHECK_STR(text, "a line\n");
	close(out[0]);
}

TEST(stdio_exit_while_reading)
{
	int in[2], out[2], status;
	char text[16] = "";
	posix_spawn_file_actions_t actions;
	CHECK(!pipe2(in, O_CLOEXEC) && !pipe2(out, O_CLOEXEC) && !posix_spawn_file_actions_init(&actions));
	posix_spawn_file_actions_adddup2(&actions, in[0], 0);
	posix_spawn_file_actions_adddup2(&actions, out[1], 1);
	pid_t pid = start("wait", 0, &actions);
	posix_spawn_file_actions_destroy(&actions);
	close(out[1]);
	CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 5);
	CHECK(read(out[0], text, sizeof text - 1) == 8);
	CHECK_STR(text, "not lost");
	close(in[0]);
	close(in[1]);
	close(out[0]);
}

TEST(assert_panics)
{
	int errors[2], status;
	char text[256] = "";
	posix_spawn_file_actions_t actions;
	CHECK(!pipe2(errors, O_CLOEXEC) && !posix_spawn_file_actions_init(&actions));
	posix_spawn_file_actions_adddup2(&actions, errors[1], 1);
	posix_spawn_file_actions_adddup2(&actions, errors[1], 2);
	pid_t pid = start("panic", "none", &actions);
	posix_spawn_file_actions_destroy(&actions);
	close(errors[1]);
	FILE *in = fdopen(errors[0], "r");
	CHECK(fgets(text, sizeof text, in) && strstr(text, "half a lineASSERT FAILED at (") == text);
	CHECK(strstr(text, "process.c:") && strstr(text, "): argc != 2\n"));
	CHECK(fgets(text, sizeof text, in));
	CHECK_STR(text, "there is none\n");
	CHECK(!fgets(text, sizeof text, in));
	fclose(in);
	CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

// The result of posix_spawn with these attributes. Waits for the child.
static int attempt(posix_spawnattr_t *attributes, short flags)
{
	pid_t pid;
	CHECK(!posix_spawnattr_setflags(attributes, flags));
	int error = start_with(&pid, "exit", "0", 0, attributes), status;
	if (!error)
		CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	return error;
}

TEST(spawn_attributes)
{
	posix_spawnattr_t attributes;
	CHECK(!posix_spawnattr_init(&attributes));
	CHECK_INT(attempt(&attributes, 0), 0);
	// A child always begins with default signal actions, a process group and a session of its own, and its
	// parent's (no) user.
	sigset_t signals;
	sigfillset(&signals);
	posix_spawnattr_setsigdefault(&attributes, &signals);
	CHECK_INT(attempt(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_RESETIDS | POSIX_SPAWN_USEVFORK), 0);
	CHECK_INT(attempt(&attributes, POSIX_SPAWN_SETPGROUP), 0);
	CHECK_INT(attempt(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSCHEDULER | POSIX_SPAWN_SETSCHEDPARAM), 0);
	CHECK_INT(posix_spawnattr_setschedpolicy(&attributes, SCHED_FIFO), ENOSYS);
	posix_spawnattr_setpgroup(&attributes, getpid());
	CHECK_INT(attempt(&attributes, POSIX_SPAWN_SETPGROUP), ENOTSUP);
	// It also begins with no signal blocked, and no other mask can be set.
	sigemptyset(&signals);
	posix_spawnattr_setsigmask(&attributes, &signals);
	CHECK_INT(attempt(&attributes, POSIX_SPAWN_SETSIGMASK), 0);
	sigaddset(&signals, SIGUSR1);
	posix_spawnattr_setsigmask(&attributes, &signals);
	CHECK_INT(attempt(&attributes, POSIX_SPAWN_SETSIGMASK), ENOTSUP);
	CHECK_INT(attempt(&attributes, 0), 0);
	CHECK_INT(posix_spawnattr_setflags(&attributes, 0x4000), EINVAL);
	posix_spawnattr_destroy(&attributes);
}

static long microseconds(struct timeval time)
{
	return time.tv_sec * 1000000 + time.tv_usec;
}

TEST(resource_usage_of_children)
{
	struct rusage before, running, after, of_child;
	struct tms times_before, times_after;
	CHECK(!getrusage(RUSAGE_CHILDREN, &before) && times(&times_before) != -1);
	pid_t pid = start("compute", "300000", 0);
	// Children that were not waited for do not count yet.
	CHECK(!getrusage(RUSAGE_CHILDREN, &running) && microseconds(running.ru_utime) == microseconds(before.ru_utime));
	CHECK(wait4(pid, 0, 0, &of_child) == pid && microseconds(of_child.ru_utime) >= 300000);
	CHECK(!getrusage(RUSAGE_CHILDREN, &after));
	CHECK_INT(microseconds(after.ru_utime) - microseconds(before.ru_utime), microseconds(of_child.ru_utime));
	CHECK(times(&times_after) != -1);
	CHECK_INT(times_after.tms_cutime - times_before.tms_cutime, microseconds(of_child.ru_utime));
	errno = 0;
	CHECK(getrusage(77, &after) == -1 && errno == EINVAL);
}

TEST(spawn_shell)
{
	CHECK(system(0));
	char line[64] = "", command[256];
	// The one path that UNIX programs have built in.
	char *const argv[] = { "sh", "-c", "exit 6", 0 };
	int status;
	pid_t pid;
	CHECK(!posix_spawn(&pid, "/bin/sh", 0, 0, argv, environ) && waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 6);
	FILE *in = popen("echo through the shell", "r");
	CHECK(in && fgets(line, sizeof line, in) && !pclose(in));
	CHECK_STR(line, "through the shell\n");
	snprintf(command, sizeof command, "%s --child exit 3", program);
	CHECK_INT(WEXITSTATUS(system(command)), 3);
}

static void *wait_for_end(void *lock)
{
	pthread_mutex_lock(lock);
	pthread_mutex_unlock(lock);
	return 0;
}

TEST(resource_limits)
{
	struct rlimit limit, other;
	CHECK(!getrlimit(RLIMIT_NOFILE, &limit) && !setrlimit(RLIMIT_NOFILE, &limit));
	// Limits belong to jobs. A process's own limits do not change, so a call that would change them must fail.
	other = limit;
	other.rlim_cur--;
	errno = 0;
	CHECK(setrlimit(RLIMIT_NOFILE, &other) == -1 && errno == ENOSYS);
	other = (struct rlimit){ limit.rlim_cur, limit.rlim_max + 1 };
	errno = 0;
	CHECK(setrlimit(RLIMIT_NOFILE, &other) == -1 && errno == EPERM);
	other = (struct rlimit){ limit.rlim_cur, limit.rlim_cur - 1 };
	errno = 0;
	CHECK(setrlimit(RLIMIT_NOFILE, &other) == -1 && errno == EINVAL);
	errno = 0;
	CHECK(setrlimit(99, &limit) == -1 && errno == EINVAL);
	CHECK(!getrlimit(RLIMIT_NOFILE, &other) && other.rlim_cur == limit.rlim_cur && other.rlim_max == limit.rlim_max);
}

TEST(absent_says_so)
{
	pthread_t thread;
	pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_lock(&held);
	CHECK(!pthread_create(&thread, 0, wait_for_end, &held));
	CHECK(pthread_kill(thread, SIGUSR1) == ENOSYS && pthread_kill(thread, 0) == 0 && pthread_kill(thread, 33) == EINVAL);
	pthread_mutex_unlock(&held);
	pthread_join(thread, 0);
	CHECK(pthread_mutex_consistent(&held) == EINVAL);
	errno = 0;
	CHECK(sem_open("/name", O_CREAT, 0600, 1) == SEM_FAILED && errno == ENOSYS);
	errno = 0;
	CHECK(fork() == -1 && errno == ENOSYS);
	errno = 0;
	CHECK(execl("/boot/bin/sh", "sh", (char *)0) == -1 && errno == ENOSYS);
}
