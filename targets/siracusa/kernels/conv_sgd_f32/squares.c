/* A step of a convolution's weights of single taps in square blocks: conv_grad_w_products.h. */
#include "conv_step.h"
#include "conv_grad_w_products.h"

void conv_sgd_f32_squares(const void *args) { squares(args); }
