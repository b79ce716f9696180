/* The target ${v.title}, for its conformance program. */
#include "conformance.h"
#include "hal.h"

const uint32_t hal_plan_cores = ${v.cores};
const uint32_t alignment = ${v.alignment};
% for level in v.memories:
extern uint8_t hal_memory_${level.name}[];
% endfor

const memory_t memories[] = {
% for level in v.memories:
    {"${level.name}", hal_memory_${level.name}, ${level.bytes}u},
% endfor
};
const uint32_t memory_count = sizeof memories / sizeof *memories;
