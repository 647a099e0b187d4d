// Rights; defined with the other constants.
#ifndef ZIRCON_RIGHTS_H_
#define ZIRCON_RIGHTS_H_

#include <zircon/types.h>

#endif
