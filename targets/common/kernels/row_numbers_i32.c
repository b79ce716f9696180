/* The number of a row among all, from its index along each axis; the least integer where an index is outside. */
#include "hal.h"
#include "row_numbers_i32.h"
#include "share_f32.h"
#include "table_row.h"

void row_numbers_i32(const void *args) {
    const row_numbers_i32_args_t *p = args;
    const uint32_t sizes[] = {p->size0, p->size1, p->size2, p->size3};
    const share_t share = share_of(p->n);
    for (uint32_t n = share.begin; n < share.end; n++) {
        uint32_t number = (p->n_start + n) / p->each, inside = 1;
        for (uint32_t axis = 0; axis < p->axes; axis++) {
            const uint32_t row = table_row(p->ids[n * p->ids_n + axis], sizes[axis]);
            inside &= row < sizes[axis];
            number = number * sizes[axis] + row;
        }
        p->y[n] = inside ? (int32_t)number : INT32_MIN;
    }
}
