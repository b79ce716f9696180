/* w = w - lr * (scale * g): the product is rounded, then the rest in one rounding. */
#include "scaled_sgd_f32.h"
#include "flat.h"

#define UPDATE(w, g) "fmul.s " g ", " g ", %[scale]\nfnmsub.s " w ", %[lr], " g ", " w "\n"

void scaled_sgd_f32(const void *args) {
    const scaled_sgd_f32_args_t *p = args;
    const share_t share = share_of(p->n);
    FLAT_IN_PLACE(UPDATE, 2, p->w + share.begin, p->g + share.begin, share.end - share.begin, [lr] "f"(p->lr),
                  [scale] "f"(*p->scale));
}
