/* Lines of elements: copied, whatever their type; filled, added. A target with loops of its own says HAL_LINES in its
 * hal_target.h, and has them in a lines.h. */
#ifndef LINES_F32_H
#define LINES_F32_H

#include "hal.h"
#include "words.h"

#ifdef HAL_LINES
#include "lines.h"
#else

/* y[j] = x[j step]. */
static inline void copy_line_f32(float *y, const float *x, uint32_t step, uint32_t count) {
    for (uint32_t j = 0; j < count; j++) move_word(&y[j], &x[j * step]);
}

/* y[j] = value. A compiler that sees through this loop may call memset, which kernels do not have. */
static inline void fill_line_f32(float *y, float value, uint32_t count) {
    for (uint32_t j = 0; j < count; j++) {
        y[j] = value;
        __asm__ volatile("" ::: "memory");
    }
}

/* y[j] += x[j]. */
static inline void add_line_f32(float *y, const float *x, uint32_t count) {
    for (uint32_t j = 0; j < count; j++) y[j] += x[j];
}

/* Lines of `count` that begin y_next and x_next elements apart. */
static inline void copy_lines_f32(
    float *y, uint32_t y_next, const float *x, uint32_t x_next, uint32_t lines, uint32_t step, uint32_t count
) {
    for (; lines > 0; lines--, y += y_next, x += x_next) copy_line_f32(y, x, step, count);
}

/* Lines of `count` that begin y_next elements apart. */
static inline void fill_lines_f32(float *y, uint32_t y_next, float value, uint32_t lines, uint32_t count) {
    for (; lines > 0; lines--, y += y_next) fill_line_f32(y, value, count);
}

#endif
#endif
