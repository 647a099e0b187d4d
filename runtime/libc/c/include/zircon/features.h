// Features of the machine; defined with the other constants.
#ifndef ZIRCON_FEATURES_H_
#define ZIRCON_FEATURES_H_

#include <zircon/types.h>

#endif
