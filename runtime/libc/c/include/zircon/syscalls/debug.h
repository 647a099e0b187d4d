// Registers of threads; defined with the other structures.
#ifndef ZIRCON_SYSCALLS_DEBUG_H_
#define ZIRCON_SYSCALLS_DEBUG_H_

#include <zircon/types.h>

#endif
