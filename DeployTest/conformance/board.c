/* This machine as such a board, with two memories. */
#include "board.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

_Alignas(16) uint8_t hal_memory_near[16384], hal_memory_far[65536];
static FILE *input, *output;

void board_init(void) {
    input = fopen("input.bin", "rb");
    output = fopen("output.bin", "wb");
    if (!input || !output) exit(2);
}
uint64_t board_clock(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
void board_read(void *destination, uint32_t bytes) {
    if (fread(destination, 1, bytes, input) != bytes) exit(2);
}
void board_write(const void *source, uint32_t bytes) {
    if (fwrite(source, 1, bytes, output) != bytes) exit(2);
}
void board_put(char character) { putchar(character); }
void board_exit(int code) { exit(code); }
