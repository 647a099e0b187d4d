// Part of sys/mman.h that is specific to this processor and this system.
#define MAP_32BIT 0x40
// Memory for code that is generated at run time: mmap fails if the memory cannot be made executable later.
#define MAP_JIT 0x80000
