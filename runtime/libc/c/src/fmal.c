// fmal, exactly: product and sum are computed as integers and rounded once. So the flags are those of a single
// operation: underflow only if the rounded result is subnormal and inexact, and inexact only if the result is.
#include <fenv.h>
#include <float.h>
#include <math.h>
#include <stdint.h>

typedef unsigned __int128 u128;

// A number of 256 bits, scaled by its exponent: high * 2^(128 + exponent) + low * 2^exponent.
struct wide {
	u128 high, low;
	int exponent;
};

union bits {
	long double number;
	struct {
		uint64_t mantissa;
		uint16_t top;
	} parts;
};

// Exponents of the lowest bit of the smallest number, and of the highest bit of the smallest normal and of the largest
// number.
enum { LOWEST = LDBL_MIN_EXP - LDBL_MANT_DIG, NORMAL = LDBL_MIN_EXP - 1, HIGHEST = LDBL_MAX_EXP - 1 };

static int zeroes_before(u128 number)
{
	uint64_t high = number >> 64;
	return high ? __builtin_clzll(high) : 64 + __builtin_clzll((uint64_t)number);
}

// Returns the mantissa, with its highest bit set, and the exponent of its lowest bit. The number is finite and not
// zero.
static uint64_t take_apart(long double number, int *exponent)
{
	union bits bits = { number };
	int biased = bits.parts.top & 0x7fff, shift = __builtin_clzll(bits.parts.mantissa);
	*exponent = (biased ? biased - 1 : 0) + LOWEST - shift;
	return bits.parts.mantissa << shift;
}

// Shifts right. If a one is shifted out, sets the lowest bit (sticky bit).
static struct wide smaller(struct wide a, unsigned by)
{
	a.exponent += by;
	_Bool lost = 0;
	if (by >= 128) {
		lost = a.low != 0;
		a.low = a.high;
		a.high = 0;
		by -= 128;
	}
	if (by >= 128) {
		lost |= a.low != 0;
		a.low = 0;
	} else if (by) {
		lost |= a.low << (128 - by) != 0;
		a.low = a.low >> by | a.high << (128 - by);
		a.high >>= by;
	}
	a.low |= lost;
	return a;
}

static _Bool less(struct wide a, struct wide b)
{
	return a.high != b.high ? a.high < b.high : a.low < b.low;
}

static struct wide sum(struct wide a, struct wide b)
{
	u128 low = a.low + b.low;
	return (struct wide){ a.high + b.high + (low < a.low), low, a.exponent };
}

static struct wide difference(struct wide a, struct wide b)
{
	return (struct wide){ a.high - b.high - (a.low < b.low), a.low - b.low, a.exponent };
}

static long double put_together(uint64_t mantissa, int exponent, _Bool negative)
{
	union bits bits = { .parts = { mantissa, negative << 15 } };
	// For a subnormal number, the highest bit is clear and the exponent field is 0.
	if (mantissa >> 63)
		bits.parts.top |= exponent - LOWEST + 1;
	return bits.number;
}

// Rounds to the bits above the lowest `drop` bits (more than 128), and says whether the result is inexact.
static u128 rounded(struct wide a, int drop, _Bool negative, _Bool *inexact)
{
	u128 kept = a.high >> (drop - 128);
	// The highest bit of the rest is worth one half.
	u128 rest = a.high << (256 - drop) | (a.low != 0);
	*inexact = rest != 0;
	u128 half = (u128)1 << 127;
	switch (fegetround()) {
	case FE_TONEAREST: return kept + (rest > half || (rest == half && kept & 1));
	case FE_UPWARD: return kept + (rest && !negative);
	case FE_DOWNWARD: return kept + (rest && negative);
	default: return kept;
	}
}

static long double rounded_once(struct wide a, _Bool negative)
{
	// Normalise: shift the highest bit to the top.
	int shift = a.high ? zeroes_before(a.high) : 128 + zeroes_before(a.low);
	if (shift >= 128) {
		a.high = a.low;
		a.low = 0;
		a.exponent -= 128;
		shift -= 128;
	}
	if (shift) {
		a.high = a.high << shift | a.low >> (128 - shift);
		a.low <<= shift;
		a.exponent -= shift;
	}
	_Bool inexact, tiny = 0;
	int exponent = a.exponent + 192, below = LOWEST - exponent;
	u128 mantissa = rounded(a, 192, negative, &inexact);
	if (below > 0) {
		// Tiny means that the result would be subnormal with an unbounded exponent range. A result that is rounded up to the
		// smallest normal number is not tiny.
		tiny = below > 1 || !(mantissa >> 64);
		mantissa = below < 64 ? rounded(a, 192 + below, negative, &inexact) : rounded(smaller(a, below - 63), 255, negative, &inexact);
		exponent = LOWEST;
	}
	if (mantissa >> 64) {
		mantissa >>= 1;
		exponent++;
	}
	if (exponent + 63 > HIGHEST) {
		volatile long double most = negative ? -LDBL_MAX : LDBL_MAX;
		return most * LDBL_MAX;
	}
	if (inexact)
		feraiseexcept(tiny ? FE_INEXACT | FE_UNDERFLOW : FE_INEXACT);
	return put_together(mantissa, exponent, negative);
}

long double fmal(long double x, long double y, long double z)
{
	if (!isfinite(x) || !isfinite(y) || !isfinite(z) || x == 0 || y == 0)
		return x * y + z;
	if (z == 0)
		return x * y;
	int exponents[3];
	u128 product = (u128)take_apart(x, &exponents[0]) * take_apart(y, &exponents[1]);
	u128 added = (u128)take_apart(z, &exponents[2]) << 64;
	struct wide a = { product, 0, exponents[0] + exponents[1] - 128 }, b = { added, 0, exponents[2] - 64 - 128 };
	_Bool negative = !signbit(x) != !signbit(y), other = signbit(z) != 0;
	// Leave room for the carry of the sum.
	a = smaller(a, 1);
	b = smaller(b, 1);
	if (a.exponent < b.exponent)
		a = smaller(a, b.exponent - a.exponent);
	else
		b = smaller(b, a.exponent - b.exponent);
	if (negative == other)
		return rounded_once(sum(a, b), negative);
	if (less(a, b))
		return rounded_once(difference(b, a), other);
	struct wide rest = difference(a, b);
	if (!rest.high && !rest.low)
		return fegetround() == FE_DOWNWARD ? -0.0L : 0.0L;
	return rounded_once(rest, negative);
}
