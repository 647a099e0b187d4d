// string.h, ctype.h, stdlib.h, wchar.h, wctype.h, uchar.h, locale.h, iconv.h, langinfo.h, regex.h, fnmatch.h.
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <iconv.h>
#include <langinfo.h>
#include <libgen.h>
#include <locale.h>
#include <regex.h>
#include <stdint.h>
#include <stdlib.h>
#include <strings.h>
#include <uchar.h>
#include <wchar.h>
#include <wctype.h>
#include "check.h"

TEST(string_moving)
{
	// Every length, alignment and overlap up to the size of several vectors, compared with a simple loop.
	static unsigned char a[600], b[600];
	for (int length = 0; length < 200; length++)
		for (int from = 0; from < 260; from += 13)
			for (int to = 0; to < 260; to += 11) {
				for (int i = 0; i < 600; i++)
					a[i] = b[i] = i * 7 + length;
				memmove(a + to, a + from, length);
				unsigned char copy[200];
				for (int i = 0; i < length; i++)
					copy[i] = b[from + i];
				for (int i = 0; i < length; i++)
					b[to + i] = copy[i];
				if (memcmp(a, b, 600)) {
					fail(__FILE__, __LINE__, "memmove of %d bytes from %d to %d", length, from, to);
					return;
				}
			}
	char text[8];
	CHECK(mempcpy(text, "abc", 4) == text + 4);
	CHECK(memccpy(text, "xyz", 'y', 3) == text + 2);
	CHECK(memset(text, 'q', 8) == text && text[7] == 'q');
}

TEST(string_copying)
{
	char to[16] = "";
	CHECK_STR(strcpy(to, "one"), "one");
	CHECK_STR(strcat(to, " two"), "one two");
	CHECK_STR(strncat(to, " three", 3), "one two th");
	memset(to, 'x', sizeof to);
	strncpy(to, "ab", 5);
	CHECK(!memcmp(to, "ab\0\0\0xx", 7));
	CHECK(stpcpy(to, "end") == to + 3);
	CHECK(strlcpy(to, "much too long for it", 4) == 20 && !strcmp(to, "muc"));
	CHECK(strlcat(to, "h", sizeof to) == 4);
	char *copy = strdup("again"), *part = strndup("again", 2);
	CHECK_STR(copy, "again");
	CHECK_STR(part, "ag");
	free(copy);
	free(part);
}

TEST(string_comparing)
{
	CHECK(strcmp("abc", "abd") < 0 && strcmp("b", "abc") > 0 && !strcmp("", ""));
	CHECK(strcmp("\xff", "a") > 0 && memcmp("\xff", "a", 1) > 0);
	CHECK(!strncmp("abcx", "abcy", 3) && strncmp("abcx", "abcy", 4) < 0);
	CHECK(!strcasecmp("HeLLo", "hEllO") && strncasecmp("HELx", "hely", 3) == 0);
	CHECK(strverscmp("file9", "file10") < 0);
	CHECK(strcoll("a", "b") < 0);
	char out[8];
	CHECK(strxfrm(out, "abc", 8) == 3 && !strcmp(out, "abc"));
}

TEST(string_searching)
{
	const char *text = "the quick brown fox";
	CHECK_STR(strchr(text, 'q'), "quick brown fox");
	CHECK(strchr(text, 0) == text + 19 && !strchr(text, 'z'));
	CHECK_STR(strrchr(text, 'o'), "ox");
	CHECK_STR(strstr(text, "brown"), "brown fox");
	CHECK(!strstr(text, "brawn") && strstr(text, "") == text);
	CHECK_STR(strcasestr(text, "QUICK"), "quick brown fox");
	CHECK(memchr(text, 'k', 8) == 0 && memrchr(text, 'o', 19) == text + 17);
	CHECK(memmem(text, 19, "row", 3) == text + 11);
	CHECK(strnlen(text, 5) == 5 && strchrnul(text, '!') == text + 19);
	CHECK(ffs(8) == 4 && ffsl(0) == 0);
	// A long needle in a long text, at every position.
	static char hay[5000];
	memset(hay, 'a', sizeof hay - 1);
	char needle[300];
	memset(needle, 'a', 299);
	needle[298] = 'b';
	needle[299] = 0;
	CHECK(!strstr(hay, needle));
	hay[4000] = 'b';
	CHECK(strstr(hay, needle) == hay + 4000 - 298);
}

