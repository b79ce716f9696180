/* dX = dY (Phi(X) + X phi(X)), with the normal distribution and its density. */
#include "gelu_grad_f32.h"
#include "math_f32.h"
#include "share_f32.h"

void gelu_grad_f32(const void *args) {
    const gelu_grad_f32_args_t *p = args;
    const share_t share = share_of(p->n);
    const float root = LITERAL_F32(0x1.6a09e6p-1f), height = LITERAL_F32(0x1.988454p-2f), half = LITERAL_F32(0.5f);
    for (uint32_t i = share.begin; i < share.end; i++) {
        const float x = p->x[i], phi = height * expf_f32(-half * x * x);
        p->dx[i] = p->dy[i] * __builtin_fmaf(x, phi, __builtin_fmaf(half, erff_f32(x * root), half));
    }
}
