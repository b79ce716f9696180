/* Sums of all elements so far along each line. */
#include "cum_sum_f32.h"
#include "cumulative_f32.h"

CUMULATIVE_F32(cum_sum_f32, 0.0f, +)
