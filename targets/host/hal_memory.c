/* The levels of the simulator: where buffers lie, when they live, and what their memory holds when they do not. */
#include "hal_host.h"

#include <stdlib.h>
#include <string.h>

#define NAN_WORD 0x7fa0deadu   /* a signalling NaN */
#define GUARD_WORD 0xa5a5a5a5u /* outside of all buffers, always */

#ifdef HOST_ASAN
#include <sanitizer/asan_interface.h>
/* The barrier keeps the compiler from making memcpy of these loops: AddressSanitizer would check its arguments. */
#define RAW __attribute__((no_sanitize_address, noinline))
#define PER_WORD() __asm__ volatile("" ::: "memory")
#else
#define RAW
#define PER_WORD() (void)0
#endif

typedef uint64_t __attribute__((may_alias, aligned(1))) word_t;
typedef enum { DEAD, BORN, KEPT } life_t; /* in the step that begins; BORN: its old content is worth nothing */

static life_t *lives;
static uint32_t previous = HAL_NO_STEP; /* the last step that ran */
static uint32_t current = HAL_NO_STEP;

/* ---- raw memory ---- */

RAW void memory_copy(void *to, const void *from, uint32_t bytes) {
    uint8_t *t = to;
    const uint8_t *f = from;
    uint32_t i = 0;
    for (; i + 8 <= bytes; i += 8) {
        *(word_t *)(t + i) = *(const word_t *)(f + i);
        PER_WORD();
    }
    for (; i < bytes; i++) t[i] = f[i];
}

RAW uint32_t memory_difference(const void *a, const void *b, uint32_t bytes) {
#ifndef HOST_ASAN
    if (!memcmp(a, b, bytes)) return bytes;
#endif
    const uint8_t *x = a, *y = b;
    uint32_t i = 0;
    while (i + 8 <= bytes && *(const word_t *)(x + i) == *(const word_t *)(y + i)) i += 8;
    while (i < bytes && x[i] == y[i]) i++;
    return i;
}

/* The pattern as 8 bytes from that address on; its words begin at multiples of 4, wherever a range of bytes begins. */
static uint64_t pattern_of(uint32_t word, const void *address) {
    const uint32_t phase = (uint32_t)((uintptr_t)address & 3u) * 8u;
    const uint64_t pattern = (uint64_t)word << 32 | word;
    return phase ? pattern >> phase | pattern << (64u - phase) : pattern;
}

RAW static void fill(void *address, uint32_t bytes, uint32_t word) {
    uint8_t *p = address;
    const uint64_t pattern = pattern_of(word, address);
    uint32_t i = 0;
    for (; i + 8 <= bytes; i += 8) {
        *(word_t *)(p + i) = pattern;
        PER_WORD();
    }
    for (; i < bytes; i++) p[i] = (uint8_t)(pattern >> (i & 7) * 8);
}

RAW static uint32_t not_filled(const void *address, uint32_t bytes, uint32_t word) {
    const uint8_t *p = address;
    const uint64_t pattern = pattern_of(word, address);
    uint32_t i = 0;
    while (i + 8 <= bytes && *(const word_t *)(p + i) == pattern) i += 8;
    while (i < bytes && p[i] == (uint8_t)(pattern >> (i & 7) * 8)) i++;
    return i;
}

RAW uint8_t memory_byte(const void *address) { return *(const uint8_t *)address; }

void memory_poison(void *address, uint32_t bytes) {
    fill(address, bytes, NAN_WORD);
    guard_accept(address, bytes);
}

void memory_store(void *to, const void *from, uint32_t bytes) {
    memory_copy(to, from, bytes);
    guard_accept(to, bytes);
}

uint32_t memory_unpoisoned(const void *address, uint32_t bytes) { return not_filled(address, bytes, NAN_WORD); }

void memory_close(const void *address, uint32_t bytes) {
#ifdef HOST_ASAN
    __asan_poison_memory_region(address, bytes);
#else
    (void)address, (void)bytes;
#endif
}

void memory_open(const void *address, uint32_t bytes) {
#ifdef HOST_ASAN
    __asan_unpoison_memory_region(address, bytes);
#else
    (void)address, (void)bytes;
#endif
}

