/* A component that nothing refers to: only a link of whole archives has it. */

__attribute__((section("link_set_rump_components"), used)) static const char *const name = "tmpfs";
