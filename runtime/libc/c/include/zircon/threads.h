// Threads of the C library and what they are to the system.
#ifndef ZIRCON_THREADS_H_
#define ZIRCON_THREADS_H_

#include <threads.h>
#include <zircon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

// A thread's handle, which stays the library's.
zx_handle_t thrd_get_zx_handle(thrd_t thread);

// The process in which the calling thread makes threads.
zx_handle_t thrd_get_zx_process(void);

// Has the calling thread, and those that it makes, make threads in another process from now on, with which this one is
// shared (zx_process_create_shared). The handle stays the caller's. Returns what it was.
zx_handle_t thrd_set_zx_process(zx_handle_t process);

#ifdef __cplusplus
}
#endif

#endif  // ZIRCON_THREADS_H_
