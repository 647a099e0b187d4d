// The UTC clock.
#ifndef ZIRCON_UTC_H_
#define ZIRCON_UTC_H_

#include <zircon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

// Returns the process's clock, or 0. The C library keeps ownership.
zx_handle_t zx_utc_reference_get(void);
// Replaces the process's clock and returns the previous one.
zx_status_t zx_utc_reference_swap(zx_handle_t new_utc_clock, zx_handle_t* prev_utc_clock_out);

#ifdef __cplusplus
}
#endif

#endif
