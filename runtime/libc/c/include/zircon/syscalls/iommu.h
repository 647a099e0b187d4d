// Types of IOMMUs; defined with the other constants.
#ifndef ZIRCON_SYSCALLS_IOMMU_H_
#define ZIRCON_SYSCALLS_IOMMU_H_

#include <zircon/types.h>

#endif
