// Strings with a length; the type is defined with the others.
#ifndef ZIRCON_STRING_VIEW_H_
#define ZIRCON_STRING_VIEW_H_

#include <zircon/types.h>

#endif
