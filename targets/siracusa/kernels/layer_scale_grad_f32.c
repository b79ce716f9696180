/* Per column the sum of dY ((X - mean) inv_std + rest) over rows, and where asked that of dY, in the order of sum_f32.h; the portable
 * kernel says how tiles go together. Four neighbouring columns at a time, the others one by one. */
#include "layer_scale_grad_f32.h"
#include "hal.h"
#include "pulp.h"
#include "sum_f32.h"

#define ROW FLW("fa0", "%[mean]", 0) FLW("fa1", "%[inv_std]", 0) ADDI("%[mean]", 4) ADDI("%[inv_std]", 4)
#define REST FLW("fa2", "%[rest]", 0) ADD("%[rest]", "%[step]")
#define UNIT(x) "fmadd.s " x ", " x ", fa1, fa2\n"
#define PLUS(sum, x) "fadd.s " sum ", " sum ", " x "\n"
/* Two columns: 10 instructions, or 12 with sums of dY. */
#define TWO(at, behind, first, second, MORE)                                                                          \
    FLW("ft0", "%[x]", at) FLW("ft1", "%[x]", behind) "fsub.s ft0, ft0, fa0\n" FLW("ft2", "%[dy]", at)                 \
    "fsub.s ft1, ft1, fa0\n" UNIT("ft0") FLW("ft3", "%[dy]", behind) UNIT("ft1")                                      \
    FMA("%[" first "]", "ft2", "ft0") FMA("%[" second "]", "ft3", "ft1") MORE
#define NEXT_ROW ADD("%[x]", "%[x_r]") ADD("%[dy]", "%[dy_r]")
#define OPERANDS [x] "+&r"(x), [dy] "+&r"(dy), [mean] "+&r"(mean), [inv_std] "+&r"(inv_std), [rest] "+&r"(rest)
#define SUMS(s) [s0] "+&f"(s[0]), [s1] "+&f"(s[1]), [s2] "+&f"(s[2]), [s3] "+&f"(s[3])
#define TOTALS(t) [t0] "+&f"(t[0]), [t1] "+&f"(t[1]), [t2] "+&f"(t[2]), [t3] "+&f"(t[3])
#define CONSTANTS [x_r] "r"(4 * p->x_r), [dy_r] "r"(4 * p->dy_r), [count] "r"(count), [step] "r"(step)
#define CLOBBERS "ft0", "ft1", "ft2", "ft3", "fa0", "fa1", "fa2", "memory"

/* The open blocks of four columns, and of dY in `t` where there are sums of it, with rows from r on. */
static inline void add_four(const layer_scale_grad_f32_args_t *p, uint32_t c, uint32_t r, uint32_t count, float *s, float *t) {
    const float *x = p->x + r * p->x_r + c, *dy = p->dy + r * p->dy_r + c, *mean = p->mean + r, *inv_std = p->inv_std + r;
    const float none = 0.0f, *rest = p->rest ? p->rest + r : &none;
    const uint32_t step = p->rest ? sizeof(float) : 0;
    if (p->dbias)
        __asm__ volatile(LOOP("%[count]", 32) ROW REST
                         TWO(0, 4, "s0", "s1", PLUS("%[t0]", "ft2") PLUS("%[t1]", "ft3"))
                         TWO(8, 12, "s2", "s3", PLUS("%[t2]", "ft2") PLUS("%[t3]", "ft3")) NEXT_ROW LOOP_END(32)
                         : OPERANDS, SUMS(s), TOTALS(t) : CONSTANTS : CLOBBERS);
    else
        __asm__ volatile(LOOP("%[count]", 28) ROW REST TWO(0, 4, "s0", "s1", ) TWO(8, 12, "s2", "s3", ) NEXT_ROW LOOP_END(28)
                         : OPERANDS, SUMS(s) : CONSTANTS : CLOBBERS);
}

