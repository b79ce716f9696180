/* dW of a convolution: weight_sums_f32.h. */
#include "conv_grad_w_f32.h"
#define WEIGHTS conv_grad_w_f32_args_t
#define COMPLETE(p, w, sum) (sum)
#include "weight_sums_f32.h"

void conv_grad_w_f32(const void *args) { weight_sums(args); }
