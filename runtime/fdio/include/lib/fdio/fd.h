// Descriptors and handles.
#ifndef LIB_FDIO_FD_H_
#define LIB_FDIO_FD_H_

#include <zircon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

// Makes a descriptor of a handle, which is gone even when this fails.
zx_status_t fdio_fd_create(zx_handle_t handle, int* out);
// A handle for what a descriptor stands for, which stays open.
zx_status_t fdio_fd_clone(int fd, zx_handle_t* out);
// A handle for what a descriptor stands for, which is closed.
zx_status_t fdio_fd_transfer(int fd, zx_handle_t* out);
// As fdio_fd_transfer.
zx_status_t fdio_fd_transfer_or_clone(int fd, zx_handle_t* out);

#ifdef __cplusplus
}
#endif

#endif
