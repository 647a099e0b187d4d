/*
 * The x87 and vector registers of Linux programs: across fork and exec, in threads that take turns, around signals, and
 * with signal frames that no processor accepts. Each line says what was tried and how often it was wrong.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

typedef struct {
	uint64_t words[4];
} vector;

#define EACH(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11) DO(12) DO(13) DO(14) DO(15)

static int avx;

static void fill(vector *v, uint64_t with)
{
	for (int i = 0; i < 16; i++)
		for (int j = 0; j < 4; j++)
			v[i].words[j] = with + 4 * i + j;
}

static int differences(const vector *a, const vector *b)
{
	int wrong = 0;

	for (int i = 0; i < 16; i++)
		wrong += memcmp(&a[i], &b[i], avx ? 32 : 16) != 0;
	return wrong;
}

/* Loads all registers, makes a system call or spins for a while, and stores them. */
static long with_registers(vector *v, long number, long a, long b)
{
	long result = number;

#define LOAD(i) "vmovdqu 32*" #i "(%1), %%ymm" #i "\n"
#define STORE(i) "vmovdqu %%ymm" #i ", 32*" #i "(%1)\n"
#define LOAD_SSE(i) "movdqu 32*" #i "(%1), %%xmm" #i "\n"
#define STORE_SSE(i) "movdqu %%xmm" #i ", 32*" #i "(%1)\n"
#define BODY "test %0, %0\njs 1f\nsyscall\njmp 2f\n1: dec %%rdi\njnz 1b\n2:\n"
	register long rdi asm("rdi") = a;
	register long rsi asm("rsi") = b;
	register long rdx asm("rdx") = 0;
	register long r10 asm("r10") = 0;

	if (avx)
		asm volatile(EACH(LOAD) BODY EACH(STORE) "vzeroupper"
			     : "+a"(result), "+b"(v), "+r"(rdi), "+r"(rsi), "+r"(rdx), "+r"(r10)
			     : : "rcx", "r11", "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6",
			     "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
	else
		asm volatile(EACH(LOAD_SSE) BODY EACH(STORE_SSE)
			     : "+a"(result), "+b"(v), "+r"(rdi), "+r"(rsi), "+r"(rdx), "+r"(r10)
			     : : "rcx", "r11", "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6",
			     "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
	return result;
}

#define SPIN (-1)

static void forks(void)
{
	int wrong = 0;

	for (int n = 0; n < 50; n++) {
		vector v[16], expected[16];
		int status = 0;

		fill(v, n * 1000ull << 32);
		memcpy(expected, v, sizeof(v));
		long child = with_registers(v, SYS_fork, 0, 0);
		int mine = differences(v, expected);

		if (child == 0) {
			fill(v, 77);
			with_registers(v, SYS_getpid, 0, 0);
			_exit(mine);
		}
		fill(v, n + 5);
		memcpy(expected, v, sizeof(v));
		wrong += mine;
		with_registers(v, SYS_sched_yield, 0, 0);
		wrong += differences(v, expected);
		waitpid(child, &status, 0);
		wrong += status != 0;
	}
	printf("fork: %d wrong\n", wrong);
}

static void *computes(void *argument)
{
	uint64_t number = (uintptr_t)argument;
	long wrong = 0;

	for (uint64_t n = 0; n < 60; n++) {
		vector v[16], expected[16];

		fill(v, number << 48 | n << 16);
		memcpy(expected, v, sizeof(v));
		with_registers(v, n % 3 ? SPIN : SYS_sched_yield, 200000, 0);
		wrong += differences(v, expected);
	}
	return (void *)wrong;
}

static void threads(void)
{
	pthread_t all[8];
	long wrong = 0;

	for (uintptr_t n = 0; n < 8; n++)
		pthread_create(&all[n], NULL, computes, (void *)(n + 1));
	for (int n = 0; n < 8; n++) {
		void *result = NULL;

		pthread_join(all[n], &result);
		wrong += (long)result;
	}
	printf("threads: %ld wrong\n", wrong);
}

static volatile int handled;

static void overwrites(int signal)
{
	vector v[16];

	fill(v, 0xdead0000);
	with_registers(v, SYS_getppid, 0, 0);
	handled++;
}

static void signals(void)
{
	struct itimerval often = { { 0, 2000 }, { 0, 2000 } }, never = {};
	int wrong = 0;

	signal(SIGALRM, overwrites);
	handled = 0;
	setitimer(ITIMER_REAL, &often, NULL);
	for (int n = 0; handled < 20; n++) {
		vector v[16], expected[16];

		fill(v, n);
		memcpy(expected, v, sizeof(v));
		with_registers(v, SPIN, 2000000, 0);
		wrong += differences(v, expected);
	}
	setitimer(ITIMER_REAL, &never, NULL);
	signal(SIGUSR1, overwrites);
	for (int n = 0; n < 20; n++) {
		vector v[16], expected[16];

		fill(v, n);
		memcpy(expected, v, sizeof(v));
		with_registers(v, SYS_kill, getpid(), SIGUSR1);
		wrong += differences(v, expected);
	}
	printf("signals: %d wrong\n", wrong);
}

/* What the handler writes to the frame is what the code has afterwards. */
static void changes(int signal, siginfo_t *info, void *context)
{
	ucontext_t *user = context;
	uint32_t *xmm = user->uc_mcontext.fpregs->_xmm[5].element;

	xmm[0] = 0x1234567;
}

static void frames(void)
{
	struct sigaction action = { .sa_sigaction = changes, .sa_flags = SA_SIGINFO };
	vector v[16];

	sigaction(SIGUSR1, &action, NULL);
	fill(v, 9);
	with_registers(v, SYS_kill, getpid(), SIGUSR1);
	printf("frame: %s\n", (uint32_t)v[5].words[0] == 0x1234567 ? "changed" : "as before");
}

static unsigned seed;

/* A frame of noise, the header of XSAVE included: the process may die of it, and nobody else. */
static void noise(int signal, siginfo_t *info, void *context)
{
	ucontext_t *user = context;
	unsigned char *bytes = (unsigned char *)user->uc_mcontext.fpregs;

	for (int i = 0; i < 832; i++)
		bytes[i] = (seed = seed * 1103515245 + 12345) >> 16;
}

static void hostile(void)
{
	int ended = 0;

	for (int n = 0; n < 100; n++) {
		int status;
		pid_t child = fork();

		if (child == 0) {
			struct sigaction action = { .sa_sigaction = noise, .sa_flags = SA_SIGINFO };

			seed = n;
			sigaction(SIGUSR1, &action, NULL);
			syscall(SYS_kill, getpid(), SIGUSR1);
			_exit(0);
		}
		ended += waitpid(child, &status, 0) == child;
	}
	printf("noise: %d ended\n", ended);
}

static void fresh(void)
{
	uint32_t mxcsr;
	uint16_t control;

	asm volatile("stmxcsr %0\nfnstcw %1" : "=m"(mxcsr), "=m"(control));
	printf("fresh: %x %x\n", mxcsr, control);
}

int main(int count, char **words)
{
	avx = __builtin_cpu_supports("avx");
	setvbuf(stdout, NULL, _IONBF, 0);
	if (count > 1) {
		fresh();
		return 0;
	}
	forks();
	threads();
	signals();
	frames();
	hostile();
	/* Rounding and exceptions as no program begins. */
	uint32_t mxcsr = 0x7f80;
	uint16_t control = 0xf7f;

	asm volatile("ldmxcsr %0\nfldcw %1" : : "m"(mxcsr), "m"(control));
	execl("/proc/self/exe", words[0], "fresh", NULL);
	return 1;
}
