/* The sums of the squares of groups of a long sum; the portable kernel defines the order. A core has whole groups. */
#include "square_groups_f32.h"
#include "block_sum.h"
#include "hal.h"
#include "row_loop.h"

#define SQUARE(x) FMA("%[sum]", x, x)
#define TURN                                                                                                          \
    FLW("ft0", "%[x]", 0) FLW("ft1", "%[x]", 4) FLW("ft2", "%[x]", 8) SQUARE("ft0") FLW("ft3", "%[x]", 12) SQUARE("ft1") \
    ADDI("%[x]", 16) SQUARE("ft2") SQUARE("ft3")

/* The sum of whole blocks. */
static inline float blocks(const float **x, uint32_t count) {
    float sum = 0.0f, group = 0.0f;
    __asm__ volatile(LOOP_OUTER("%[count]", 12) LOOP("%[turns]", 9) TURN LOOP_END(9) ADD_BLOCK("%[group]", "%[sum]")
                     LOOP_OUTER_END(12)
                     : [x] "+&r"(*x), [sum] "+&f"(sum), [group] "+&f"(group)
                     : [count] "r"(count), [turns] "r"(SUM_BLOCK >> 2)
                     : "ft0", "ft1", "ft2", "ft3", "memory");
    return group;
}

void square_groups_f32(const void *args) {
    const square_groups_f32_args_t *p = args;
    const uint32_t cores = hal_core_count();
    for (uint32_t g = hal_core_id(); g < p->groups; g += cores) {
        const uint32_t count = hal_min(p->n - g * GROUP_LENGTH, GROUP_LENGTH), whole = count >> BLOCK_SHIFT;
        const float *x = p->x + g * GROUP_LENGTH;
        float group = whole ? blocks(&x, whole) : 0.0f;
        if (count & (SUM_BLOCK - 1)) {
            float sum = 0.0f;
            for (uint32_t rest = count & (SUM_BLOCK - 1); rest > 0; rest--, x++) sum = __builtin_fmaf(*x, *x, sum);
            group += sum;
        }
        p->y[g] = group;
    }
}
