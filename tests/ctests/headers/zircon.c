// zircon/*.h: definitions that C sources of Zircon programs rely on.
#include <errno.h>
#include <stdint.h>
#include <threads.h>
#include <zircon/assert.h>
#include <zircon/compiler.h>
#include <zircon/errors.h>
#include <zircon/features.h>
#include <zircon/limits.h>
#include <zircon/process.h>
#include <zircon/processargs.h>
#include <zircon/rights.h>
#include <zircon/status.h>
#include <zircon/string_view.h>
#include <zircon/syscalls.h>
#include <zircon/syscalls/clock.h>
#include <zircon/syscalls/debug.h>
#include <zircon/syscalls/exception.h>
#include <zircon/syscalls/hypervisor.h>
#include <zircon/syscalls/iommu.h>
#include <zircon/syscalls/log.h>
#include <zircon/syscalls/object.h>
#include <zircon/syscalls/policy.h>
#include <zircon/syscalls/port.h>
#include <zircon/syscalls/profile.h>
#include <zircon/syscalls/resource.h>
#include <zircon/syscalls/scheduler.h>
#include <zircon/syscalls/smc.h>
#include <zircon/syscalls/system.h>
#include <zircon/syscalls/types.h>
#include <zircon/threads.h>
#include <zircon/time.h>
#include <zircon/tls.h>
#include <zircon/types.h>
#include <zircon/utc.h>
#include "check.h"

__BEGIN_CDECLS

typedef struct {
	char first;
	uint32_t second;
} __PACKED packed_t;

static __UNUSED __NO_INLINE int nine(void)
{
	return 9;
}

__WEAK void nowhere(void);

__END_CDECLS

static int kind(int n)
{
	switch (n) {
	case 0:
		n = 5;
		__FALLTHROUGH;
	case 1:
		return n;
	default:
		return -1;
	}
}

TEST(zircon_compiler)
{
	int list[7] __ALIGNED(64), sum = 0;
	CHECK(sizeof(packed_t) == 5 && countof(list) == 7 && (uintptr_t)list % 64 == 0);
	CHECK(likely(nine() == 9) && !unlikely(nine() == 8) && !nowhere && kind(0) == 5);
	CHECK(add_overflow(INT32_MAX, 1, &sum) && sub_overflow(INT32_MIN, 1, &sum) && mul_overflow(INT32_MAX, 2, &sum));
	CHECK(!add_overflow(3, 4, &sum) && sum == 7);
}

static int asked;

TEST(zircon_assert)
{
	ZX_ASSERT(++asked == 1);
	ZX_ASSERT_MSG(++asked == 2, "asked %d times", asked);
	ZX_ASSERT_MSG(1, "without more");
	// The condition is not evaluated in a program without debug assertions.
	ZX_DEBUG_ASSERT(++asked == 77);
	ZX_DEBUG_ASSERT_MSG(++asked == 77, "%d", asked);
	CHECK_INT(asked, 2);
	CHECK(!ZX_DEBUG_ASSERT_IMPLEMENTED);
}

static const zx_duration_t constant = ZX_MSEC(5) + ZX_HOUR(1);

TEST(zircon_time_units)
{
	CHECK(ZX_NSEC(3) == 3 && ZX_USEC(3) == 3000 && ZX_MSEC(3) == 3000000 && ZX_SEC(3) == 3000000000);
	CHECK(ZX_MIN(3) == 180000000000 && constant == 3600005000000);
	volatile int64_t much = INT64_MAX / 1000, little = INT64_MIN / 2;
	CHECK(ZX_USEC(much) == much * 1000 && ZX_MSEC(much) == ZX_TIME_INFINITE && ZX_SEC(-much) == ZX_TIME_INFINITE_PAST);
	CHECK(ZX_NSEC(much) == much && ZX_HOUR(little) == ZX_TIME_INFINITE_PAST && ZX_MIN(much) == ZX_TIME_INFINITE);
	CHECK(zx_duration_from_sec(2) == 2000000000 && zx_duration_from_msec(2) == 2000000 && zx_nsec_from_duration(7) == 7);
}

