/* The simulator's platform: command line, files, steps, the virtual clock and the cores, which run one by one. */
#include "hal_host.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CORES_MAX 1024

host_t host = {.step = HAL_NO_STEP, .dma_order = HOST_EARLY, .guards = HOST_GUARDS_FAST, .seed = 1};

static const char *const order_names[] = {"early", "late", "random", NULL};
static const char *const core_order_names[] = {"forward", "reverse", "random", NULL};
static const char *const guard_names[] = {"off", "fast", "full", NULL};
enum { FORWARD, REVERSE, RANDOM };

static struct {
    const char *input_path, *output_path, *watch_path, *watched_path;
    FILE *input, *output;
    uint64_t input_offset;
    uint32_t core, core_order, random;
} run;

/* ---- messages ---- */

static const char *step_name(void) {
    return host.step == HAL_NO_STEP ? "between graphs" : hal_sim.steps[host.step].name;
}

void host_fail(const char *check, const char *format, ...) {
    fflush(stdout);
    if (host.step == HAL_NO_STEP) fprintf(stderr, "hal: step - '%s': %s: ", step_name(), check);
    else fprintf(stderr, "hal: step %u '%s': %s: ", host.step, step_name(), check);
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(3);
}

static _Noreturn void end(int code, const char *format, va_list arguments) {
    fflush(stdout);
    fputs("hal: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    exit(code);
}

void host_usage(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    end(2, format, arguments);
}

void host_unfit(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    end(4, format, arguments);
}

const char *host_text(const char *format, ...) {
    static char texts[64][320];
    static uint32_t next;
    char *text = texts[next++ % 64];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof texts[0], format, arguments);
    va_end(arguments);
    return text;
}

void *host_allocate(uint64_t count, uint64_t bytes) {
    void *memory = calloc(count ? count : 1, bytes);
    if (!memory) host_usage("the simulator needs %llu B more than there are", (unsigned long long)(count * bytes));
    return memory;
}

uint32_t host_random(uint32_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

/* ---- command line and files ---- */

static uint32_t choice(const char *flag, const char *value, const char *const *names) {
    for (uint32_t i = 0; names[i]; i++)
        if (!strcmp(value, names[i])) return i;
    host_usage("%s %s: choose %s, %s or %s", flag, value, names[0], names[1], names[2]);
}

static uint32_t number(const char *flag, const char *value, uint32_t least, uint32_t most) {
    char *end;
    const unsigned long long parsed = strtoull(value, &end, 10);
    if (*value < '0' || *value > '9' || *end || parsed < least || parsed > most)
        host_usage("%s %s: give a number from %u to %u", flag, value, least, most);
    return (uint32_t)parsed;
}

static void set_flag(const char *flag, const char *value) {
    if (!strcmp(flag, "--input")) run.input_path = value;
    else if (!strcmp(flag, "--output")) run.output_path = value;
    else if (!strcmp(flag, "--watch")) run.watch_path = value;
    else if (!strcmp(flag, "--watched")) run.watched_path = value;
    else if (!strcmp(flag, "--dma-order")) host.dma_order = (host_order_t)choice(flag, value, order_names);
    else if (!strcmp(flag, "--core-order")) run.core_order = choice(flag, value, core_order_names);
    else if (!strcmp(flag, "--guards")) host.guards = (host_guards_t)choice(flag, value, guard_names);
    else if (!strcmp(flag, "--accumulated")) host.accumulated = (uint32_t)number(flag, value, 0, UINT32_MAX);
    else if (!strcmp(flag, "--flush")) host.flush = (uint32_t)number(flag, value, 0, UINT32_MAX);
    else if (!strcmp(flag, "--seed")) host.seed = number(flag, value, 0, UINT32_MAX);
    else if (!strcmp(flag, "--cores")) host.cores = number(flag, value, 1, CORES_MAX);
    else
        host_usage("unknown flag '%s'; known: --input FILE --output FILE --dma-order early|late|random --seed N "
                   "--cores N --core-order forward|reverse|random --guards off|fast|full --accumulated N --flush N --trace "
                   "--watch LIST --watched FILE",
                   flag);
}

static const char *value_of(const char *flag, const char *value) {
    static const char *const flags[] = {"--input", "--output", "--dma-order", "--core-order", "--seed", "--cores",
                                        "--guards", "--accumulated",     "--flush", "--watch",      "--watched"};
    for (uint32_t i = 0; !value && i < sizeof flags / sizeof *flags; i++)
        if (!strcmp(flag, flags[i])) host_usage("%s needs a value after it", flag);
    return value;
}

static FILE *open_file(const char *flag, const char *path, const char *mode) {
    if (!path) return NULL;
    FILE *file = fopen(path, mode);
    if (!file) host_usage("%s %s cannot be opened", flag, path);
    return file;
}

void hal_init(int argc, char **argv) {
    exact_init();
    host.cores = hal_sim.cores;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--trace")) {
            host.trace = 1;
            continue;
        }
        set_flag(argv[i], value_of(argv[i], i + 1 < argc ? argv[i + 1] : NULL));
        i++;
    }
    run.input = open_file("--input", run.input_path, "rb");
    run.output = open_file("--output", run.output_path, "wb");
    watch_init(open_file("--watch", run.watch_path, "rb"), open_file("--watched", run.watched_path, "wb"));
    run.random = host.seed * 2654435761u | 1;
    order_init();
    memory_init();
    cross_step_init();
    copies_init();
    dma_init();
    trace_init();
}

