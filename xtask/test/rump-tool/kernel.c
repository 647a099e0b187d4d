/*
 * The base library of a rump kernel for the tests of `./hafnon rump`: nothing of NetBSD is in it. It announces its components
 * in the link set that NetBSD's build without parts for a host uses, and defines functions of the C library as rumprun's does.
 */

#include <rump/rumpuser.h>

typedef const char *component;

extern const component __start_link_set_rump_components[], __stop_link_set_rump_components[];

__attribute__((section("link_set_rump_components"), used)) static const component base = "base";

/* If one of these took the place of the C library's, no file could be opened. */
int open(const char *path, int flags, ...) { return -1; }
long read(int descriptor, void *to, unsigned long length) { return -1; }

static void nothing(void) {}

int rump_init(void)
{
	void (*upcalls[32])(void);
	for (int i = 0; i < 32; i++)
		upcalls[i] = nothing;
	return rumpuser_init(RUMPUSER_VERSION, upcalls);
}

/* The name of a component, in the order of the link; none behind the last. */
const char *rump_test_component(int number)
{
	long count = __stop_link_set_rump_components - __start_link_set_rump_components;
	return number < count ? __start_link_set_rump_components[number] : 0;
}
