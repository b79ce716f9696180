/* All that kernels need of a machine with one memory: which core runs and how many share a kernel, here one. */
#ifndef HAL_H
#define HAL_H

#include <stdint.h>

static inline uint32_t hal_core_id(void) { return 0; }
static inline uint32_t hal_core_count(void) { return 1; }

/* Cores meet here behind each kernel, as the next one reads what all have written; one core has nobody to wait for. */
static inline void hal_join(void) {}

static inline uint32_t hal_min(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Multiplication and addition with one rounding is a function of the library's own where the processor has no instruction for it:
 * the compiler's library may round twice there, or not be linked at all. The flag asks for it on other machines. */
#if !defined(HAL_OWN_FMA) && ((defined(__arm__) && !defined(__ARM_FEATURE_FMA)) || (defined(__riscv) && !defined(__riscv_flen)))
#define HAL_OWN_FMA
#endif
float hal_fmaf(float x, float y, float z);
#ifdef HAL_OWN_FMA
#define __builtin_fmaf hal_fmaf
#endif

#endif
