// Prints results that the standard defines exactly: the same bytes on every system. One line for each case.
#define _GNU_SOURCE
#include <complex.h>
#include <ctype.h>
#include <float.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// The bits of a number: %a leaves open which digit comes first.
static const char *bits(double number)
{
	static char texts[16][20];
	static int next;
	uint64_t word;
	memcpy(&word, &number, sizeof word);
	char *text = texts[next++ % 16];
	snprintf(text, sizeof *texts, "%016" PRIx64, word);
	return text;
}

static void integers(void)
{
	static const char *formats[] = { "%d", "%5d", "%-5d|", "%05d", "%+d", "% d", "%.3d", "%8.3d", "%-8.3d|", "%+.0d", "%x", "%#x", "%#X",
		"%o", "%#o", "%u", "%.0d", "%#.5x", "%08x", "%+5d" };
	static const int values[] = { 0, 1, -1, 42, -12345, INT_MAX, INT_MIN };
	for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
		for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
			printf("%s of %d: [", formats[f], values[v]);
			printf(formats[f], values[v]);
			puts("]");
		}
	printf("%hhd %hd %ld %lld %jd %zu %td\n", (signed char)300, (short)70000, LONG_MIN, LLONG_MAX, INTMAX_MIN, SIZE_MAX, PTRDIFF_MIN);
	printf("%" PRId8 " %" PRIu16 " %" PRIx32 " %" PRIX64 " %" PRIoMAX "\n", INT8_MIN, UINT16_MAX, UINT32_MAX, UINT64_MAX, UINTMAX_MAX);
}

static void floats(void)
{
	static const char *formats[] = { "%f", "%.0f", "%.1f", "%.3f", "%10.2f", "%-10.2f|", "%+f", "% f", "%010.3f", "%#.0f", "%e", "%.0e",
		"%.10e", "%E", "%12.3e", "%g", "%.3g", "%#g", "%G", "%.17g", "%.20f", "%.30e", "%.0g", "%10g" };
	static const double values[] = { 0.0, -0.0, 1.0, -1.5, 0.5, 1.5, 2.5, 0.1, 1.0 / 3, 123456789.0, 1e10, 1e21, 1e22, 1e-5, 1e-7, 9.995,
		0.05, 99999.5, 999999.5, 1e100, 5e-324, DBL_MAX, DBL_MIN, 2.2250738585072011e-308, 4.35, 0.000123456789, INFINITY, -INFINITY };
	for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
		for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
			// Some hosts omit the zeros here, although # requires them.
			if (values[v] == 999999.5 && !strcmp(formats[f], "%#g"))
				continue;
			printf("%s of %s: [", formats[f], bits(values[v]));
			printf(formats[f], values[v]);
			puts("]");
		}
	printf("%Lf %Le %Lg %.18Lg\n", 1.0L / 3, 1e300L * 1e300L, 1e-4000L, 3.14159265358979323846L);
	printf("%a %a %a %.2a %A\n", 1.0, 0.1, -1024.0, 1.999, 255.5);
}

static void texts(void)
{
	printf("[%s] [%10s] [%-10s] [%.2s] [%10.2s] [%c] [%5c] [%%] [%ls] [%lc]\n", "text", "right", "left", "cut", "cut", 'c', 'c', L"wide", L'w');
	char buffer[8];
	int length = snprintf(buffer, sizeof buffer, "%s", "longer than it");
	printf("%d [%s]\n", length, buffer);
	int count = -1;
	printf("12345%n", &count);
	printf(" %d\n", count);
}

