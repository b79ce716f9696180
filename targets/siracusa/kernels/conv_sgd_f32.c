/* A step of a convolution's weights against their gradient: conv_grad_w.h. */
#include "conv_sgd_f32.h"
#define ARGUMENTS conv_sgd_f32_args_t
#define STEPS 1
#define RATE(p) ((p)->lr)
#include "conv_grad_w.h"

void conv_sgd_f32(const void *args) { gradient_of_w(args); }