/* The harness reads and writes its own variables and home buffers: a slot is no place to leave anything in. Returns
 * whether the range lies in a level. */
static uint32_t check_harness_range(const char *call, const void *address, uint32_t bytes) {
    const uint32_t level = memory_level(address);
    if (level == hal_sim.level_count) return 0;
    const uint32_t start = (uint32_t)((const uint8_t *)address - hal_sim.levels[level].memory);
    for (uint32_t i = 0; i < hal_sim.buffer_count; i++) {
        const hal_sim_buffer_t *b = &hal_sim.buffers[i];
        if (b->kind == HAL_SIM_HOME && b->level == level && start >= b->address && start - b->address <= b->bytes &&
            bytes <= b->bytes - (start - b->address))
            return 1;
    }
    host_fail("outside-buffer", "%s of %u B is not inside one home buffer: %s", call, bytes,
              memory_where(address, bytes));
}

void hal_read(void *destination, uint32_t bytes) {
    uint8_t chunk[4096];
    dma_tick();
    const uint32_t in_level = check_harness_range("hal_read", destination, bytes);
    if (!run.input) host_usage("hal_read of %u B, but there is no --input FILE", bytes);
    for (uint32_t done = 0; done < bytes;) {
        const uint32_t want = bytes - done < sizeof chunk ? bytes - done : (uint32_t)sizeof chunk;
        const uint32_t got = (uint32_t)fread(chunk, 1, want, run.input);
        if (got < want)
            host_usage("--input %s ends at byte %llu; this read began at byte %llu and wants %u B", run.input_path,
                       (unsigned long long)run.input_offset + done + got, (unsigned long long)run.input_offset, bytes);
        /* Outside of the levels plain memcpy, which AddressSanitizer watches. */
        if (in_level) memory_store((uint8_t *)destination + done, chunk, got);
        else memcpy((uint8_t *)destination + done, chunk, got);
        done += got;
    }
    run.input_offset += bytes;
}

void hal_write(const void *source, uint32_t bytes) {
    uint8_t chunk[4096];
    dma_tick();
    const uint32_t in_level = check_harness_range("hal_write", source, bytes);
    if (!run.output) host_usage("hal_write of %u B, but there is no --output FILE", bytes);
    for (uint32_t done = 0; done < bytes;) {
        const uint32_t want = bytes - done < sizeof chunk ? bytes - done : (uint32_t)sizeof chunk;
        if (in_level) memory_copy(chunk, (const uint8_t *)source + done, want);
        else memcpy(chunk, (const uint8_t *)source + done, want);
        if (fwrite(chunk, 1, want, run.output) < want) host_usage("--output %s: writing failed", run.output_path);
        done += want;
    }
}

void hal_print(const char *text) { fputs(text, stdout); }

void hal_exit(int code) {
    order_exit();
    guard_check();
    watch_exit();
    if (run.output && fclose(run.output)) host_usage("--output %s: writing failed", run.output_path);
    fflush(stdout);
    exit(code);
}

/* ---- steps and the clock ---- */

void hal_step(uint32_t step) {
    dma_tick();
    watch_step(host.step);
    order_step(step);
    if (host.step != HAL_NO_STEP) check_leave();
    else guard_check();
    memory_enter(step);
    host.step = host.owner = step;
    host.calls = 0;
    tables_enter(step);
    if (host.trace) fprintf(stderr, "%12llu step %d %s\n", (unsigned long long)host.now, (int)step, step_name());
    if (step == HAL_NO_STEP) return;
    dma_enter();
    trace_enter();
    host.now += hal_sim.steps[step].cycles;
}

uint64_t hal_cycles(void) {
    dma_tick();
    return host.now;
}

/* ---- cores ---- */

uint32_t hal_core_id(void) { return run.core; }
uint32_t hal_core_count(void) { return host.cores; }

static void order_cores(uint32_t *cores) {
    for (uint32_t i = 0; i < host.cores; i++) cores[i] = run.core_order == REVERSE ? host.cores - 1 - i : i;
    if (run.core_order != RANDOM) return;
    for (uint32_t i = host.cores - 1; i > 0; i--) {
        const uint32_t other = host_random(&run.random) % (i + 1), core = cores[i];
        cores[i] = cores[other];
        cores[other] = core;
    }
}

void hal_parallel(hal_kernel_t kernel, const void *args) {
    uint32_t cores[CORES_MAX];
    dma_tick();
    if (host.step == HAL_NO_STEP) host_fail("order", "a kernel runs outside of any step");
    const hal_sim_step_t *step = &hal_sim.steps[host.step];
    if (host.calls >= step->tile_count)
        host_fail("tile-count", "kernel call %u of a step of %u tiles", host.calls + 1, step->tile_count);
    tables_check_kernel(args);
    check_kernel(args);
    trace_kernel(args);
    host.now += step->tile_cycles[host.calls++];
    if (host.trace) fprintf(stderr, "%12llu kernel %u ends\n", (unsigned long long)host.now, host.calls - 1);
    order_cores(cores);
    for (uint32_t i = 0; i < host.cores; i++) {
        run.core = cores[i];
        kernel(args);
    }
    run.core = 0;
    guard_kernel();
    trace_kernel_done();
}
