// Topics, properties and records of objects: they stand with the other constants; here is what is read out of numbers.
#ifndef ZIRCON_SYSCALLS_OBJECT_H_
#define ZIRCON_SYSCALLS_OBJECT_H_

#include <zircon/types.h>

// Why a thread is blocked is left out.
#define ZX_THREAD_STATE_BASIC(state) ((state) & 0xff)
#define ZX_INFO_VMO_TYPE(flags) ((flags) & ZX_INFO_VMO_TYPE_PAGED)

#endif
