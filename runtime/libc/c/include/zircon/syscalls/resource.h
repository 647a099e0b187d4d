// Kinds of resources: they stand with the other constants; here are the two halves of what a resource is made with.
#ifndef ZIRCON_SYSCALLS_RESOURCE_H_
#define ZIRCON_SYSCALLS_RESOURCE_H_

#include <zircon/types.h>

#define ZX_RSRC_EXTRACT_KIND(options) ((options) & 0x0000FFFF)
#define ZX_RSRC_EXTRACT_FLAGS(options) ((options) & 0xFFFF0000)

#endif
