/* All that kernels need of a machine with one memory: which core runs and how many share a kernel, here one. */
#ifndef HAL_H
#define HAL_H

#include <stdint.h>

static inline uint32_t hal_core_id(void) { return 0; }
static inline uint32_t hal_core_count(void) { return 1; }

static inline uint32_t hal_min(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* With this flag, multiplication and addition with one rounding is a function of the library's own, on machines that have no
 * instruction for it and where the compiler's library rounds twice. */
float hal_fmaf(float x, float y, float z);
#ifdef HAL_OWN_FMA
#define __builtin_fmaf hal_fmaf
#endif

#endif
