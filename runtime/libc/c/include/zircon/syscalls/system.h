// Power and processors; their structures are defined with the others.
#ifndef ZIRCON_SYSCALLS_SYSTEM_H_
#define ZIRCON_SYSCALLS_SYSTEM_H_

#include <zircon/types.h>

#endif
