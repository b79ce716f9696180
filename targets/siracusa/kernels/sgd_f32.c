/* w = w - lr * g, in one rounding. */
#include "sgd_f32.h"
#include "flat.h"

#define UPDATE(w, g) "fnmsub.s " w ", %[lr], " g ", " w "\n"

void sgd_f32(const void *args) {
    const sgd_f32_args_t *p = args;
    const share_t share = share_of(p->n);
    float *w = p->w + share.begin;
    FLAT_PAIRS(UPDATE, 1, w, w, p->g + share.begin, share.end - share.begin, [lr] "f"(p->lr));
}
