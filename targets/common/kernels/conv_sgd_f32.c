/* A step of a convolution's weights against their gradient, in one rounding: weight_sums_f32.h. A call has the whole of
 * its sums. */
#include "conv_sgd_f32.h"
#define WEIGHTS conv_sgd_f32_args_t
#define COMPLETE(p, w, sum) __builtin_fmaf(-(p)->lr, sum, w)
#include "weight_sums_f32.h"

void conv_sgd_f32(const void *args) { weight_sums(args); }
