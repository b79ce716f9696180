/* A step of a convolution's weights of three by three taps over small planes: conv_grad_w_plane.h. */
#include "conv_step.h"
#include "conv_grad_w_plane.h"

void conv_sgd_f32_plane(const void *args) { planes(args); }
