// Secure monitor calls, which this processor does not have; the types are defined with the others.
#ifndef ZIRCON_SYSCALLS_SMC_H_
#define ZIRCON_SYSCALLS_SMC_H_

#include <zircon/types.h>

#endif
