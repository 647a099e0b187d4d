// Where the compiler finds what protects a thread's stacks, relative to the thread pointer (fs).
#ifndef ZIRCON_TLS_H_
#define ZIRCON_TLS_H_

#define ZX_TLS_STACK_GUARD_OFFSET 0x10
#define ZX_TLS_UNSAFE_SP_OFFSET 0x18

#endif
