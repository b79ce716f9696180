/* Entries of a rack around the source of a library; library.h, which names it, is generated. */
#include "rack.h"

#include "library.h" /* the library's source, and its names as RACK_... */

#define AT(type, address) ((type *)(uintptr_t)(address))

typedef RACK_MODEL rack_model_t;

static rack_model_t *rack_model(const rack_call_t *call, uint32_t device) { return AT(rack_model_t, call->models) + device; }

static volatile uint32_t *rack_status(const rack_call_t *call, uint32_t device) {
    return AT(volatile uint32_t, call->statuses) + device;
}

/* The device of a lane that works alone, as all lanes do outside of passes. */
static uint32_t rack_alone(void) { return machine_group() * machine_lanes() + machine_lane(); }

static void rack_note(const rack_call_t *call, uint32_t device, uint32_t status) {
    if (status && !*rack_status(call, device)) *rack_status(call, device) = status;
}

void rack_begin(const rack_call_t *call);
void rack_begin(const rack_call_t *call) {
    const uint32_t device = rack_alone();
    if (device >= call->count) return;
    *rack_status(call, device) = 0;
    rack_note(call, device, (uint32_t)RACK_CALL(init)(rack_model(call, device)));
}

void rack_set_rates(const rack_call_t *call);
void rack_set_rates(const rack_call_t *call) {
    const uint32_t device = rack_alone();
    if (device >= call->count) return;
    for (uint32_t group = 0; group < RACK_GROUPS; group++) {
        const float rate = AT(const float, call->rates)[device * RACK_GROUPS + group];
        rack_note(call, device, (uint32_t)RACK_CALL(set_learning_rate)(rack_model(call, device), group, rate));
    }
}

void rack_load(const rack_call_t *call);
void rack_load(const rack_call_t *call) {
    const uint32_t device = rack_alone();
    if (device >= call->count) return;
    const uint8_t *image = AT(const uint8_t, call->images) + (uint64_t)device * call->stride;
    rack_note(call, device, (uint32_t)RACK_CALL(load)(rack_model(call, device), image, call->image_bytes));
}

void rack_save(const rack_call_t *call);
void rack_save(const rack_call_t *call) {
    const uint32_t device = rack_alone();
    if (device >= call->count) return;
    uint8_t *image = AT(uint8_t, call->images) + (uint64_t)device * call->stride;
    rack_note(call, device, (uint32_t)RACK_CALL(save)(rack_model(call, device), (RACK_KEEP)call->keep, image, call->image_bytes, 0));
}

void rack_digest(const rack_call_t *call);
void rack_digest(const rack_call_t *call) {
    const uint32_t device = rack_alone();
    if (device >= call->count) return;
    rack_note(call, device, (uint32_t)RACK_CALL(digest)(rack_model(call, device), AT(uint64_t, call->digests) + device));
}

/* Copies an input of a sample to its place, each lane its share. */
#define TAKE(type, input, offset, size)                                                     \
    {                                                                                       \
        const type *from = (const type *)(sample + (offset));                               \
        type *to = RACK_CALL(input)(model);                                                 \
        for (uint32_t i = hal_core_id(); i < (size); i += hal_core_count()) to[i] = from[i]; \
    }

/* The passes of a device, by all of its lanes; lane 0 does what is done once. */
static void rack_passes(const rack_call_t *call, uint32_t device, rack_model_t *model) {
    volatile uint32_t *status = rack_status(call, device);
    const uint32_t *order = AT(const uint32_t, call->order) + (uint64_t)device * call->passes;
    float *losses = AT(float, call->losses) + (uint64_t)device * call->passes;
    if (*status) return;
    for (uint32_t pass = 0; pass < call->passes; pass++) {
        const uint8_t *sample = AT(const uint8_t, call->samples) + (uint64_t)order[pass] * RACK_SAMPLE_BYTES;
        RACK_INPUTS(TAKE)
        hal_join();
        if (hal_core_id() == 0) *status = (uint32_t)RACK_CALL(train_step_begin)(model);
        hal_join();
        if (*status) return;
        for (uint32_t step = 0; step < RACK_STEPS; step++) run_step(model, step);
        if (hal_core_id() == 0) {
            uint32_t ended = (uint32_t)pass_ended(model, losses + pass);
            if (!ended && model->passes >= RACK_ACCUMULATE) ended = (uint32_t)update_allowed(model);
            *status = ended;
        }
        hal_join();
        if (*status) return;
        if (model->passes < RACK_ACCUMULATE) continue;
        optimizer_graph(model);
        if (hal_core_id() == 0) model->passes = 0;
    }
}

/* `scratch` is memory of the group for a struct, or null. */
void rack_train(const rack_call_t *call, void *scratch);
void rack_train(const rack_call_t *call, void *scratch) {
    const uint32_t device = rack_device();
    if (device >= call->count) return;
    rack_model_t *model = rack_model(call, device);
#ifdef RACK_DEVICE_PER_LANE
    (void)scratch;
    rack_model_t own = *model;
    rack_passes(call, device, &own);
    *model = own;
#else
    if (!scratch) {
        rack_passes(call, device, model);
        return;
    }
    uint32_t *inside = scratch, *outside = (uint32_t *)model;
    for (uint32_t i = hal_core_id(); i < sizeof *model / 4u; i += hal_core_count()) inside[i] = outside[i];
    hal_join();
    rack_passes(call, device, scratch);
    hal_join();
    for (uint32_t i = hal_core_id(); i < sizeof *model / 4u; i += hal_core_count()) outside[i] = inside[i];
#endif
}
