/* For conv_grad_w_args.h: the gradient itself. */
#include "conv_grad_w_f32.h"
#define ARGUMENTS conv_grad_w_f32_args_t
#define STEPS 0
#define RATE(p) ((void)(p), 0.0f)
