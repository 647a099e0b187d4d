// Types and constants of times; they stand with the others.
#ifndef ZIRCON_TIME_H_
#define ZIRCON_TIME_H_

#include <zircon/types.h>

#endif
