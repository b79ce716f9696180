/* w = w - lr * g, in one rounding. */
#include "sgd_f32.h"
#include "flat.h"

#define UPDATE(w, g) "fnmsub.s " w ", %[lr], " g ", " w "\n"

void sgd_f32(const void *args) {
    const sgd_f32_args_t *p = args;
    const share_t share = share_of(p->n);
    FLAT_IN_PLACE(UPDATE, 1, p->w + share.begin, p->g + share.begin, share.end - share.begin, [lr] "f"(p->lr));
}
