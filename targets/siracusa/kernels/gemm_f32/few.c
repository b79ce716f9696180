/* A vector times a matrix, of few products. What takes the time is code that is fetched, so this is one short loop; a core
 * has every `cores`-th output. */
#include "gemm_f32.h"
#include "gemm_epilogue.h"
#include "hal.h"
#include "pulp.h"

void gemm_f32_few(const void *args) {
    const gemm_f32_args_t *p = args;
    const uint32_t columns = p->n, b_n = 4 * p->b_n;
    for (uint32_t n = hal_core_id(); n < columns; n += hal_core_count()) {
        const float *a = p->a, *b = at(p->b, n * b_n);
        float *y = p->y + n, sum = p->first ? 0.0f : *y;
        __asm__ volatile(LOOP("%[turns]", 5)
                         FLW("ft0", "%[a]", 0) FLW("ft1", "%[b]", 0) ADD("%[a]", "%[a_k]") ADD("%[b]", "%[b_k]")
                         FMA("%[sum]", "ft0", "ft1")
                         LOOP_END(5)
                         : [a] "+&r"(a), [b] "+&r"(b), [sum] "+&f"(sum)
                         : [a_k] "r"(4 * p->a_k), [b_k] "r"(4 * p->b_k), [turns] "r"(p->k)
                         : "ft0", "ft1", "memory");
        if (p->last) {
            sum *= p->alpha;
            if (p->c) sum = __builtin_fmaf(p->beta, p->c[n * p->c_n], sum);
            sum = activated(p, sum, p->gate + n);
        }
        *y = sum;
    }
}
