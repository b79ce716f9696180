/* A convolution of one tap in blocks of four by four, each one sum: conv_pointwise.h. */
#define CONV_APART 1
#include "conv_pointwise.h"

void conv_f32_pointwise(const void *args) { pointwise(args); }
