/* The maximum of each window of integers. */
#include "max_pool_i32.h"
#include "max_pool.h"

MAX_POOL(max_pool_i32, int32_t, INT32_MIN)
