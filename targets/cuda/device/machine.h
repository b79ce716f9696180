/* Lanes of a GPU: the threads of a block. */
#ifndef MACHINE_H
#define MACHINE_H

#include <stdint.h>

static inline uint32_t machine_lane(void) { return (uint32_t)__nvvm_read_ptx_sreg_tid_x(); }
static inline uint32_t machine_lanes(void) { return (uint32_t)__nvvm_read_ptx_sreg_ntid_x(); }
static inline uint32_t machine_group(void) { return (uint32_t)__nvvm_read_ptx_sreg_ctaid_x(); }
static inline void machine_join(void) { __syncthreads(); }

#endif
