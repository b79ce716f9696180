/* dW of a convolution of rows of two taps: conv_grad_w.h. */
#include "conv_gradient.h"
#define TAPS 2
#define WHOLE 1
#define BY_PAIRS 0
#define ALONE 0
#include "conv_grad_w.h"

void conv_grad_w_f32_twos(const void *args) { weights(args); }
