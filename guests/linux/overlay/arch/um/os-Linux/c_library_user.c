// SPDX-License-Identifier: GPL-2.0
/* Functions of a C library that Linux' drivers name and that are never there: each fails. */

extern int *__errno_location(void);

#define NO_SYSTEM_CALL 38

static long fails(void)
{
	*__errno_location() = NO_SYSTEM_CALL;
	return -1;
}

#define FAILS(name)		\
	long name(void);	\
	long name(void)		\
	{			\
		return fails();	\
	}

FAILS(ioctl)
FAILS(pause)
FAILS(ptrace)
FAILS(setsid)
FAILS(sigaddset)
FAILS(sigdelset)
FAILS(sigemptyset)
FAILS(sigfillset)
FAILS(signal)
FAILS(sigprocmask)
FAILS(sigsuspend)
FAILS(tcgetattr)
FAILS(tcgetpgrp)
FAILS(tcsetattr)
FAILS(tcsetpgrp)
