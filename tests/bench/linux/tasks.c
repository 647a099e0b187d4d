/* Creation and end of threads and processes. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "meter.h"

static void *nothing(void *_) { return _; }

static void threads(void) {
    samples life = {0};
    pthread_t thread;
    ROUNDS(200) TIME(life, {
        if (pthread_create(&thread, NULL, nothing, NULL)) failed("pthread_create");
        pthread_join(thread, NULL);
    });
    meter_report("pthread", &life);
}

/* A process that ends at once, by raw system calls: the memory of this one is copied. */
static void forks(void) {
    samples life = {0};
    ROUNDS(100) TIME(life, {
        pid_t child = fork();
        CHECK(child);
        if (child == 0) _exit(0);
        CHECK(waitpid(child, NULL, 0));
    });
    meter_report("fork_exit_wait", &life);
}

/* A process that becomes this program, whose main ends at once. */
static void execs(void) {
    samples life = {0};
    int null = open("/dev/null", O_WRONLY);
    char descriptor[16];
    CHECK(null);
    snprintf(descriptor, sizeof descriptor, "%d", null);
    ROUNDS(50) TIME(life, {
        pid_t child = fork();
        CHECK(child);
        if (child == 0) {
            execl(self, self, descriptor, NULL);
            _exit(1);
        }
        CHECK(waitpid(child, NULL, 0));
    });
    CHECK(close(null));
    meter_report("fork_exec_wait", &life);
}

/* A program: until posix_spawn returns, until the program's main begins, and until it has ended. */
static void spawns(const char *program, const char *call_name, const char *main_name, const char *end_name) {
    samples call = {0}, to_main = {0}, to_end = {0};
    int ends[2];
    CHECK(pipe(ends));
    char descriptor[16];
    snprintf(descriptor, sizeof descriptor, "%d", ends[1]);
    char *args[] = {"operations", descriptor, NULL}, *env[] = {NULL};
    ROUNDS(50) {
        pid_t child;
        int64_t began, start = counter();
        int result = posix_spawn(&child, program, NULL, NULL, args, env);
        int64_t returned = counter();
        if (result) failed("posix_spawn");
        CHECK(waitpid(child, NULL, 0));
        int64_t ended = counter();
        if (read(ends[0], &began, sizeof began) != sizeof began) failed("the second process");
        meter_add(&call, start, returned);
        meter_add(&to_main, start, began);
        meter_add(&to_end, start, ended);
    }
    meter_report(call_name, &call);
    meter_report(main_name, &to_main);
    meter_report(end_name, &to_end);
    CHECK(close(ends[0]) | close(ends[1]));
}

void tasks_run(void) {
    threads();
    forks();
    execs();
    spawns(self, "spawn_static_call", "spawn_static_to_main", "spawn_static_to_end");
    if (access("/dynamic", X_OK) == 0) spawns("/dynamic", "spawn_call", "spawn_to_main", "spawn_to_end");
}
