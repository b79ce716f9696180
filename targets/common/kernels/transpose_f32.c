/* Y = X with its axes in another order, walked in the order of Y. */
#include "transpose_f32.h"
#include "copy_f32.h"

COPY_F32(transpose_f32)
