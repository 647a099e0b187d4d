/* Samples of the processor's counter, as tests/bench/src/operations/sampler.rs takes them. */
#pragma once
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { WARM_UP = 64, TIMES = 1000 };

/* Reads the time-stamp counter. The compiler moves nothing across it. */
static inline __attribute__((always_inline)) int64_t counter(void) {
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high) : : "memory");
    return (int64_t)((uint64_t)high << 32 | low);
}

typedef struct {
    int64_t count, sum, min, max;
} samples;

/* What two reads of the counter cost by themselves, and the ticks for one instruction. */
extern int64_t overhead;
extern double ticks_of_one;
/* The path of this program. */
extern const char *self;

void meter_calibrate(void);
/* Adds the time between two reads; drops the first WARM_UP samples. */
void meter_add(samples *samples, int64_t start, int64_t end);
/* `figure NAME instructions MEAN MIN MAX SAMPLES`, kept until meter_print. */
void meter_report(const char *name, const samples *samples);
void meter_print(FILE *out);

/* Ends the run with an error message. */
_Noreturn void failed(const char *what);

#define CHECK(call)                   \
    do {                              \
        if ((call) < 0) failed(#call); \
    } while (0)

/* Measures one operation. */
#define TIME(samples, operation)                   \
    do {                                           \
        int64_t start_ = counter();                \
        operation;                                 \
        meter_add(&(samples), start_, counter());  \
    } while (0)

/* Rounds of the warm-up, and measured rounds. */
#define ROUNDS(times) for (int round_ = 0; round_ < WARM_UP + (times); round_++)

/* The parts of the suite. */
void calls_run(void);
void memory_run(void);
void parties_run(void);
void tasks_run(void);
