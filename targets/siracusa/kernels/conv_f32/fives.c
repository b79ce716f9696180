/* A convolution of windows of up to five columns: conv.h. */
#define CONV_GOES_ON 0
#include "conv_forward.h"
#define CONV_CHANNELS 4
#define CONV_TAPS 5
#include "conv.h"

void conv_f32_fives(const void *args) { convolve(args); }
