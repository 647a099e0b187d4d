// Names that Zircon's sources use for features of the compiler.
#ifndef ZIRCON_COMPILER_H_
#define ZIRCON_COMPILER_H_

#ifndef __has_feature
#define __has_feature(name) 0
#endif
#ifndef __has_cpp_attribute
#define __has_cpp_attribute(name) 0
#endif

#ifdef __cplusplus
#define __BEGIN_CDECLS extern "C" {
#define __END_CDECLS }
#define __CONSTEXPR constexpr
#else
#define __BEGIN_CDECLS
#define __END_CDECLS
#define __CONSTEXPR
#endif

#ifndef countof
#define countof(array) (sizeof(array) / sizeof *(array))
#endif

#ifndef __ASSEMBLER__

#ifndef likely
#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)
#endif

// Returns true if the sum, difference or product overflows; *out holds the truncated result.
#define add_overflow(a, b, out) __builtin_add_overflow(a, b, out)
#define sub_overflow(a, b, out) __builtin_sub_overflow(a, b, out)
#define mul_overflow(a, b, out) __builtin_mul_overflow(a, b, out)

#define __ISCONSTANT(value) __builtin_constant_p(value)
#define __UNREACHABLE __builtin_unreachable()
#define __GET_CALLER(unused) __builtin_return_address(0)
#define __GET_FRAME(unused) __builtin_frame_address(0)
#define __RESTRICT __restrict
#define __THREAD __thread
#ifndef __offsetof
#define __offsetof(type, field) __builtin_offsetof(type, field)
#endif

// Functions.
#define __ALWAYS_INLINE __attribute__((__always_inline__))
#define __NO_INLINE __attribute__((__noinline__))
#define __NO_RETURN __attribute__((__noreturn__))
#define __CONST __attribute__((__const__))
#define __PURE __attribute__((__pure__))
#define __MALLOC __attribute__((__malloc__))
#define __NONNULL(arguments) __attribute__((__nonnull__ arguments))
#define __WARN_UNUSED_RESULT __attribute__((__warn_unused_result__))
#define __PRINTFLIKE(format, values) __attribute__((__format__(__printf__, format, values)))
#define __SCANFLIKE(format, values) __attribute__((__format__(__scanf__, format, values)))
#define __DEPRECATE __attribute__((__deprecated__))

// Symbols.
#define __UNUSED __attribute__((__unused__))
#define __USED __attribute__((__used__))
#define __ALWAYS_EMIT __attribute__((__used__))
#define __SECTION(name) __attribute__((__section__(name)))
#define __WEAK __attribute__((__weak__))
#define __ALIAS(name) __attribute__((__alias__(name)))
#define __WEAK_ALIAS(name) __attribute__((__weak__, __alias__(name)))
#define __EXPORT __attribute__((__visibility__("default")))
#define __LOCAL __attribute__((__visibility__("hidden")))

// Data.
#define __PACKED __attribute__((__packed__))
#define __ALIGNED(bytes) __attribute__((__aligned__(bytes)))

#ifdef __clang__
#define __LEAF_FN
#define __OPTIMIZE(level)
#define __EXTERNALLY_VISIBLE
#define __NO_SAFESTACK __attribute__((__no_sanitize__("safe-stack")))
#define __ANALYZER_CREATE_SINK __attribute__((__analyzer_noreturn__))
#else
#define __LEAF_FN __attribute__((__leaf__))
#define __OPTIMIZE(level) __attribute__((__optimize__(level)))
#define __EXTERNALLY_VISIBLE __attribute__((__externally_visible__))
#define __NO_SAFESTACK
#define __ANALYZER_CREATE_SINK
#endif

#if defined(__cplusplus) && __cplusplus >= 201703L
#define __FALLTHROUGH [[fallthrough]]
#define __WARN_UNUSED_CONSTRUCTOR [[nodiscard]]
#else
#define __FALLTHROUGH __attribute__((__fallthrough__))
#define __WARN_UNUSED_CONSTRUCTOR
#endif

#ifdef __cplusplus
#if __has_cpp_attribute(no_unique_address)
#define __NO_UNIQUE_ADDRESS [[no_unique_address]]
#else
#define __NO_UNIQUE_ADDRESS
#endif
#endif

// Annotations that say which lock guards what. They are not checked, because the C library's locks have no annotations.
#define __THREAD_ANNOTATION(attribute)
#define __TA_CAPABILITY(name) __THREAD_ANNOTATION(name)
#define __TA_SCOPED_CAPABILITY __THREAD_ANNOTATION()
#define __TA_GUARDED(lock) __THREAD_ANNOTATION(lock)
#define __TA_ACQUIRE(...) __THREAD_ANNOTATION(__VA_ARGS__)
#define __TA_ACQUIRE_SHARED(...) __THREAD_ANNOTATION(__VA_ARGS__)
#define __TA_TRY_ACQUIRE(...) __THREAD_ANNOTATION(__VA_ARGS__)
#define __TA_ACQUIRED_BEFORE(...) __THREAD_ANNOTATION(__VA_ARGS__)
#define __TA_ACQUIRED_AFTER(...) __THREAD_ANNOTATION(__VA_ARGS__)
#define __TA_RELEASE(...) __THREAD_ANNOTATION(__VA_ARGS__)
#define __TA_RELEASE_SHARED(...) __THREAD_ANNOTATION(__VA_ARGS__)
#define __TA_REQUIRES(...) __THREAD_ANNOTATION(__VA_ARGS__)
#define __TA_REQUIRES_SHARED(...) __THREAD_ANNOTATION(__VA_ARGS__)
#define __TA_EXCLUDES(...) __THREAD_ANNOTATION(__VA_ARGS__)
#define __TA_ASSERT(...) __THREAD_ANNOTATION(__VA_ARGS__)
#define __TA_ASSERT_SHARED(...) __THREAD_ANNOTATION(__VA_ARGS__)
#define __TA_RETURN_CAPABILITY(lock) __THREAD_ANNOTATION(lock)
#define __TA_NO_THREAD_SAFETY_ANALYSIS __THREAD_ANNOTATION()

#endif

#endif
