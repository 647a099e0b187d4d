// C23's roundeven functions, which compilers call and musl does not have.
#include <fenv.h>
#include <math.h>

#define ROUND_EVEN(type, name, rint)                 \
	type name(type x)                            \
	{                                            \
		int mode = fegetround();             \
		if (mode == FE_TONEAREST)            \
			return rint(x);              \
		fesetround(FE_TONEAREST);            \
		x = rint(x);                         \
		fesetround(mode);                    \
		return x;                            \
	}

ROUND_EVEN(double, roundeven, rint)
ROUND_EVEN(float, roundevenf, rintf)
ROUND_EVEN(long double, roundevenl, rintl)
