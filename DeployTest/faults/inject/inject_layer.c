/* Steps, transfers, waits and kernel calls, each with its fault where the run has one there. */
#include "inject.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void __real_hal_step(uint32_t step);
void __real_hal_parallel(hal_kernel_t kernel, const void *args);
hal_ticket_t __real_hal_dma_in_1d(uint32_t, void *, const void *, uint32_t);
hal_ticket_t __real_hal_dma_in_2d(uint32_t, void *, const void *, uint32_t, uint32_t, uint32_t);
hal_ticket_t __real_hal_dma_in_3d(uint32_t, void *, const void *, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t);
hal_ticket_t __real_hal_dma_out_1d(uint32_t, void *, const void *, uint32_t);
hal_ticket_t __real_hal_dma_out_2d(uint32_t, void *, const void *, uint32_t, uint32_t, uint32_t);
hal_ticket_t __real_hal_dma_out_3d(uint32_t, void *, const void *, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t);
void __real_hal_dma_wait(hal_ticket_t ticket);
void __real_hal_tables(void *tables, const void *source, uint32_t bytes);

enum { MOVES_MAX = 65536, CALLS_MAX = 16384, ALIAS = 0x40000000 };
typedef enum { DIRECT, ABSENT, LOGGED, DEFERRED } way_t; /* how the calls of a step reach the HAL */

typedef struct { /* a transfer of this execution of its step; `alias` is the ticket that the program was given */
    inject_move_t move;
    uint32_t step, region, ordinal, waited;
    hal_ticket_t ticket, alias;
} started_t;

typedef struct { /* a fetch of argument tables */
    uint8_t *area;
    const uint8_t *source;
    uint32_t bytes;
} fetch_t;

typedef struct {
    enum { LOG_MOVE, LOG_WAIT, LOG_CALL, LOG_TABLES } kind;
    uint32_t index; /* of the transfer */
    fetch_t fetch;
    hal_kernel_t kernel;
    uint8_t args[INJECT_ARGS_MAX];
} entry_t;

static struct {
    uint32_t step, calls, started_count, late_count;
    way_t way;
    started_t started[MOVES_MAX];
    hal_ticket_t late[64];
    fetch_t fetched, fetch_late; /* the fetch before; and one that waits for a kernel call, if it has an area */
    uint8_t args[2][INJECT_ARGS_MAX]; /* of the call before and of the one that is changed */
} now = {.step = HAL_NO_STEP};

static struct { /* a step that is to run again, or later */
    uint32_t step, count, waiting;
    entry_t entries[CALLS_MAX];
    started_t started[MOVES_MAX];
} held;

static struct {
    uint32_t cores;
    const inject_action_t *action;
} store;

static const inject_step_t *plan_step(void) { return &inject_plan.steps[now.step]; }

/* ---- transfers ---- */

static hal_ticket_t start(const inject_move_t *m) {
    const uint32_t form = m->form;
    if (m->inward) {
        if (form == 1) return __real_hal_dma_in_1d(m->hop, m->inner, m->outer, m->run);
        if (form == 2) return __real_hal_dma_in_2d(m->hop, m->inner, m->outer, m->run, m->count, m->stride);
        return __real_hal_dma_in_3d(m->hop, m->inner, m->outer, m->run, m->count, m->stride, m->planes,
                                    m->plane_stride);
    }
    if (form == 1) return __real_hal_dma_out_1d(m->hop, m->outer, m->inner, m->run);
    if (form == 2) return __real_hal_dma_out_2d(m->hop, m->outer, m->inner, m->run, m->count, m->stride);
    return __real_hal_dma_out_3d(m->hop, m->outer, m->inner, m->run, m->count, m->stride, m->planes, m->plane_stride);
}

/* The region of the step at the inner end of the transfer that has its direction, or UINT32_MAX. */
static uint32_t region_in(uint32_t step, const inject_move_t *m) {
    if (step >= inject_plan.step_count) return UINT32_MAX;
    const inject_step_t *s = &inject_plan.steps[step];
    uint32_t offset;
    const uint32_t level = inject_place(m->inner, &offset);
    for (uint32_t i = 0; i < s->region_count; i++) {
        const inject_region_t *r = &s->regions[i];
        if (r->hop == m->hop && level == m->hop && (m->inward ? r->reads : r->writes) && offset >= r->start &&
            offset - r->start < r->bytes)
            return i;
    }
    return UINT32_MAX;
}

