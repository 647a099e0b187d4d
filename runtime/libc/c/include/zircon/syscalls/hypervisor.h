// Virtual processors of guests; their structures are defined with the others.
#ifndef ZIRCON_SYSCALLS_HYPERVISOR_H_
#define ZIRCON_SYSCALLS_HYPERVISOR_H_

#include <zircon/types.h>

#endif
