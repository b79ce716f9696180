# %% [markdown]
# # Keyword spotting, from PyTorch to a Cortex-M
#
# A net learns four words on this machine. Then it moves into a microcontroller, and learns there to understand a voice
# that it has never heard. Everything runs here: the microcontroller is a Cortex-M4 in QEMU. You need
# `pip install 'deployer[torch]'`, `arm-none-eabi-gcc` and `qemu-system-arm`.
#
# ## Words without recordings
#
# A spoken word is here what a microphone's front end makes of it: 20 frames of 16 bands of frequency. The words are
# synthetic. Each has two formants that move in its own way; each voice shifts and stretches them, and there is noise.

# %%
import subprocess
from pathlib import Path

import numpy as np
import torch
from torch import nn

import deployer.torch
from deployer.reports.chart import Chart

WORDS = ("go", "stop", "left", "right")
TRACKS = {"go": (9, 4, 12, 7), "stop": (4, 9, 7, 13), "left": (3, 3, 13, 10), "right": (8, 3, 9, 14)}
"""Bands in which the first and the second formant begin and end."""


def speak(count, seed, voice=(0.0, 1.0)):
    """Utterances [count, 1, 20, 16] and their labels; a voice has an offset of its bands and a speed."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, len(WORDS), count)
    frames, bands = np.arange(20), np.arange(16)
    sounds = np.zeros((count, 1, 20, 16), np.float32)
    for sound, label in zip(sounds, labels, strict=True):
        start, length = draw.uniform(1, 5), draw.uniform(11, 15) / voice[1]
        time = (frames - start) / length
        loud = np.clip(np.minimum(time, 1 - time) * 6, 0, 1)
        first, last = np.array(TRACKS[WORDS[label]]).reshape(2, 2).T + voice[0] + draw.normal(0, 0.5)
        for low, high in zip(first, last, strict=True):
            centre = low + (high - low) * np.clip(time, 0, 1)
            sound[0] += loud[:, None] * np.exp(-((bands - centre[:, None]) ** 2) / 2.5)
        sound += draw.normal(0, 0.25, sound.shape)
    return torch.from_numpy(sounds), torch.from_numpy(labels)


x, y = speak(600, seed=1)
x_test, y_test = speak(200, seed=2)
x.shape, [WORDS[label] for label in y[:6]]

# %% [markdown]
# ## Training
#
# The module is an ordinary one. `deployer.torch.train` traces its training step, generates C and trains with it; the
# loss and a number of passes are compared with PyTorch's own gradients in float64.

# %%
torch.manual_seed(0)
body = nn.Sequential(nn.Conv2d(1, 8, 3, stride=2), nn.ReLU(), nn.Conv2d(8, 12, 3, stride=2), nn.ReLU(), nn.Flatten())
module = nn.Sequential(body, nn.Linear(144, len(WORDS)))
run = deployer.torch.train(
    module, (x, y), "cross_entropy", "adam", lr=3e-3, batch_size=16, epochs=6, validation=(x_test, y_test), seed=1
)
print(run.verdict)
for row in run.rows:
    print(row.text)

# %% [markdown]
# `run` as the last line of a cell shows the whole report, with the confusion matrix. The curves alone:

# %%
Chart({"loss": [row.loss for row in run.rows], "validation loss": [row.metrics["loss"] for row in run.rows]})

# %% [markdown]
# ## A voice from elsewhere
#
# A new user speaks two bands higher and faster. The net understands only a part of what it hears.

# %%
voice = (2.4, 1.3)
x_new, y_new = speak(40, seed=3, voice=voice)
x_check, y_check = speak(100, seed=4, voice=voice)


def accuracy(x, y):
    """The share of words that are understood."""
    with torch.no_grad():
        return float((module(x).argmax(1) == y).float().mean())


before = accuracy(x_check, y_check)
print(f"voices it knows {accuracy(x_test, y_test):.2f}, the new voice {before:.2f}")

# %% [markdown]
# ## A library for the microcontroller
#
# On the board only the last layer learns. The body is frozen, so it stays in flash, has no gradients, and needs no copy
# in RAM. With `core` the library's sizes are measured for that core.

# %%
body.requires_grad_(False)
library = deployer.torch.package(
    module, "cross_entropy", "sgd", example=(x[:4], y[:4]), folder="keyword", name="keyword", lr=0.02, core="cortex-m4"
)
sizes = library.manifest["bytes"]
print(library)
print(f"RAM {sizes['struct']} B, constants in flash {sizes['weights'] + sizes['steps'] + sizes['frozen']} B")

# %% [markdown]
# ## The firmware
#
# `start.c` is the vector table of [the page on the library](../firmware.md#from-a-model-to-a-cortex-m): it switches the
# floating-point unit on. `main.c` is the program.
#
# A real one would read its microphone. This one has the new user's words as constants: 40 to learn from, in batches of
# four and twenty times over, and 100 to check itself. At the end it prints the digest of its state.

# %%
main = """
#include <stdio.h>
#include <string.h>
#include "keyword.h"
#include "words.h"

