// Shared memory by name: a file of the file system in memory, whose mappings are the file's own memory.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PREFIX "/tmp/.shm-"
#define OPEN_FLAGS (O_ACCMODE | O_CREAT | O_EXCL | O_TRUNC | O_CLOEXEC)

// The path of the file; 0 with an error if the name is none.
static const char *path_of(char *path, const char *name)
{
	while (*name == '/')
		name++;
	size_t length = strlen(name);
	if (!length || strchr(name, '/')) {
		errno = EINVAL;
		return 0;
	}
	if (length > NAME_MAX - strlen(PREFIX)) {
		errno = ENAMETOOLONG;
		return 0;
	}
	strcpy(path, PREFIX);
	return strcat(path, name);
}

int shm_open(const char *name, int flags, mode_t mode)
{
	char path[NAME_MAX + 1];
	int access = flags & O_ACCMODE;
	if (flags & ~OPEN_FLAGS || (access != O_RDONLY && access != O_RDWR)) {
		errno = EINVAL;
		return -1;
	}
	if (!path_of(path, name))
		return -1;
	return open(path, flags | O_NOFOLLOW | O_CLOEXEC, mode & 0777);
}

int shm_unlink(const char *name)
{
	char path[NAME_MAX + 1];
	return path_of(path, name) ? unlink(path) : -1;
}
