/* Y = A ^ B. */
#include "pow_f32.h"
#include "binary_f32.h"
#include "math_f32.h"

BINARY_F32(pow_f32, powf_f32)
