/* Semihosting: the debugger's calls to files of the host, by the trap sequence that QEMU and GVSoC both know. */
#ifndef SEMIHOST_H
#define SEMIHOST_H

#include <stdint.h>

enum { SEMIHOST_OPEN = 1, SEMIHOST_CLOSE = 2, SEMIHOST_WRITE = 5, SEMIHOST_READ = 6, SEMIHOST_CMDLINE = 21 };
enum { SEMIHOST_MODE_READ = 1, SEMIHOST_MODE_WRITE = 5 };

static inline intptr_t semihost(intptr_t operation, const void *block) {
    register intptr_t a0 __asm__("a0") = operation;
    register const void *a1 __asm__("a1") = block;
    __asm__ volatile(".balign 16\n" /* the three words must not straddle a page */
                     ".option push\n"
                     ".option norvc\n"
                     "slli zero, zero, 0x1f\n"
                     "ebreak\n"
                     "srai zero, zero, 7\n"
                     ".option pop\n"
                     : "+r"(a0)
                     : "r"(a1)
                     : "memory");
    return a0;
}

static inline intptr_t semihost_open(const char *path, uint32_t length, intptr_t mode) {
    const intptr_t block[] = {(intptr_t)path, mode, (intptr_t)length};
    return semihost(SEMIHOST_OPEN, block);
}

/* Returns the bytes that were not transferred. */
static inline intptr_t semihost_transfer(intptr_t operation, intptr_t file, const void *address, uint32_t bytes) {
    const intptr_t block[] = {file, (intptr_t)address, (intptr_t)bytes};
    return semihost(operation, block);
}

#endif
