// Replaces musl's header of this name: there are no system calls by number here.
//
// musl's `__syscall(SYS_name, ...)` becomes a call of our function `__on_SYS_name` (../src/descriptors.c). Like a
// system call, it returns a result or a negated error number. A name without such a function does not compile, so a
// source file that needs a missing call is noticed.
#ifndef _INTERNAL_SYSCALL_H
#define _INTERNAL_SYSCALL_H

#include <features.h>
#include <errno.h>
#include <stddef.h>
#include <sys/types.h>

struct iovec;
struct stat;

#define __syscall(name, ...) __on_##name(__VA_ARGS__)
#define __syscall_cp(name, ...) __on_##name(__VA_ARGS__)
#define syscall(name, ...) __syscall_ret(__on_##name(__VA_ARGS__))
#define syscall_cp(name, ...) __syscall_ret(__on_##name(__VA_ARGS__))
#define __sys_open(...) __on_SYS_open(__VA_ARGS__)
#define __sys_open_cp(...) __on_SYS_open(__VA_ARGS__)
#define __sys_wait4(...) __on_SYS_wait4(__VA_ARGS__)
#define sys_open(...) __syscall_ret(__on_SYS_open(__VA_ARGS__))
#define sys_open_cp(...) __syscall_ret(__on_SYS_open(__VA_ARGS__))

hidden long __syscall_ret(unsigned long);

hidden long __on_SYS_open(const char *, int, ...);
hidden long __on_SYS_close(int);
hidden long __on_SYS_read(int, void *, size_t);
hidden long __on_SYS_write(int, const void *, size_t);
hidden long __on_SYS_readv(int, const struct iovec *, int);
hidden long __on_SYS_writev(int, const struct iovec *, int);
hidden long __on_SYS_lseek(int, off_t, int);
hidden long __on_SYS_fcntl(int, int, ...);
hidden long __on_SYS_ioctl(int, unsigned long, ...);
hidden long __on_SYS_unlinkat(int, const char *, int);
hidden long __on_SYS_rt_sigprocmask(int, const void *, void *, size_t);
hidden long __on_SYS_wait4(pid_t, int *, int, void *);
hidden long __on_SYS_readlinkat(int, const char *, char *, size_t);

#endif
