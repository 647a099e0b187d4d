// Limits; defined with the other constants.
#ifndef ZIRCON_LIMITS_H_
#define ZIRCON_LIMITS_H_

#include <zircon/types.h>

#endif
