//! The mathematical functions, from the `libm` crate.

macro_rules! functions {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($argument: $kind),*) -> $result {
            libm::$name($($argument),*)
        }
    )*};
}

functions! {
    acos(x: f64) -> f64; acosf(x: f32) -> f32; acosh(x: f64) -> f64; acoshf(x: f32) -> f32;
    asin(x: f64) -> f64; asinf(x: f32) -> f32; asinh(x: f64) -> f64; asinhf(x: f32) -> f32;
    atan(x: f64) -> f64; atanf(x: f32) -> f32; atanh(x: f64) -> f64; atanhf(x: f32) -> f32;
    atan2(y: f64, x: f64) -> f64; atan2f(y: f32, x: f32) -> f32;
    cbrt(x: f64) -> f64; cbrtf(x: f32) -> f32; ceil(x: f64) -> f64; ceilf(x: f32) -> f32;
    copysign(x: f64, y: f64) -> f64; copysignf(x: f32, y: f32) -> f32;
    cos(x: f64) -> f64; cosf(x: f32) -> f32; cosh(x: f64) -> f64; coshf(x: f32) -> f32;
    erf(x: f64) -> f64; erff(x: f32) -> f32; erfc(x: f64) -> f64; erfcf(x: f32) -> f32;
    exp(x: f64) -> f64; expf(x: f32) -> f32; exp2(x: f64) -> f64; exp2f(x: f32) -> f32;
    exp10(x: f64) -> f64; exp10f(x: f32) -> f32; expm1(x: f64) -> f64; expm1f(x: f32) -> f32;
    fabs(x: f64) -> f64; fabsf(x: f32) -> f32; fdim(x: f64, y: f64) -> f64; fdimf(x: f32, y: f32) -> f32;
    floor(x: f64) -> f64; floorf(x: f32) -> f32; fma(x: f64, y: f64, z: f64) -> f64; fmaf(x: f32, y: f32, z: f32) -> f32;
    fmax(x: f64, y: f64) -> f64; fmaxf(x: f32, y: f32) -> f32; fmin(x: f64, y: f64) -> f64; fminf(x: f32, y: f32) -> f32;
    fmod(x: f64, y: f64) -> f64; fmodf(x: f32, y: f32) -> f32; hypot(x: f64, y: f64) -> f64; hypotf(x: f32, y: f32) -> f32;
    ilogb(x: f64) -> i32; ilogbf(x: f32) -> i32; ldexp(x: f64, n: i32) -> f64; ldexpf(x: f32, n: i32) -> f32;
    lgamma(x: f64) -> f64; lgammaf(x: f32) -> f32;
    log(x: f64) -> f64; logf(x: f32) -> f32; log10(x: f64) -> f64; log10f(x: f32) -> f32;
    log1p(x: f64) -> f64; log1pf(x: f32) -> f32; log2(x: f64) -> f64; log2f(x: f32) -> f32;
    nextafter(x: f64, y: f64) -> f64; nextafterf(x: f32, y: f32) -> f32;
    pow(x: f64, y: f64) -> f64; powf(x: f32, y: f32) -> f32; remainder(x: f64, y: f64) -> f64; remainderf(x: f32, y: f32) -> f32;
    rint(x: f64) -> f64; rintf(x: f32) -> f32; round(x: f64) -> f64; roundf(x: f32) -> f32;
    roundeven(x: f64) -> f64; roundevenf(x: f32) -> f32;
    scalbn(x: f64, n: i32) -> f64; scalbnf(x: f32, n: i32) -> f32;
    sin(x: f64) -> f64; sinf(x: f32) -> f32; sinh(x: f64) -> f64; sinhf(x: f32) -> f32;
    sqrt(x: f64) -> f64; sqrtf(x: f32) -> f32; tan(x: f64) -> f64; tanf(x: f32) -> f32; tanh(x: f64) -> f64; tanhf(x: f32) -> f32;
    tgamma(x: f64) -> f64; tgammaf(x: f32) -> f32; trunc(x: f64) -> f64; truncf(x: f32) -> f32;
}

/// Rounds to the nearest whole number, ties to even (the only rounding mode).
#[unsafe(no_mangle)]
pub extern "C" fn nearbyint(x: f64) -> f64 {
    libm::rint(x)
}

/// Rounds to the nearest whole number, ties to even (the only rounding mode).
#[unsafe(no_mangle)]
pub extern "C" fn nearbyintf(x: f32) -> f32 {
    libm::rintf(x)
}

macro_rules! with_place {
    ($($(#[$doc:meta])* $name:ident($x:ty, $place:ty) -> $result:ty = $function:path;)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(x: $x, place: *mut $place) -> $result {
            let (result, other) = $function(x);
            // SAFETY: the caller's place for the second result.
            unsafe { *place = other };
            result
        }
    )*};
}

with_place! {
    /// Mantissa in [0.5, 1) and exponent.
    frexp(f64, i32) -> f64 = libm::frexp;
    /// Mantissa in [0.5, 1) and exponent.
    frexpf(f32, i32) -> f32 = libm::frexpf;
    /// The logarithm of the gamma function, and its sign.
    lgamma_r(f64, i32) -> f64 = libm::lgamma_r;
    /// The logarithm of the gamma function, and its sign.
    lgammaf_r(f32, i32) -> f32 = libm::lgammaf_r;
    /// Fraction and whole part.
    modf(f64, f64) -> f64 = libm::modf;
    /// Fraction and whole part.
    modff(f32, f32) -> f32 = libm::modff;
}

/// Sine and cosine at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sincos(x: f64, sine: *mut f64, cosine: *mut f64) {
    // SAFETY: the caller's places.
    unsafe { (*sine, *cosine) = libm::sincos(x) };
}

/// Sine and cosine at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sincosf(x: f32, sine: *mut f32, cosine: *mut f32) {
    // SAFETY: the caller's places.
    unsafe { (*sine, *cosine) = libm::sincosf(x) };
}
