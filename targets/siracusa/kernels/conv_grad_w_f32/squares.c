/* dW of a convolution of single taps in square blocks: conv_grad_w_products.h. */
#include "conv_gradient.h"
#include "conv_grad_w_products.h"

void conv_grad_w_f32_squares(const void *args) { squares(args); }
