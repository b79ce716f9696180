/* For conv_grad_w_args.h: a step against the gradient. */
#include "conv_sgd_f32.h"
#define ARGUMENTS conv_sgd_f32_args_t
#define STEPS 1
#define RATE(p) ((p)->lr)
