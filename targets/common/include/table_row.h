/* Rows of a table by their numbers, which count from the end where they are negative. */
#ifndef TABLE_ROW_H
#define TABLE_ROW_H

#include <stdint.h>

/* The row from the front; not below `rows` where there is no such row. */
static inline uint32_t table_row(int32_t id, uint32_t rows) { return id < 0 ? (uint32_t)id + rows : (uint32_t)id; }

#endif