/* The operand that the transfer serves: of this step, or of a later one whose first ingress starts in this. */
static void find_operand(started_t *s) {
    s->step = now.step;
    s->region = region_in(now.step, &s->move);
    for (uint32_t i = 0; s->region == UINT32_MAX && s->move.inward && i < inject_plan.early_count; i++) {
        const inject_early_t *e = &inject_plan.early[i];
        if (e->at != now.step || region_in(e->step, &s->move) != e->region) continue;
        s->step = e->step;
        s->region = e->region;
    }
}

static uint32_t next_ordinal(const started_t *s) {
    uint32_t count = 0;
    for (const started_t *t = now.started; t < now.started + now.started_count; t++)
        count += t->step == s->step && t->region == s->region && t->move.inward == s->move.inward;
    return count;
}

static inject_move_t changed(const inject_move_t *m, const inject_action_t *a) {
    inject_move_t c = *m;
    c.inner += a->value[0];
    c.outer += a->value[1];
    c.run += (uint32_t)a->value[2];
    c.count += (uint32_t)a->value[3];
    c.stride += (uint32_t)a->value[4];
    c.planes += (uint32_t)a->value[5];
    c.plane_stride += (uint32_t)a->value[6];
    if (a->op == OP_TURN) c.inward = !c.inward;
    return c;
}

static hal_ticket_t start_faulty(const inject_move_t *m, const inject_action_t *a) {
    if (!a) return start(m);
    if (a->op == OP_DROP) return HAL_DONE;
    const inject_move_t c = changed(m, a);
    if (a->op == OP_TWICE) (void)start(&c);
    if (a->op == OP_TWICE_WAITED) __real_hal_dma_wait(start(&c));
    return start(&c);
}

static entry_t *log_entry(int kind, uint32_t index) {
    if (held.count == CALLS_MAX) abort();
    entry_t *e = &held.entries[held.count++];
    e->kind = kind;
    e->index = index;
    return e;
}

static hal_ticket_t move(inject_move_t m) {
    const uint32_t index = now.started_count;
    if (index == MOVES_MAX) abort();
    started_t *s = &now.started[index];
    *s = (started_t){.move = m};
    find_operand(s);
    s->ordinal = next_ordinal(s);
    if (s->step == now.step) census_move(&m, s->region);
    else census_early(s->step, &m, s->region);
    now.started_count++;
    if (now.way == LOGGED || now.way == DEFERRED) log_entry(LOG_MOVE, index);
    if (now.way == ABSENT) return HAL_DONE;
    if (now.way == DEFERRED) return s->alias = ALIAS + index;
    s->ticket = start_faulty(&m, inject_find(AT_MOVE, s->step, s->region, m.inward, s->ordinal));
    return s->alias = s->ticket;
}

hal_ticket_t __wrap_hal_dma_in_1d(uint32_t hop, void *inner, const void *outer, uint32_t bytes) {
    return move((inject_move_t){hop, 1, inner, (uint8_t *)(uintptr_t)outer, bytes, 1, 0, 1, 0, 1});
}
hal_ticket_t __wrap_hal_dma_in_2d(uint32_t hop, void *inner, const void *outer, uint32_t run, uint32_t count,
                                  uint32_t stride) {
    return move((inject_move_t){hop, 1, inner, (uint8_t *)(uintptr_t)outer, run, count, stride, 1, 0, 2});
}
hal_ticket_t __wrap_hal_dma_in_3d(uint32_t hop, void *inner, const void *outer, uint32_t run, uint32_t count,
                                  uint32_t stride, uint32_t planes, uint32_t pitch) {
    return move((inject_move_t){hop, 1, inner, (uint8_t *)(uintptr_t)outer, run, count, stride, planes, pitch, 3});
}
hal_ticket_t __wrap_hal_dma_out_1d(uint32_t hop, void *outer, const void *inner, uint32_t bytes) {
    return move((inject_move_t){hop, 0, (uint8_t *)(uintptr_t)inner, outer, bytes, 1, 0, 1, 0, 1});
}
hal_ticket_t __wrap_hal_dma_out_2d(uint32_t hop, void *outer, const void *inner, uint32_t run, uint32_t count,
                                   uint32_t stride) {
    return move((inject_move_t){hop, 0, (uint8_t *)(uintptr_t)inner, outer, run, count, stride, 1, 0, 2});
}
hal_ticket_t __wrap_hal_dma_out_3d(uint32_t hop, void *outer, const void *inner, uint32_t run, uint32_t count,
                                   uint32_t stride, uint32_t planes, uint32_t pitch) {
    return move((inject_move_t){hop, 0, (uint8_t *)(uintptr_t)inner, outer, run, count, stride, planes, pitch, 3});
}

/* ---- argument tables ---- */

static void fetch(const fetch_t *f) { __real_hal_tables(f->area, f->source, f->bytes); }

