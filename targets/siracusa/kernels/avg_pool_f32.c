/* Y = the mean of each window of X, summed in row-major order, times one over the count; positions outside the box are
 * padding, which counts under `include_pad`. Squares of two neighbours are computed a row of Y at a time, other windows one by
 * one. */
#include "avg_pool_f32.h"
#include "pool_f32.h"
#include "pulp.h"

#define PLUS(x) "fadd.s ft0, ft0, " x "\n"

/* Squares from `a` and the row below on, `next` bytes apart; a sum begins at +0. */
static inline void squares(float *y, const float *a, const float *b, float inverse, uint32_t next, uint32_t count) {
    __asm__ volatile("fmv.w.x ft4, zero\n" LOOP("%[count]", 13)
                     FLW("ft0", "%[a]", 0) FLW("ft1", "%[a]", 4) PLUS("ft4") FLW("ft2", "%[b]", 0) PLUS("ft1")
                     FLW("ft3", "%[b]", 4) PLUS("ft2") ADD("%[a]", "%[next]") PLUS("ft3") ADD("%[b]", "%[next]")
                     "fmul.s ft0, ft0, %[inverse]\n" ADDI("%[y]", 4) "fsw ft0, -4(%[y])\n" LOOP_END(13)
                     : [a] "+&r"(a), [b] "+&r"(b), [y] "+&r"(y)
                     : [inverse] "f"(inverse), [next] "r"(next), [count] "r"(count)
                     : "ft0", "ft1", "ft2", "ft3", "ft4", "memory");
}

#define NEXT(x) "flw " x ", 0(%[x])\n" ADD("%[x]", "%[step]")
#define SUM(x) "fadd.s %[sum], %[sum], " x "\n"

/* The sum of a window of rows of an even number, or of any number, of elements; `step` bytes lead to the next one, `gap` from
 * behind a row to the row below. */
static inline float even(const float *x, uint32_t rows, uint32_t pairs, uint32_t step, uint32_t gap) {
    float sum = 0.0f;
    __asm__ volatile(LOOP_OUTER("%[rows]", 8) LOOP("%[pairs]", 6) NEXT("ft0") NEXT("ft1") SUM("ft0") SUM("ft1")
                     LOOP_END(6) ADD("%[x]", "%[gap]") LOOP_OUTER_END(8)
                     : [x] "+&r"(x), [sum] "+&f"(sum)
                     : [rows] "r"(rows), [pairs] "r"(pairs), [step] "r"(step), [gap] "r"(gap)
                     : "ft0", "ft1", "memory");
    return sum;
}

static inline float any(const float *x, uint32_t rows, uint32_t count, uint32_t step, uint32_t gap) {
    float sum = 0.0f;
    __asm__ volatile(LOOP_OUTER("%[rows]", 5) LOOP("%[count]", 3) NEXT("ft0") SUM("ft0") LOOP_END(3)
                     ADD("%[x]", "%[gap]") LOOP_OUTER_END(5)
                     : [x] "+&r"(x), [sum] "+&f"(sum)
                     : [rows] "r"(rows), [count] "r"(count), [step] "r"(step), [gap] "r"(gap)
                     : "ft0", "memory");
    return sum;
}

void avg_pool_f32(const void *args) {
    const avg_pool_f32_args_t *p = args;
    const share_t share = share_of(p->c * p->h);
    const uint32_t next_row = p->dilation_h * p->x_r, stride = p->stride_w, step = 4 * p->dilation_w;
    const uint32_t all = p->kernel_h * p->kernel_w, last = (p->kernel_w - 1) * p->dilation_w;
    uint32_t count = all, begin = 0, inside = 0; /* squares with both columns inside of X, and those before them */
    float inverse = 1.0f / (float)count;
    const float whole = inverse;
    if (p->kernel_h == 2 && p->kernel_w == 2 && p->dilation_w == 1) {
        int32_t column = p->left;
        for (uint32_t w = 0; w < p->w && column + (int32_t)last < (int32_t)p->x_w; w++, column += (int32_t)stride)
            if (column < 0)
                begin++;
            else
                inside++;
    }
    uint32_t c = share.begin / p->h, h = share.begin - c * p->h;
    for (uint32_t turns = share.end - share.begin; turns > 0; turns--) {
        const int32_t row = p->top + (int32_t)(h * p->stride_h);
        const share_t rows = taps_inside(row, p->kernel_h, p->dilation_h, p->x_h);
        const float *x = p->x + c * p->x_c + row * (int32_t)p->x_r + (int32_t)(rows.begin * next_row);
        float *y = p->y + c * p->y_c + h * p->y_r;
        int32_t column = p->left;
        for (uint32_t w = 0; w < p->w; w++, column += (int32_t)stride) {
            if (w == begin && inside && rows.end - rows.begin == 2) {
                squares(y + w, x + column, x + column + next_row, whole, 4 * stride, inside);
                w += inside - 1, column += (int32_t)((inside - 1) * stride);
                continue;
            }
            const share_t columns = taps_inside(column, p->kernel_w, p->dilation_w, p->x_w);
            const uint32_t high = rows.end - rows.begin, wide = columns.end - columns.begin;
            const float *const at = x + column + (int32_t)(columns.begin * p->dilation_w);
            const uint32_t gap = 4 * next_row - wide * step;
            const float sum = wide & 1 ? any(at, high, wide, step, gap) : even(at, high, wide >> 1, step, gap);
            if (!p->include_pad && high * wide != count) count = high * wide, inverse = 1.0f / (float)count;
            y[w] = sum * inverse;
        }
        if (++h == p->h) h = 0, c++;
    }
}
