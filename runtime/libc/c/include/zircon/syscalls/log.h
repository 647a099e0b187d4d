// Records of the debug log; defined with the other structures.
#ifndef ZIRCON_SYSCALLS_LOG_H_
#define ZIRCON_SYSCALLS_LOG_H_

#include <zircon/types.h>

#endif
