// The process's name space.
#ifndef LIB_FDIO_NAMESPACE_H_
#define LIB_FDIO_NAMESPACE_H_

#include <zircon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fdio_ns fdio_ns_t;

// Returns the process's own name space.
zx_status_t fdio_ns_get_installed(fdio_ns_t** out);
// Binds a channel to a path. Consumes the channel, even on failure.
zx_status_t fdio_ns_bind(fdio_ns_t* ns, const char* path, zx_handle_t channel);

#ifdef __cplusplus
}
#endif

#endif
