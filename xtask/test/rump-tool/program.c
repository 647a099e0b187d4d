/* Prints the components that its kernel has, and whether the C library's files work. */

#include <stdio.h>
#include <string.h>

#include <rump/rump.h>

int main(void)
{
	printf("init %d\n", rump_init());
	/* The order of a link is no promise. */
	const char *name;
	int base = 0, tmpfs = 0, shmif = 0, all = 0;
	for (; (name = rump_test_component(all)); all++) {
		base += !strcmp(name, "base");
		tmpfs += !strcmp(name, "tmpfs");
		shmif += !strcmp(name, "shmif");
	}
	printf("base %d tmpfs %d shmif %d others %d\n", base, tmpfs, shmif, all - base - tmpfs - shmif);
	FILE *file = fopen("/boot/lib/libc.so", "r");
	char magic[4] = "";
	printf("file %s\n", file && fread(magic, 1, 4, file) == 4 && !memcmp(magic, "\177ELF", 4) ? "read" : "not read");
	return 0;
}