TEST(string_tokens)
{
	char text[] = "a=1;;b=2", *rest = text;
	CHECK_STR(strsep(&rest, ";"), "a=1");
	CHECK_STR(strsep(&rest, ";"), "");
	CHECK_STR(strsep(&rest, ";"), "b=2");
	CHECK(!rest && !strsep(&rest, ";"));
	char again[] = "  one  two ";
	CHECK_STR(strtok(again, " "), "one");
	CHECK_STR(strtok(0, " "), "two");
	CHECK(!strtok(0, " "));
}

TEST(string_errors)
{
	CHECK_STR(strerror(ENOENT), "No such file or directory");
	CHECK_STR(strerror(0), "No error information");
	char small[4];
	CHECK_INT(strerror_r(EACCES, small, 4) != 0, 1);
	CHECK_STR(strsignal(6), "Aborted");
}

TEST(stdlib_numbers)
{
	char *end;
	errno = 0;
	CHECK(strtol("9223372036854775808", &end, 10) == INT64_MAX && errno == ERANGE);
	CHECK(strtol("zz", &end, 36) == 1295 && strtol("0b", &end, 16) == 11);
	errno = 0;
	CHECK(strtoul("5", 0, 1) == 0 && errno == EINVAL);
	CHECK(atoi(" -12x") == -12 && atol("123") == 123 && atoll("-1") == -1 && atof("2.5e1") == 25);
	errno = 0;
	CHECK(strtod("1e999", &end) > 1e308 && errno == ERANGE);
	CHECK(strtof("0.1", 0) == 0.1f && strtold("0.1", 0) == 0.1L);
}

static int calls;

