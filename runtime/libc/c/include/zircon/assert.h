// Assertions. If one fails, the program writes a message to standard error and aborts.
#ifndef ZIRCON_ASSERT_H_
#define ZIRCON_ASSERT_H_

#include <stdio.h>
#include <stdlib.h>
#include <zircon/compiler.h>

__BEGIN_CDECLS

// Flushes the streams, writes the message to standard error, and aborts.
void __zx_panic(const char* format, ...) __NO_RETURN __PRINTFLIKE(1, 2);

__END_CDECLS

#define ZX_PANIC(...) __zx_panic(__VA_ARGS__)

#define ZX_ASSERT(condition)                                                                        \
	do {                                                                                        \
		if (unlikely(!(condition)))                                                         \
			ZX_PANIC("ASSERT FAILED at (%s:%d): %s\n", __FILE__, __LINE__, #condition); \
	} while (0)

#define ZX_ASSERT_MSG(condition, format, ...)                                                    \
	do {                                                                                     \
		if (unlikely(!(condition)))                                                      \
			ZX_PANIC("ASSERT FAILED at (%s:%d): %s\n" format "\n", __FILE__, __LINE__, \
				#condition, ##__VA_ARGS__);                                      \
	} while (0)

// Debug assertions are checked if the program is compiled with a level above 1. Otherwise they are compiled but not
// evaluated.
#if defined(ZX_ASSERT_LEVEL)
#define ZX_DEBUG_ASSERT_IMPLEMENTED (ZX_ASSERT_LEVEL > 1)
#elif defined(ZX_DEBUGLEVEL)
#define ZX_DEBUG_ASSERT_IMPLEMENTED (ZX_DEBUGLEVEL > 1)
#else
#define ZX_DEBUG_ASSERT_IMPLEMENTED 0
#endif

#define ZX_DEBUG_ASSERT(condition)                    \
	do {                                          \
		if (ZX_DEBUG_ASSERT_IMPLEMENTED)      \
			ZX_ASSERT(condition);         \
	} while (0)

#define ZX_DEBUG_ASSERT_MSG(condition, ...)                    \
	do {                                                   \
		if (ZX_DEBUG_ASSERT_IMPLEMENTED)               \
			ZX_ASSERT_MSG(condition, __VA_ARGS__); \
	} while (0)

// Debug assertions whose condition need not compile while they are disabled.
#if ZX_DEBUG_ASSERT_IMPLEMENTED
#define ZX_DEBUG_ASSERT_COND(condition) ZX_ASSERT(condition)
#define ZX_DEBUG_ASSERT_MSG_COND(condition, ...) ZX_ASSERT_MSG(condition, __VA_ARGS__)
#else
#define ZX_DEBUG_ASSERT_COND(condition) ((void)0)
#define ZX_DEBUG_ASSERT_MSG_COND(condition, ...) ((void)0)
#endif

#endif
