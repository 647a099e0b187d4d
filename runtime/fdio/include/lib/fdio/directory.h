// Services by their paths.
#ifndef LIB_FDIO_DIRECTORY_H_
#define LIB_FDIO_DIRECTORY_H_

#include <zircon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

// Connects one end of a channel, which is gone even when this fails, to the service at `path` ("/svc/...").
zx_status_t fdio_service_connect(const char* path, zx_handle_t request);

#ifdef __cplusplus
}
#endif

#endif
