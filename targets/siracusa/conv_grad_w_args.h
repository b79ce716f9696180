/* The gradient of a convolution's weights, or a step against it, as one.
 *
 * Before it is included, ARGUMENTS names the kernel's arguments. With STEPS, `grad` is the weight, which goes a step of
 * RATE(p) against its gradient as soon as that is complete: from registers where a sum is one block; those of several lie
 * on the stack, in rows of four (dw_m is 4). */
#ifndef CONV_GRAD_W_ARGS_H
#define CONV_GRAD_W_ARGS_H

#include "hints.h"

typedef ARGUMENTS args_t;

/* What becomes of a weight when its sum is complete: that, or a step against it. */
INLINE float stepped(const args_t *p, const float *w, float sum) {
    return STEPS ? __builtin_fmaf(-RATE(p), sum, *w) : sum;
}

#endif
