/* Products of all elements so far along each line. */
#include "cum_prod_f32.h"
#include "cumulative_f32.h"

CUMULATIVE_F32(cum_prod_f32, 1.0f, *)
