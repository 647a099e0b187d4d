// Parses times: POSIX's conversions, including those of its 2024 edition, and extensions of GNU and the BSDs (%s, %z,
// %Z, %k, %l, %P, %G, %g, %V, %u).
//
// Some conversions need another one to be interpreted (%p needs the hour, %C the year). Their values are kept until the
// end of the format.
#define _GNU_SOURCE
#include <ctype.h>
#include <langinfo.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

struct told {
	struct tm *tm;
	// The full year, its century, and its last two digits; century and digits are -1 if not given.
	int year, century, short_year;
	_Bool has_year;
	// The hour on the 12-hour clock, and whether it is after noon; -1 if not given.
	int hour, after_noon;
	_Bool has_month, has_day, has_weekday, has_yearday;
};

static const char *skip_blanks(const char *text)
{
	while (isspace((unsigned char)*text))
		text++;
	return text;
}

// Parses a number of at most `width` digits, from `least` to `most`; returns null if there is none.
static const char *number(const char *text, int width, int least, int most, int *out)
{
	int value = 0;
	text = skip_blanks(text);
	if (!isdigit((unsigned char)*text))
		return 0;
	for (; width > 0 && isdigit((unsigned char)*text); width--) {
		if (value > (INT_MAX - 9) / 10)
			return 0;
		value = value * 10 + (*text++ - '0');
	}
	if (value < least || value > most)
		return 0;
	*out = value;
	return text;
}

static const char *signed_number(const char *text, int width, int *out)
{
	text = skip_blanks(text);
	_Bool minus = *text == '-';
	if (minus || *text == '+')
		text++;
	// Blanks must not follow a sign.
	text = isdigit((unsigned char)*text) ? number(text, width, 0, INT_MAX, out) : 0;
	if (text && minus)
		*out = -*out;
	return text;
}

// Parses one of `count` names of the locale, full or abbreviated; returns null if it is none of them.
static const char *name(const char *text, nl_item full, nl_item abbreviated, int count, int *out)
{
	for (int i = 0; i < 2 * count; i++) {
		const char *one = nl_langinfo(i < count ? full + i : abbreviated + (i - count));
		size_t length = strlen(one);
		if (length && !strncasecmp(text, one, length)) {
			*out = i % count;
			return text + length;
		}
	}
	return 0;
}

// Parses a zone's offset from UTC, positive to the east: Z, +hh, +hhmm or +hh:mm.
static const char *offset(const char *text, long *out)
{
	text = skip_blanks(text);
	if (*text == 'Z') {
		*out = 0;
		return text + 1;
	}
	_Bool minus = *text == '-';
	int hours, minutes = 0;
	if (!minus && *text != '+' || !isdigit((unsigned char)text[1]) || !isdigit((unsigned char)text[2]))
		return 0;
	number(text + 1, 2, 0, 99, &hours);
	text += 3;
	const char *rest = *text == ':' ? text + 1 : text;
	if (isdigit((unsigned char)rest[0]) && isdigit((unsigned char)rest[1]))
		text = number(rest, 2, 0, 99, &minutes);
	if (hours > 24 || minutes > 59)
		return 0;
	*out = (hours * 60 + minutes) * 60 * (minus ? -1 : 1);
	return text;
}

// Sets the time that is the parsed number of seconds after 1970, in this process's time zone.
static const char *seconds(const char *text, struct tm *tm)
{
	char *end;
	text = skip_blanks(text);
	if (!isdigit((unsigned char)*text) && *text != '-')
		return 0;
	time_t moment = strtoll(text, &end, 10);
	return end != text && localtime_r(&moment, tm) ? end : 0;
}

static const char *all(const char *text, const char *format, struct told *told);

