// The clock of the day's time.
#ifndef ZIRCON_UTC_H_
#define ZIRCON_UTC_H_

#include <zircon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

// The process's clock, which stays the C library's; 0 where it has none.
zx_handle_t zx_utc_reference_get(void);
// Puts another in its place and gives the old one.
zx_status_t zx_utc_reference_swap(zx_handle_t new_utc_clock, zx_handle_t* prev_utc_clock_out);

#ifdef __cplusplus
}
#endif

#endif
