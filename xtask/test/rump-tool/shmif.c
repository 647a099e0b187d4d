/* The kernel's part of a component whose other part is compiled for another system. */

__attribute__((section("link_set_rump_components"), used)) static const char *const name = "shmif";
