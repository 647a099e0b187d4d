// Connecting to services by path.
#ifndef LIB_FDIO_DIRECTORY_H_
#define LIB_FDIO_DIRECTORY_H_

#include <zircon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

// Connects one end of a channel to the service at `path` ("/svc/..."). Consumes `request`, even on failure.
zx_status_t fdio_service_connect(const char* path, zx_handle_t request);

#ifdef __cplusplus
}
#endif

#endif
