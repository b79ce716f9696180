/* The common kernel with many outputs at a time: 16 columns in lanes by 4 rows, where columns of B lie next to each other as
 * they are or after packing a block of them; with a single row, 4 columns by their own rows of B. A call has the whole of
 * its sums, as there are no tiles. */
#include "gemm_f32.h"
#include "activation_f32.h"
#include "hal.h"
#include "lanes.h"
#include "products_f32.h"

/* Rows m.. and columns n.. of batch b get a block of their sums; the last one completes them. */
static inline void epilogue(const gemm_f32_args_t *p, uint32_t b, uint32_t m, uint32_t rows, uint32_t n, uint32_t columns,
                          uint32_t first, uint32_t last, float sums[SPOTS][WIDTH]) {
    const uint32_t plain = !last || (p->alpha == 1.0f && !p->c && !p->relu && !p->gate);
    for (uint32_t i = 0; i < rows; i++) {
        float *y = p->y + b * p->y_b + (m + i) * p->y_m + n;
        if (plain && first && columns == WIDTH) {
            memcpy(y, sums[i], sizeof(float) * WIDTH);
            continue;
        }
        for (uint32_t j = 0; j < columns; j++) {
            float sum = products_add(y[j], sums[i][j], first);
            if (last && p->alpha != 1.0f) sum = p->alpha * sum;
            if (last && p->c) sum = __builtin_fmaf(p->beta, p->c[b * p->c_b + (m + i) * p->c_m + (n + j) * p->c_n], sum);
            if (last && p->relu) sum = relu_f32_of(sum);
            if (last && p->gate) sum = gated_f32(sum, p->gate[b * p->gate_b + (m + i) * p->gate_m + n + j]);
            y[j] = sum;
        }
    }
}

/* One block of k for `spots` rows m.. and `lanes` columns n.., whose factors are in `factors`, `next` elements from k to k. */
static ALWAYS_INLINE void add_rows(const gemm_f32_args_t *p, uint32_t b, uint32_t m, uint32_t spots, uint32_t n, uint32_t lanes,
                                   const float *factors, uint32_t next, uint32_t k, uint32_t count) {
    const loop_t once = {1, 0, 0}, sum = {count, (int32_t)p->a_k, (int32_t)next};
    float sums[SPOTS][WIDTH];
    block_sums(spots, lanes, p->a + b * p->a_b + m * p->a_m + k * p->a_k, (int32_t)p->a_m, factors, once, once, sum, sums, 1);
    epilogue(p, b, m, spots, n, lanes, k == 0, k + count == p->k, sums);
}

/* The same for all rows m.. below `end`. */
static inline void add_block(const gemm_f32_args_t *p, uint32_t b, uint32_t m, uint32_t end, uint32_t n, uint32_t lanes,
                             const float *factors, uint32_t next, uint32_t k, uint32_t count) {
    for (; m + SPOTS <= end; m += SPOTS) add_rows(p, b, m, SPOTS, n, lanes, factors, next, k, count);
    for (; m < end; m++) add_rows(p, b, m, 1, n, lanes, factors, next, k, count);
}

/* One block of k of a single row of A, for columns n.. below `end` each with its own factors, a spot per column. */
static inline void add_row(const gemm_f32_args_t *p, uint32_t b, uint32_t n, uint32_t end, uint32_t k, uint32_t count) {
    const loop_t once = {1, 0, 0}, sum = {count, (int32_t)p->b_k, (int32_t)p->a_k};
    for (uint32_t spots; n < end; n += spots) {
        float columns[SPOTS][WIDTH], sums[SPOTS][WIDTH];
        spots = n + SPOTS <= end ? SPOTS : 1;
        block_sums(spots, 1, p->b + b * p->b_b + n * p->b_n + k * p->b_k, (int32_t)p->b_n, p->a + b * p->a_b + k * p->a_k, once,
                   once, sum, columns, 1);
        for (uint32_t s = 0; s < spots; s++) sums[0][s] = columns[s][0];
        epilogue(p, b, 0, 1, n, spots, k == 0, k + count == p->k, sums);
    }
}

/* A single row of A with columns of B that are rows in memory: cores share the columns of a batch. */
static void by_row(const gemm_f32_args_t *p) {
    const uint32_t pieces = parts_of(p->n, SPOTS);
    const share_t share = share_of(p->batch * pieces);
    strip_t strip;
    for (uint32_t at = share.begin; at < share.end; at += strip.end - strip.begin) {
        strip = strip_at(at, share.end, pieces);
        for (uint32_t k = 0; k < p->k; k += PRODUCTS_BLOCK)
            add_row(p, strip.unit, strip.begin * SPOTS, hal_min(p->n, strip.end * SPOTS), k, hal_min(PRODUCTS_BLOCK, p->k - k));
    }
}

void gemm_f32(const void *args) {
    const gemm_f32_args_t *p = args;
    if (p->m == 1 && p->b_n != 1) {
        by_row(p);
        return;
    }
    const uint32_t parts = parts_of(p->n, WIDTH), pieces = parts_of(p->m, SPOTS);
    const share_t share = share_of(p->batch * parts * pieces);
    float packed[PRODUCTS_BLOCK * WIDTH];
    strip_t strip;
    for (uint32_t at = share.begin; at < share.end; at += strip.end - strip.begin) {
        strip = strip_at(at, share.end, pieces);
        const uint32_t b = strip.unit / parts, n = strip.unit % parts * WIDTH, lanes = hal_min(WIDTH, p->n - n);
        const uint32_t m = strip.begin * SPOTS, end = hal_min(p->m, strip.end * SPOTS);
        for (uint32_t k = 0; k < p->k; k += PRODUCTS_BLOCK) {
            const uint32_t count = hal_min(PRODUCTS_BLOCK, p->k - k);
            const float *from = p->b + b * p->b_b + n * p->b_n + k * p->b_k;
            if (lanes == 1 || (p->b_n == 1 && lanes == WIDTH)) {
                add_block(p, b, m, end, n, lanes, from, p->b_k, k, count);
                continue;
            }
            if (lanes < WIDTH) memset(packed, 0, sizeof(float) * WIDTH * count);
            for (uint32_t i = 0; i < count; i++)
                for (uint32_t lane = 0; lane < lanes; lane++) packed[i * WIDTH + lane] = from[i * p->b_k + lane * p->b_n];
            add_block(p, b, m, end, n, lanes, packed, WIDTH, k, count);
        }
    }
}
