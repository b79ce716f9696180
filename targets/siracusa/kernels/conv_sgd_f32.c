/* A step of a convolution's weights against their gradient: conv_grad_w.h. */
#include "conv_step.h"
#include "conv_grad_w.h"

void conv_sgd_f32(const void *args) { weights(args); }
