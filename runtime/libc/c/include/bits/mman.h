// What sys/mman.h has for this processor and this system.
#define MAP_32BIT 0x40
// Memory for code that is made at run time: mmap fails where it could not be made executable later.
#define MAP_JIT 0x80000
