// Descriptors and handles.
#ifndef LIB_FDIO_FD_H_
#define LIB_FDIO_FD_H_

#include <zircon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

// Makes a descriptor for a handle. Consumes the handle, even on failure.
zx_status_t fdio_fd_create(zx_handle_t handle, int* out);
// Makes a handle to the object of a descriptor. The descriptor stays open.
zx_status_t fdio_fd_clone(int fd, zx_handle_t* out);
// Makes a handle to the object of a descriptor and closes the descriptor.
zx_status_t fdio_fd_transfer(int fd, zx_handle_t* out);
// The same as fdio_fd_transfer.
zx_status_t fdio_fd_transfer_or_clone(int fd, zx_handle_t* out);

#ifdef __cplusplus
}
#endif

#endif
