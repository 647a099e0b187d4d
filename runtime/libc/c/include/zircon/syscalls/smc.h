// Secure monitor calls, of which this processor has none; the types stand with the others.
#ifndef ZIRCON_SYSCALLS_SMC_H_
#define ZIRCON_SYSCALLS_SMC_H_

#include <zircon/types.h>

#endif
