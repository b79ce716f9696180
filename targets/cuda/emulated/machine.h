/* Lanes of an emulated group: threads of this machine, and a barrier. */
#ifndef MACHINE_H
#define MACHINE_H

#include <stdint.h>

extern _Thread_local uint32_t machine_lane_now, machine_group_now;
extern uint32_t machine_lanes_now;
void machine_join(void);

static inline uint32_t machine_lane(void) { return machine_lane_now; }
static inline uint32_t machine_lanes(void) { return machine_lanes_now; }
static inline uint32_t machine_group(void) { return machine_group_now; }

#endif
