// signal.h: SIGCHLD, the one signal that comes from outside.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
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

static volatile sig_atomic_t reaped;

// What most programs with a handler for SIGCHLD do.
static void reaps(int signal)
{
	int before = errno;
	while (waitpid(-1, 0, WNOHANG) > 0)
		reaped++;
	errno = before;
}

static void *cancelled_in_system(void *unused)
{
	char command[100];
	snprintf(command, sizeof command, "%s --child sleep 100", program);
	system(command);
	return unused;
}

// system learns of its child's end, also if a handler waits for all children.
TEST(signal_system)
{
	struct sigaction action = { .sa_handler = reaps }, old;
	char command[100];
	snprintf(command, sizeof command, "%s --child exit 3", program);
	CHECK(!sigaction(SIGCHLD, &action, &old));
	for (int i = 0; i < 10; i++) {
		int status = system(command);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
	}
	pthread_t thread;
	CHECK(!pthread_create(&thread, 0, cancelled_in_system, 0));
	usleep(20000);
	// The signal of another child comes meanwhile and afterwards; that of system's does not.
	for (int i = 0; i < 2; i++) {
		reaped = 0;
		start("exit", "0");
		for (int i = 0; i < 10000 && !reaped; i++)
			usleep(1000);
		CHECK_INT(reaped, 1);
		if (!i)
			CHECK(!pthread_cancel(thread) && !pthread_join(thread, 0));
	}
	CHECK_INT(waitpid(-1, 0, 0), -1);
	action.sa_handler = SIG_IGN;
	CHECK(!sigaction(SIGCHLD, &action, 0));
	int status = system(command);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
	CHECK(!sigaction(SIGCHLD, &old, 0));
}

// Each child is known to waitpid when its signal comes.
TEST(signal_known)
{
	enum { COUNT = 40 };
	struct sigaction action = { .sa_handler = reaps }, old;
	CHECK(!sigaction(SIGCHLD, &action, &old));
	reaped = 0;
	for (int i = 0; i < COUNT; i++)
		start("exit", "0");
	for (int i = 0; i < 10000 && reaped < COUNT; i++)
		usleep(1000);
	CHECK_INT(reaped, COUNT);
	CHECK(!sigaction(SIGCHLD, &old, 0));
}

// siginfo_t says what waitpid says.
TEST(signal_causes)
{
	static const struct { const char *what, *argument; } cases[] = { { "exit", "300" }, { "exit", "-2000" }, { "exit", "0" },
		{ "abort", 0 }, { "sleep", "100" } };
	struct sigaction action = { .sa_sigaction = child_ends_with, .sa_flags = SA_SIGINFO }, old;
	CHECK(!sigaction(SIGCHLD, &action, &old));
	for (int i = 0; i < 5; i++) {
		int status;
		ended = 0;
		pid_t pid = start(cases[i].what, cases[i].argument);
		if (i == 4)
			CHECK(!kill(pid, SIGKILL));
		until(1);
		CHECK(waitpid(pid, &status, 0) == pid && last_pid == pid);
		CHECK_INT(last_code, WIFEXITED(status) ? CLD_EXITED : CLD_KILLED);
		CHECK_INT(last_status, WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
	}
	CHECK(!sigaction(SIGCHLD, &old, 0));
}

// The children of a program that ignores their ends leave nothing: a wait lasts until all have ended, and finds none.
TEST(signal_ignored)
{
	static const struct sigaction ignores[] = { { .sa_handler = SIG_IGN }, { .sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT },
		{ .sa_handler = child_ends, .sa_flags = SA_NOCLDWAIT } };
	struct sigaction old;
	siginfo_t info;
	int status;
	for (int i = 0; i < 3; i++) {
		// One that has ended before stays.
		pid_t before = start("exit", "4");
		CHECK(!waitid(P_PID, before, &info, WEXITED | WNOWAIT));
		CHECK(!sigaction(SIGCHLD, &ignores[i], i ? 0 : &old));
		ended = 0;
		pid_t pid = start("exit", "5"), runs = start("sleep", "100");
		errno = 0;
		CHECK(waitpid(pid, &status, 0) == -1 && errno == ECHILD);
		CHECK(kill(pid, 0) == -1 && errno == ESRCH);
		CHECK_INT(waitpid(runs, &status, WNOHANG), 0);
		CHECK(waitpid(-1, &status, 0) == before && WEXITSTATUS(status) == 4);
		CHECK(!kill(runs, SIGKILL));
		errno = 0;
		CHECK(wait(&status) == -1 && errno == ECHILD);
		if (i == 2)
			until(2);
		// One that ends meanwhile is gone, also if nobody waits for it.
		pid = start("exit", "0");
		while (!kill(pid, 0))
			usleep(1000);
		CHECK(!sigaction(SIGCHLD, &old, 0));
		pid = start("exit", "6");
		CHECK(waitpid(-1, &status, 0) == pid && WEXITSTATUS(status) == 6);
	}
	CHECK(signal(SIGCHLD, SIG_IGN) == SIG_DFL);
	start("exit", "7");
	errno = 0;
	CHECK(wait(&status) == -1 && errno == ECHILD);
	CHECK(signal(SIGCHLD, SIG_DFL) == SIG_IGN);
	pid_t pid = start("exit", "8");
	CHECK(wait(&status) == pid && WEXITSTATUS(status) == 8);
}