static int by_text(const void *a, const void *b)
{
	calls++;
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int by_number_r(const void *a, const void *b, void *sign)
{
	return *(int *)sign * (*(const int *)a - *(const int *)b);
}

TEST(stdlib_sorting)
{
	const char *words[] = { "pear", "apple", "fig", "banana" };
	qsort(words, 4, sizeof *words, by_text);
	CHECK_STR(words[0], "apple");
	CHECK_STR(words[3], "pear");
	CHECK(calls > 0);
	const char *key = "fig";
	CHECK(bsearch(&key, words, 4, sizeof *words, by_text) == &words[2]);
	key = "kiwi";
	CHECK(!bsearch(&key, words, 4, sizeof *words, by_text));
	static int numbers[5000];
	for (int i = 0; i < 5000; i++)
		numbers[i] = i * 7919 % 5000;
	int sign = -1;
	qsort_r(numbers, 5000, sizeof *numbers, by_number_r, &sign);
	for (int i = 0; i < 5000; i++)
		if (numbers[i] != 4999 - i) {
			fail(__FILE__, __LINE__, "place %d has %d", i, numbers[i]);
			break;
		}
}

TEST(stdlib_random)
{
	srand(1);
	int a = rand();
	srand(1);
	CHECK(a == rand() && a >= 0 && a <= RAND_MAX);
	unsigned state = 3;
	CHECK(rand_r(&state) >= 0);
	srandom(9);
	CHECK(random() >= 0);
	double d = drand48();
	CHECK(d >= 0 && d < 1);
}

TEST(stdlib_memory)
{
	char *p = malloc(100);
	CHECK(p && (uintptr_t)p % 16 == 0);
	p = realloc(p, 100000);
	CHECK(p != 0);
	p[99999] = 1;
	free(p);
	int *zeros = calloc(1000, sizeof *zeros);
	int all = 0;
	for (int i = 0; i < 1000; i++)
		all |= zeros[i];
	CHECK_INT(all, 0);
	free(zeros);
	void *aligned = aligned_alloc(4096, 8192);
	CHECK(aligned && (uintptr_t)aligned % 4096 == 0);
	free(aligned);
	CHECK(posix_memalign(&aligned, 3, 8) == EINVAL);
	errno = 0;
	volatile size_t huge = SIZE_MAX / 2;
	CHECK(!malloc(huge) && errno == ENOMEM);
	CHECK(!calloc(huge, 4));
	CHECK(!reallocarray(0, huge, 4));
}

TEST(stdlib_environment)
{
	CHECK(!setenv("CTEST", "one", 1));
	CHECK_STR(getenv("CTEST"), "one");
	CHECK(!setenv("CTEST", "two", 0));
	CHECK_STR(getenv("CTEST"), "one");
	static char entry[] = "CTEST=three";
	CHECK(!putenv(entry));
	CHECK_STR(secure_getenv("CTEST"), "three");
	CHECK(!unsetenv("CTEST") && !getenv("CTEST"));
	errno = 0;
	CHECK(setenv("A=B", "", 1) == -1 && errno == EINVAL);
}

TEST(libgen_parts)
{
	char a[] = "/usr/lib/", b[] = "/usr/lib/", c[] = "plain";
	CHECK_STR(basename(a), "lib");
	CHECK_STR(dirname(b), "/usr");
	CHECK_STR(dirname(c), ".");
}

TEST(locale_names)
{
	CHECK_STR(setlocale(LC_ALL, 0), "C");
	CHECK_STR(localeconv()->decimal_point, ".");
	CHECK(setlocale(LC_ALL, "C.UTF-8") != 0);
	CHECK_STR(nl_langinfo(CODESET), "UTF-8");
	CHECK_STR(nl_langinfo(MON_1), "January");
	CHECK(MB_CUR_MAX == 4);
	locale_t plain = newlocale(LC_ALL_MASK, "C", 0), before = uselocale(plain);
	CHECK(MB_CUR_MAX == 1);
	uselocale(before);
	freelocale(plain);
	CHECK(toupper_l('a', uselocale(0)) == 'A');
	setlocale(LC_ALL, "C");
}

TEST(wchar_conversions)
{
	setlocale(LC_ALL, "C.UTF-8");
	wchar_t wide[16];
	CHECK_INT(mbstowcs(wide, "h\xc3\xa9\xe4\xb8\x96\xf0\x9f\x98\x80", 16), 4);
	CHECK(wide[1] == 0xe9 && wide[2] == 0x4e16 && wide[3] == 0x1f600);
	char narrow[16];
	CHECK_INT(wcstombs(narrow, wide, 16), 10);
	CHECK_STR(narrow, "h\xc3\xa9\xe4\xb8\x96\xf0\x9f\x98\x80");
	mbstate_t state = { 0 };
	wchar_t one;
	CHECK_INT((long)mbrtowc(&one, "\xe4", 1, &state), -2);
	CHECK_INT(mbrtowc(&one, "\xb8\x96", 2, &state), 2);
	CHECK(one == 0x4e16 && mbsinit(&state));
	errno = 0;
	CHECK(mbtowc(&one, "\xff", 1) == -1 && errno == EILSEQ);
	CHECK(btowc('a') == L'a' && wctob(0xe9) == EOF && mblen("\xc3\xa9", 2) == 2);
	setlocale(LC_ALL, "C");
}

TEST(wchar_strings)
{
	wchar_t to[32];
	CHECK(wcslen(wcscpy(to, L"wide")) == 4 && !wcscmp(wcscat(to, L" text"), L"wide text"));
	CHECK(wcschr(to, L't') == to + 5 && wcsstr(to, L"ex") == to + 6 && wcsrchr(to, L'e') == to + 6);
	CHECK(wcstol(L"-42z", 0, 10) == -42 && wcstod(L"2.5", 0) == 2.5);
	CHECK(!wmemcmp(wmemset(to, L'x', 3), L"xxx", 3));
	wchar_t list[] = L"a,b", *save;
	CHECK(!wcscmp(wcstok(list, L",", &save), L"a") && !wcscmp(wcstok(0, L",", &save), L"b"));
	CHECK(swprintf(to, 32, L"%d %ls %s", 5, L"w", "n") == 5 && !wcscmp(to, L"5 w n"));
	int number;
	CHECK(swscanf(L"77 x", L"%d", &number) == 1 && number == 77);
	CHECK(wcwidth(L'a') == 1 && wcwidth(0x4e16) == 2);
}

TEST(wctype_classes)
{
	CHECK(iswalpha(0xe9) && iswupper(0x391) && towlower(0x391) == 0x3b1 && towupper(0xe9) == 0xc9);
	CHECK(iswdigit(L'7') && !iswdigit(0x661) && iswspace(0x2003) && iswctype(L'a', wctype("alpha")));
	CHECK(towctrans(L'a', wctrans("toupper")) == L'A');
}

TEST(uchar_units)
{
	setlocale(LC_ALL, "C.UTF-8");
	mbstate_t state = { 0 };
	char16_t unit;
	CHECK_INT(mbrtoc16(&unit, "\xf0\x9f\x98\x80", 4, &state), 4);
	CHECK(unit == 0xd83d);
	CHECK_INT((long)mbrtoc16(&unit, "", 0, &state), -3);
	CHECK(unit == 0xde00);
	char32_t whole;
	memset(&state, 0, sizeof state);
	CHECK(mbrtoc32(&whole, "\xc3\xa9", 2, &state) == 2 && whole == 0xe9);
	char out[8];
	CHECK(c32rtomb(out, 0x4e16, &state) == 3 && !memcmp(out, "\xe4\xb8\x96", 3));
	setlocale(LC_ALL, "C");
}

TEST(iconv_encodings)
{
	iconv_t convert = iconv_open("UTF-16BE", "UTF-8");
	char in[] = "h\xc3\xa9", out[8], *from = in, *to = out;
	size_t left = 3, room = 8;
	CHECK(convert != (iconv_t)-1 && iconv(convert, &from, &left, &to, &room) == 0);
	CHECK(room == 4 && !memcmp(out, "\0h\0\xe9", 4));
	iconv_close(convert);
	convert = iconv_open("UTF-8", "ISO-8859-1");
	char latin[] = "\xe9";
	from = latin, to = out, left = 1, room = 8;
	CHECK(iconv(convert, &from, &left, &to, &room) == 0 && !memcmp(out, "\xc3\xa9", 2));
	iconv_close(convert);
	errno = 0;
	CHECK(iconv_open("nonsense", "UTF-8") == (iconv_t)-1 && errno == EINVAL);
}

TEST(regex_matching)
{
	regex_t regex;
	regmatch_t match[3];
	CHECK(!regcomp(&regex, "([a-z]+)=([0-9]+)", REG_EXTENDED));
	CHECK(!regexec(&regex, "  key=42;", 3, match, 0) && match[1].rm_so == 2 && match[2].rm_so == 6 && match[2].rm_eo == 8);
	CHECK(regexec(&regex, "nothing", 3, match, 0) == REG_NOMATCH);
	regfree(&regex);
	CHECK(!regcomp(&regex, "^a.*z$", REG_ICASE | REG_NOSUB) && !regexec(&regex, "ABCZ", 0, 0, 0));
	regfree(&regex);
	int error = regcomp(&regex, "(", REG_EXTENDED);
	char text[64];
	CHECK(error == REG_EPAREN && regerror(error, &regex, text, sizeof text) > 1);
	CHECK(!regcomp(&regex, "\\(ab\\)\\1", 0) && !regexec(&regex, "xababx", 0, 0, 0));
	regfree(&regex);
}

TEST(fnmatch_patterns)
{
	CHECK(!fnmatch("*.c", "text.c", 0) && fnmatch("*.c", "text.h", 0) == FNM_NOMATCH);
	CHECK(!fnmatch("[a-c]?", "b1", 0) && fnmatch("*", ".hidden", FNM_PERIOD) && fnmatch("*", "a/b", FNM_PATHNAME));
}

TEST(ctype_all)
{
	CHECK(isalpha('a') && !isalpha('1') && isxdigit('F') && ispunct('!') && isspace('\t') && iscntrl(127));
	CHECK(toupper('z') == 'Z' && tolower('A') == 'a' && toupper('1') == '1' && !isalpha(EOF));
}
