/* Quotients and square roots, rounded once as IEEE 754 has them. A target whose divider is slow says HAL_QUOTIENT in its
 * hal_target.h, and has another way to the same bits in a quotient.h. */
#ifndef QUOTIENT_F32_H
#define QUOTIENT_F32_H

#include "hal.h"

#ifdef HAL_QUOTIENT
#include "quotient.h"
#else
#define QUOTIENT_F32(a, b) ((a) / (b))
#define ROOT_F32(x) __builtin_sqrtf(x)
#endif

#endif
