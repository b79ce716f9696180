/* What is fused to a Gemm's sums when they are complete: relu_f32_of and gated_f32. */
#ifndef GEMM_EPILOGUE_H
#define GEMM_EPILOGUE_H

#ifndef MATRICES /* a structure with the members of a Gemm's arguments: matrix_blocks.h */
#include "gemm_f32.h"
#define MATRICES gemm_f32_args_t
#endif

/* The sum where all bits of the mask are set, else zero: a branch per output would take longer. */
static inline float masked(float sum, uint32_t mask) {
    union {
        float value;
        uint32_t bits;
    } number = {sum};
    number.bits &= mask;
    return number.value;
}

static inline float rectified(float sum) { return masked(sum, (uint32_t)(sum <= 0.0f) - 1u); }
static inline float let_through(float sum, float gate) { return masked(sum, 0u - (uint32_t)(gate > 0.0f)); }
static inline float activated(const MATRICES *p, float sum, const float *gate) {
    if (p->relu) sum = rectified(sum);
    return p->gate ? let_through(sum, *gate) : sum;
}

#endif
