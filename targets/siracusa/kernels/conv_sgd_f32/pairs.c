/* A step of a convolution's weights of rows of three taps, by pairs of columns: conv_grad_w_pairs.h. */
#include "conv_step.h"
#define TAPS 3
#define WHOLE 1
#define BY_PAIRS 1
#define ALONE 0
#include "conv_grad_w.h"

void conv_sgd_f32_pairs(const void *args) { weights(args); }
