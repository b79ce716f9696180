/* dW of a convolution: conv_grad_w.h. */
#include "conv_gradient.h"
#include "conv_grad_w.h"

void conv_grad_w_f32(const void *args) { weights(args); }
