// sys/socket.h, netdb.h, resolv.h, ifaddrs.h, net/if.h: calls that need no other program.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <netinet/tcp.h>
#include <resolv.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include "check.h"

TEST(socket_time_out)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof address;
	struct timeval least = { .tv_usec = 1 };
	char byte;
	int in = socket(AF_INET, SOCK_DGRAM, 0), out = socket(AF_INET, SOCK_DGRAM, 0);
	CHECK(in >= 0 && out >= 0 && !bind(in, (void *)&address, sizeof address) && !getsockname(in, (void *)&address, &size));
	CHECK(!setsockopt(in, SOL_SOCKET, SO_RCVTIMEO, &least, sizeof least));
	// A datagram that was sent before is received, however short the timeout is; without one the call fails after
	// the timeout.
	for (int i = 0; i < 20; i++) {
		CHECK(sendto(out, "x", 1, 0, (void *)&address, size) == 1);
		byte = 0;
		CHECK(recv(in, &byte, 1, 0) == 1 && byte == 'x');
		errno = 0;
		CHECK(recv(in, &byte, 1, 0) == -1 && errno == EAGAIN);
	}
	close(in);
	close(out);
}

TEST(socket_time_out_of_streams)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof address;
	struct timeval least = { .tv_usec = 1 };
	char byte;
	int listens = socket(AF_INET, SOCK_STREAM, 0), out = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(!bind(listens, (void *)&address, sizeof address) && !listen(listens, 1));
	CHECK(!getsockname(listens, (void *)&address, &size) && !connect(out, (void *)&address, size));
	int in = accept(listens, 0, 0);
	CHECK(in >= 0 && !setsockopt(in, SOL_SOCKET, SO_RCVTIMEO, &least, sizeof least));
	for (int i = 0; i < 20; i++) {
		CHECK(send(out, "x", 1, 0) == 1 && recv(in, &byte, 1, 0) == 1);
		errno = 0;
		CHECK(recv(in, &byte, 1, 0) == -1 && errno == EAGAIN);
	}
	close(in);
	close(out);
	close(listens);
}

TEST(resolv_names_in_messages)
{
	// A message whose second name ends with a pointer into the first one.
	static const unsigned char message[] = "\3www\7example\3com\0\4mail\xc0\4";
	char name[256];
	CHECK(dn_expand(message, message + sizeof message - 1, message, name, sizeof name) == 17);
	CHECK_STR(name, "www.example.com");
	CHECK(dn_expand(message, message + sizeof message - 1, message + 17, name, sizeof name) == 7);
	CHECK_STR(name, "mail.example.com");
	CHECK(dn_skipname(message + 17, message + sizeof message - 1) == 7);
	// A name that points to itself, and a name that reaches beyond the end.
	static const unsigned char loop[] = { 0xc0, 0 };
	CHECK(dn_expand(loop, loop + sizeof loop, loop, name, sizeof name) == -1);
	CHECK(dn_expand(message, message + 5, message, name, sizeof name) == -1);
	unsigned char query[NS_PACKETSZ];
	int length = res_mkquery(ns_o_query, "example.com", ns_c_in, ns_t_a, 0, 0, 0, query, sizeof query);
	ns_msg parsed;
	ns_rr record;
	CHECK(length == 29 && !ns_initparse(query, length, &parsed) && ns_msg_count(parsed, ns_s_qd) == 1);
	CHECK(!ns_parserr(&parsed, ns_s_qd, 0, &record) && ns_rr_type(record) == ns_t_a);
	CHECK_STR(ns_rr_name(record), "example.com");
}

TEST(netdb_without_lists)
{
	// There is no list of services: a look-up finds nothing, which is not an error.
	CHECK(!getservbyname("http", "tcp") && !getservbyport(htons(80), "tcp"));
	struct protoent *protocol = getprotobyname("tcp");
	CHECK(protocol && protocol->p_proto == IPPROTO_TCP);
}

// The addresses of one interface, as text: "name address/mask broadcast" with a comma after each.
static void interfaces(const char *name, char *text, size_t size)
{
	struct ifaddrs *list = 0;
	size_t used = 0;
	CHECK(!getifaddrs(&list) && list);
	for (struct ifaddrs *one = list; one; one = one->ifa_next) {
		char address[64] = "none", mask[64] = "none", broadcast[64] = "none";
		struct sockaddr *all[] = { one->ifa_addr, one->ifa_netmask, one->ifa_broadaddr };
		char *texts[] = { address, mask, broadcast };
		if (strcmp(one->ifa_name, name))
			continue;
		for (int i = 0; i < 3; i++) {
			if (!all[i])
				continue;
			const void *ip = all[i]->sa_family == AF_INET6 ? (void *)&((struct sockaddr_in6 *)all[i])->sin6_addr
								       : (void *)&((struct sockaddr_in *)all[i])->sin_addr;
			CHECK(inet_ntop(all[i]->sa_family, ip, texts[i], 64));
		}
		used += snprintf(text + used, size - used, "%s/%s %s,", address, mask, broadcast);
	}
	freeifaddrs(list);
}

