// Policies of jobs; defined with the other constants.
#ifndef ZIRCON_SYSCALLS_POLICY_H_
#define ZIRCON_SYSCALLS_POLICY_H_

#include <zircon/types.h>

#endif
