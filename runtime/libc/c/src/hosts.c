// The older functions for host look-up, on top of libfdio's getaddrinfo.
#define _GNU_SOURCE
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

// Layout of a caller's buffer for one host.
struct room {
	char *addresses[9];
	char *aliases[1];
	union {
		struct in_addr v4;
		struct in6_addr v6;
	} data[8];
	char name[256];
};

static int error_of(int error)
{
	switch (error) {
	case EAI_NONAME: return HOST_NOT_FOUND;
	case EAI_AGAIN: return TRY_AGAIN;
	default: return NO_RECOVERY;
	}
}

int gethostbyname2_r(const char *name, int family, struct hostent *out, char *buffer, size_t size, struct hostent **result,
	int *error)
{
	size_t skip = -(size_t)buffer % _Alignof(struct room);
	struct room *room = (void *)(buffer + skip);
	struct addrinfo hints = { .ai_family = family, .ai_socktype = SOCK_STREAM }, *list = 0;
	*result = 0;
	if (size < skip + sizeof *room || strlen(name) >= sizeof room->name)
		return ERANGE;
	int failed = getaddrinfo ? getaddrinfo(name, 0, &hints, &list) : EAI_FAIL;
	if (failed) {
		*error = error_of(failed);
		return failed == EAI_NONAME ? ENOENT : failed == EAI_AGAIN ? EAGAIN : EBADMSG;
	}
	size_t length = family == AF_INET6 ? sizeof(struct in6_addr) : sizeof(struct in_addr), count = 0;
	for (struct addrinfo *one = list; one && count < 8; one = one->ai_next) {
		const void *from = family == AF_INET6 ? (void *)&((struct sockaddr_in6 *)one->ai_addr)->sin6_addr
						      : (void *)&((struct sockaddr_in *)one->ai_addr)->sin_addr;
		memcpy(&room->data[count], from, length);
		room->addresses[count] = (char *)&room->data[count];
		count++;
	}
	freeaddrinfo(list);
	room->addresses[count] = room->aliases[0] = 0;
	strcpy(room->name, name);
	*out = (struct hostent){ room->name, room->aliases, family, length, room->addresses };
	*result = out;
	return 0;
}

int gethostbyname_r(const char *name, struct hostent *out, char *buffer, size_t size, struct hostent **result, int *error)
{
	return gethostbyname2_r(name, AF_INET, out, buffer, size, result, error);
}

struct hostent *gethostbyname2(const char *name, int family)
{
	static struct hostent host;
	static struct room room;
	struct hostent *result;
	if (gethostbyname2_r(name, family, &host, (char *)&room, sizeof room, &result, &h_errno) == ERANGE)
		h_errno = NO_RECOVERY;
	return result;
}

struct hostent *gethostbyname(const char *name)
{
	return gethostbyname2(name, AF_INET);
}
