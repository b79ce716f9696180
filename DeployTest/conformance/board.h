/* What a board gives to the HAL that docs/porting.md shows. */
#ifndef BOARD_H
#define BOARD_H

#include <stdint.h>

void board_init(void);
uint64_t board_clock(void);
void board_read(void *destination, uint32_t bytes);
void board_write(const void *source, uint32_t bytes);
void board_put(char character);
void board_exit(int code);

#endif
