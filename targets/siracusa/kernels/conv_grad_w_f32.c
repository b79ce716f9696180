/* dW of a convolution: conv_grad_w.h. */
#include "conv_grad_w_f32.h"
#define ARGUMENTS conv_grad_w_f32_args_t
#define STEPS 0
#define RATE(p) ((void)(p), 0.0f)
#include "conv_grad_w.h"

void conv_grad_w_f32(const void *args) { gradient_of_w(args); }
