/* What single operations cost on Linux: the counterpart of tests/bench/src/operations, for `./hafnon bench --peers`.
 *
 * As the first process it measures, writes its lines to the second serial port, and resets the machine, at which QEMU
 * exits. On Linux as a program (`./hafnon bench linux`) it is no first process, and writes to standard output. As the
 * second process of a start it only reports when its main began: see tasks.c. */
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "meter.h"

int64_t overhead;
double ticks_of_one = 1;
const char *self;

static struct {
    const char *name;
    samples samples;
} figures[96];
static int figure_count;

__attribute__((noinline)) void meter_add(samples *samples, int64_t start, int64_t end) {
    int64_t sample = end - start - overhead;
    if (samples->count++ < WARM_UP) {
        samples->sum = samples->max = 0;
        samples->min = INT64_MAX;
        return;
    }
    samples->sum += sample;
    if (sample < samples->min) samples->min = sample;
    if (sample > samples->max) samples->max = sample;
}

void meter_report(const char *name, const samples *samples) {
    if (figure_count == sizeof figures / sizeof figures[0]) failed("too many figures");
    figures[figure_count].name = name;
    figures[figure_count++].samples = *samples;
}

void meter_print(FILE *out) {
    for (int i = 0; i < figure_count; i++) {
        const samples *s = &figures[i].samples;
        int64_t count = s->count - WARM_UP;
        fprintf(out, "figure linux_%s instructions %.2f %.0f %.0f %ld\n", figures[i].name,
                (double)s->sum / (double)count / ticks_of_one, (double)s->min / ticks_of_one,
                (double)s->max / ticks_of_one, (long)count);
    }
}

static void count_down(uint64_t turns) {
    __asm__ volatile("1: dec %0\n jnz 1b" : "+r"(turns) : : "cc");
}

/* A loop of two instructions gives the ticks for one instruction. The least is taken: no interrupt came in between. */
void meter_calibrate(void) {
    enum { TURNS = 10000 };
    samples nothing = {0}, once = {0}, twice = {0};
    ROUNDS(WARM_UP) TIME(nothing, (void)0);
    overhead = nothing.min;
    ROUNDS(WARM_UP) {
        TIME(once, count_down(TURNS));
        TIME(twice, count_down(2 * TURNS));
    }
    ticks_of_one = (double)(twice.min - once.min) / (2.0 * TURNS);
}

static FILE *report;

_Noreturn void failed(const char *what) {
    if (report) {
        fprintf(report, "failed %s: %m\n", what);
        fclose(report);
        if (getpid() == 1) reboot(RB_AUTOBOOT);
    }
    _exit(1);
}

static void all_run(void) {
    calls_run();
    memory_run();
    parties_run();
    tasks_run();
}

int main(int argc, char **argv) {
    int64_t began = counter();
    if (argc == 2) {
        /* A second process: its only argument is the descriptor that gets the result. */
        return write(atoi(argv[1]), &began, sizeof began) != sizeof began;
    }
    self = argv[0];
    if (getpid() == 1) {
        mkdir("/dev", 0755);
        if (mount("devtmpfs", "/dev", "devtmpfs", 0, "") < 0) return 1;
        report = fopen("/dev/ttyS1", "w");
        if (!report) return 1;
    } else {
        report = stdout;
    }
    setvbuf(report, NULL, _IOFBF, 1 << 16);
    meter_calibrate();
    /* A rehearsal first: afterwards the kernel's boot is complete, and everything that it creates only once exists. It
     * runs in a process of its own, because the C library does more in a process that has had threads. */
    pid_t rehearsal = fork();
    CHECK(rehearsal);
    if (rehearsal == 0) {
        all_run();
        _exit(0);
    }
    CHECK(waitpid(rehearsal, NULL, 0));
    all_run();
    fprintf(report, "calibration %.6f\n", ticks_of_one);
    meter_print(report);
    fclose(report);
    if (getpid() != 1) return 0;
    sync();
    reboot(RB_AUTOBOOT);
    return 1;
}
