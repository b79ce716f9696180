/* A step of a convolution's weights of rows of four taps or more, output by output: conv_grad_w.h. */
#include "conv_step.h"
#define TAPS 4
#define WHOLE 0
#define BY_PAIRS 0
#define ALONE 1
#include "conv_grad_w.h"

void conv_sgd_f32_alone(const void *args) { weights(args); }
