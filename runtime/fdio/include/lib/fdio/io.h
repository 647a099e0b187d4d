// VMOs of files.
#ifndef LIB_FDIO_IO_H_
#define LIB_FDIO_IO_H_

#include <zircon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

// The VMO of an open file, read-only.
zx_status_t fdio_get_vmo_exact(int fd, zx_handle_t* out);
// A writable VMO with a copy of an open file.
zx_status_t fdio_get_vmo_copy(int fd, zx_handle_t* out);

#ifdef __cplusplus
}
#endif

#endif
