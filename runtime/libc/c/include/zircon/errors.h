// Statuses; defined with the other constants.
#ifndef ZIRCON_ERRORS_H_
#define ZIRCON_ERRORS_H_

#include <zircon/types.h>

#endif