TEST(interfaces_of_the_loopback)
{
	char text[256] = "", name[IF_NAMESIZE];
	interfaces("lo", text, sizeof text);
	CHECK_STR(text, "127.0.0.1/255.0.0.0 none,::1/ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff none,");
	CHECK_INT(if_nametoindex("lo"), 1);
	CHECK_STR(if_indextoname(1, name), "lo");
	errno = 0;
	CHECK(!if_nametoindex("eth0") && errno == ENODEV);
	errno = 0;
	CHECK(!if_indextoname(99, name) && errno == ENXIO);
	struct if_nameindex *list = if_nameindex();
	CHECK(list && list[0].if_index == 1);
	CHECK_STR(list[0].if_name, "lo");
	if_freenameindex(list);
	if_freenameindex(0);
	freeifaddrs(0);
}

// Only the machine of `network.interfaces` has a card: QEMU's user network.
TEST(interfaces_of_the_card)
{
	char text[256] = "", name[IF_NAMESIZE];
	struct if_nameindex *list = if_nameindex();
	CHECK(list);
	if (!list[1].if_index) {
		errno = 0;
		CHECK(!if_nametoindex("net0") && errno == ENODEV);
	} else {
		CHECK_STR(list[1].if_name, "net0");
		CHECK(!list[2].if_index && !list[2].if_name);
		CHECK_INT(if_nametoindex("net0"), 2);
		CHECK_STR(if_indextoname(2, name), "net0");
		interfaces("net0", text, sizeof text);
		CHECK_STR(text, "10.0.2.15/255.255.255.0 10.0.2.255,fe80::5054:ff:fe12:3456/ffff:ffff:ffff:ffff:: none,"
				"fec0::5054:ff:fe12:3456/ffff:ffff:ffff:ffff:: none,");
		printf("there is a card\n");
	}
	if_freenameindex(list);
}

// Sends an echo request over a socket, and returns the length of the answer.
static ssize_t echo(int fd, int type, struct sockaddr *to, socklen_t size, void *answer, size_t room)
{
	struct icmphdr request[2] = { { .type = type, .un.echo = { .id = htons(1), .sequence = htons(7) } }, { .type = 77 } };
	CHECK(sendto(fd, request, sizeof request, 0, to, size) == sizeof request);
	return recv(fd, answer, room, 0);
}

TEST(icmp_echo_of_the_loopback)
{
	struct timeval patience = { .tv_sec = 10 };
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) }, own;
	struct sockaddr_in6 to6 = { .sin6_family = AF_INET6, .sin6_addr = in6addr_loopback };
	struct icmphdr answer[3] = { 0 };
	socklen_t size = sizeof own;
	int value = 0, fd = socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP), fd6 = socket(AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6);
	CHECK(fd >= 0 && fd6 >= 0);
	CHECK(!setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience));
	CHECK(!setsockopt(fd6, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience));
	CHECK_INT(echo(fd, ICMP_ECHO, (void *)&to, sizeof to, answer, sizeof answer), 2 * sizeof *answer);
	// The identifier is the socket's, whatever the request said.
	CHECK(!getsockname(fd, (void *)&own, &size) && own.sin_port && answer->un.echo.id == own.sin_port);
	CHECK(answer->type == ICMP_ECHOREPLY && answer->un.echo.sequence == htons(7) && answer[1].type == 77);
	CHECK_INT(echo(fd6, ICMP6_ECHO_REQUEST, (void *)&to6, sizeof to6, answer, sizeof answer), 2 * sizeof *answer);
	CHECK(answer->type == ICMP6_ECHO_REPLY && answer->un.echo.sequence == htons(7));
	size = sizeof value;
	CHECK(!getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &value, &size) && value == IPPROTO_ICMP);
	CHECK(!getsockopt(fd6, SOL_SOCKET, SO_PROTOCOL, &value, &size) && value == IPPROTO_ICMPV6);
	CHECK(!getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &size) && value == SOCK_DGRAM);
	// Another socket cannot have the identifier.
	int other = socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP);
	own.sin_addr.s_addr = htonl(INADDR_ANY);
	errno = 0;
	CHECK(bind(other, (void *)&own, sizeof own) == -1 && errno == EADDRINUSE);
	close(fd);
	CHECK(!bind(other, (void *)&own, sizeof own));
	close(other);
	close(fd6);
	// Nothing else of ICMP.
	errno = 0;
	CHECK(socket(AF_INET, SOCK_RAW, IPPROTO_ICMP) == -1 && errno == EOPNOTSUPP);
	CHECK(socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMPV6) == -1 && errno == EPROTONOSUPPORT);
	CHECK(socket(AF_INET6, SOCK_DGRAM, IPPROTO_ICMP) == -1 && errno == EPROTONOSUPPORT);
}

// The value of an option, or -1.
static int option(int fd, int level, int name)
{
	int value = 0;
	socklen_t size = sizeof value;
	return getsockopt(fd, level, name, &value, &size) || size != sizeof value ? -1 : value;
}

