/* The one hypercall with a variable number of arguments, which Rust cannot define. */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

void rumpuser_hafnon_print(const char *text, size_t len);

/* Prints to the console. A longer text is cut. */
void rumpuser_dprintf(const char *format, ...)
{
	char text[512];
	va_list list;
	va_start(list, format);
	int len = vsnprintf(text, sizeof text, format, list);
	va_end(list);
	if (len > 0)
		rumpuser_hafnon_print(text, (size_t)len < sizeof text ? (size_t)len : sizeof text - 1);
}
