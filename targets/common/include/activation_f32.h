/* Relu and its gradient on one element: for kernels that apply them to their results, and for their own. */
#ifndef ACTIVATION_F32_H
#define ACTIVATION_F32_H

/* X where X > 0, NaN stays NaN, else 0. */
static inline float relu_f32_of(float x) { return x <= 0.0f ? 0.0f : x; }

/* dY where Y > 0, else 0. */
static inline float gated_f32(float dy, float y) { return y > 0.0f ? dy : 0.0f; }

#endif