static void fetch_faulty(fetch_t f, const inject_action_t *a) {
    if (a->op == OP_DROP) return;
    if (a->op == OP_LATE) {
        now.fetch_late = f;
        return;
    }
    if (a->op == OP_CHANGE) f.area += a->value[0], f.source += a->value[1], f.bytes += (uint32_t)a->value[2];
    if (a->op == OP_BEFORE) f.source = now.fetched.source;
    if (a->op == OP_TWICE) fetch(&f);
    fetch(&f);
    if (a->op == OP_INVERT) f.area[a->value[0]] ^= (uint8_t)(1u << a->value[1]);
}

void __wrap_hal_tables(void *tables, const void *source, uint32_t bytes) {
    const fetch_t f = {tables, source, bytes};
    const inject_action_t *a = inject_find(AT_TABLES, now.step, 0, 0, 0);
    census_tables(bytes);
    if (now.way == LOGGED || now.way == DEFERRED) log_entry(LOG_TABLES, 0)->fetch = f;
    if ((now.way == DIRECT || now.way == LOGGED) && a) fetch_faulty(f, a);
    else if (now.way == DIRECT || now.way == LOGGED) fetch(&f);
    now.fetched = f;
}

/* ---- waits ---- */

static hal_ticket_t other_ticket(const started_t *mine) {
    for (uint32_t i = now.started_count; i-- > 0;)
        if (&now.started[i] != mine && !now.started[i].waited && now.started[i].ticket) return now.started[i].ticket;
    return mine->ticket + 1;
}

static void wait_for(started_t *s) {
    const inject_action_t *a = inject_find(AT_WAIT, s->step, s->region, s->move.inward, s->ordinal);
    if (a && a->op == OP_DROP) return;
    if (a && a->op == OP_LATE && now.late_count < 64) {
        now.late[now.late_count++] = s->ticket;
        return;
    }
    if (a && a->op == OP_TWICE) __real_hal_dma_wait(s->ticket);
    __real_hal_dma_wait(a && a->op == OP_OTHER ? other_ticket(s) : s->ticket);
    s->waited = 1;
}

void __wrap_hal_dma_wait(hal_ticket_t ticket) {
    started_t *s = NULL;
    for (uint32_t i = now.started_count; ticket && !s && i-- > 0;)
        if (now.started[i].alias == ticket) s = &now.started[i];
    if (s && (now.way == LOGGED || now.way == DEFERRED)) log_entry(LOG_WAIT, (uint32_t)(s - now.started));
    if (now.way == ABSENT || now.way == DEFERRED) return;
    if (s) wait_for(s);
    else __real_hal_dma_wait(ticket);
}

static void end_late(void) {
    for (uint32_t i = 0; i < now.late_count; i++) __real_hal_dma_wait(now.late[i]);
    now.late_count = 0;
    if (now.fetch_late.area) fetch(&now.fetch_late);
    now.fetch_late.area = NULL;
}

/* ---- kernels ---- */

static void put(uint8_t *args, const inject_field_t *field, const void *value) {
    memcpy(args + field->offset, value, field->kind == 'p' ? sizeof(void *) : 4);
}

static void change_scalar(uint8_t *args, const inject_field_t *field, const inject_action_t *a) {
    int32_t whole;
    float real;
    memcpy(&whole, args + field->offset, 4);
    memcpy(&real, args + field->offset, 4);
    if (a->op == OP_ADD) whole += (int32_t)a->value[1], real += (float)a->value[1];
    if (a->op == OP_SET) whole = (int32_t)a->value[1], real = (float)a->value[1];
    if (a->op == OP_SCALE)
        whole = (int32_t)(whole * a->value[1] / 1000), real *= (float)((double)a->value[1] / 1000.0);
    if (a->op == OP_INVERT) whole = !whole;
    if (field->kind == 'f') put(args, field, &real);
    else put(args, field, &whole);
}

static void change_pointer(uint8_t *args, const inject_field_t *field, const inject_action_t *a) {
    uint8_t *pointer;
    memcpy(&pointer, args + field->offset, sizeof pointer);
    pointer = a->op == OP_POINTER ? pointer + a->value[1] : inject_at(a->value[1], a->value[2]);
    put(args, field, &pointer);
}

static void exchange(uint8_t *args, const inject_field_t *one, const inject_field_t *other) {
    void *a, *b;
    memcpy(&a, args + one->offset, sizeof a);
    memcpy(&b, args + other->offset, sizeof b);
    put(args, one, &b);
    put(args, other, &a);
}

