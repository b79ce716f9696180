/* Sums of all integers so far along each line, which wrap. */
#include "cum_sum_i32.h"
#include "cumulative.h"
#include "integer_i32.h"

CUMULATIVE(cum_sum_i32, int32_t, 0, sum_i32)
