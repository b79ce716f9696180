/* A step of a convolution's weights, tap by tap: conv_grad_w.h. */
#include "conv_step.h"
#define TAPS 1
#define WHOLE 1
#define BY_PAIRS 0
#define ALONE 0
#include "conv_grad_w.h"

void conv_sgd_f32(const void *args) { weights(args); }
