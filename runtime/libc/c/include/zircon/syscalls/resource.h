// Kinds of resources are defined with the other constants. This file has macros for the kind and the flags in a
// resource's options.
#ifndef ZIRCON_SYSCALLS_RESOURCE_H_
#define ZIRCON_SYSCALLS_RESOURCE_H_

#include <zircon/types.h>

#define ZX_RSRC_EXTRACT_KIND(options) ((options) & 0x0000FFFF)
#define ZX_RSRC_EXTRACT_FLAGS(options) ((options) & 0xFFFF0000)

#endif