static void scanned(void)
{
	static const char *numbers[] = { "0", "  42", "-17 ", "+8", "0x1f", "017", "99999999999999999999", "-99999999999999999999", "abc", "", "12abc" };
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		char *end;
		long l = strtol(numbers[i], &end, 0);
		printf("strtol \"%s\": %ld, %td used;", numbers[i], l, end - numbers[i]);
		unsigned long long u = strtoull(numbers[i], &end, 16);
		printf(" base 16: %llu, %td used;", u, end - numbers[i]);
		int d = -7, n = sscanf(numbers[i], "%d", &d);
		printf(" %%d: %d, %s\n", n, n == 1 && i < 6 ? (d == (int)strtol(numbers[i], 0, 10) ? "same" : "other") : "-");
	}
	static const char *reals[] = { "1", "1.5", "-.5", "1e3", "1e-3", "1e", "0x1.8p1", "inf", "-infinity", "1e400", "1e-400", "4.9e-324", "0.1",
		"1.7976931348623157e308", "9007199254740993", "123456789012345678901234567890", ".", "2.4703282292062327e-324",
		"2.4703282292062328e-324", "8.5899345920000005e9" };
	for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
		char *end;
		double d = strtod(reals[i], &end);
		printf("strtod \"%s\": %s, %td used; ", reals[i], bits(d), end - reals[i]);
		printf("%s %.20Lg\n", bits(strtof(reals[i], 0)), strtold(reals[i], 0));
	}
	int a = 0, b = 0, n = 0, r;
	char s[16] = "", set[16] = "";
	double d = 0;
	r = sscanf("12,34 word [set] 5.5x", "%d,%d %15s [%15[a-z]] %lf%n", &a, &b, s, set, &d, &n);
	printf("%d: %d %d %s %s %g %d\n", r, a, b, s, set, d, n);
	r = sscanf("abc", "%*c%2s", s);
	printf("%d: %s\n", r, s);
	r = sscanf("10 20", "%i%%", &a);
	printf("%d: %d\n", r, a);
	r = sscanf("12345", "%2d%3d", &a, &b);
	printf("%d: %d %d\n", r, a, b);
	r = sscanf("", "%d", &a);
	printf("%d\n", r);
	unsigned char hh = 0;
	short h = 0;
	long long ll = 0;
	r = sscanf("255 -32768 9223372036854775807", "%hhu %hd %lld", &hh, &h, &ll);
	printf("%d: %u %d %lld\n", r, hh, h, ll);
}

static void mathematics(void)
{
	// Only results that must be exact.
	static const double values[] = { 0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e15 + 0.5, 3.7, -3.7, 1e300, INFINITY };
	for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
		double x = values[i], whole;
		int exponent;
		printf("%s: %s %s %s %s %s %s %s", bits(x), bits(floor(x)), bits(ceil(x)), bits(trunc(x)), bits(round(x)), bits(rint(x)),
			bits(nearbyint(x)), bits(fabs(x)));
		double part = modf(x, &whole);
		printf(" modf %s %s", bits(part), bits(whole));
		if (isfinite(x)) {
			part = frexp(x, &exponent);
			printf(" frexp %s %d", bits(part), exponent);
		}
		printf(" next %s %s", bits(nextafter(x, 10)), bits(nextafter(x, -10)));
		printf(" class %d %d %d %d\n", !!isnan(x), !!isinf(x), !!signbit(x), !!isnormal(x));
	}
	printf("%s %s %s %s\n", bits(sqrt(2.0)), bits(sqrt(1e300)), bits(sqrtf(2.0f)), bits((double)sqrtl(4.0L)));
	printf("%s %s %s\n", bits(fmod(5.3, 2.1)), bits(remainder(5.3, 2.1)), bits(fmod(-1e300, 3.7)));
	printf("%s %s %s\n", bits(fma(0.1, 10, -1)), bits(fma(1e308, 10, -INFINITY)), bits(ldexp(0.75, -1074)));
	printf("%s %s %s %s\n", bits(fmax(1, NAN)), bits(fmin(NAN, 2)), bits(fdim(5, 3)), bits(copysign(3, -0.0)));
	printf("%ld %ld %lld %d %d\n", lrint(2.5), lround(2.5), llround(-2.5), ilogb(1024.5), ilogb(0.1));
	printf("%s %s\n", bits(logb(1000)), bits(scalbn(1.25, 10)));
	printf("%g %g %g %g\n", sin(0.0), cos(0.0), exp(0.0), log(1.0));
	printf("%.10f %.10f %.10f %.10f\n", sin(1), cos(1), tan(1), atan2(1, -1));
	printf("%.10f %.10f %.10f %.10f\n", exp(1.5), log(10), pow(2.5, 3.5), cbrt(27));
	printf("%.10f %.10f %.10f %.10f\n", sinh(1), acosh(2), erf(0.5), tgamma(5.5));
	printf("%.12Lf %.12Lf %.12Lf\n", sinl(1), expl(1.5L), powl(2, 0.5L));
	double complex z = csqrt(-4.0 + 0.0 * I), w = cexp(1.0 + 2.0 * I);
	printf("%.10f %.10f %.10f %.10f\n", creal(z), cimag(z), creal(w), cimag(w));
	printf("%.10f %.10f\n", cabs(3 + 4 * I), carg(-1.0 + 0.0 * I));
}

