// sys/mman.h.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <lib/fdio/spawn.h>
#include <stdint.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zircon/process.h>
#include <zircon/syscalls.h>
#include <zircon/syscalls/policy.h>
#include "check.h"

extern const char *program;

// Memory by name is the same in two processes, and stays until it has neither name nor mapping.
TEST(mman_shm)
{
	shm_unlink("/ctests-shm");
	CHECK(shm_open("/ctests-shm", O_RDWR, 0) == -1 && errno == ENOENT);
	int fd = shm_open("/ctests-shm", O_RDWR | O_CREAT | O_EXCL, 0600);
	CHECK(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC && !ftruncate(fd, 8192));
	CHECK(shm_open("/ctests-shm", O_RDWR | O_CREAT | O_EXCL, 0600) == -1 && errno == EEXIST);
	volatile int *map = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK((void *)map != MAP_FAILED && !close(fd));
	if ((void *)map == MAP_FAILED)
		return;
	map[1024] = 40;
	char *argv[] = { (char *)program, "--child", "shm", "/ctests-shm", 0 };
	pid_t pid;
	int status;
	CHECK(!posix_spawn(&pid, program, 0, 0, argv, 0) && waitpid(pid, &status, 0) == pid);
	CHECK_INT(status, 0);
	CHECK_INT(map[1024], 42);
	CHECK(!shm_unlink("/ctests-shm") && shm_unlink("/ctests-shm") == -1 && errno == ENOENT);
	CHECK(shm_open("/ctests-shm", O_RDONLY, 0) == -1 && errno == ENOENT);
	CHECK_INT(map[1024], 42);
	CHECK(!munmap((void *)map, 8192));
}

TEST(mman_shm_names)
{
	const char *none[] = { "", "/", "/a/b", "a/../b" };
	for (int i = 0; i < 4; i++) {
		CHECK(shm_open(none[i], O_RDWR | O_CREAT, 0600) == -1 && errno == EINVAL);
		CHECK(shm_unlink(none[i]) == -1);
	}
	char large[300];
	memset(large, 'x', sizeof large - 1);
	large[sizeof large - 1] = 0;
	CHECK(shm_open(large, O_RDWR | O_CREAT, 0600) == -1 && errno == ENAMETOOLONG);
	CHECK(shm_unlink(large) == -1 && errno == ENAMETOOLONG);
	CHECK(shm_open("/ctests-shm-flags", O_WRONLY | O_CREAT, 0600) == -1 && errno == EINVAL);
	CHECK(shm_unlink("/ctests-shm-flags") == -1 && errno == ENOENT);
}

TEST(mman_shared_file)
{
	int fd = open("/tmp/ctests-map", O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(fd >= 0 && !posix_fallocate(fd, 0, 8192));
	char *map = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), text[6] = "";
	CHECK(map != MAP_FAILED);
	if (map != MAP_FAILED) {
		memcpy(map + 5000, "hello", 5);
		CHECK(!msync(map, 8192, MS_SYNC) && pread(fd, text, 5, 5000) == 5);
		CHECK_STR(text, "hello");
		CHECK(!munmap(map, 8192));
	}
	CHECK(!close(fd) && !unlink("/tmp/ctests-map"));
}

#define ANONYMOUS (MAP_PRIVATE | MAP_ANONYMOUS)

static void *anonymous(int protection)
{
	return mmap(0, 4096, protection, ANONYMOUS, -1, 0);
}

TEST(mman_too_much)
{
	static const size_t sizes[] = { PTRDIFF_MAX, PTRDIFF_MAX - 8192, SIZE_MAX, (size_t)1 << 50, (size_t)1 << 47 };
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		errno = 0;
		CHECK(mmap(0, sizes[i], PROT_READ, ANONYMOUS, -1, 0) == MAP_FAILED);
		CHECK_INT(errno, ENOMEM);
	}
	// Beyond the end of the address space.
	errno = 0;
	CHECK(mmap((void *)((uintptr_t)1 << 48), 4096, PROT_READ, ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED && errno == ENOMEM);
	errno = 0;
	CHECK(mmap(0, 0, PROT_READ, ANONYMOUS, -1, 0) == MAP_FAILED && errno == EINVAL);
}

TEST(mman_code_made_at_run_time)
{
	// lea eax, [rdi + rsi]; ret
	static const unsigned char code[] = { 0x8d, 0x04, 0x37, 0xc3 };
	static const int flags[] = { 0, MAP_JIT };
	for (int i = 0; i < 2; i++) {
		unsigned char *memory = mmap(0, 4096, PROT_READ | PROT_WRITE, ANONYMOUS | flags[i], -1, 0);
		CHECK(memory != MAP_FAILED);
		if (memory == MAP_FAILED)
			return;
		memcpy(memory, code, sizeof code);
		CHECK(!mprotect(memory, 4096, PROT_READ | PROT_EXEC));
		CHECK_INT(((int (*)(int, int))memory)(1, 2), 3);
		CHECK(!munmap(memory, 4096));
	}
}

