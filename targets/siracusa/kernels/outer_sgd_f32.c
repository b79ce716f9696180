/* W = W - lr * a b^T: each product is rounded as a sum of one product is, the step in one rounding.
 *
 * Strips of eight columns and what is left of them: every core takes some rows of each, or, where they can be dealt out
 * evenly or there are too few rows, whole strips. Steps of the loops are bytes. */
#include "outer_sgd_f32.h"
#include "hal.h"
#include "outer_rows.h"
#include "pulp.h"

#define STEP(w, g) "fnmsub.s " w ", %[lr], " g ", " w "\n"
/* Two neighbours, `at` and `next` bytes from the row's first one. */
#define STEP_2(b0, b1, at, next)                                                                                      \
    FLW("ft2", "%[w]", at) PRODUCT("ft4", b0) FLW("ft3", "%[w]", next) PRODUCT("ft5", b1) STEP("ft2", "ft4")          \
    STEP("ft3", "ft5") FSW("ft2", "%[w]", at) FSW("ft3", "%[w]", next)

static inline void step_8(const float *a, uint32_t a_m, const float *b, float *w, uint32_t w_m, uint32_t rows, float lr) {
    __asm__ volatile(
        "fmv.w.x ft0, zero\n"
        FLW("fa0", "%[b]", 0) FLW("fa1", "%[b]", 4) FLW("fa2", "%[b]", 8) FLW("fa3", "%[b]", 12)
        FLW("fa4", "%[b]", 16) FLW("fa5", "%[b]", 20) FLW("fa6", "%[b]", 24) FLW("fa7", "%[b]", 28)
        LOOP("%[rows]", 35)
        FLW("ft1", "%[a]", 0) ADD("%[a]", "%[a_m]")
        STEP_2("fa0", "fa1", 0, 4) STEP_2("fa2", "fa3", 8, 12) STEP_2("fa4", "fa5", 16, 20) STEP_2("fa6", "fa7", 24, 28)
        ADD("%[w]", "%[w_m]")
        LOOP_END(35)
        : [a] "+&r"(a), [w] "+&r"(w)
        : [b] "r"(b), [a_m] "r"(a_m), [w_m] "r"(w_m), [rows] "r"(rows), [lr] "f"(lr)
        : "ft0", "ft1", "ft2", "ft3", "ft4", "ft5", "fa0", "fa1", "fa2", "fa3", "fa4", "fa5", "fa6", "fa7", "memory");
}

static inline void step_1(const float *a, uint32_t a_m, const float *b, float *w, uint32_t w_m, uint32_t rows, float lr) {
    __asm__ volatile("fmv.w.x ft0, zero\n" FLW("fa0", "%[b]", 0)
                     LOOP("%[rows]", 7)
                     FLW("ft1", "%[a]", 0) FLW("ft2", "%[w]", 0) PRODUCT("ft4", "fa0") ADD("%[a]", "%[a_m]")
                     STEP("ft2", "ft4") FSW("ft2", "%[w]", 0) ADD("%[w]", "%[w_m]")
                     LOOP_END(7)
                     : [a] "+&r"(a), [w] "+&r"(w)
                     : [b] "r"(b), [a_m] "r"(a_m), [w_m] "r"(w_m), [rows] "r"(rows), [lr] "f"(lr)
                     : "ft0", "ft1", "ft2", "ft4", "fa0", "memory");
}

void outer_sgd_f32(const void *args) {
    const outer_sgd_f32_args_t *p = args;
    const uint32_t cores = hal_core_count(), id = hal_core_id(), strips = p->n >> 3, m = p->m;
    const float *a = p->a, *b = p->b, lr = p->lr;
    float *w = p->w;
    uint32_t n = p->n, a_m = 4, w_m = 4 * p->w_m;
    if (strips >= cores && ((strips & (cores - 1)) == 0 || m < cores)) {
        for (uint32_t i = 8 * id; i < 8 * strips; i += 8 * cores) step_8(a, a_m, b + i, w + i, w_m, m, lr);
        n &= 7;
        if (n == 0) return;
        b += 8 * strips, w += 8 * strips;
    }
    if (id >= m) return;
    const uint32_t rows = rounds_of(m - id, cores);
    a += id, w += id * p->w_m;
    a_m *= cores, w_m *= cores;
    for (; n >= 8; n -= 8, b += 8, w += 8) step_8(a, a_m, b, w, w_m, rows, lr);
    for (; n > 0; n--, b++, w++) step_1(a, a_m, b, w, w_m, rows, lr);
}