static void times(void)
{
	static const time_t moments[] = { 0, 1, 86399, 951782400, 1078012800, 1735689599, 4102444800, -1, -2208988800 };
	for (size_t i = 0; i < sizeof moments / sizeof *moments; i++) {
		struct tm tm = *gmtime(&moments[i]);
		char text[200];
		strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S %a %A %b %B %j %U %W %u %w %V %G %g %C %y %e %I %p %D %F %T %R %c|%x|%X %%", &tm);
		printf("%lld: %s; %s", (long long)moments[i], text, asctime(&tm));
	}
	struct tm odd = { .tm_year = 124, .tm_mon = 13, .tm_mday = 35, .tm_hour = -5, .tm_min = 200, .tm_sec = 1000 };
	printf("%lld", (long long)mktime(&odd));
	printf(" %d %d %d %d %d\n", odd.tm_year, odd.tm_mon, odd.tm_mday, odd.tm_wday, odd.tm_yday);
	printf("%.1f\n", difftime(1000, 1));
}

static int by_value(const void *a, const void *b)
{
	return *(const int *)a < *(const int *)b ? -1 : *(const int *)a > *(const int *)b;
}

static void rest(void)
{
	for (int c = 0; c < 128; c++)
		printf("%d%d%d%d%d%d%d%d%d%d%d%d %c%c\n", !!isalnum(c), !!isalpha(c), !!isblank(c), !!iscntrl(c), !!isdigit(c), !!isgraph(c),
			!!islower(c), !!isprint(c), !!ispunct(c), !!isspace(c), !!isupper(c), !!isxdigit(c), isprint(c) ? toupper(c) : '.',
			isprint(c) ? tolower(c) : '.');
	int numbers[200];
	unsigned seed = 12345;
	for (int i = 0; i < 200; i++)
		numbers[i] = (seed = seed * 1103515245 + 12345) >> 16 & 0x7fff;
	qsort(numbers, 200, sizeof *numbers, by_value);
	for (int i = 0; i < 200; i++)
		printf("%d%c", numbers[i], i % 20 == 19 ? '\n' : ' ');
	int key = numbers[77];
	int *found = bsearch(&key, numbers, 200, sizeof *numbers, by_value);
	printf("%d %d\n", *found, *(int *)bsearch(&numbers[0], numbers, 200, sizeof *numbers, by_value));
	div_t q = div(-7, 2);
	lldiv_t l = lldiv(7, -2);
	printf("%d %d %lld %lld %d %ld\n", q.quot, q.rem, l.quot, l.rem, abs(-3), labs(-4L));
	char text[] = "a,b;;c", *save, *part;
	for (part = strtok_r(text, ",;", &save); part; part = strtok_r(0, ",;", &save))
		printf("<%s>", part);
	printf(" %zu %zu %s %s\n", strspn("aabbc", "ab"), strcspn("hello", "lo"), strstr("haystack", "st"), strpbrk("word", "xr"));
}

static void times_of_text(void)
{
	static const char *cases[][2] = {
		{ "1856-07-10", "%F" }, { "683078400", "%s" }, { "+0200", "%z" }, { "-0530", "%z" }, { "-06", "%z" }, { "+05:30", "%z" },
		{ "Z", "%z" }, { "2024-02-29T12:34:56+0100", "%FT%T%z" }, { "Thu Feb 29 12:34:56 2024", "%c" }, { "12:34:56 PM", "%r" },
		{ "12:00:01 am", "%I:%M:%S %p" }, { "11 pm", "%I %p" }, { "pm 11", "%p %I" }, { "366", "%j" }, { "367", "%j" },
		{ " 5 Mar 2021", "%e %b %Y" }, { "March 5, 2021", "%B %d, %Y" }, { "Sunday", "%A" }, { "sun", "%a" }, { "7", "%u" },
		{ "6", "%w" }, { "60", "%S" }, { "24", "%H" }, { "23", "%H" }, { "13", "%I" }, { "0", "%I" }, { "2021-13-01", "%F" },
		{ "2021-00-01", "%F" }, { "x", "%q" }, { "100%", "%d%%" }, { "12345", "%H%M%S" }, { "abc", "abd" }, { "02/28/21", "%D" },
		{ "12:30", "%R" }, { "1", "%" }, { "", "%d" }, { "2021-02-31", "%F" }, { "2021-03-01 53", "%F %U" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct tm tm = { 0 };
		const char *rest = strptime(cases[i][0], cases[i][1], &tm);
		printf("%s as %s: ", cases[i][0], cases[i][1]);
		if (rest)
			printf("%d-%d-%d %d:%d:%d, %d of the week, %d of the year, %ld, then [%s]\n", tm.tm_year, tm.tm_mon, tm.tm_mday,
				tm.tm_hour, tm.tm_min, tm.tm_sec, tm.tm_wday, tm.tm_yday, tm.tm_gmtoff, rest);
		else
			puts("no");
	}
}

int main(void)
{
	integers();
	floats();
	texts();
	scanned();
	mathematics();
	times();
	times_of_text();
	rest();
	return ferror(stdout) != 0;
}