// Runs in a job whose policy denies executable memory: executable memory is refused, and other memory is not.
int without_code(void)
{
	void *memory = anonymous(PROT_READ | PROT_WRITE);
	if (memory == MAP_FAILED)
		return 1;
	memset(memory, 1, 4096);
	errno = 0;
	if (mprotect(memory, 4096, PROT_READ | PROT_EXEC) != -1 || errno != EACCES)
		return 2;
	errno = 0;
	if (anonymous(PROT_READ | PROT_EXEC) != MAP_FAILED || errno != EACCES)
		return 3;
	errno = 0;
	if (mmap(0, 4096, PROT_READ, ANONYMOUS | MAP_JIT, -1, 0) != MAP_FAILED || errno != EACCES)
		return 4;
	memory = anonymous(PROT_READ | PROT_WRITE);
	return memory == MAP_FAILED || munmap(memory, 4096) ? 5 : 77;
}

TEST(mman_code_against_a_policy)
{
	zx_handle_t job, process;
	zx_policy_basic_v2_t policy = { .condition = ZX_POL_AMBIENT_MARK_VMO_EXEC, .action = ZX_POL_ACTION_DENY };
	zx_info_process_t info;
	const char *const arguments[] = { program, "--child", "without-code", 0 };
	CHECK(zx_job_create(zx_job_default(), 0, &job) == ZX_OK);
	CHECK(zx_job_set_policy(job, ZX_JOB_POL_RELATIVE, ZX_JOB_POL_BASIC_V2, &policy, 1) == ZX_OK);
	CHECK(fdio_spawn_etc(job, FDIO_SPAWN_CLONE_ALL & ~FDIO_SPAWN_CLONE_JOB, program, arguments, 0, 0, 0, &process, 0) == ZX_OK);
	CHECK(zx_object_wait_one(process, ZX_PROCESS_TERMINATED, ZX_TIME_INFINITE, 0) == ZX_OK);
	CHECK(zx_object_get_info(process, ZX_INFO_PROCESS, &info, sizeof info, 0, 0) == ZX_OK);
	CHECK_INT(info.return_code, 77);
	zx_handle_close(process);
	zx_handle_close(job);
}

TEST(mman_protection)
{
	volatile char *memory = anonymous(PROT_WRITE);
	CHECK(memory != MAP_FAILED);
	if (memory == MAP_FAILED)
		return;
	memory[5] = 7;
	CHECK_INT(memory[5], 7);
	// Write or execute permission without read permission is not available, so the call is refused and the page
	// keeps its permissions.
	errno = 0;
	CHECK(mprotect((void *)memory, 4096, PROT_WRITE) == -1 && errno == ENOTSUP);
	errno = 0;
	CHECK(mprotect((void *)memory, 4096, PROT_EXEC) == -1 && errno == ENOTSUP);
	memory[5] = 8;
	CHECK(!mprotect((void *)memory, 4096, PROT_READ) && memory[5] == 8 && !mprotect((void *)memory, 4096, PROT_NONE));
	CHECK(!munmap((void *)memory, 4096));
	errno = 0;
	CHECK(mprotect((void *)memory, 4096, PROT_READ) == -1 && errno == ENOMEM);
}

TEST(mman_advice)
{
	char *memory = anonymous(PROT_READ | PROT_WRITE);
	CHECK(memory != MAP_FAILED);
	if (memory == MAP_FAILED)
		return;
	memset(memory, 1, 4096);
	static const int hints[] = { MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED, MADV_HUGEPAGE, MADV_DONTFORK };
	for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
		CHECK(!madvise(memory, 4096, hints[i]) && memory[0] == 1 && memory[4095] == 1);
	// The pages must read as zero from then on. If the system does not do that, the call must fail.
	errno = 0;
	int done = madvise(memory, 4096, MADV_DONTNEED);
	CHECK(done ? errno == EINVAL && memory[0] == 1 : memory[0] == 0 && memory[4095] == 0);
	memset(memory, 1, 4096);
	CHECK(!madvise(memory, 4096, MADV_FREE) && (memory[0] == 1 || memory[0] == 0));
	// The POSIX call never changes memory.
	memset(memory, 1, 4096);
	CHECK(!posix_madvise(memory, 4096, POSIX_MADV_DONTNEED) && memory[0] == 1);
	errno = 0;
	CHECK(madvise(memory, 4096, MADV_REMOVE) == -1 && errno == EINVAL);
	errno = 0;
	CHECK(madvise(memory, 4096, 77) == -1 && errno == EINVAL);
	errno = 0;
	CHECK(madvise(memory + 1, 4096, MADV_NORMAL) == -1 && errno == EINVAL);
	munmap(memory, 4096);
}
