/*
 * Hostile programs: each child has random registers and random code, made of what is unusual between programs and
 * kernels, and no rights. Usage: hostile SEED COUNT [FIRST]. Not for a machine that somebody works on.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t state;

static uint64_t next(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* Values at the edges of what a register may have. */
static uint64_t word(void)
{
	static const uint64_t edges[] = {
		0, 1, ~0ull, 1ull << 47, (1ull << 47) - 1, (1ull << 47) - 4096, 1ull << 63, 0xffff800000000000,
		0xffffffff80000000, 0x7fc0000000, 0x7fc0002000, 0x60000000, 0x200000, 0x1ff000, 0x202, 0x33, 0x2b, 0x23,
	};

	switch (next() % 4) {
	case 0:
		return edges[next() % (sizeof(edges) / sizeof(*edges))];
	case 1:
		return next() % 512;
	case 2:
		return next() >> (next() % 64);
	default:
		return next();
	}
}

#define BYTES(...) { sizeof((unsigned char[]){ __VA_ARGS__ }), { __VA_ARGS__ } }
static const struct {
	unsigned char len, bytes[8];
} unusual[] = {
	BYTES(0x0f, 0x05), BYTES(0x0f, 0x05), BYTES(0x0f, 0x05), BYTES(0x0f, 0x34), /* syscall, sysenter */
	BYTES(0xcd, 0x80), BYTES(0xcd, 0x20), BYTES(0xcd, 0x03), BYTES(0xcc), BYTES(0xf1), /* int */
	BYTES(0x48, 0xcf), BYTES(0x48, 0xcb), BYTES(0x9d), BYTES(0x9c), /* iretq, lretq, popf, pushf */
	BYTES(0x8e, 0xd8), BYTES(0x8e, 0xc0), BYTES(0x8e, 0xe0), BYTES(0x8e, 0xe8), BYTES(0x8e, 0xd0), /* mov sreg, ax */
	BYTES(0xf3, 0x48, 0x0f, 0xae, 0xd0), BYTES(0xf3, 0x48, 0x0f, 0xae, 0xd8), /* wrfsbase, wrgsbase */
	BYTES(0x0f, 0xae, 0x10), BYTES(0xd9, 0x28), BYTES(0x0f, 0xae, 0x28), /* ldmxcsr, fldcw, xrstor */
	BYTES(0xf4), BYTES(0xfa), BYTES(0xec), BYTES(0xee), BYTES(0x0f, 0x30), BYTES(0x0f, 0x20, 0xd8), /* privileged */
	BYTES(0x0f, 0x0b), BYTES(0x0f, 0xa2), BYTES(0xfd), BYTES(0xfc), BYTES(0xf0, 0x0f, 0xb1, 0x38),
	BYTES(0x48, 0x89, 0x07), BYTES(0x48, 0x8b, 0x06), BYTES(0xaa), BYTES(0xf3, 0xa4), /* stores, loads, strings */
	BYTES(0xff, 0xe0), BYTES(0xff, 0xd3), BYTES(0xc3), BYTES(0xeb, 0xfe), BYTES(0xe8, 0, 0, 0, 0), /* jumps */
};

static void make(unsigned char *code, size_t len)
{
	size_t at = 0;

	while (at + 16 < len) {
		if (next() % 3) {
			int which = next() % (sizeof(unusual) / sizeof(*unusual));

			memcpy(code + at, unusual[which].bytes, unusual[which].len);
			at += unusual[which].len;
		} else if (next() % 2) {
			/* mov register, value */
			uint64_t value = word();

			code[at++] = 0x48;
			code[at++] = 0xb8 + next() % 8;
			memcpy(code + at, &value, 8);
			at += 8;
		} else {
			code[at++] = next();
		}
	}
}

static void *target;

static void child(void)
{
	static const int limits[][2] = {
		{ RLIMIT_CPU, 1 }, { RLIMIT_NPROC, 4 }, { RLIMIT_FSIZE, 65536 }, { RLIMIT_AS, 64 << 20 }, { RLIMIT_CORE, 0 },
	};
	uint64_t registers[15];
	unsigned char *code = mmap((void *)0x10000000, 8192, PROT_READ | PROT_WRITE | PROT_EXEC,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	if (code == MAP_FAILED)
		_exit(99);
	for (unsigned n = 0; n < sizeof(limits) / sizeof(*limits); n++) {
		struct rlimit limit = { limits[n][1], limits[n][1] };

		setrlimit(limits[n][0], &limit);
	}
	for (int n = 1; n < 32; n++)
		signal(n, SIG_DFL);
	setitimer(ITIMER_REAL, &(struct itimerval){ {}, { 0, 100000 } }, NULL);
	if (chroot("/proc/self/fdinfo") || setgid(65534) || setuid(65534))
		_exit(98);
	make(code, 8192);
	for (int n = 0; n < 15; n++)
		registers[n] = word();
	target = code + next() % 64;
	/* Half of them keep a stack. */
	registers[14] = next() % 2 ? word() : (uint64_t)code + 4096;
	asm volatile("mov %0, %%rax\n"
		     "mov 8(%%rax), %%rbx\nmov 16(%%rax), %%rcx\nmov 24(%%rax), %%rdx\nmov 32(%%rax), %%rsi\n"
		     "mov 40(%%rax), %%rdi\nmov 48(%%rax), %%rbp\nmov 56(%%rax), %%r8\nmov 64(%%rax), %%r9\n"
		     "mov 72(%%rax), %%r10\nmov 80(%%rax), %%r11\nmov 88(%%rax), %%r12\nmov 96(%%rax), %%r13\n"
		     "mov 104(%%rax), %%r14\nmov 112(%%rax), %%rsp\nmov (%%rax), %%rax\n"
		     "jmp *%1" : : "r"(registers), "m"(target) : "memory");
	__builtin_unreachable();
}

int main(int count, char **words)
{
	uint64_t seed = count > 1 ? strtoull(words[1], NULL, 0) : 1;
	int children = count > 2 ? atoi(words[2]) : 100, first = count > 3 ? atoi(words[3]) : 0, ended = 0, killed = 0;

	for (int n = 0; n < children; n++) {
		int status = 0;
		pid_t pid;

		state = (seed << 32) + (first + n) * 2654435761ull + 1;
		for (int i = 0; i < 10; i++)
			next();
		pid = fork();
		if (pid == 0)
			child();
		if (pid < 0)
			break;
		if (waitpid(pid, &status, 0) == pid)
			ended++;
		killed += WIFSIGNALED(status);
		/* What it has forked. */
		while (waitpid(-1, &status, WNOHANG) > 0)
			;
	}
	/* What is left of their children. */
	if (fork() == 0) {
		if (setgid(65534) || setuid(65534))
			_exit(1);
		kill(-1, SIGKILL);
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
	printf("%d ended, some by a signal: %s\n", ended, killed ? "yes" : "no");
	return ended != children;
}
