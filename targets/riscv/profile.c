/* The profile buffer and its file. Nothing here runs in builds without HAL_PROFILE. */
#include "profile.h"
#include "hal.h"
#include "platform.h"
#include "semihost.h"

static intptr_t file = -1;
static uint32_t entries;

static void flush(void) {
    if (file < 0) file = semihost_open("profile.bin", 11, SEMIHOST_MODE_WRITE);
    semihost_transfer(SEMIHOST_WRITE, file, profile_buffer, entries * sizeof(profile_entry_t));
    entries = 0;
}

void profile_record(profile_kind_t kind, uint32_t value) {
    if (entries == profile_capacity) flush();
    profile_buffer[entries].kind = kind;
    profile_buffer[entries].value = value;
    entries++;
}

/* Two entries: the step's number and the time. Writing out takes simulated time, so it comes before the clock is read. */
void profile_step(uint32_t step) {
    if (entries + 2 > profile_capacity / 2) flush();
    profile_record(PROFILE_STEP, step);
    profile_record(PROFILE_STEP, profile_clock());
}

void profile_close(void) {
    if (file < 0 && entries == 0) return;
    flush();
    platform_close(file);
}
