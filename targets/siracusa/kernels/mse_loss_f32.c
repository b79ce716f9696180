/* y = sum((pred - target)^2) / count, summed by fmaf on one core in the order of sum_f32.h; between tiles the sum waits in
 * y. Where dpred is not null, the other cores make it meanwhile: share (pred - target). */
#include "mse_loss_f32.h"
#include "block_sum.h"
#include "flat.h"

#define SQUARE(d) FMA("%[sum]", d, d)

/* Four elements. */
#define TURN                                                                                                          \
    FLW("ft0", "%[pred]", 0) FLW("ft1", "%[target]", 0) FLW("ft2", "%[pred]", 4) FLW("ft3", "%[target]", 4)           \
    "fsub.s ft0, ft0, ft1\n" FLW("ft4", "%[pred]", 8) FLW("ft5", "%[target]", 8) SQUARE("ft0")                        \
    "fsub.s ft2, ft2, ft3\n" FLW("ft6", "%[pred]", 12) FLW("ft7", "%[target]", 12) SQUARE("ft2")                      \
    "fsub.s ft4, ft4, ft5\n fsub.s ft6, ft6, ft7\n" ADDI("%[pred]", 16) ADDI("%[target]", 16)                         \
    SQUARE("ft4") SQUARE("ft6")
#define OPERANDS [pred] "+&r"(pred), [target] "+&r"(target), [sum] "+&f"(sum)
#define CLOBBERS "ft0", "ft1", "ft2", "ft3", "ft4", "ft5", "ft6", "ft7", "memory"

#define SCALED(a, b) "fsub.s " a ", " a ", " b "\n fmul.s " a ", " a ", %[share]\n"

/* The gradient, of which each core but the first has a part as long as the others', or one that is alone all of it. */
static __attribute__((noinline)) void slopes(const mse_loss_f32_args_t *p, uint32_t id, uint32_t others) {
    const uint32_t part = others ? (p->n + others - 1) / others : p->n, begin = others ? hal_min((id - 1) * part, p->n) : 0;
    FLAT_PAIRS(SCALED, 2, p->dpred + begin, p->pred + begin, p->target + begin, hal_min(part, p->n - begin),
               [share] "f"(p->share));
}

void mse_loss_f32(const void *args) {
    const mse_loss_f32_args_t *p = args;
    const uint32_t size = sum_size(p->carry), others = hal_core_count() - 1, id = hal_core_id();
    if (p->dpred && (id > 0 || others == 0)) slopes(p, id, others);
    if (id != 0) return;
    const float *pred = p->pred, *target = p->target;
    sum_t all = sum_begin(p->first, size, *p->y, p->carry);
    for (uint32_t position = p->start, left = p->n; left > 0;) {
        uint32_t count = sum_next(&all, size, position, left);
        const uint32_t whole = whole_blocks(size, position, left);
        float sum = all.block;
        if (whole) {
            __asm__ volatile(LOOP_OUTER("%[count]", 21) LOOP("%[turns]", 18) TURN LOOP_END(18)
                             ADD_BLOCK("%[group]", "%[sum]") LOOP_OUTER_END(21)
                             : OPERANDS, [group] "+&f"(all.group)
                             : [count] "r"(whole), [turns] "r"(SUM_BLOCK >> 2) : CLOBBERS);
            count = whole << BLOCK_SHIFT;
        } else {
            if (count >= 4)
                __asm__ volatile(LOOP("%[turns]", 18) TURN LOOP_END(18)
                                 : OPERANDS : [turns] "r"(count >> 2) : CLOBBERS);
            for (uint32_t rest = count & 3; rest > 0; rest--) {
                const float difference = *pred++ - *target++;
                sum = __builtin_fmaf(difference, difference, sum);
            }
        }
        all.block = sum;
        position += count, left -= count;
    }
    if (p->last) {
        *p->y = sum_value(&all, size) / p->count;
        sum_end(size, p->carry);
    } else
        *p->y = sum_wait(&all, size, p->start + p->n, p->carry);
}