TEST(tcp_options_of_the_loopback)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct tcp_info info;
	socklen_t size = sizeof address;
	int value = 8192, listens = socket(AF_INET, SOCK_STREAM, 0), out = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(!setsockopt(listens, SOL_SOCKET, SO_RCVBUF, &value, sizeof value));
	CHECK_INT(option(listens, SOL_SOCKET, SO_RCVBUF), 8192);
	CHECK_INT(option(listens, SOL_SOCKET, SO_SNDBUF), 65536);
	value = 500;
	CHECK(!setsockopt(listens, IPPROTO_TCP, TCP_MAXSEG, &value, sizeof value));
	CHECK_INT(option(listens, IPPROTO_TCP, TCP_MAXSEG), 500);
	value = 87;
	errno = 0;
	CHECK(setsockopt(listens, IPPROTO_TCP, TCP_MAXSEG, &value, sizeof value) == -1 && errno == EINVAL);
	CHECK(!bind(listens, (void *)&address, sizeof address) && !listen(listens, 1));
	CHECK(!getsockname(listens, (void *)&address, &size) && !connect(out, (void *)&address, size));
	// A connection within the machine has the size of its data socket, and segments of the loopback's.
	CHECK(!setsockopt(out, SOL_SOCKET, SO_SNDBUF, &value, sizeof value));
	CHECK_INT(option(out, SOL_SOCKET, SO_SNDBUF), 256 << 10);
	CHECK_INT(option(out, IPPROTO_TCP, TCP_MAXSEG), 65495);
	for (int i = 0; i < 2; i++) {
		size = sizeof info;
		memset(&info, 0x55, sizeof info);
		CHECK(!getsockopt(i ? out : listens, IPPROTO_TCP, TCP_INFO, &info, &size) && size == sizeof info);
		CHECK_INT(info.tcpi_state, i ? TCP_ESTABLISHED : TCP_LISTEN);
		CHECK_INT(info.tcpi_rtt, 0);
		CHECK_INT(info.tcpi_snd_wnd, 0);
	}
	// A caller that knows fewer fields gets these.
	size = 8;
	memset(&info, 0x55, sizeof info);
	CHECK(!getsockopt(out, IPPROTO_TCP, TCP_INFO, &info, &size) && size == 8 && info.tcpi_rto == 0x55555555);
	errno = 0;
	CHECK(setsockopt(out, IPPROTO_TCP, TCP_INFO, &info, sizeof info) == -1 && errno == ENOPROTOOPT);
	int datagrams = socket(AF_INET, SOCK_DGRAM, 0);
	errno = 0;
	CHECK(getsockopt(datagrams, IPPROTO_TCP, TCP_INFO, &info, &size) == -1 && errno == ENOPROTOOPT);
	value = 4096;
	CHECK(!setsockopt(datagrams, SOL_SOCKET, SO_RCVBUF, &value, sizeof value));
	CHECK_INT(option(datagrams, SOL_SOCKET, SO_RCVBUF), 256 << 10);
	close(datagrams);
	close(out);
	close(listens);
}

// `network.options` runs this in a machine with a card. Behind it, a server at this port sends back what it gets.
TEST(card_tcp_options)
{
	const char *port = getenv("ECHO_PORT");
	if (!port)
		return;
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(atoi(port)) };
	struct tcp_info info;
	socklen_t size = sizeof info;
	int value = 16384, fd = socket(AF_INET, SOCK_STREAM, 0);
	char bytes[20000] = { 1, 2, 3 }, back[sizeof bytes];
	inet_aton("10.0.2.2", &address.sin_addr);
	CHECK(!setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &value, sizeof value));
	CHECK(!setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &value, sizeof value));
	value = 700;
	CHECK(!setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &value, sizeof value));
	CHECK(!connect(fd, (void *)&address, sizeof address));
	CHECK_INT(option(fd, SOL_SOCKET, SO_RCVBUF), 16384);
	CHECK_INT(option(fd, SOL_SOCKET, SO_SNDBUF), 16384);
	CHECK_INT(option(fd, IPPROTO_TCP, TCP_MAXSEG), 700);
	value = 8192;
	CHECK(!setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &value, sizeof value));
	CHECK_INT(option(fd, SOL_SOCKET, SO_RCVBUF), 16384);
	CHECK(send(fd, bytes, sizeof bytes, 0) == sizeof bytes);
	CHECK(recv(fd, back, sizeof back, MSG_WAITALL) == sizeof back && !memcmp(bytes, back, sizeof back));
	CHECK(!getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) && size == sizeof info);
	CHECK_INT(info.tcpi_state, TCP_ESTABLISHED);
	CHECK_INT(info.tcpi_snd_mss, 700);
	CHECK_INT(info.tcpi_advmss, 700);
	CHECK_INT(info.tcpi_rcv_space, 16384);
	CHECK_INT(info.tcpi_pmtu, 1500);
	CHECK(info.tcpi_snd_cwnd > 1 && info.tcpi_rto >= 1000 && info.tcpi_snd_wnd);
	CHECK(!shutdown(fd, SHUT_WR) && recv(fd, back, 1, 0) == 0);
	printf("there is a server\n");
	close(fd);
}
