/* dX = 0, then each window, in ascending order, adds its dY times one over its count to its elements in the tile; where the
 * gate, Y of a Relu, is not above zero dX becomes zero in the end.
 *
 * Windows that share no element fill theirs; squares of two neighbours, of which the core has both rows, are a row of them at a
 * time. That dX is 0 before makes a sum of each value: -0 becomes +0. */
#include "avg_pool_grad_f32.h"
#include "gate.h"
#include "lines_f32.h"
#include "pool_f32.h"
#include "pulp.h"

/* Squares from `a` and the row below on, `next` bytes apart. */
static inline void squares(float *a, float *b, const float *dy, float inverse, uint32_t next, uint32_t count) {
    __asm__ volatile("fmv.w.x ft1, zero\n" LOOP("%[count]", 10)
                     FLW("ft0", "%[dy]", 0) ADDI("%[dy]", 4) "fmul.s ft0, ft0, %[inverse]\n fadd.s ft0, ft0, ft1\n"
                     FSW("ft0", "%[a]", 0) FSW("ft0", "%[a]", 4) ADD("%[a]", "%[next]")
                     FSW("ft0", "%[b]", 0) FSW("ft0", "%[b]", 4) ADD("%[b]", "%[next]") LOOP_END(10)
                     : [a] "+&r"(a), [b] "+&r"(b), [dy] "+&r"(dy)
                     : [inverse] "f"(inverse), [next] "r"(next), [count] "r"(count)
                     : "ft0", "ft1", "memory");
}

/* x[j step] += value. */
static inline void add_to(float *x, uint32_t step, float value, uint32_t count) {
    __asm__ volatile(LOOP("%[count]", 4) "flw ft0, 0(%[x])\n fadd.s ft0, ft0, %[value]\n fsw ft0, 0(%[x])\n"
                     ADD("%[x]", "%[step]") LOOP_END(4)
                     : [x] "+&r"(x) : [value] "f"(value), [step] "r"(4 * step), [count] "r"(count) : "ft0", "memory");
}

/* One over the count of the elements of windows: most have the same. */
typedef struct {
    uint32_t count;
    float inverse;
} mean_t;

/* Windows from `begin` to before `end` of a row of them that is `above` rows behind the tile's first one. */
static __attribute__((noinline)) void add_windows(const avg_pool_grad_f32_args_t *p, const float *dy, float *dx, int32_t above,
                                                  uint32_t row, uint32_t height, mean_t *mean) {
    const uint32_t next_row = p->dilation_h * p->dx_r, next_column = p->dilation_w, part = p->w < p->width;
    const uint32_t apart = next_column == 1 && (p->stride_w >= p->kernel_w || p->y_w == 1) &&
                           (p->stride_h > (p->kernel_h - 1) * p->dilation_h || p->y_h == 1);
    const int32_t to = above - (int32_t)row;
    const share_t rows = taps_inside(to, p->kernel_h, p->dilation_h, height);
    if (rows.begin == rows.end) return;
    const share_t all_rows = taps_inside(above + (int32_t)p->row, p->kernel_h, p->dilation_h, p->height);
    float *const first = dx + (uint32_t)(to + (int32_t)(rows.begin * p->dilation_h)) * p->dx_r;
    int32_t before = -p->left;
    for (uint32_t w = 0; w < p->y_w; w++, before += (int32_t)p->stride_w) {
        const share_t columns = taps_inside(before, p->kernel_w, next_column, p->w), *all = &columns;
        share_t whole;
        if (part) whole = taps_inside(before + (int32_t)p->column, p->kernel_w, next_column, p->width), all = &whole;
        const uint32_t inside = (all_rows.end - all_rows.begin) * (all->end - all->begin);
        if (!p->include_pad && inside != mean->count) *mean = (mean_t){inside, 1.0f / (float)inside};
        const uint32_t wide = columns.end - columns.begin;
        const float value = dy[w] * mean->inverse;
        float *line = first + before + (int32_t)(columns.begin * next_column);
        if (wide == 0) continue;
        if (apart)
            fill_lines_f32(line, next_row, 0.0f + value, rows.end - rows.begin, wide);
        else
            for (uint32_t a = rows.begin; a < rows.end; a++, line += next_row) add_to(line, next_column, value, wide);
    }
}

void avg_pool_grad_f32(const void *args) {
    const avg_pool_grad_f32_args_t *p = args;
    const uint32_t kernel = p->kernel_h * p->kernel_w, width = p->w, reach = (p->kernel_h - 1) * p->dilation_h + 1;
    const uint32_t wide = p->y_w > 0 ? (p->y_w - 1) * p->stride_w + 2 : 0;
    const uint32_t is_square = p->kernel_h == 2 && p->kernel_w == 2 && p->dilation_h == 1 && p->dilation_w == 1 &&
                               p->stride_h >= 2 && p->stride_w >= 2 && p->left == 0 && wide - 1 < width;
    mean_t mean = {kernel, 1.0f / (float)kernel};
    const float whole = mean.inverse;
    /* Squares that share no rows are not cut: cores share rows of them. */
    const uint32_t together = is_square && p->top == 0 && p->stride_h >= 2 ? p->stride_h : 1;
    const uint32_t parts = (p->h + together - 1) / together;
    const share_t share = share_of(p->c * parts);
    for (uint32_t i = share.begin, taken; i < share.end; i += taken) {
        const uint32_t c = i / parts, part = i - c * parts, row = part * together;
        taken = rows_from(part, parts, share.end - i);
        const uint32_t rows = hal_min(taken * together, p->h - row);
        const float *dy = p->dy + c * p->dy_c;
        float *dx = p->dx + c * p->dx_c + row * p->dx_r;
        fill_lines_f32(dx, p->dx_r, 0.0f, rows, width);
        int32_t above = -p->top;
        for (uint32_t h = 0; h < p->y_h; h++, dy += p->dy_r, above += (int32_t)p->stride_h) {
            const int32_t from = above - (int32_t)row;
            if (from >= (int32_t)rows) break;
            if (is_square && from >= 0 && (uint32_t)from + 2 <= rows) {
                float *const line = dx + (uint32_t)from * p->dx_r;
                squares(line, line + p->dx_r, dy, whole, 4 * p->stride_w, p->y_w);
            } else if (from + (int32_t)reach > 0)
                add_windows(p, dy, dx, above, row, rows, &mean);
        }
        if (!p->gate) continue;
        const float *gate = p->gate + c * p->gate_c + row * p->gate_r;
        for (uint32_t r = 0; r < rows; r++, gate += p->gate_r, dx += p->dx_r) gate_line(dx, dx, gate, width);
    }
}
