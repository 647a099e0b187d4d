// Starting processes.
#ifndef LIB_FDIO_SPAWN_H_
#define LIB_FDIO_SPAWN_H_

#include <stddef.h>
#include <stdint.h>
#include <zircon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

// What the new process gets a copy of.
#define FDIO_SPAWN_CLONE_JOB ((uint32_t)0x0001u)
#define FDIO_SPAWN_DEFAULT_LDSVC ((uint32_t)0x0002u)
#define FDIO_SPAWN_CLONE_NAMESPACE ((uint32_t)0x0004u)
#define FDIO_SPAWN_CLONE_STDIO ((uint32_t)0x0008u)
#define FDIO_SPAWN_CLONE_ENVIRON ((uint32_t)0x0010u)
#define FDIO_SPAWN_CLONE_UTC_CLOCK ((uint32_t)0x0020u)
#define FDIO_SPAWN_CLONE_ALL ((uint32_t)0xffffu)

// Other processes can share the new process's address space (zx_process_create_shared).
#define HAFNON_FDIO_SPAWN_SHARED ((uint32_t)0x10000u)
// For the C library: it asks for the child's SIGCHLD itself (__libc_child_started).
#define HAFNON_FDIO_SPAWN_UNTOLD ((uint32_t)0x20000u)

#define FDIO_SPAWN_ACTION_CLONE_FD ((uint32_t)1u)
#define FDIO_SPAWN_ACTION_TRANSFER_FD ((uint32_t)2u)
#define FDIO_SPAWN_ACTION_ADD_NS_ENTRY ((uint32_t)3u)
#define FDIO_SPAWN_ACTION_ADD_HANDLE ((uint32_t)4u)
#define FDIO_SPAWN_ACTION_SET_NAME ((uint32_t)5u)

// An action of fdio_spawn_etc; the member of the union depends on the action's kind.
typedef struct fdio_spawn_action {
  uint32_t action;
  uint32_t reserved0;
  union {
    struct {
      int local_fd;
      int target_fd;
    } fd;
    struct {
      const char* prefix;
      zx_handle_t handle;
    } ns;
    struct {
      uint32_t id;
      zx_handle_t handle;
    } h;
    struct {
      const char* data;
    } name;
    uint64_t reserved1[2];
  };
} fdio_spawn_action_t;

// Size in bytes of the caller's buffer for an error message.
#define FDIO_SPAWN_ERR_MSG_MAX_LENGTH ((size_t)1024u)

zx_status_t fdio_spawn(zx_handle_t job, uint32_t flags, const char* path, const char* const* argv,
                       zx_handle_t* process_out);
zx_status_t fdio_spawn_etc(zx_handle_t job, uint32_t flags, const char* path, const char* const* argv,
                           const char* const* environ, size_t action_count, const fdio_spawn_action_t* actions,
                           zx_handle_t* process_out, char err_msg_out[FDIO_SPAWN_ERR_MSG_MAX_LENGTH]);
zx_status_t fdio_spawn_vmo(zx_handle_t job, uint32_t flags, zx_handle_t executable_vmo, const char* const* argv,
                           const char* const* environ, size_t action_count, const fdio_spawn_action_t* actions,
                           zx_handle_t* process_out, char err_msg_out[FDIO_SPAWN_ERR_MSG_MAX_LENGTH]);

#ifdef __cplusplus
}
#endif

#endif
