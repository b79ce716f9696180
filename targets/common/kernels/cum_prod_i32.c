/* Products of all integers so far along each line, which wrap. */
#include "cum_prod_i32.h"
#include "cumulative.h"
#include "integer_i32.h"

CUMULATIVE(cum_prod_i32, int32_t, 1, product_i32)
