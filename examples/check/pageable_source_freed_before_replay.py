# case: pageable_source_freed_before_replay
import torch

import recapture
from programs import run

target = torch.zeros(1024, device="cuda")
pinned = torch.full((1024,), 3.0).pin_memory()


def from_pageable_memory(x):
    source = torch.full((1024,), 3.0)
    target.copy_(source, non_blocking=True)  # FOUND Reproduces: refused|freed
    return target + x


def from_pinned_memory(x):
    target.copy_(pinned, non_blocking=True)
    return target + x


def without_upload(x):
    return target + x


def inputs(i):
    return torch.full((1024,), 1.0 + i, device="cuda")


def Control():
    return recapture.check(from_pinned_memory, inputs)


def Reproduces():
    return recapture.check(from_pageable_memory, inputs)


def FixKeepPinnedSource():
    return recapture.check(from_pinned_memory, inputs)


def FixUploadBeforeReplay():
    def uploaded(i):
        target.copy_(torch.full((1024,), 3.0 + i))
        return inputs(i)

    return recapture.check(without_upload, uploaded)


if __name__ == "__main__":
    run(globals())
