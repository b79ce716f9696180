# %% [markdown]
# # A new task for a trained net
#
# A net that reads digits gets a new task on the device: four letters, of which a user writes a few examples. The body
# stays as it is, only a new head is trained. This notebook shows what that saves, and what it costs. You need
# `pip install 'deployer[torch]'` and a compiler of C.
#
# ## Characters
#
# Images of 12 by 12 pixels, from glyphs of 7 by 5: shifted, blurred, with strokes of different strength and noise.

# %%
import subprocess
from pathlib import Path

import numpy as np
import torch
from torch import nn

import deployer.torch
from deployer.reports.chart import Chart

GLYPHS = {
    "0": "0e 11 13 15 19 11 0e", "1": "04 0c 04 04 04 04 0e", "2": "0e 11 01 02 04 08 1f", "3": "1f 02 04 02 01 11 0e",
    "4": "02 06 0a 12 1f 02 02", "5": "1f 10 1e 01 01 11 0e", "6": "06 08 10 1e 11 11 0e", "7": "1f 01 02 04 08 08 08",
    "8": "0e 11 11 0e 11 11 0e", "9": "0e 11 11 0f 01 02 0c", "A": "0e 11 11 1f 11 11 11", "E": "1f 10 10 1e 10 10 1f",
    "H": "11 11 11 1f 11 11 11", "T": "1f 04 04 04 04 04 04",
}  # fmt: skip
"""Rows of five pixels, as bits."""


def write(characters, count, seed):
    """Images [count, 1, 12, 12] and labels of some characters."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, len(characters), count)
    images = np.zeros((count, 1, 12, 12), np.float32)
    for image, label in zip(images, labels, strict=True):
        rows = [int(row, 16) for row in GLYPHS[characters[label]].split()]
        glyph = np.array([[row >> (4 - k) & 1 for k in range(5)] for row in rows], np.float32)
        down, right = draw.integers(1, 5), draw.integers(1, 7)
        image[0, down : down + 7, right : right + 5] = glyph * draw.uniform(0.6, 1.2)
        blur = draw.uniform(0, 0.3)
        image[0] += blur * (np.roll(image[0], 1, 0) + np.roll(image[0], 1, 1))
        image += draw.normal(0, 0.15, image.shape)
    return torch.from_numpy(images), torch.from_numpy(labels)


x, y = write("0123456789", 3000, seed=1)
x_test, y_test = write("0123456789", 400, seed=2)
print("\n".join("".join(" .:*#"[int(np.clip(4 * v, 0, 4))] for v in row) for row in x[0, 0]))

# %% [markdown]
# ## The pretrained net

# %%
torch.manual_seed(0)
body = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten())
digits = nn.Sequential(body, nn.Linear(144, 10))
run = deployer.torch.train(
    digits, (x, y), "cross_entropy", "adam", lr=3e-3, batch_size=20, epochs=8, validation=(x_test, y_test)
)
print(run.verdict, run.rows[-1].text)
Chart({"loss": [row.loss for row in run.rows], "validation loss": [row.metrics["loss"] for row in run.rows]})

# %% [markdown]
# ## The new task
#
# Four letters, about twenty examples of each, and 400 images to measure with. Three nets learn from the same
# examples: a new head on the frozen body; head and body; and a net that was never pretrained.

# %%
letters = "AEHT"
x_few, y_few = write(letters, 80, seed=3)
x_many, y_many = write(letters, 400, seed=4)


def fresh_head(pretrained, frozen):
    """A net for letters; its body is that of the digits, or a new one."""
    torch.manual_seed(1)
    net = nn.Sequential(
        nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten()),
        nn.Linear(144, len(letters)),
    )
    if pretrained:
        net[0].load_state_dict(body.state_dict())
    net[0].requires_grad_(not frozen)
    return net


nets = {
    "head": fresh_head(pretrained=True, frozen=True),
    "head and body": fresh_head(pretrained=True, frozen=False),
    "not pretrained": fresh_head(pretrained=False, frozen=False),
}
runs = {
    name: deployer.torch.train(
        net, (x_few, y_few), "cross_entropy", "sgd", lr=0.01, batch_size=4, epochs=20, validation=(x_many, y_many)
    )
    for name, net in nets.items()
}
for name, each in runs.items():
    print(f"{name}: {each.verdict}, accuracy {each.rows[-1].metrics['accuracy']:.2f}")
Chart({name: [row.metrics["accuracy"] for row in each.rows] for name, each in runs.items()})

# %% [markdown]
# ## What it takes on the device
#
# Each net as a library. A frozen body is a constant in flash; it has no gradients, and the pass keeps none of its
# activations for them.

# %%
libraries = {
    name: deployer.torch.package(
        nets[name], "cross_entropy", "sgd", example=(x_few[:4], y_few[:4]), folder=folder, name=folder, lr=0.01
    )
    for name, folder in (("head", "head"), ("head and body", "whole"))
}
for name, library in libraries.items():
    sizes = library.manifest["bytes"]
    print(f"{name}: {sizes['struct']} B of RAM, {sizes['frozen'] + sizes['weights']} B of weights in flash")
head, whole = (library.manifest["bytes"]["struct"] for library in libraries.values())
assert head < whole

# %% [markdown]
# ## The program
#
# It trains the head on the examples, epoch after epoch in their order, and prints the loss of each epoch. Then it
# classifies all other images.

# %%
Path("main.c").write_text("""
#include <stdio.h>
#include <string.h>
#include "head.h"

