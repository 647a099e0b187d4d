// All of libfdio's headers.
#ifndef LIB_FDIO_FDIO_H_
#define LIB_FDIO_FDIO_H_

#include <lib/fdio/directory.h>
#include <lib/fdio/fd.h>
#include <lib/fdio/io.h>
#include <lib/fdio/namespace.h>
#include <lib/fdio/spawn.h>

#endif
