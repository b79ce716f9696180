/* Y = X (1 + erf(X / sqrt(2))) / 2. */
#include "gelu_f32.h"
#include "math_f32.h"
#include "share_f32.h"

void gelu_f32(const void *args) {
    const gelu_f32_args_t *p = args;
    const share_t share = share_of(p->n);
    for (uint32_t i = share.begin; i < share.end; i++) {
        const float x = p->x[i];
        p->y[i] = LITERAL_F32(0.5f) * x * (1.0f + erff_f32(x * LITERAL_F32(0x1.6a09e6p-1f)));
    }
}
