// Purposes of handles in a start message.
#ifndef ZIRCON_PROCESSARGS_H_
#define ZIRCON_PROCESSARGS_H_

#include <zircon/types.h>

#define PA_HND(type, arg) (((type) & 0xFF) | (((arg) & 0xFFFF) << 16))
#define PA_HND_TYPE(n) ((n) & 0xFF)
#define PA_HND_SUBTYPE(n) (((n) >> 8) & 0xFF)
#define PA_HND_ARG(n) (((n) >> 16) & 0xFFFF)

#endif
