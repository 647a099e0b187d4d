// Arithmetic on times and durations. It saturates: a value that is too large becomes ZX_TIME_INFINITE, one that is too
// small ZX_TIME_INFINITE_PAST.
#ifndef ZIRCON_TIME_H_
#define ZIRCON_TIME_H_

#include <zircon/compiler.h>
#include <zircon/types.h>
#if __has_include(<time.h>)
#include <time.h>
#endif

__BEGIN_CDECLS

__CONSTEXPR static inline int64_t __zx_end_of_time(bool future)
{
	return future ? ZX_TIME_INFINITE : ZX_TIME_INFINITE_PAST;
}

__CONSTEXPR static inline int64_t __zx_time_sum(int64_t a, int64_t b)
{
	int64_t sum = 0;
	return add_overflow(a, b, &sum) ? __zx_end_of_time(b > 0) : sum;
}

__CONSTEXPR static inline int64_t __zx_time_difference(int64_t a, int64_t b)
{
	int64_t difference = 0;
	return sub_overflow(a, b, &difference) ? __zx_end_of_time(b < 0) : difference;
}

__CONSTEXPR static inline zx_time_t zx_time_add_duration(zx_time_t time, zx_duration_t duration)
{
	return __zx_time_sum(time, duration);
}

__CONSTEXPR static inline zx_time_t zx_time_sub_duration(zx_time_t time, zx_duration_t duration)
{
	return __zx_time_difference(time, duration);
}

__CONSTEXPR static inline zx_duration_t zx_time_sub_time(zx_time_t time1, zx_time_t time2)
{
	return __zx_time_difference(time1, time2);
}

__CONSTEXPR static inline zx_duration_t zx_duration_add_duration(zx_duration_t dur1, zx_duration_t dur2)
{
	return __zx_time_sum(dur1, dur2);
}

__CONSTEXPR static inline zx_duration_t zx_duration_sub_duration(zx_duration_t dur1, zx_duration_t dur2)
{
	return __zx_time_difference(dur1, dur2);
}

__CONSTEXPR static inline zx_duration_t zx_duration_mul_int64(zx_duration_t duration, int64_t multiplier)
{
	zx_duration_t product = 0;
	bool same_sign = (duration < 0) == (multiplier < 0);
	return mul_overflow(duration, multiplier, &product) ? __zx_end_of_time(same_sign) : product;
}

__CONSTEXPR static inline zx_ticks_t zx_ticks_add_ticks(zx_ticks_t ticks1, zx_ticks_t ticks2)
{
	return __zx_time_sum(ticks1, ticks2);
}

__CONSTEXPR static inline zx_ticks_t zx_ticks_sub_ticks(zx_ticks_t ticks1, zx_ticks_t ticks2)
{
	return __zx_time_difference(ticks1, ticks2);
}

__CONSTEXPR static inline zx_ticks_t zx_ticks_mul_int64(zx_ticks_t ticks, int64_t multiplier)
{
	return zx_duration_mul_int64(ticks, multiplier);
}

__CONSTEXPR static inline int64_t zx_nsec_from_duration(zx_duration_t n) { return n; }
__CONSTEXPR static inline zx_duration_t zx_duration_from_nsec(int64_t n) { return n; }
__CONSTEXPR static inline zx_duration_t zx_duration_from_usec(int64_t n) { return zx_duration_mul_int64(n, 1000); }
__CONSTEXPR static inline zx_duration_t zx_duration_from_msec(int64_t n) { return zx_duration_mul_int64(n, 1000000); }
__CONSTEXPR static inline zx_duration_t zx_duration_from_sec(int64_t n) { return zx_duration_mul_int64(n, 1000000000); }
__CONSTEXPR static inline zx_duration_t zx_duration_from_min(int64_t n) { return zx_duration_mul_int64(n, 60000000000); }
__CONSTEXPR static inline zx_duration_t zx_duration_from_hour(int64_t n) { return zx_duration_mul_int64(n, 3600000000000); }

#if __has_include(<time.h>)

__CONSTEXPR static inline zx_duration_t zx_duration_from_timespec(struct timespec time)
{
	return zx_duration_add_duration(zx_duration_from_sec(time.tv_sec), time.tv_nsec);
}

__CONSTEXPR static inline zx_time_t zx_time_from_timespec(struct timespec time)
{
	return zx_duration_from_timespec(time);
}

__CONSTEXPR static inline struct timespec zx_timespec_from_duration(zx_duration_t duration)
{
	struct timespec time = {};
	time.tv_sec = duration / 1000000000;
	time.tv_nsec = duration % 1000000000;
	return time;
}

__CONSTEXPR static inline struct timespec zx_timespec_from_time(zx_time_t time)
{
	return zx_timespec_from_duration(time);
}

#endif

__END_CDECLS

// n units as a duration; a constant expression if n is one.
#define __ZX_UNITS(n, size, from) (__ISCONSTANT(n) ? (zx_duration_t)(size##ll * (n)) : from(n))
#define ZX_NSEC(n) __ZX_UNITS(n, 1, zx_duration_from_nsec)
#define ZX_USEC(n) __ZX_UNITS(n, 1000, zx_duration_from_usec)
#define ZX_MSEC(n) __ZX_UNITS(n, 1000000, zx_duration_from_msec)
#define ZX_SEC(n) __ZX_UNITS(n, 1000000000, zx_duration_from_sec)
#define ZX_MIN(n) __ZX_UNITS(n, 60000000000, zx_duration_from_min)
#define ZX_HOUR(n) __ZX_UNITS(n, 3600000000000, zx_duration_from_hour)

#endif