/* The arguments with the fault; those of this call are kept for the next. */
static const void *changed_args(const void *args, const inject_action_t *a) {
    const inject_step_t *s = plan_step();
    uint8_t *copy = now.args[1];
    memcpy(copy, a->op == OP_BEFORE ? now.args[0] : args, s->args_bytes);
    const inject_field_t *field = &s->fields[a->op == OP_BEFORE || a->op == OP_KERNEL ? 0 : a->value[0]];
    if (a->op == OP_EXCHANGE) exchange(copy, field, &s->fields[a->value[1]]);
    else if (a->op == OP_POINTER || a->op == OP_PLACE) change_pointer(copy, field, a);
    else if (a->op != OP_BEFORE && a->op != OP_KERNEL) change_scalar(copy, field, a);
    return copy;
}

static void call(hal_kernel_t kernel, const void *args) {
    const inject_action_t *a = inject_find(AT_CALL, now.step, 0, 0, now.calls);
    store.action = inject_find(AT_STORE, now.step, 0, 0, now.calls);
    store.cores = 0;
    if (a && a->op == OP_DROP) return;
    if (a && a->op == OP_TWICE) __real_hal_parallel(kernel, args);
    else if (a) args = changed_args(args, a);
    __real_hal_parallel(a && a->op == OP_KERNEL ? inject_plan.kernels[a->value[0]] : kernel, args);
    store.action = NULL;
}

void __wrap_hal_parallel(hal_kernel_t kernel, const void *args) {
    if (now.step >= inject_plan.step_count) {
        __real_hal_parallel(kernel, args);
        return;
    }
    const uint32_t bytes = plan_step()->args_bytes;
    uint8_t kept[INJECT_ARGS_MAX];
    memcpy(kept, args, bytes);
    census_call(now.step, kernel, args);
    if (now.way == LOGGED || now.way == DEFERRED) {
        entry_t *e = log_entry(LOG_CALL, 0);
        e->kernel = kernel;
        memcpy(e->args, args, bytes);
    }
    if (now.way == DIRECT || now.way == LOGGED) call(kernel, args);
    memcpy(now.args[0], kept, bytes);
    now.calls++;
    end_late();
}

/* One more element is written when the last core is done: value[2] 0 is the old value plus 1, else these bits. */
void inject_after_kernel(void) {
    const inject_action_t *a = store.action;
    if (!a || ++store.cores != hal_core_count()) return;
    uint8_t *at = inject_at(a->value[0], a->value[1]);
    uint32_t bits = (uint32_t)a->value[2];
    if (!bits) {
        float value;
        memcpy(&value, at, sizeof value);
        value = value - value == 0.0f ? value + 1.0f : 1.0f;
        memcpy(&bits, &value, sizeof bits);
    }
    memcpy(at, &bits, sizeof bits);
}

/* ---- steps ---- */

static void replay(void) {
    __real_hal_step(held.step);
    for (uint32_t i = 0; i < held.count; i++) {
        entry_t *e = &held.entries[i];
        started_t *s = &held.started[e->index];
        if (e->kind == LOG_MOVE) s->ticket = start(&s->move);
        else if (e->kind == LOG_WAIT) __real_hal_dma_wait(s->ticket);
        else if (e->kind == LOG_TABLES) fetch(&e->fetch);
        else __real_hal_parallel(e->kernel, e->args);
    }
    held.count = 0;
}

/* Ends the step before: one that is to run twice runs again, one that was put off runs after the next. */
static void leave_step(void) {
    end_late();
    if (now.way == LOGGED || now.way == DEFERRED) {
        held.step = now.step;
        memcpy(held.started, now.started, now.started_count * sizeof *now.started);
        if (now.way == LOGGED) replay();
        else held.waiting = 1;
    } else if (held.waiting) {
        held.waiting = 0;
        replay();
    }
}

/* Leaves the transfers that belong to a later step, or are waited for in one. */
static void keep_crossing(void) {
    uint32_t kept = 0;
    for (const started_t *s = now.started; s < now.started + now.started_count; s++)
        if (s->step > now.step || (s->alias && !s->waited)) now.started[kept++] = *s;
    now.started_count = kept;
}

void __wrap_hal_step(uint32_t step) {
    inject_restore_loss();
    leave_step();
    const inject_action_t *a = step == HAL_NO_STEP ? NULL : inject_find(AT_STEP, step, 0, 0, 0);
    keep_crossing();
    now.step = step;
    now.calls = 0;
    now.way = DIRECT;
    census_step(step);
    if (a && a->op == OP_DROP) now.way = ABSENT;
    if (a && a->op == OP_TWICE) now.way = LOGGED;
    if (a && a->op == OP_NEXT) now.way = DEFERRED;
    if (now.way == DIRECT || now.way == LOGGED)
        __real_hal_step(a && a->op == OP_NUMBER ? (uint32_t)a->value[0] : step);
}
