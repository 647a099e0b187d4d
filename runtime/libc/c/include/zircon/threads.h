// Zircon's view of the C library's threads.
#ifndef ZIRCON_THREADS_H_
#define ZIRCON_THREADS_H_

#include <threads.h>
#include <zircon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

// Returns a thread's handle. The library keeps ownership.
zx_handle_t thrd_get_zx_handle(thrd_t thread);

// Returns the process in which the calling thread creates threads.
zx_handle_t thrd_get_zx_process(void);

// Makes the calling thread, and the threads that it creates, create threads in another process from now on. That
// process shares its address space with this one (zx_process_create_shared). The caller keeps ownership of the handle.
// Returns the previous process.
zx_handle_t thrd_set_zx_process(zx_handle_t process);

#ifdef __cplusplus
}
#endif

#endif  // ZIRCON_THREADS_H_