/* ---- where ---- */

static uint8_t *address_of(uint32_t level, uint32_t offset) { return hal_sim.levels[level].memory + offset; }

uint32_t memory_level(const void *address) {
    uint32_t level = 0;
    for (; level < hal_sim.level_count; level++) {
        const uintptr_t first = (uintptr_t)hal_sim.levels[level].memory;
        if ((uintptr_t)address >= first && (uintptr_t)address - first < hal_sim.levels[level].bytes) break;
    }
    return level;
}

static uint32_t is_live(const hal_sim_buffer_t *b, uint32_t step) { return b->first <= step && step <= b->last; }

uint32_t memory_find(host_place_t *place, const void *address, uint32_t bytes) {
    const uint32_t level = memory_level(address);
    if (level == hal_sim.level_count) return 0;
    const uint32_t offset = (uint32_t)((const uint8_t *)address - hal_sim.levels[level].memory);
    for (uint32_t i = 0; i < hal_sim.buffer_count; i++) {
        const hal_sim_buffer_t *b = &hal_sim.buffers[i];
        if (b->level != level || !is_live(b, current)) continue;
        if (offset < b->address || offset - b->address >= b->bytes) continue;
        const uint32_t size = b->bytes / b->parts, part = (offset - b->address) / size;
        const uint32_t start = b->address + part * size;
        if (bytes > start + size - offset) continue;
        *place = (host_place_t){b, level, offset, part, start, start + size};
        return 1;
    }
    return 0;
}

const char *memory_name(const host_place_t *place) {
    const hal_sim_buffer_t *b = place->buffer;
    const char *level = hal_sim.levels[place->level].name;
    const uint32_t inside = place->offset - place->start;
    if (b->parts == 1) return host_text("'%s' + %u (%s + 0x%x)", b->name, inside, level, place->offset);
    return host_text("'%s' part %u + %u (%s + 0x%x)", b->name, place->part, inside, level, place->offset);
}

const char *memory_text(const void *address) {
    host_place_t place;
    return memory_find(&place, address, 1) ? memory_name(&place) : memory_where(address, 1);
}

/* How far the range's first byte lies from the buffer, live buffers first. */
static uint64_t distance(const hal_sim_buffer_t *b, uint32_t offset) {
    uint64_t away = 0;
    if (offset < b->address) away = b->address - offset;
    else if (offset - b->address >= b->bytes) away = (uint64_t)offset - b->address - b->bytes + 1;
    return 2 * away + !is_live(b, current);
}

static const char *relative(const hal_sim_buffer_t *b, uint32_t offset, uint32_t bytes) {
    if (offset < b->address) return host_text("begins %u B before '%s'", b->address - offset, b->name);
    const uint32_t inside = offset - b->address;
    if (inside >= b->bytes) return host_text("begins %u B past the end of '%s'", inside - b->bytes, b->name);
    if (!is_live(b, current)) return host_text("lies in '%s', live in steps %u to %u only", b->name, b->first, b->last);
    const uint32_t size = b->bytes / b->parts, part = inside / size;
    const unsigned long long past = (uint64_t)inside + bytes - (uint64_t)(part + 1) * size;
    if (b->parts == 1) return host_text("ends %llu B past the end of '%s' (%u B)", past, b->name, size);
    return host_text("ends %llu B past the end of part %u of '%s' (%u B)", past, part, b->name, size);
}

const char *memory_where(const void *address, uint32_t bytes) {
    const uint32_t level = memory_level(address);
    if (level == hal_sim.level_count) return host_text("address %p lies in no level", address);
    const uint32_t offset = (uint32_t)((const uint8_t *)address - hal_sim.levels[level].memory);
    const hal_sim_buffer_t *nearest = NULL;
    for (uint32_t i = 0; i < hal_sim.buffer_count; i++) {
        const hal_sim_buffer_t *b = &hal_sim.buffers[i];
        if (b->level == level && (!nearest || distance(b, offset) < distance(nearest, offset))) nearest = b;
    }
    const char *relation = nearest ? relative(nearest, offset, bytes) : "lies in a level without buffers";
    return host_text("%s + 0x%x %s", hal_sim.levels[level].name, offset, relation);
}

