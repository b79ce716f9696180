/* Per column the sum of dY X inv_std over rows, in the order of sum_f32.h; the portable kernel says how tiles go together. Four
 * neighbouring columns at a time, the others one by one. */
#include "rms_scale_grad_f32.h"
#include "hal.h"
#include "pulp.h"
#include "sum_f32.h"

#define UNIT(x) "fmul.s " x ", " x ", fa0\n"
/* Two columns: 8 instructions. */
#define TWO(at, behind, first, second)                                                                                \
    FLW("ft0", "%[x]", at) FLW("ft1", "%[x]", behind) FLW("ft2", "%[dy]", at) UNIT("ft0") FLW("ft3", "%[dy]", behind)  \
    UNIT("ft1") FMA("%[" first "]", "ft2", "ft0") FMA("%[" second "]", "ft3", "ft1")
#define NEXT_ROW ADD("%[x]", "%[x_r]") ADD("%[dy]", "%[dy_r]") ADDI("%[inv_std]", 4)
#define OPERANDS [x] "+&r"(x), [dy] "+&r"(dy), [inv_std] "+&r"(inv_std)
#define CONSTANTS [x_r] "r"(4 * p->x_r), [dy_r] "r"(4 * p->dy_r), [count] "r"(count)
#define CLOBBERS "ft0", "ft1", "ft2", "ft3", "fa0", "memory"

/* The open blocks of some columns with rows from r on. */
static inline void add_rows(const rms_scale_grad_f32_args_t *p, uint32_t c, uint32_t columns, uint32_t r, uint32_t count, float *s) {
    const float *x = p->x + r * p->x_r + c, *dy = p->dy + r * p->dy_r + c, *inv_std = p->inv_std + r;
    if (columns == 4)
        __asm__ volatile(LOOP("%[count]", 20) FLW("fa0", "%[inv_std]", 0) TWO(0, 4, "s0", "s1") TWO(8, 12, "s2", "s3") NEXT_ROW
                         LOOP_END(20)
                         : OPERANDS, [s0] "+&f"(s[0]), [s1] "+&f"(s[1]), [s2] "+&f"(s[2]), [s3] "+&f"(s[3])
                         : CONSTANTS : CLOBBERS);
    else
        __asm__ volatile(LOOP("%[count]", 8) FLW("fa0", "%[inv_std]", 0) FLW("ft0", "%[x]", 0) FLW("ft2", "%[dy]", 0) UNIT("ft0")
                         NEXT_ROW FMA("%[s0]", "ft2", "ft0") LOOP_END(8)
                         : OPERANDS, [s0] "+&f"(s[0]) : CONSTANTS : CLOBBERS);
}

static __attribute__((noinline)) void add_columns(const rms_scale_grad_f32_args_t *p, uint32_t c, uint32_t columns) {
    const uint32_t size = sum_size(p->carry);
    sum_t sums[4];
    for (uint32_t k = 0; k < columns; k++)
        sums[k] = sum_begin(p->first, size, p->dscale[c + k], sum_carry(p->carry, c + k));
    for (uint32_t r = 0, count; r < p->r; r += count) {
        float s[4];
        count = p->r - r;
        for (uint32_t k = 0; k < columns; k++) {
            count = sum_next(&sums[k], size, p->start + r, p->r - r);
            s[k] = sums[k].block;
        }
        add_rows(p, c, columns, r, count, s);
        for (uint32_t k = 0; k < columns; k++) sums[k].block = s[k];
    }
    for (uint32_t k = 0; k < columns; k++)
        sum_leave(p->dscale + c + k, &sums[k], p->last, size, p->start + p->r, sum_carry(p->carry, c + k));
}

void rms_scale_grad_f32(const void *args) {
    const rms_scale_grad_f32_args_t *p = args;
    const uint32_t cores = hal_core_count(), id = hal_core_id(), fours = p->c >= 4 * cores ? p->c & ~3u : 0;
    for (uint32_t c = 4 * id; c < fours; c += 4 * cores) add_columns(p, c, 4);
    for (uint32_t c = fours + id; c < p->c; c += cores) add_columns(p, c, 1);
}
