/* The maximum of each window. */
#include "max_pool_f32.h"
#include "max_pool.h"

MAX_POOL(max_pool_f32, float, -__builtin_inff())
