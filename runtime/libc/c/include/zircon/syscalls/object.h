// Topics, properties and records of objects are defined with the other constants. This file has macros that extract
// fields.
#ifndef ZIRCON_SYSCALLS_OBJECT_H_
#define ZIRCON_SYSCALLS_OBJECT_H_

#include <zircon/types.h>

// The state without the reason why a thread is blocked.
#define ZX_THREAD_STATE_BASIC(state) ((state) & 0xff)
#define ZX_INFO_VMO_TYPE(flags) ((flags) & ZX_INFO_VMO_TYPE_PAGED)

#endif
