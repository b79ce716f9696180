/* Threads for cores, and one memory: argument tables are ordinary data, and a core's number is its thread's. */
#ifndef HAL_TARGET_H
#define HAL_TARGET_H

#include <stdint.h>

#define HAL_TABLE
#define HAL_INLINE_CORES

extern _Thread_local uint32_t hal_thread;

/* The number of cores is a constant, so that with one of them nothing is left of sharing. */
static inline uint32_t hal_core_id(void) { return HAL_CORES == 1 ? 0 : hal_thread; }
static inline uint32_t hal_core_count(void) { return HAL_CORES; }

/* Starts the threads of the cores; null where this machine can run the plan, else the reason why not. */
const char *hal_unfit(void);

#endif
