/* dX of a convolution of windows of three columns: conv.h. */
#define CONV_GOES_ON 0
#include "conv_backward.h"
#define CONV_CHANNELS 4
#define CONV_TAPS 3
#include "conv.h"

void conv_grad_x_f32_threes(const void *args) { convolve_back(args); }
