// Exceptions; their structures are defined with the others.
#ifndef ZIRCON_SYSCALLS_EXCEPTION_H_
#define ZIRCON_SYSCALLS_EXCEPTION_H_

#include <zircon/types.h>

// Whether the exception is architectural, that is, raised by the processor.
#define ZX_EXCP_IS_ARCH(type) (((type) & ZX_EXCP_SYNTH) == 0)

#endif
