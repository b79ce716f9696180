/* dW of a convolution by rows of taps: conv_grad_w_rows.h. */
#include "conv_gradient.h"
#include "conv_grad_w_rows.h"

void conv_grad_w_f32_rows(const void *args) { rows_of_taps(args); }
