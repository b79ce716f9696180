/* dW of a convolution of three by three taps over small planes: conv_grad_w_plane.h. */
#include "conv_gradient.h"
#include "conv_grad_w_plane.h"

void conv_grad_w_f32_plane(const void *args) { planes(args); }
