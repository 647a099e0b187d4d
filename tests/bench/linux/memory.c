/* Memory objects, mappings and faults. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "meter.h"

enum { PAGE = 4096, FAULTS = 512, APART = 32 };

static void objects(void) {
    samples create = {0}, closes = {0};
    int file;
    ROUNDS(TIMES) {
        TIME(create, {
            CHECK(file = memfd_create("object", 0));
            CHECK(ftruncate(file, PAGE));
        });
        TIME(closes, CHECK(close(file)));
    }
    meter_report("memfd", &create);
    meter_report("memfd_close", &closes);
}

static void mappings(void) {
    samples map = {0}, unmap = {0}, touched = {0}, unmap_touched = {0};
    int file = memfd_create("object", 0);
    CHECK(file);
    CHECK(ftruncate(file, PAGE));
    volatile char *at;
    ROUNDS(TIMES) {
        TIME(map, at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
        if (at == MAP_FAILED) failed("mmap");
        TIME(unmap, CHECK(munmap((void *)at, PAGE)));
    }
    CHECK(pwrite(file, "", 1, 0));
    ROUNDS(TIMES) {
        TIME(touched, {
            at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
            *at = 1;
        });
        TIME(unmap_touched, CHECK(munmap((void *)at, PAGE)));
    }
    meter_report("mmap", &map);
    meter_report("munmap", &unmap);
    meter_report("mmap_touched", &touched);
    meter_report("munmap_touched", &unmap_touched);
    close(file);
}

/* Writes to pages that are not committed yet, at a distance of `apart` pages; each round reuses the memory of the last. */
static void faults(const char *name, int apart) {
    samples each = {0};
    size_t len = (size_t)FAULTS * apart * PAGE;
    for (int round = 0; round < 3; round++) {
        volatile char *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) failed("mmap");
        /* Small pages, as here and in native Zircon. */
        if (madvise((void *)at, len, MADV_NOHUGEPAGE) < 0 && errno != EINVAL) failed("madvise");
        each = (samples){.count = WARM_UP, .min = INT64_MAX};
        for (int fault = 0; fault < FAULTS; fault++) TIME(each, at[(size_t)fault * apart * PAGE] = 1);
        CHECK(munmap((void *)at, len));
    }
    meter_report(name, &each);
}

void memory_run(void) {
    objects();
    mappings();
    faults("fault_write_single", APART);
    faults("fault_write_run", 1);
}