static head_t model;
static float x[80][144], many[144];
static int64_t labels[80];

int main(void) {
    if (head_init(&model) != HEAD_OK) return 1;
    if (fread(x, sizeof x, 1, stdin) != 1 || fread(labels, sizeof labels, 1, stdin) != 1) return 1;
    for (int epoch = 0; epoch < 20; epoch++) {
        float loss, sum = 0;
        for (int i = 0; i < 80; i += 4) {
            memcpy(head_input_input(&model), x[i], 4 * sizeof x[i]);
            for (int k = 0; k < 4; k++) head_input_labels(&model)[k] = (int32_t)labels[i + k];
            if (head_train_step(&model, &loss) != HEAD_OK || head_update(&model) != HEAD_OK) return 1;
            sum += loss / 20;
        }
        printf("loss %.6f\\n", (double)sum);
    }
    while (fread(many, sizeof many, 1, stdin) == 1) {
        memcpy(head_input_predict_input(&model), many, sizeof many);
        if (head_predict(&model) != HEAD_OK) return 1;
        int best = 0;
        for (int k = 1; k < 4; k++)
            if (head_output(&model)[k] > head_output(&model)[best]) best = k;
        printf("class %d\\n", best);
    }
    return 0;
}
""")
build = "make -s -C head && gcc -O2 -Ihead/include main.c head/build/libhead.a -lm -o main"
subprocess.run(build, shell=True, check=True)
given = x_few.numpy().tobytes() + y_few.numpy().tobytes() + x_many.numpy().tobytes()
printed = subprocess.run("./main", input=given, capture_output=True, check=True).stdout.decode().splitlines()
found = np.array([int(line.split()[1]) for line in printed if line.startswith("class")])
reached = float((found == y_many.numpy()).mean())
print(f"accuracy of the device's head: {reached:.2f}")

# %% [markdown]
# ## The same in PyTorch
#
# PyTorch's own loop over the same examples in the same order, for comparison.

# %%
theirs, losses = nets["head"], []
optimizer = torch.optim.SGD(theirs[1].parameters(), lr=0.01)
for _ in range(20):
    total = 0.0
    for i in range(0, 80, 4):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(theirs(x_few[i : i + 4]), y_few[i : i + 4])
        loss.backward()
        optimizer.step()
        total += float(loss.detach()) / 20
    losses.append(total)
ours = [float(line.split()[1]) for line in printed if line.startswith("loss")]
print(f"largest difference of an epoch's loss: {np.abs(np.subtract(ours, losses)).max():.0e}")
same = (theirs(x_many).argmax(1).numpy() == found).mean()
print(f"same class for {same:.1%} of the images")
assert np.allclose(ours, losses, atol=1e-5)
assert same > 0.98

# %% [markdown]
# [Fine-tuning](../fine-tuning.md) says how to choose what is trained, also on the command line and for ONNX files.
