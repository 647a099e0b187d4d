// Priorities; defined with the other constants.
#ifndef ZIRCON_SYSCALLS_SCHEDULER_H_
#define ZIRCON_SYSCALLS_SCHEDULER_H_

#include <zircon/types.h>

#endif
