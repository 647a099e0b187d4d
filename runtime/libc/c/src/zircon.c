// Implementation of zircon/assert.h.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <zircon/assert.h>

void __zx_panic(const char *format, ...)
{
	va_list more;
	fflush(stdout);
	va_start(more, format);
	vfprintf(stderr, format, more);
	va_end(more);
	abort();
}
