/*
 * A bulk transfer over TCP.
 *
 *     bulk receive PORT           takes one transfer after the other, and answers each with its number of bytes
 *     bulk send ADDRESS PORT MIB  sends so many MiB, and prints `took N`: nanoseconds until the answer has come
 */
#include <arpa/inet.h>
#include <err.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Bytes of a call. */
#define PIECE (64 << 10)

static char piece[PIECE];

static struct sockaddr_in place(const char *address, const char *port)
{
	struct sockaddr_in place = { .sin_family = AF_INET, .sin_port = htons(atoi(port)) };

	if (inet_pton(AF_INET, address, &place.sin_addr) != 1)
		errx(2, "%s is no address", address);
	return place;
}

static void receive(const char *port)
{
	struct sockaddr_in here = place("0.0.0.0", port);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	if (listener < 0 || bind(listener, (void *)&here, sizeof(here)) || listen(listener, 1))
		err(1, "listen");
	for (;;) {
		int from = accept(listener, NULL, NULL);
		uint64_t bytes = 0;
		ssize_t part;

		if (from < 0)
			err(1, "accept");
		while ((part = read(from, piece, PIECE)) > 0)
			bytes += part;
		if (part < 0 || write(from, &bytes, sizeof(bytes)) != sizeof(bytes))
			warn("a transfer");
		close(from);
	}
}

static uint64_t now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec * 1000000000ull + at.tv_nsec;
}

static void transfer(const char *address, const char *port, uint64_t bytes)
{
	struct sockaddr_in there = place(address, port);
	int to = socket(AF_INET, SOCK_STREAM, 0);
	uint64_t came, sent, from;

	if (to < 0 || connect(to, (void *)&there, sizeof(there)))
		err(1, "connect");
	from = now();
	for (sent = 0; sent < bytes; sent += PIECE) {
		size_t part = 0;

		while (part < PIECE) {
			ssize_t done = write(to, piece + part, PIECE - part);

			if (done < 0)
				err(1, "write");
			part += done;
		}
	}
	if (shutdown(to, SHUT_WR) || read(to, &came, sizeof(came)) != sizeof(came))
		err(1, "the answer");
	if (came != bytes)
		errx(1, "%llu of %llu bytes came", (unsigned long long)came, (unsigned long long)bytes);
	printf("took %llu\n", (unsigned long long)(now() - from));
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "receive"))
		receive(argv[2]);
	else if (argc == 5 && !strcmp(argv[1], "send"))
		transfer(argv[2], argv[3], strtoull(argv[4], NULL, 10) << 20);
	else
		errx(2, "usage: bulk receive PORT | bulk send ADDRESS PORT MIB");
	return 0;
}