/* The same of one column. */
static inline void add_one(const layer_scale_grad_f32_args_t *p, uint32_t c, uint32_t r, uint32_t count, float *s, float *t) {
    const float *x = p->x + r * p->x_r + c, *dy = p->dy + r * p->dy_r + c, *mean = p->mean + r, *inv_std = p->inv_std + r;
    const float none = 0.0f, *rest = p->rest ? p->rest + r : &none;
    const uint32_t step = p->rest ? sizeof(float) : 0;
    __asm__ volatile(LOOP("%[count]", 14) ROW REST
                     FLW("ft0", "%[x]", 0) FLW("ft2", "%[dy]", 0) "fsub.s ft0, ft0, fa0\n" NEXT_ROW
                     UNIT("ft0") PLUS("%[t0]", "ft2") FMA("%[s0]", "ft2", "ft0") LOOP_END(14)
                     : OPERANDS, [s0] "+&f"(*s), [t0] "+&f"(*t) : CONSTANTS : CLOBBERS);
}

static inline void end_of(const layer_scale_grad_f32_args_t *p, float *result, sum_t *sum, uint32_t size, float *carry) {
    if (p->last) {
        *result = sum_value(sum, size);
        sum_end(size, carry);
    } else
        *result = sum_wait(sum, size, p->start + p->r, carry);
}

/* Columns whose sums are several blocks, or of a tile with a part of the rows. */
static __attribute__((noinline)) void any(const layer_scale_grad_f32_args_t *p, uint32_t c, uint32_t columns) {
    const uint32_t size = sum_size(p->carry);
    float *const carry = p->carry ? p->carry + 2 * SUM_CARRIED * c : 0;
    sum_t scale[4], bias[4];
    for (uint32_t k = 0; k < columns; k++) {
        float *const waits = carry + 2 * SUM_CARRIED * k;
        scale[k] = sum_begin(p->first, size, p->dscale[c + k], waits);
        bias[k] = sum_begin(p->first, size, p->dbias ? p->dbias[c + k] : 0.0f, waits + SUM_CARRIED);
    }
    for (uint32_t r = 0, count; r < p->r; r += count) {
        float s[4], t[4];
        count = p->r - r;
        for (uint32_t k = 0; k < columns; k++) {
            const uint32_t left = p->r - r;
            count = sum_next(&scale[k], size, p->start + r, left);
            sum_next(&bias[k], size, p->start + r, left);
            s[k] = scale[k].block, t[k] = bias[k].block;
        }
        if (columns == 4)
            add_four(p, c, r, count, s, t);
        else
            add_one(p, c, r, count, s, t);
        for (uint32_t k = 0; k < columns; k++) scale[k].block = s[k], bias[k].block = t[k];
    }
    for (uint32_t k = 0; k < columns; k++) {
        float *const waits = carry + 2 * SUM_CARRIED * k;
        end_of(p, p->dscale + c + k, &scale[k], size, waits);
        if (p->dbias) end_of(p, p->dbias + c + k, &bias[k], size, waits + SUM_CARRIED);
    }
}

void layer_scale_grad_f32(const void *args) {
    const layer_scale_grad_f32_args_t *p = args;
    const uint32_t cores = hal_core_count(), id = hal_core_id();
    const uint32_t fours = p->c >= 4 * cores ? p->c & ~3u : 0, is_short = !p->carry && p->first && p->last;
    for (uint32_t c = 4 * id; c < fours; c += 4 * cores) {
        if (!is_short) {
            any(p, c, 4);
            continue;
        }
        float s[4] = {0.0f, 0.0f, 0.0f, 0.0f}, t[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        add_four(p, c, 0, p->r, s, t);
        for (uint32_t k = 0; k < 4; k++) p->dscale[c + k] = s[k];
        for (uint32_t k = 0; k < 4 && p->dbias; k++) p->dbias[c + k] = t[k];
    }
    for (uint32_t c = fours + id; c < p->c; c += cores) any(p, c, 1);
}
