/* A convolution of windows of up to five columns of few channels: conv.h. */
#include "conv_forward.h"
#define CONV_CHANNELS 1
#define CONV_TAPS 5
#include "conv.h"

void conv_f32_lone(const void *args) { convolve(args); }
