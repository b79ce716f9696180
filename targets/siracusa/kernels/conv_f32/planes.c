/* A convolution of depthwise windows over planes of four columns or more: conv_planes.h. */
#define CONV_APART 1
#include "conv_planes.h"

void conv_f32_planes(const void *args) { planes(args); }
