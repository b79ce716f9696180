/* dX = dY / count for each of the s elements of a channel; zero where the gate, Y of a Relu, is not above zero. */
#include "global_pool_grad_f32.h"
#include "flat.h"
#include "gate.h"

static inline void fill(float *dx, float value, uint32_t count) {
    if (count >= 8)
        __asm__ volatile(LOOP("%[turns]", 9)
                         FSW("%[value]", "%[dx]", 0) FSW("%[value]", "%[dx]", 4) FSW("%[value]", "%[dx]", 8)
                         FSW("%[value]", "%[dx]", 12) FSW("%[value]", "%[dx]", 16) FSW("%[value]", "%[dx]", 20)
                         FSW("%[value]", "%[dx]", 24) FSW("%[value]", "%[dx]", 28) ADDI("%[dx]", 32)
                         LOOP_END(9)
                         : [dx] "+&r"(dx) : [value] "f"(value), [turns] "r"(count >> 3) : "memory");
    for (count &= 7; count > 0; count--) *dx++ = value;
}

void global_pool_grad_f32(const void *args) {
    const global_pool_grad_f32_args_t *p = args;
    const share_t share = share_of(p->c * p->s);
    float inverse;
    const int multiplies = inverse_of_power(p->count, &inverse);
    uint32_t c = share.begin / p->s, first = share.begin - c * p->s;
    for (uint32_t left = share.end - share.begin, run; left > 0; left -= run, first = 0, c++) {
        run = hal_min(left, p->s - first);
        const float value = multiplies ? p->dy[c] * inverse : p->dy[c] / p->count;
        float *const dx = p->dx + c * p->dx_c + first;
        if (p->gate)
            gate_fill(dx, value, p->gate + c * p->gate_c + first, run);
        else
            fill(dx, value, run);
    }
}
