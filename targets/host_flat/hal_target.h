/* One core and one memory: argument tables are ordinary data, and the core's number is a constant. */
#ifndef HAL_TARGET_H
#define HAL_TARGET_H

#include <stdint.h>

#define HAL_TABLE
#define HAL_INLINE_CORES

static inline uint32_t hal_core_id(void) { return 0; }
static inline uint32_t hal_core_count(void) { return 1; }

#endif
