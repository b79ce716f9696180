/* The HAL of a simulated device, in the place of a library's own: its cores are the lanes of a group, or it has one. */
#ifndef HAL_H
#define HAL_H

#include "machine.h"

#ifdef RACK_DEVICE_PER_LANE
static inline uint32_t hal_core_id(void) { return 0; }
static inline uint32_t hal_core_count(void) { return 1; }
static inline void hal_join(void) {}
static inline uint32_t rack_device(void) { return machine_group() * machine_lanes() + machine_lane(); }
#else
static inline uint32_t hal_core_id(void) { return machine_lane(); }
static inline uint32_t hal_core_count(void) { return machine_lanes(); }
static inline void hal_join(void) { machine_join(); }
static inline uint32_t rack_device(void) { return machine_group(); }
#endif

static inline uint32_t hal_min(uint32_t a, uint32_t b) { return a < b ? a : b; }

#endif
