/* One flat memory under an operating system: files, text, the clock and calls; nothing is ever transferred. */
#include "hal.h"
#include "exact_f32.h"
#include "pool.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FAULT = 3, USAGE = 2, UNFIT = 4 }; /* how a run ends that does not end well */

static FILE *input, *output;
static uint32_t current_step = HAL_NO_STEP;

__attribute__((format(printf, 2, 3))) static _Noreturn void end(int code, const char *format, ...) {
    va_list arguments;
    fflush(stdout);
    fputs("hal: ", stderr);
    if (current_step != HAL_NO_STEP) fprintf(stderr, "step %u: ", current_step);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(code);
}

/* ---- platform ---- */

static FILE *opened(const char *flag, const char *path, const char *mode) {
    FILE *file = path ? fopen(path, mode) : 0;
    if (!file) end(USAGE, "%s %s cannot be opened", flag, path ? path : "without a file");
    return file;
}

const char *hal_unfit(void) {
    static char text[160];
    exact_fault_t fault;
    if (exact_lacking()) {
        snprintf(text, sizeof text, "it is built for %s, which this processor does not have", exact_lacking());
    } else if (exact_fault(&fault)) {
        snprintf(text, sizeof text, "fmaf of the floats %08x, %08x and %08x is %08x, and rounded once it is %08x", fault.x,
                 fault.y, fault.z, fault.found, fault.exact);
    } else if (hal_plan_cores != HAL_CORES) {
        snprintf(text, sizeof text, "the plan has %u cores, and it is built for %u", hal_plan_cores, HAL_CORES);
    } else {
        const uint32_t cores = pool_start(HAL_CORES);
        if (cores == HAL_CORES) return 0;
        snprintf(text, sizeof text, "the plan has %u cores, and %u threads could be started", HAL_CORES, cores);
    }
    return text;
}

void hal_init(int argc, char **argv) {
    for (int i = 1; i < argc; i += 2) {
        if (!strcmp(argv[i], "--input")) input = opened(argv[i], argv[i + 1], "rb");
        else if (!strcmp(argv[i], "--output")) output = opened(argv[i], argv[i + 1], "wb");
        else end(USAGE, "unknown flag '%s'; known: --input FILE --output FILE", argv[i]);
    }
    const char *unfit = hal_unfit();
    if (unfit) end(UNFIT, "%s", unfit);
}

void hal_step(uint32_t step) { current_step = step; }

/* Of one core its processor time, on which other processes do not count; of several the time that passes, which they save. */
uint64_t hal_cycles(void) {
    struct timespec now;
    clock_gettime(HAL_CORES == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void hal_read(void *destination, uint32_t bytes) {
    if (!input) end(USAGE, "hal_read of %u B, but there is no --input FILE", bytes);
    const size_t got = fread(destination, 1, bytes, input);
    if (got < bytes) end(USAGE, "the input ends %zu B into a read of %u B", got, bytes);
}

void hal_write(const void *source, uint32_t bytes) {
    if (!output) end(USAGE, "hal_write of %u B, but there is no --output FILE", bytes);
    if (fwrite(source, 1, bytes, output) < bytes) end(USAGE, "writing the output failed");
}

void hal_print(const char *text) { fputs(text, stdout); }

void hal_exit(int code) {
    if (output && fclose(output)) end(USAGE, "writing the output failed");
    fflush(stdout);
    exit(code);
}

/* ---- compute ---- */

void hal_parallel(hal_kernel_t kernel, const void *args) {
    if (HAL_CORES == 1) kernel(args);
    else pool_run(kernel, args);
}

/* ---- memory: a plan of one level has no transfers ---- */

static _Noreturn hal_ticket_t refused(uint32_t hop) {
    end(FAULT, "a transfer over hop %u, on a machine with one memory", hop);
}

hal_ticket_t hal_dma_in_1d(uint32_t hop, void *inner, const void *outer, uint32_t bytes) {
    (void)inner, (void)outer, (void)bytes;
    refused(hop);
}

hal_ticket_t hal_dma_in_2d(uint32_t hop, void *inner, const void *outer, uint32_t run, uint32_t count, uint32_t stride) {
    (void)inner, (void)outer, (void)run, (void)count, (void)stride;
    refused(hop);
}

hal_ticket_t hal_dma_in_3d(uint32_t hop, void *inner, const void *outer, uint32_t run, uint32_t count, uint32_t stride,
                           uint32_t planes, uint32_t plane_stride) {
    (void)inner, (void)outer, (void)run, (void)count, (void)stride, (void)planes, (void)plane_stride;
    refused(hop);
}

hal_ticket_t hal_dma_out_1d(uint32_t hop, void *outer, const void *inner, uint32_t bytes) {
    return hal_dma_in_1d(hop, outer, inner, bytes);
}

hal_ticket_t hal_dma_out_2d(uint32_t hop, void *outer, const void *inner, uint32_t run, uint32_t count, uint32_t stride) {
    return hal_dma_in_2d(hop, outer, inner, run, count, stride);
}

hal_ticket_t hal_dma_out_3d(uint32_t hop, void *outer, const void *inner, uint32_t run, uint32_t count, uint32_t stride,
                            uint32_t planes, uint32_t plane_stride) {
    return hal_dma_in_3d(hop, outer, inner, run, count, stride, planes, plane_stride);
}

void hal_dma_wait(hal_ticket_t ticket) {
    if (ticket != HAL_DONE) refused(ticket);
}