static keyword_t model;

static unsigned understood(void) {
    unsigned right = 0;
    for (unsigned i = 0; i < CHECKED; i++) {
        memcpy(keyword_input_predict_input(&model), check_x[i], sizeof check_x[i]);
        if (keyword_predict(&model) != KEYWORD_OK) return 0;
        const float *score = keyword_output(&model);
        unsigned best = 0;
        for (unsigned k = 1; k < KEYWORD_OUTPUT_SIZE; k++)
            if (score[k] > score[best]) best = k;
        right += best == (unsigned)check_y[i];
    }
    return right;
}

int main(void) {
    if (keyword_init(&model) != KEYWORD_OK) return 1;
    printf("understood %u of %u\\n", understood(), CHECKED);
    for (unsigned epoch = 0; epoch < 20; epoch++) {
        float loss = 0, sum = 0;
        for (unsigned i = 0; i + 4 <= LEARNT; i += 4) {
            memcpy(keyword_input_input(&model), learn_x[i], 4 * sizeof learn_x[i]);
            memcpy(keyword_input_labels(&model), learn_y + i, 4 * sizeof *learn_y);
            if (keyword_train_step(&model, &loss) != KEYWORD_OK || keyword_update(&model) != KEYWORD_OK) return 1;
            sum += loss;
        }
        printf("loss %.6f\\n", (double)(4 * sum / LEARNT));
    }
    uint64_t digest;
    printf("understood %u of %u\\n", understood(), CHECKED);
    if (keyword_digest(&model, &digest) != KEYWORD_OK) return 1;
    printf("digest %08lx%08lx\\n", (unsigned long)(digest >> 32), (unsigned long)(digest & 0xffffffffu));
    return 0;
}
"""


def c_array(name, kind, array):
    """An array of C: a row per sample, each number with all its digits."""
    rows = array.reshape(len(array), -1).numpy()
    cells = [", ".join(float(v).hex() + "f" if kind == "float" else str(v) for v in row) for row in rows]
    width = f"[{rows.shape[1]}]" if kind == "float" else ""
    body = ",\n".join(f"{{{row}}}" if width else row for row in cells)
    return f"static const {kind} {name}[{len(rows)}]{width} = {{\n{body}}};\n"


arrays = [
    c_array("learn_x", "float", x_new),
    c_array("learn_y", "int32_t", y_new),
    c_array("check_x", "float", x_check),
    c_array("check_y", "int32_t", y_check),
]
Path("words.h").write_text(f"#define LEARNT {len(x_new)}u\n#define CHECKED {len(x_check)}u\n" + "".join(arrays))
Path("main.c").write_text(main)
Path("start.c").write_text("""
#include <stdint.h>
void _start(void); /* newlib's, which prints through semihosting */
static void reset(void) { *(volatile uint32_t *)0xe000ed88 |= 0xfu << 20; _start(); }
__attribute__((section(".vectors"), used)) static void (*const vectors[])(void) = {(void (*)(void))0x20400000, reset};
""")


def shell(command):
    """Run a command; return what it prints."""
    return subprocess.run(command, shell=True, check=True, capture_output=True, text=True).stdout


flags = "-O2 -mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16 -ffp-contract=off -fno-math-errno"
link = "--specs=rdimon.specs -Wl,--section-start=.vectors=0,-Tdata=0x20000000 -lm"
shell(f"arm-none-eabi-gcc {flags} -I. -Ikeyword/include start.c main.c keyword/src/*.c {link} -o firmware.elf")
print(shell("arm-none-eabi-size firmware.elf"))

# %% [markdown]
# ## It learns on the board

# %%
qemu = "qemu-system-arm -M mps2-an386 -nographic -monitor none -serial none"
on_board = shell(f"{qemu} -semihosting-config enable=on,target=native -kernel firmware.elf")
print(on_board)

# %% [markdown]
# The same program on this machine, by another compiler for another processor, prints the same line for line. The digest
# covers every bit of the weights.

# %%
shell("make -s -C keyword && gcc -O2 -I. -Ikeyword/include main.c keyword/build/libkeyword.a -lm -o here")
here = shell("./here")
assert here == on_board
print([line for line in here.splitlines() if line.startswith("digest")])

# %%
losses = [float(line.split()[1]) for line in on_board.splitlines() if line.startswith("loss")]
first, last = (int(line.split()[1]) for line in on_board.splitlines() if line.startswith("understood"))
assert first == round(before * 100)
assert last > first
Chart({"loss on the board": losses})

# %% [markdown]
# The board's first answer is PyTorch's: the same share of the new voice. After twenty times 40 words it understands
# more. Where to go next: [the library](../firmware.md), [its state in flash](../firmware-state.md), and
# [boards](../boards.md).
