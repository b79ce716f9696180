/* A step of a convolution's weights of depthwise windows of three by three: conv_grad_w_nine.h. */
#include "conv_step.h"
#include "conv_grad_w_nine.h"

void conv_sgd_f32_nine(const void *args) { view_t v = view_of(args, 0); depthwise(args, &v); }
