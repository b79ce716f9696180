/* Threads for cores, and one memory: argument tables are ordinary data, and a core's number is its thread's. */
#ifndef HAL_TARGET_H
#define HAL_TARGET_H

#include <stdint.h>

#define HAL_TABLE
#define HAL_INLINE_CORES

extern const uint32_t hal_plan_cores;
extern _Thread_local uint32_t hal_thread;

static inline uint32_t hal_core_id(void) { return hal_thread; }
static inline uint32_t hal_core_count(void) { return hal_plan_cores; }

#endif