/* ---- lives ---- */

/* Poisons what of the range no buffer of at least life `kept` holds. */
static void poison_unless(life_t kept, uint32_t level, uint32_t start, uint32_t end) {
    for (uint32_t i = 0; i < hal_sim.buffer_count; i++) {
        const hal_sim_buffer_t *b = &hal_sim.buffers[i];
        const uint32_t last = b->address + b->bytes;
        if (b->level != level || lives[i] < kept || b->address >= end || last <= start) continue;
        if (start < b->address) poison_unless(kept, level, start, b->address);
        if (last < end) poison_unless(kept, level, last, end);
        return;
    }
    memory_poison(address_of(level, start), end - start);
}

/* A slot is born in its step, or the one in which a transfer into it crosses from; a home or tables in their first, and
 * again when a graph starts over. */
static life_t life_in(const hal_sim_buffer_t *b, uint32_t step) {
    if (!is_live(b, step)) return DEAD;
    if (b->kind == HAL_SIM_SLOT) return step == b->first ? BORN : KEPT;
    if (b->loaded || b->last == HAL_SIM_ALWAYS) return KEPT;
    const uint32_t again = previous == HAL_NO_STEP || step <= previous;
    return again || b->first > previous ? BORN : KEPT;
}

static void open_levels(uint32_t step) {
    for (uint32_t i = 0; i < hal_sim.level_count; i++) memory_close(hal_sim.levels[i].memory, hal_sim.levels[i].bytes);
    for (uint32_t i = 0; i < hal_sim.buffer_count; i++) {
        const hal_sim_buffer_t *b = &hal_sim.buffers[i];
        if (step == HAL_NO_STEP ? b->kind == HAL_SIM_HOME : is_live(b, step))
            memory_open(address_of(b->level, b->address), b->bytes);
    }
}

void memory_enter(uint32_t step) {
    current = step;
    open_levels(step);
    if (step == HAL_NO_STEP) return; /* what the graph left stays for the harness */
    for (uint32_t i = 0; i < hal_sim.buffer_count; i++) lives[i] = life_in(&hal_sim.buffers[i], step);
    for (uint32_t i = 0; i < hal_sim.buffer_count; i++) {
        const hal_sim_buffer_t *b = &hal_sim.buffers[i];
        const uint32_t dies = lives[i] == DEAD && previous != HAL_NO_STEP && is_live(b, previous);
        if (lives[i] == BORN) poison_unless(KEPT, b->level, b->address, b->address + b->bytes);
        if (dies) poison_unless(BORN, b->level, b->address, b->address + b->bytes);
    }
    previous = step;
}

static void check_map(void) {
    for (uint32_t i = 0; i < hal_sim.buffer_count; i++) {
        const hal_sim_buffer_t *b = &hal_sim.buffers[i];
        if (b->level >= hal_sim.level_count) host_usage("simulation map: '%s' lies in level %u", b->name, b->level);
        const uint32_t room = hal_sim.levels[b->level].bytes;
        if (b->address > room || b->bytes > room - b->address)
            host_usage("simulation map: '%s' ends at byte %llu of %s, which has %u", b->name,
                       (unsigned long long)b->address + b->bytes, hal_sim.levels[b->level].name, room);
        if (!b->bytes || !b->parts || b->parts > HOST_PARTS || b->bytes % b->parts)
            host_usage("simulation map: '%s' of %u B in %u parts", b->name, b->bytes, b->parts);
    }
}

void memory_init(void) {
    check_map();
    lives = host_allocate(hal_sim.buffer_count, sizeof *lives);
    for (uint32_t i = 0; i < hal_sim.level_count; i++)
        fill(hal_sim.levels[i].memory, hal_sim.levels[i].bytes, GUARD_WORD);
    for (uint32_t i = 0; i < hal_sim.buffer_count; i++)
        memory_poison(address_of(hal_sim.buffers[i].level, hal_sim.buffers[i].address), hal_sim.buffers[i].bytes);
    guard_init();
    open_levels(HAL_NO_STEP);
}
