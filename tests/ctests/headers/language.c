// Headers that only contain definitions: each is checked against the value or type that the standard requires.
#include <assert.h>
#include <complex.h>
#include <float.h>
#include <inttypes.h>
#include <iso646.h>
#include <limits.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <stdnoreturn.h>
#include <tgmath.h>
#include "check.h"

TEST(assert_that_holds)
{
	assert(1 + 1 == 2);
	static_assert(sizeof(char) == 1, "a char is one");
}

TEST(float_limits)
{
	CHECK(FLT_RADIX == 2 && FLT_MANT_DIG == 24 && DBL_MANT_DIG == 53 && LDBL_MANT_DIG == 64);
	CHECK(DBL_EPSILON == 0x1p-52 && DBL_MAX > 1e308 && DBL_MIN < 1e-307 && DBL_TRUE_MIN > 0);
	CHECK_INT(FLT_EVAL_METHOD, 0);
	CHECK_INT(FLT_ROUNDS, 1);
	CHECK_INT(DECIMAL_DIG, 21);
}

TEST(limits_of_types)
{
	CHECK(CHAR_BIT == 8 && SCHAR_MIN == -128 && UCHAR_MAX == 255 && SHRT_MAX == 32767);
	CHECK(INT_MAX == 2147483647 && LONG_MAX == 9223372036854775807 && ULLONG_MAX == 18446744073709551615u);
	CHECK(MB_LEN_MAX >= 4);
}

TEST(stdint_widths)
{
	CHECK(sizeof(int8_t) == 1 && sizeof(int16_t) == 2 && sizeof(int32_t) == 4 && sizeof(int64_t) == 8);
	CHECK(sizeof(intptr_t) == sizeof(void *) && sizeof(intmax_t) == 8 && sizeof(wchar_t) == 4);
	CHECK(INT64_C(1) << 40 == 1099511627776 && UINTPTR_MAX == SIZE_MAX && PTRDIFF_MAX == INT64_MAX);
}

TEST(inttypes_functions)
{
	char *end;
	CHECK(strtoimax("-123x", &end, 10) == -123 && *end == 'x');
	CHECK(strtoumax("ff", 0, 16) == 255);
	CHECK(imaxabs(-5) == 5);
	imaxdiv_t d = imaxdiv(17, 5);
	CHECK(d.quot == 3 && d.rem == 2);
	int64_t value;
	CHECK(sscanf("77", "%" SCNd64, &value) == 1 && value == 77);
}

TEST(iso646_operators)
{
	CHECK((1 and not 0) and (5 bitand 4) == 4 and (5 xor 1) == 4 and (1 not_eq 2));
}

TEST(stdalign_alignment)
{
	alignas(64) char line[64];
	CHECK((uintptr_t)line % 64 == 0);
	CHECK(alignof(max_align_t) == 16 && alignof(double) == 8);
}

static int sum(int count, ...)
{
	va_list first, second;
	va_start(first, count);
	va_copy(second, first);
	int total = 0;
	for (int i = 0; i < count; i++)
		total += va_arg(first, int);
	for (int i = 0; i < count; i++)
		total += 100 * va_arg(second, int);
	va_end(first);
	va_end(second);
	return total;
}

TEST(stdarg_arguments)
{
	CHECK_INT(sum(3, 1, 2, 3), 606);
	CHECK_INT(sum(10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1), 1010);
}

TEST(stdatomic_operations)
{
	atomic_int a = 5;
	CHECK_INT(atomic_fetch_add(&a, 3), 5);
	int expected = 8;
	CHECK(atomic_compare_exchange_strong(&a, &expected, 1) && atomic_load(&a) == 1);
	atomic_flag flag = ATOMIC_FLAG_INIT;
	CHECK(!atomic_flag_test_and_set(&flag) && atomic_flag_test_and_set(&flag));
	_Atomic long long wide = 1;
	CHECK(atomic_is_lock_free(&wide) && atomic_fetch_add(&wide, 2) == 1);
	atomic_thread_fence(memory_order_seq_cst);
	// Macros that are also functions: called through their addresses.
	_Bool (*set)(volatile atomic_flag *) = (atomic_flag_test_and_set);
	void (*clear)(volatile atomic_flag *, memory_order) = (atomic_flag_clear_explicit);
	void (*fence)(memory_order) = (atomic_thread_fence);
	CHECK(set(&flag));
	clear(&flag, memory_order_release);
	fence(memory_order_acq_rel);
	CHECK(!set(&flag) && set(&flag));
}

TEST(stdbool_values)
{
	bool b = 7;
	CHECK(b == true && sizeof(bool) == 1 && !false);
}

struct pair {
	char first;
	double second;
};

TEST(stddef_offsets)
{
	CHECK_INT(offsetof(struct pair, second), 8);
	CHECK(NULL == 0 && sizeof(size_t) == 8 && sizeof(ptrdiff_t) == 8);
}

noreturn static void leave(void)
{
	exit(1);
}

TEST(stdnoreturn_attribute)
{
	void (*function)(void) = leave;
	CHECK(function != 0);
}

TEST(tgmath_chooses)
{
	CHECK(sizeof(sqrt(4.0f)) == sizeof(float) && sqrt(4.0f) == 2);
	CHECK(sizeof(sqrt(4.0L)) == sizeof(long double) && pow(2, 10) == 1024);
	CHECK(cimag(sqrt(-1.0 + 0 * I)) == 1);
}

TEST(builtins_of_the_compiler)
{
	volatile __int128 a = (__int128)1 << 100, b = 12345678901234567;
	CHECK((long long)(a / b) == (long long)(((__int128)1 << 100) / 12345678901234567));
	CHECK((long long)(a % b) == (long long)(((__int128)1 << 100) % 12345678901234567));
	volatile double complex z = 1 + 2 * I, w = 3 - I;
	double complex product = z * w, quotient = z / w;
	CHECK(creal(product) == 5 && cimag(product) == 5 && fabs(creal(quotient) - 0.1) < 1e-15);
	volatile long double complex zl = 1 + 2 * I;
	CHECK(creall(zl * zl) == -3 && cimagl(zl * zl) == 4);
	volatile unsigned long long big = 0xfedcba9876543210;
	CHECK(__builtin_popcountll(big) == 32 && __builtin_clzll(big) == 0 && __builtin_ctzll(big) == 4);
}
