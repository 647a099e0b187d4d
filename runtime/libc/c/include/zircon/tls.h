// Offsets, relative to the thread pointer (fs), at which the compiler finds the stack guard and the unsafe stack
// pointer.
#ifndef ZIRCON_TLS_H_
#define ZIRCON_TLS_H_

#define ZX_TLS_STACK_GUARD_OFFSET 0x10
#define ZX_TLS_UNSAFE_SP_OFFSET 0x18

#endif
