/* dW of a convolution of rows of three taps: conv_grad_w.h. */
#include "conv_gradient.h"
#define TAPS 3
#define WHOLE 1
#define BY_PAIRS 0
#define ALONE 0
#include "conv_grad_w.h"

void conv_grad_w_f32_threes(const void *args) { weights(args); }
