/* Records of where cycles go, in builds with HAL_PROFILE: 1 notes when each step begins, 2 also each wait and kernel. */
#ifndef PROFILE_H
#define PROFILE_H

#include <stdint.h>

#ifndef HAL_PROFILE
#define HAL_PROFILE 0
#endif

#define PROFILE_EMPTY_STEPS 4u

typedef enum { PROFILE_STEP, PROFILE_INGRESS, PROFILE_KERNEL, PROFILE_EGRESS } profile_kind_t;

/* `value` is the time a step begins, or the cycles an event took. A full buffer goes to profile.bin at the next step. */
void profile_record(profile_kind_t kind, uint32_t value);
/* Writes out what is buffered; `step` is the one that begins now. */
void profile_step(uint32_t step);
void profile_close(void);

/* Where the target keeps the buffer, and its clock. */
typedef struct {
    uint32_t kind, value;
} profile_entry_t;
extern profile_entry_t *const profile_buffer;
extern const uint32_t profile_capacity;
uint32_t profile_clock(void);

#endif
