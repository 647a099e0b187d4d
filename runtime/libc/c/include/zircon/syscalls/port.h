// Packets; they stand with the other structures.
#ifndef ZIRCON_SYSCALLS_PORT_H_
#define ZIRCON_SYSCALLS_PORT_H_

#include <zircon/types.h>

#endif
