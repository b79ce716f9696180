/* dW of a convolution of depthwise windows of three by three: conv_grad_w_nine.h. */
#include "conv_gradient.h"
#include "conv_grad_w_nine.h"

void conv_grad_w_f32_nine(const void *args) { view_t v = view_of(args, 0); depthwise(args, &v); }
