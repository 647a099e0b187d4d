// Runs the cases whose names begin with one of the arguments, or all cases, and reports whether each passed. With
// --child, runs as the process that a case started.
#include <stdarg.h>
#include <stdlib.h>
#include "check.h"

// The path of this program, for cases that start it.
const char *program;

static struct test *first, **last = &first;
static int failures;

void add_test(struct test *test)
{
	*last = test;
	last = &test->next;
}

void fail(const char *file, int line, const char *format, ...)
{
	va_list more;
	va_start(more, format);
	printf("  %s:%d: ", file, line);
	vprintf(format, more);
	putchar('\n');
	va_end(more);
	failures++;
}

static int chosen(const char *name, int count, char **prefixes)
{
	for (int i = 0; i < count; i++)
		if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
			return 1;
	return !count;
}

int child(int argc, char **argv);

int main(int argc, char **argv)
{
	program = argv[0];
	if (argc > 1 && !strcmp(argv[1], "--child"))
		return child(argc - 2, argv + 2);
	int failed = 0;
	for (struct test *test = first; test; test = test->next) {
		if (!chosen(test->name, argc - 1, argv + 1))
			continue;
		failures = 0;
		test->run();
		printf("test %s ... %s\n", test->name, failures ? "FAILED" : "ok");
		fflush(stdout);
		failed += failures != 0;
	}
	return failed != 0;
}
