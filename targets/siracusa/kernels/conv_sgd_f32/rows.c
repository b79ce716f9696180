/* A step of a convolution's weights by rows of taps: conv_grad_w_rows.h. */
#include "conv_step.h"
#include "conv_grad_w_rows.h"

void conv_sgd_f32_rows(const void *args) { rows_of_taps(args); }
