/* Y = X repeated along the axes X was broadcast on. */
#include "expand_f32.h"
#include "copy_f32.h"

COPY_F32(expand_f32)
