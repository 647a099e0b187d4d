// Demand paging: large sparse areas, stack growth, mappings that are created, changed and removed, system calls with
// invalid addresses, and a program that maps its own pages in a fault handler.
#include "linux.h"

static u8 large[64 << 20];
static u64 kept[4] = { 1, 2, 3, 4 };
static const char text[] = "as it was";
static u64 *const fixed = (u64 *)0x600000000000;
static volatile int faults;

static u64 sum(const u8 *bytes, u64 count) {
    u64 sum = 0;
    for (u64 i = 0; i < count; i++) sum = sum * 31 + bytes[i];
    return sum;
}

static u64 deep(u64 depth) {
    volatile u64 room[512];
    room[0] = depth;
    room[511] = depth ? deep(depth - 1) : 0;
    return room[0] + room[511];
}

static void map_it(int signal, u8 *info, u64 *context) {
    u64 address = context[AT_CR2];
    MUST(signal == SIGSEGV && address == *(u64 *)(info + 16) && context[AT_TRAP] == 14);
    faults++;
    address &= ~4095ul;
    MUST(call6(MMAP, address, 4096, 3, 0x32, -1ul, 0) == (long)address);
    *(u64 *)address = address;
}

static void unprotect_it(int signal, u8 *info, u64 *context) {
    MUST(signal == SIGSEGV && *(int *)(info + 8) == 2);
    faults++;
    MUST(call(MPROTECT, context[AT_CR2] & ~4095ul, 4096, 3) == 0);
}

int main(int count, char **arguments) {
    MUST(count == 3 && arguments[2][0] == 'b');
    // Untouched memory reads as zeros, and writes persist.
    for (u64 at = 0; at < sizeof large; at += 1 << 18) {
        MUST(large[at] == 0);
        large[at] = at >> 18;
    }
    for (u64 at = 0; at < sizeof large; at += 1 << 18) MUST(large[at] == (u8)(at >> 18));
    tell("large", sum(large + (1 << 20) - 8, 16));
    kept[2] += 40;
    MUST(kept[0] + kept[1] + kept[2] + kept[3] == 50);
    say(text);
    tell("\nstack", deep(1000));

    // A call's argument may be on untouched pages, or extend into unmapped memory.
    u8 *map = (u8 *)call6(MMAP, 0, 16 << 20, 3, 0x22, -1ul, 0);
    MUST((long)map > 0);
    MUST(call(WRITE, 1, map + 5000, 0) == 0);
    int ends[2];
    MUST(call(PIPE2, ends, 0, 0) == 0);
    MUST(call(WRITE, ends[1], map + 4090, 10) == 10);
    map[4096] = 9;
    MUST(call(READ, ends[0], map + 8190, 10) == 10 && map[8190] == 0);
    MUST(call(MUNMAP, map + 0x10000, 4096, 0) == 0);
    MUST(call(READ, 77, map, 1) == -9);
    MUST(call(WRITE, ends[1], map + 0xfffc, 8) == -EFAULT);
    MUST(call(WRITE, ends[1], -4096l, 8) == -EFAULT);
    MUST(call(MPROTECT, map, 0x11000, 1) == -ENOMEM);
    MUST(call(MPROTECT, map, 0x2000, 1) == 0 && map[4096] == 9);
    MUST(call(WRITE, ends[1], map, 5) == 5 && call(READ, ends[0], map, 5) == -EFAULT);

    // The program handles its own faults.
    handle(SIGSEGV, map_it, 0, 0);
    u64 found = 0;
    for (u64 page = 0; page < 100; page++) found += *(volatile u64 *)((u64)fixed + page * 4096 * 3) == (u64)fixed + page * 4096 * 3;
    MUST(found == 100 && faults == 100);
    handle(SIGSEGV, unprotect_it, 0, 0);
    MUST(call(MPROTECT, fixed, 4096, 1) == 0 && faults == 100);
    fixed[1] = 8;
    MUST(faults == 101 && fixed[1] == 8 && fixed[0] == (u64)fixed);
    // Memory that was unmapped and mapped again reads as zeros.
    MUST(call(MUNMAP, fixed, 4096, 0) == 0);
    MUST(call6(MMAP, (u64)fixed, 4096, 3, 0x32, -1ul, 0) == (long)fixed && fixed[1] == 0);
    tell("faults", faults);

    // Code that is written and then rewritten.
    u8 *code = (u8 *)call6(MMAP, 0, 4096, 7, 0x22, -1ul, 0);
    for (int i = 0; i < 3; i++) {
        const u8 made[] = { 0xb8, i + 5, 0, 0, 0, 0xc3 };
        for (u64 b = 0; b < sizeof made; b++) code[b] = made[b];
        MUST(((int (*)(void))code)() == i + 5);
    }
    say("paged\n");
    return 0;
}
