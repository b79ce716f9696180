/* Y = 1 where A equals B, else 0. */
#include "equal_mask_f32.h"
#include "binary_f32.h"

static inline float equal_mask(float a, float b) { return a == b ? 1.0f : 0.0f; }

BINARY_F32(equal_mask_f32, equal_mask)
