/* Runs kernels and transfers on the operands that the input file holds, and writes what each took and left behind. */
#include "hal.h"

% for symbol in v.symbols:
#include "${symbol}.h"
% endfor

% for function in v.functions:
void ${function}(const void *args);
% endfor

const uint32_t hal_plan_cores = ${v.cores};

% for level in v.levels:
extern uint8_t hal_memory_${level}[];
% endfor

enum { END, KERNEL, TRANSFER };
enum { IN = 1, OUT = 2 };
enum { RUNS = ${v.runs} };
#define EVICTING_NOPS "8192" /* text: assemblers differ in how operands print numbers */

static void empty(const void *args) {
    (void)args;
}

/* More straight-line code than any instruction cache here holds: what runs next is cold. */
static void evict(const void *args) {
    (void)args;
    __asm__ volatile(".rept " EVICTING_NOPS "\nnop\n.endr");
}

static const hal_kernel_t kernels[] = {
    empty,
% for function in v.functions:
    ${function},
% endfor
};
static uint8_t *const levels[] = {
% for level in v.levels:
    hal_memory_${level},
% endfor
};

static uint32_t spent[RUNS][2], clock_cost;

static uint32_t since(uint64_t begin) {
    return (uint32_t)(hal_cycles() - begin) - clock_cost;
}

/* The argument table lies at the start of the innermost level, the operands behind it; its pointers arrive as offsets, 0 is null. */
static void run_kernel(void) {
    struct {
        uint32_t kernel, pointers, bytes;
    } job;
    hal_read(&job, sizeof(job));
    uint8_t *const image = levels[0];
    const hal_kernel_t kernel = kernels[job.kernel]; /* not read in the measured time */
    hal_read(image, job.bytes);
    uintptr_t *const table = (uintptr_t *)image;
    for (uint32_t i = 0; i < job.pointers; i++)
        if (table[i]) table[i] += (uintptr_t)image;
    hal_parallel(evict, 0);
    for (uint32_t run = 0; run < RUNS; run++) {
        const uint64_t begin = hal_cycles();
        hal_parallel(kernel, image);
        spent[run][0] = spent[run][1] = since(begin);
        if (run == 0) hal_write(image, job.bytes);
    }
}

/* Inwards to the start of the inner level; outwards from behind that, to behind the source in the outer one. */
static void run_transfer(void) {
    struct {
        uint32_t hop, directions, run, count, stride;
    } job;
    hal_read(&job, sizeof(job));
    const uint32_t bytes = job.run * job.count, extent = job.count > 1 ? job.stride * job.count : bytes;
    uint8_t *const inner = levels[job.hop], *const outer = levels[job.hop + 1];
    hal_parallel(evict, 0);
    for (uint32_t run = 0; run < RUNS; run++) {
        hal_ticket_t in = HAL_DONE, out = HAL_DONE;
        const uint64_t begin = hal_cycles();
        if (job.directions & IN)
            in = job.count > 1 ? hal_dma_in_2d(job.hop, inner, outer, job.run, job.count, job.stride)
                               : hal_dma_in_1d(job.hop, inner, outer, bytes);
        if (job.directions & OUT)
            out = job.count > 1 ? hal_dma_out_2d(job.hop, outer + extent, inner + bytes, job.run, job.count, job.stride)
                                : hal_dma_out_1d(job.hop, outer + extent, inner + bytes, bytes);
        spent[run][0] = since(begin);
        hal_dma_wait(in);
        hal_dma_wait(out);
        spent[run][1] = since(begin);
    }
}

int main(int argc, char **argv) {
    hal_init(argc, argv);
    for (uint32_t i = 0; i < RUNS; i++) {
        const uint64_t begin = hal_cycles();
        clock_cost = (uint32_t)(hal_cycles() - begin);
    }
    for (;;) {
        uint32_t kind;
        hal_read(&kind, sizeof(kind));
        if (kind == END) break;
        if (kind == KERNEL)
            run_kernel();
        else
            run_transfer();
        hal_write(spent, sizeof(spent));
    }
    hal_exit(0);
}
