/* dW of a convolution of rows of four taps or more: conv_grad_w.h. */
#include "conv_gradient.h"
#define TAPS 4
#define WHOLE 0
#define BY_PAIRS 0
#define ALONE 0
#include "conv_grad_w.h"

void conv_grad_w_f32_fours(const void *args) { weights(args); }
