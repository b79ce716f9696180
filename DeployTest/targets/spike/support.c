/* What the example of a library needs of a machine without a C library: memory, text to the simulator, and the end. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

/* The simulator polls `tohost`, of 64 bits on a core of 32, too: its halves are written from the upper one on, which stays 0. */
volatile uint64_t tohost __attribute__((section(".tohost"), aligned(64)));
volatile uint64_t fromhost __attribute__((section(".tohost"), aligned(64)));

static void tell(uint32_t value) {
    volatile uint32_t *halves = (volatile uint32_t *)&tohost;
    halves[1] = 0;
    halves[0] = value;
}

void end_program(int code);
void end_program(int code) {
    tell((uint32_t)code << 1 | 1u);
    for (;;) {}
}

static void write_text(const char *text, uint32_t count) {
    static volatile uint64_t call[8] __attribute__((aligned(64)));
    call[0] = 64; /* write */
    call[1] = 1;
    call[2] = (uint32_t)text;
    call[3] = count;
    __asm__ volatile("fence" : : : "memory");
    tell((uint32_t)call);
    while (fromhost == 0) {}
    fromhost = 0;
}

/* As much of printf as the example uses: texts, whole numbers, words in hexadecimal; floats are left out. */
int printf(const char *format, ...) {
    static const char digits[] = "0123456789abcdef";
    va_list arguments;
    va_start(arguments, format);
    for (const char *at = format; *at; at++) {
        if (*at != '%') {
            write_text(at, 1);
            continue;
        }
        do at++; while (*at == '.' || *at == 'l' || (*at >= '0' && *at <= '9'));
        char text[10];
        uint32_t count = sizeof text;
        if (*at == 's') {
            for (const char *c = va_arg(arguments, const char *); *c; c++) write_text(c, 1);
        } else if (*at == 'g') {
            (void)va_arg(arguments, double);
        } else {
            const uint32_t base = *at == 'x' ? 16 : 10, least = *at == 'x' ? 8 : 1;
            uint32_t value = va_arg(arguments, uint32_t);
            do text[--count] = digits[value % base]; while ((value /= base) || sizeof text - count < least);
            write_text(text + count, sizeof text - count);
        }
    }
    va_end(arguments);
    return 0;
}

void *memcpy(void *to, const void *from, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) ((volatile uint8_t *)to)[i] = ((const uint8_t *)from)[i];
    return to;
}
void *memset(void *to, int value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) ((volatile uint8_t *)to)[i] = (uint8_t)value;
    return to;
}
