# %% [markdown]
# # Anomalies of a machine that changes
#
# An autoencoder learns how a healthy motor vibrates, and reports what it cannot reconstruct. Motors change over months:
# with fixed weights the alarms become false. Here the library goes on learning on the device, from each window that it
# takes for healthy. You need `pip install 'deployer[torch]'` and a compiler of C.
#
# ## A motor
#
# A window has 64 values of an accelerometer: the rotation, a harmonic, and noise. `wear` slowly changes harmonics and
# offset. A broken bearing adds a high frequency.

# %%
import subprocess
from pathlib import Path

import numpy as np
import torch
from torch import nn

import deployer.torch
from deployer.reports.chart import Chart


def vibration(count, seed, wear=0.0, broken=False):
    """Windows [count, 64]; `wear` is a number or one per window."""
    draw = np.random.default_rng(seed)
    wear = np.broadcast_to(wear, (count,))[:, None]
    time, phase = np.arange(64) / 64, draw.uniform(0, 2 * np.pi, (count, 1))
    wave = np.sin(2 * np.pi * 3 * time + phase) + (0.4 - 0.1 * wear) * np.sin(2 * np.pi * 6 * time + 2 * phase)
    wave += 0.2 * wear * np.sin(2 * np.pi * 9 * time + 3 * phase) + 0.3 * wear
    if broken:
        wave += 0.55 * np.sin(2 * np.pi * 23 * time + draw.uniform(0, 2 * np.pi, (count, 1)))
    return (wave + draw.normal(0, 0.1, wave.shape)).astype(np.float32)


healthy, held_out = vibration(1024, seed=1), vibration(256, seed=2)
Chart({"healthy": vibration(1, 3)[0], "worn": vibration(1, 3, wear=1.0)[0]}, across="time")

# %% [markdown]
# ## Training
#
# The target is the input. The best epoch's weights are kept.

# %%
torch.manual_seed(0)
module = nn.Sequential(
    nn.Linear(64, 24), nn.Tanh(), nn.Linear(24, 8), nn.Tanh(), nn.Linear(8, 24), nn.Tanh(), nn.Linear(24, 64)
)
run = deployer.torch.train(
    module, (healthy, healthy), "mse", "adam", lr=3e-3, batch_size=16, epochs=30, validation=(held_out, held_out)
)
print(run.verdict, run.rows[-1].text)
Chart({"loss": [row.loss for row in run.rows], "validation loss": [row.metrics["loss"] for row in run.rows]})

# %% [markdown]
# ## The threshold
#
# The score of a window is its mean squared error. One healthy window in a thousand exceeds the threshold, if the
# logarithms of scores are distributed normally.


# %%
def scores(windows):
    """The mean squared error of each window."""
    with torch.no_grad():
        return ((module(torch.from_numpy(windows)).numpy() - windows) ** 2).mean(1)


normal = scores(held_out)
threshold = float(np.exp(np.log(normal).mean() + 3.1 * np.log(normal).std()))
print(f"threshold {threshold:.4f}; of healthy windows {(normal > threshold).mean():.1%} are above it,")
print(f"of a broken bearing's {(scores(vibration(256, 4, broken=True)) > threshold).mean():.1%},")
print(f"of a healthy but worn motor's {(scores(vibration(256, 5, wear=1.0)) > threshold).mean():.1%}: false alarms")

# %% [markdown]
# ## The library
#
# The library predicts one window and trains on one window. Plain SGD needs no state besides the weights, and its small
# rate lets a single window change little.

# %%
example = healthy[:1]
library = deployer.torch.package(module, "mse", "sgd", example=(example, example), folder="watch", name="watch", lr=0.3)
print(library)
print(library.manifest["bytes"]["struct"], "B of RAM")

# %% [markdown]
# ## The program
#
# It reads windows, prints the score of each, and, if it is to learn, makes a training step with each window below the
# threshold. Here it reads them from a file; on a board from the sensor. Training and prediction share the input array,
# because both take one window.

# %%
Path("main.c").write_text("""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "watch.h"

static watch_t model;

int main(int count, char **words) {
    static float window[WATCH_INPUT_INPUT_SIZE];
    const float threshold = strtof(words[1], 0);
    const int learns = count > 2 && strcmp(words[2], "learn") == 0;
    if (watch_init(&model) != WATCH_OK) return 1;
    while (fread(window, sizeof window, 1, stdin) == 1) {
        memcpy(watch_input_input(&model), window, sizeof window);
        if (watch_predict(&model) != WATCH_OK) return 1;
        float score = 0;
        for (unsigned i = 0; i < WATCH_OUTPUT_SIZE; i++) {
            const float off = watch_output(&model)[i] - window[i];
            score += off * off / WATCH_OUTPUT_SIZE;
        }
        printf("%.9g\\n", (double)score);
        if (!learns || score > threshold) continue;
        memcpy(watch_input_target(&model), window, sizeof window);
        if (watch_train_step(&model, 0) != WATCH_OK || watch_update(&model) != WATCH_OK) return 1;
    }
    return 0;
}
""")
build = "make -s -C watch && gcc -O2 -Iwatch/include main.c watch/build/libwatch.a -lm -o main"
subprocess.run(build, shell=True, check=True)


def watched(windows, *words):
    """The scores that the program prints for a stream of windows."""
    command = ["./main", repr(threshold), *words]
    printed = subprocess.run(command, input=windows.tobytes(), capture_output=True, check=True).stdout
    return np.array(printed.split(), np.float32)


print(f"largest difference from PyTorch's scores: {np.abs(watched(held_out) - normal).max():.1e}")

# %% [markdown]
# ## Half a year
#
# The motor wears from 0 to 1 in 8000 windows; every tenth window of the last 2000 has the broken bearing.

# %%
wear = np.linspace(0, 1, 8000)
stream, broken = vibration(8000, seed=6, wear=wear), vibration(8000, seed=7, wear=wear, broken=True)
faulty = (np.arange(8000) >= 6000) & (np.arange(8000) % 10 == 0)
stream[faulty] = broken[faulty]

fixed, learning = watched(stream), watched(stream, "learn")


def means(values):
    """The mean of each hundred windows without a fault."""
    kept = np.where(faulty, np.nan, values).reshape(80, 100)
    return np.nanmean(kept, axis=1)


Chart(
    {"fixed weights": means(fixed), "learning": means(learning)},
    across="windows",
    limits={"threshold": threshold},
    places=np.arange(100, 8001, 100),
)

# %%
for name, found in (("fixed weights", fixed), ("learning", learning)):
    late = np.arange(8000) >= 6000
    alarms, false = (found > threshold)[faulty].mean(), (found > threshold)[late & ~faulty].mean()
    print(f"{name}: {alarms:.1%} of the faults found, {false:.1%} false alarms among the last 2000 windows")

false_fixed, false_learning = ((found > threshold)[late & ~faulty].mean() for found in (fixed, learning))
assert false_learning < 0.02 < false_fixed
assert (learning > threshold)[faulty].mean() > 0.95

# %% [markdown]
# ## The same bits each time
#
# Results depend on the samples and their order, on nothing else: a second run, or another compiler or board, gives each
# score bit for bit. So what a device in the field has learnt can be repeated on the desk from its windows.

# %%
assert (watched(stream, "learn") == learning).all()
