/* An outer product of few products: of its rows a core has every `cores`-th. */
#include "gemm_f32.h"
#include "hal.h"
#include "pulp.h"

void gemm_f32_few_rows(const void *args) {
    const gemm_f32_args_t *p = args;
    for (uint32_t m = hal_core_id(); m < p->m; m += hal_core_count()) {
        const float *b = p->b;
        float *y = p->y + m * p->y_m;
        __asm__ volatile("fmv.w.x ft2, zero\n" LOOP("%[columns]", 5)
                         FLW("ft0", "%[b]", 0) ADD("%[b]", "%[b_n]") "fmadd.s ft1, %[a], ft0, ft2\n"
                         FSW("ft1", "%[y]", 0) ADDI("%[y]", 4)
                         LOOP_END(5)
                         : [b] "+&r"(b), [y] "+&r"(y)
                         : [a] "f"(p->a[m * p->a_m]), [b_n] "r"(4 * p->b_n), [columns] "r"(p->n)
                         : "ft0", "ft1", "ft2", "memory");
    }
}
