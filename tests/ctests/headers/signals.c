// signal.h: SIGCHLD, the one signal that comes from outside.
#define _GNU_SOURCE
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"

extern const char *program;

static volatile sig_atomic_t ended, last_status, last_code;
static volatile pid_t last_pid;

static void child_ends(int signal)
{
	ended += signal == SIGCHLD;
}

static void child_ends_with(int signal, siginfo_t *information, void *context)
{
	last_pid = information->si_pid;
	last_code = information->si_code;
	last_status = information->si_status;
	ended += signal == SIGCHLD;
}

static pid_t start(const char *what, const char *argument)
{
	char *argv[] = { (char *)program, "--child", (char *)what, (char *)argument, 0 };
	pid_t pid = -1;
	CHECK(!posix_spawn(&pid, program, 0, 0, argv, 0));
	return pid;
}

// Waits until the handler has run so often.
static void until(int count)
{
	for (int i = 0; i < 10000 && ended < count; i++)
		usleep(1000);
	CHECK_INT(ended, count);
}

TEST(signal_child)
{
	struct sigaction action = { .sa_handler = child_ends }, old;
	int status;
	// One that has ended before there is a handler gives no signal; one that runs does.
	pid_t before = start("exit", "1"), runs = start("sleep", "100");
	CHECK(waitpid(before, &status, 0) == before);
	ended = 0;
	CHECK(!sigaction(SIGCHLD, &action, &old));
	CHECK_INT(ended, 0);
	CHECK(!kill(runs, SIGKILL));
	until(1);
	CHECK(waitpid(runs, &status, WNOHANG) == runs && WIFSIGNALED(status));
	for (int i = 0; i < 10; i++) {
		pid_t pid = start("exit", "3");
		until(i + 2);
		CHECK(waitpid(pid, &status, WNOHANG) == pid && WEXITSTATUS(status) == 3);
	}
	struct sigaction more = { .sa_sigaction = child_ends_with, .sa_flags = SA_SIGINFO };
	CHECK(!sigaction(SIGCHLD, &more, 0));
	ended = 0;
	pid_t pid = start("exit", "7");
	until(1);
	CHECK(last_pid == pid && last_code == CLD_EXITED && last_status == 7);
	CHECK(waitpid(pid, &status, 0) == pid);
	// While it is blocked it is pending, and comes with the end of that.
	sigset_t set;
	CHECK(!sigemptyset(&set) && !sigaddset(&set, SIGCHLD) && !sigprocmask(SIG_BLOCK, &set, 0));
	ended = 0;
	pid = start("exit", "8");
	CHECK(waitpid(pid, &status, 0) == pid);
	for (int i = 0; i < 10000; i++) {
		CHECK(!sigpending(&set));
		if (sigismember(&set, SIGCHLD))
			break;
		usleep(1000);
	}
	CHECK_INT(ended, 0);
	CHECK(!sigprocmask(SIG_UNBLOCK, &set, 0));
	CHECK_INT(ended, 1);
	CHECK(last_pid == pid && last_code == CLD_EXITED && last_status == 8);
	// The action that there was: none.
	CHECK(!sigaction(SIGCHLD, &old, 0));
	pid = start("exit", "0");
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK_INT(ended, 1);
}
