/* The platform half of the HAL for bare-metal RISC-V: files by semihosting, text, steps, traps. */
#include "platform.h"
#include "format.h"
#include "hal.h"
#include "profile.h"
#include "semihost.h"

static intptr_t input_file = -1, output_file = -1;

void hal_init(int argc, char **argv) {
    platform_init(argc, argv);
    /* Empty steps, which show what a record of a step takes; it is taken off again. */
    for (uint32_t i = 0; HAL_PROFILE && i < PROFILE_EMPTY_STEPS; i++) profile_step(HAL_NO_STEP);
}

void hal_print(const char *text) {
    while (*text) platform_putc(*text++);
}

static void print_count(uint64_t value) {
    char text[24];
    text[format_u64(text, value)] = 0;
    hal_print(text);
}

static void print_hex(uint32_t value) {
    hal_print("0x");
    for (int32_t shift = 28; shift >= 0; shift -= 4) platform_putc("0123456789abcdef"[(value >> shift) & 15]);
}

void platform_fail(const char *what) {
    hal_print("hal: step ");
    if (platform_step() == HAL_NO_STEP)
        hal_print("none");
    else
        print_count(platform_step());
    hal_print(": ");
    hal_print(what);
    hal_print("\n");
    platform_exit(3);
}

static intptr_t opened(intptr_t file, const char *path, uint32_t length, intptr_t mode) {
    if (file >= 0) return file;
    file = semihost_open(path, length, mode);
    if (file < 0) platform_fail("a data file cannot be opened");
    return file;
}

/* Between a file and memory that is not mapped, by way of some that is. */
static uint8_t staging[1024];
#define OUTERMOST_HOP 1u

static void read_mapped(void *destination, uint32_t bytes) {
    if (semihost_transfer(SEMIHOST_READ, input_file, destination, bytes)) platform_fail("input.bin is too short");
}

static void write_mapped(const void *source, uint32_t bytes) {
    if (semihost_transfer(SEMIHOST_WRITE, output_file, source, bytes)) platform_fail("output.bin cannot be written");
}

void hal_read(void *destination, uint32_t bytes) {
    input_file = opened(input_file, "input.bin", 9, SEMIHOST_MODE_READ);
    if (platform_mapped(destination)) {
        read_mapped(destination, bytes);
        return;
    }
    for (uint32_t at = 0; at < bytes; at += sizeof(staging)) {
        const uint32_t part = hal_min(bytes - at, sizeof(staging));
        read_mapped(staging, part);
        hal_dma_wait(hal_dma_out_1d(OUTERMOST_HOP, (uint8_t *)destination + at, staging, part));
    }
}

void hal_write(const void *source, uint32_t bytes) {
    output_file = opened(output_file, "output.bin", 10, SEMIHOST_MODE_WRITE);
    if (platform_mapped(source)) {
        write_mapped(source, bytes);
        return;
    }
    for (uint32_t at = 0; at < bytes; at += sizeof(staging)) {
        const uint32_t part = hal_min(bytes - at, sizeof(staging));
        hal_dma_wait(hal_dma_in_1d(OUTERMOST_HOP, staging, (const uint8_t *)source + at, part));
        write_mapped(staging, part);
    }
}

void hal_exit(int code) {
    if (HAL_PROFILE) profile_close();
    if (output_file >= 0) platform_close(output_file);
    platform_exit(code);
}

void trap_report(uint32_t cause, uint32_t pc, uint32_t value) {
    hal_print(cause & TRAP_INTERRUPT ? "hal: the step does not end, pc " : "hal: trap, pc ");
    print_hex(pc);
    hal_print(" cause ");
    print_hex(cause);
    hal_print(" value ");
    print_hex(value);
    hal_print("\n");
    platform_fail(cause & TRAP_INTERRUPT ? "watchdog" : "trap");
}
