// Clocks; their structures are defined with the others.
#ifndef ZIRCON_SYSCALLS_CLOCK_H_
#define ZIRCON_SYSCALLS_CLOCK_H_

#include <zircon/types.h>

#endif
