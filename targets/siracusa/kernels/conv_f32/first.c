/* A convolution with one channel in and without padding: conv_first.h. */
#include "conv_first.h"

void conv_f32_first(const void *args) { first_layer(args); }