TEST(zircon_time_never_overflows)
{
	CHECK(zx_time_add_duration(5, 7) == 12 && zx_time_sub_duration(5, 7) == -2 && zx_time_sub_time(5, 7) == -2);
	CHECK(zx_time_add_duration(ZX_TIME_INFINITE, 1) == ZX_TIME_INFINITE);
	CHECK(zx_time_add_duration(ZX_TIME_INFINITE_PAST, -1) == ZX_TIME_INFINITE_PAST);
	CHECK(zx_time_sub_duration(ZX_TIME_INFINITE_PAST, 1) == ZX_TIME_INFINITE_PAST);
	CHECK(zx_time_sub_duration(ZX_TIME_INFINITE, -1) == ZX_TIME_INFINITE);
	CHECK(zx_time_sub_duration(0, INT64_MIN) == ZX_TIME_INFINITE && zx_time_sub_duration(-1, INT64_MIN) == INT64_MAX);
	CHECK(zx_time_sub_time(INT64_MIN, INT64_MAX) == ZX_TIME_INFINITE_PAST);
	CHECK(zx_time_sub_time(INT64_MAX, INT64_MIN) == ZX_TIME_INFINITE);
	CHECK(zx_duration_add_duration(INT64_MAX, INT64_MAX) == ZX_TIME_INFINITE);
	CHECK(zx_duration_sub_duration(INT64_MIN, INT64_MAX) == ZX_TIME_INFINITE_PAST);
	CHECK(zx_duration_mul_int64(-3, 4) == -12 && zx_duration_mul_int64(INT64_MIN, -1) == ZX_TIME_INFINITE);
	CHECK(zx_duration_mul_int64(INT64_MIN, 2) == ZX_TIME_INFINITE_PAST && zx_duration_mul_int64(0, INT64_MIN) == 0);
	CHECK(zx_duration_mul_int64(INT64_MAX, -2) == ZX_TIME_INFINITE_PAST);
	CHECK(zx_ticks_add_ticks(INT64_MAX, 1) == INT64_MAX && zx_ticks_sub_ticks(INT64_MIN, 1) == INT64_MIN);
	CHECK(zx_ticks_mul_int64(INT64_MIN, 3) == INT64_MIN);
	struct timespec time = zx_timespec_from_duration(ZX_MSEC(2500));
	CHECK(time.tv_sec == 2 && time.tv_nsec == 500000000 && zx_duration_from_timespec(time) == ZX_MSEC(2500));
	time.tv_sec = INT64_MAX;
	CHECK(zx_time_from_timespec(time) == ZX_TIME_INFINITE);
}

TEST(zircon_packets)
{
	zx_handle_t port;
	zx_port_packet_t packet = { .key = 5, .type = ZX_PKT_TYPE_USER }, got;
	CHECK(zx_port_create(0, &port) == ZX_OK && zx_port_queue(port, &packet) == ZX_OK);
	CHECK(zx_port_wait(port, zx_deadline_after(ZX_SEC(10)), &got) == ZX_OK && got.key == 5);
	CHECK(ZX_PKT_IS_USER(got.type) && !ZX_PKT_IS_SIGNAL_ONE(got.type) && !ZX_PKT_IS_INTERRUPT(got.type));
	CHECK(ZX_PKT_IS_PAGE_REQUEST(ZX_PKT_TYPE_PAGE_REQUEST) && !ZX_PKT_IS_GUEST_IO(ZX_PKT_TYPE_GUEST_MEM));
	CHECK(zx_handle_close(port) == ZX_OK);
	CHECK(ZX_EXCP_IS_ARCH(ZX_EXCP_GENERAL) && !ZX_EXCP_IS_ARCH(ZX_EXCP_THREAD_STARTING));
	CHECK(ZX_THREAD_STATE_BASIC(ZX_THREAD_STATE_BLOCKED_FUTEX) == ZX_THREAD_STATE_BLOCKED);
	CHECK(PA_HND_ARG(PA_HND(PA_FD, 3)) == 3 && PA_HND_TYPE(PA_HND(PA_FD, 3)) == PA_FD);
}

// An atomic integer in the form that Zircon's C programs use.
static zx_futex_t word = ATOMIC_VAR_INIT(0);

static int wake(void *unused)
{
	atomic_store(&word, 1);
	return zx_futex_wake(&word, 1);
}

TEST(zircon_futex_is_atomic)
{
	CHECK(_Generic(&word, atomic_int *: 1, default: 0) && sizeof word == sizeof(zx_futex_storage_t));
	thrd_t thread;
	int result = 1;
	CHECK(thrd_create(&thread, wake, 0) == thrd_success);
	while (!atomic_load(&word)) {
		zx_status_t status = zx_futex_wait(&word, 0, ZX_HANDLE_INVALID, ZX_TIME_INFINITE);
		CHECK(status == ZX_OK || status == ZX_ERR_BAD_STATE);
	}
	CHECK(thrd_join(thread, &result) == thrd_success && result == ZX_OK);
	CHECK_INT(word++ + 1, 2);
}

static mtx_t mutex = MTX_INIT;
static cnd_t condition = CND_INIT;
static int done;

static int tell(void *name)
{
	char found[ZX_MAX_NAME_LEN];
	zx_object_get_property(zx_thread_self(), ZX_PROP_NAME, found, sizeof found);
	mtx_lock(&mutex);
	done = strcmp(found, name) ? -1 : 1;
	cnd_signal(&condition);
	mtx_unlock(&mutex);
	return 3;
}

TEST(zircon_threads_with_names)
{
	thrd_t thread;
	int result;
	CHECK(thrd_create_with_name(&thread, tell, "a name", "a name") == thrd_success);
	mtx_lock(&mutex);
	while (!done)
		cnd_wait(&condition, &mutex);
	mtx_unlock(&mutex);
	CHECK_INT(done, 1);
	CHECK(thrd_join(thread, &result) == thrd_success && result == 3);
}
