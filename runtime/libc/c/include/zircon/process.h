// Handles that a process has from its start. The C library owns them, except for those that the program takes.
#ifndef ZIRCON_PROCESS_H_
#define ZIRCON_PROCESS_H_

#include <zircon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

zx_handle_t zx_process_self(void);
zx_handle_t zx_vmar_root_self(void);
zx_handle_t zx_job_default(void);
zx_handle_t zx_thread_self(void);
// Takes a handle of the start message, by PA_HND, and transfers it to the caller; 0 if there is none.
zx_handle_t zx_take_startup_handle(uint32_t hnd_info);

#ifdef __cplusplus
}
#endif

#endif
