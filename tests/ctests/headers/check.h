// Test cases: each one registers itself, and main.c runs them.
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <string.h>

struct test {
	const char *name;
	void (*run)(void);
	struct test *next;
};

void add_test(struct test *test);
void fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));

// TEST(string_memcpy) { ... }: a case with this name. For cases of the C library, the part before the first underscore names
// the header.
#define TEST(id)                                                                 \
	static void test_##id(void);                                             \
	__attribute__((constructor)) static void add_##id(void)                  \
	{                                                                        \
		static struct test test = { #id, test_##id, 0 };                 \
		add_test(&test);                                                 \
	}                                                                        \
	static void test_##id(void)

#define CHECK(condition)                                            \
	do {                                                        \
		if (!(condition))                                   \
			fail(__FILE__, __LINE__, "%s", #condition); \
	} while (0)

#define CHECK_INT(found, expected)                                                                              \
	do {                                                                                                    \
		long long found_ = (long long)(found), expected_ = (long long)(expected);                       \
		if (found_ != expected_)                                                                        \
			fail(__FILE__, __LINE__, "%s is %lld, expected %lld", #found, found_, expected_);        \
	} while (0)

#define CHECK_STR(found, expected)                                                                          \
	do {                                                                                                \
		const char *found_ = (found), *expected_ = (expected);                                      \
		if (!found_ || strcmp(found_, expected_))                                                   \
			fail(__FILE__, __LINE__, "%s is \"%s\", expected \"%s\"", #found, found_ ? found_ : "(null)", \
				expected_);                                                                 \
	} while (0)

#endif