// Performs one conversion. `width` is the format's field width, or 0.
static const char *convert(const char *text, int conversion, int width, struct told *told)
{
	struct tm *tm = told->tm;
	int unused;
#define WIDTH(usual) (width ? width : (usual))
	switch (conversion) {
	case '%': return *skip_blanks(text) == '%' ? skip_blanks(text) + 1 : 0;
	case 'n':
	case 't': return skip_blanks(text);
	case 'a':
	case 'A': told->has_weekday = 1; return name(text, DAY_1, ABDAY_1, 7, &tm->tm_wday);
	case 'b':
	case 'B':
	case 'h': told->has_month = 1; return name(text, MON_1, ABMON_1, 12, &tm->tm_mon);
	case 'c': return all(text, nl_langinfo(D_T_FMT), told);
	case 'C': return number(text, WIDTH(2), 0, 999, &told->century);
	case 'd':
	case 'e': told->has_day = 1; return number(text, WIDTH(2), 1, 31, &tm->tm_mday);
	case 'D': return all(text, "%m/%d/%y", told);
	case 'F':
		// Six characters of the width are for what follows the year.
		told->has_year = 1;
		text = signed_number(text, width > 6 ? width - 6 : 4, &told->year);
		return text ? all(text, "-%m-%d", told) : 0;
	case 'g': return number(text, WIDTH(2), 0, 99, &unused);
	case 'G': return signed_number(text, WIDTH(4), &unused);
	case 'H':
	case 'k': told->hour = -1; return number(text, WIDTH(2), 0, 23, &tm->tm_hour);
	case 'I':
	case 'l': return number(text, WIDTH(2), 1, 12, &told->hour);
	case 'j':
		told->has_yearday = 1;
		text = number(text, WIDTH(3), 1, 366, &tm->tm_yday);
		tm->tm_yday -= text != 0;
		return text;
	case 'm':
		told->has_month = 1;
		text = number(text, WIDTH(2), 1, 12, &tm->tm_mon);
		tm->tm_mon -= text != 0;
		return text;
	case 'M': return number(text, WIDTH(2), 0, 59, &tm->tm_min);
	case 'p':
	case 'P': return name(text, AM_STR, AM_STR, 2, &told->after_noon);
	case 'r': return all(text, nl_langinfo(T_FMT_AMPM), told);
	case 'R': return all(text, "%H:%M", told);
	case 's':
		told->has_year = 0;
		told->hour = -1;
		return seconds(text, tm);
	case 'S': return number(text, WIDTH(2), 0, 60, &tm->tm_sec);
	case 'T': return all(text, "%H:%M:%S", told);
	case 'u':
		told->has_weekday = 1;
		text = number(text, WIDTH(1), 1, 7, &tm->tm_wday);
		tm->tm_wday %= 7;
		return text;
	// Week numbers are parsed and ignored: other conversions determine the day.
	case 'U':
	case 'W': return number(text, WIDTH(2), 0, 53, &unused);
	case 'V': return number(text, WIDTH(2), 1, 53, &unused);
	case 'w': told->has_weekday = 1; return number(text, WIDTH(1), 0, 6, &tm->tm_wday);
	case 'x': return all(text, nl_langinfo(D_FMT), told);
	case 'X': return all(text, nl_langinfo(T_FMT), told);
	case 'y': return number(text, WIDTH(2), 0, 99, &told->short_year);
	case 'Y': told->has_year = 1; return signed_number(text, WIDTH(4), &told->year);
	case 'z': return offset(text, &tm->tm_gmtoff);
	case 'Z':
		// The name of a zone does not determine its offset.
		while (isalpha((unsigned char)*text))
			text++;
		return text;
	default: return 0;
	}
#undef WIDTH
}

static const char *all(const char *text, const char *format, struct told *told)
{
	while (text && *format) {
		if (isspace((unsigned char)*format)) {
			text = skip_blanks(text);
			format++;
		} else if (*format != '%') {
			text = *text == *format++ ? text + 1 : 0;
		} else {
			int width = 0;
			format++;
			while (*format && strchr("_-0^#+", *format))
				format++;
			while (isdigit((unsigned char)*format) && width < 100)
				width = width * 10 + (*format++ - '0');
			if (*format == 'E' || *format == 'O')
				format++;
			// A format that ends here has no conversion.
			text = *format ? convert(text, *format++, width, told) : 0;
		}
	}
	return text;
}

// Computes the day of the week and of the year from the date.
static void name_day(struct told *told)
{
	struct tm day = { .tm_year = told->tm->tm_year, .tm_mon = told->tm->tm_mon, .tm_mday = told->tm->tm_mday };
	if (timegm(&day) == -1 && day.tm_year != 69)
		return;
	if (!told->has_weekday)
		told->tm->tm_wday = day.tm_wday;
	if (!told->has_yearday)
		told->tm->tm_yday = day.tm_yday;
}

char *strptime(const char *restrict text, const char *restrict format, struct tm *restrict tm)
{
	struct told told = { .tm = tm, .century = -1, .short_year = -1, .hour = -1, .after_noon = -1 };
	text = all(text, format, &told);
	if (!text)
		return 0;
	if (told.hour >= 0)
		tm->tm_hour = told.hour % 12 + 12 * (told.after_noon == 1);
	_Bool has_year = 1;
	if (told.has_year && told.year >= INT_MIN + 1900)
		tm->tm_year = told.year - 1900;
	else if (told.century >= 0)
		tm->tm_year = told.century * 100 - 1900 + (told.short_year < 0 ? 0 : told.short_year);
	else if (told.short_year >= 0)
		tm->tm_year = told.short_year < 69 ? told.short_year + 100 : told.short_year;
	else
		has_year = 0;
	if (has_year && told.has_month && told.has_day)
		name_day(&told);
	return (char *)text;
}
