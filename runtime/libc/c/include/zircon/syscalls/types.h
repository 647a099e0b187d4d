// Structures of the system calls; all are defined in one file.
#ifndef ZIRCON_SYSCALLS_TYPES_H_
#define ZIRCON_SYSCALLS_TYPES_H_

#include <zircon/types.h>

#endif
