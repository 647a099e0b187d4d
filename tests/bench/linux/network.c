/* The first process of Linux for `./hafnon bench network`: it loads the card's driver, sets addresses, starts the measuring
 * program with the arguments of the kernel's command line behind `--`, and resets the machine, at which QEMU exits. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <net/route.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* In the order in which they need each other. */
static const char *const modules[] = {"virtio_ring", "virtio",   "virtio_pci_modern_dev", "virtio_pci_legacy_dev",
                                      "virtio_pci",  "failover", "net_failover",          "virtio_net"};

static void end(const char *what) {
    if (what) printf("failed %s: %m\n", what);
    fflush(stdout);
    sync();
    reboot(RB_AUTOBOOT);
}

static struct sockaddr address(const char *text) {
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr any;
    inet_pton(AF_INET, text, &in.sin_addr);
    memcpy(&any, &in, sizeof any);
    return any;
}

static void up(int with, const char *name, const char *its) {
    struct ifreq request = {0};
    strcpy(request.ifr_name, name);
    request.ifr_addr = address(its);
    if (ioctl(with, SIOCSIFADDR, &request) < 0) end("the interface's address");
    if (ioctl(with, SIOCGIFFLAGS, &request) < 0) end("the interface");
    request.ifr_flags |= IFF_UP | IFF_RUNNING;
    if (ioctl(with, SIOCSIFFLAGS, &request) < 0) end("starting the interface");
}

int main(int argc, char **argv) {
    mkdir("/dev", 0755);
    mkdir("/proc", 0755);
    if (mount("devtmpfs", "/dev", "devtmpfs", 0, "") < 0 || mount("proc", "/proc", "proc", 0, "") < 0) return 1;
    if (!freopen("/dev/ttyS1", "w", stdout)) return 1;
    for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++) {
        char file[64];
        snprintf(file, sizeof file, "/modules/%s.ko", modules[i]);
        int module = open(file, O_RDONLY);
        if (module < 0 || syscall(SYS_finit_module, module, "", 0) < 0) end(file);
        close(module);
    }
    int with = socket(AF_INET, SOCK_DGRAM, 0);
    up(with, "lo", "127.0.0.1");
    up(with, "eth0", "10.0.2.15");
    struct rtentry route = {.rt_dst = address("0.0.0.0"),
                            .rt_genmask = address("0.0.0.0"),
                            .rt_gateway = address("10.0.2.2"),
                            .rt_flags = RTF_UP | RTF_GATEWAY};
    if (ioctl(with, SIOCADDRT, &route) < 0) end("the route");
    close(with);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        dup2(1, 2);
        argv[0] = "/network-costs";
        execv("/network-costs", argv);
        end("starting the measuring program");
    }
    int status = 0;
    if (child < 0) end("making a process for the measuring program");
    if (waitpid(child, &status, 0) < 0) end("waiting for the measuring program");
    printf("ended with %d\n", WEXITSTATUS(status) + WTERMSIG(status));
    end(NULL);
    return argc;
}
