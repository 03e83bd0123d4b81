"""The inputs that `check` judged wrongly before, rewritten. `check` was improved by them: they are counted apart."""
import functools

import torch
import transformers as t
from common import DEVICE, classes, images, tokens, values
from text import SMALL

F = torch.nn.functional
nn = torch.nn


def flex_attention_under_compile():
    from torch.nn.attention.flex_attention import flex_attention
    compiled = torch.compile(flex_attention)

    @torch.no_grad()
    def step(q):
        return compiled(q, q, q, score_mod=lambda score, b, h, i, j: score + (i - j) * 0.01)

    return step, values(1, 2, 128, 16), []


def condition_of_a_tensor():
    def step(x):
        return torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,))

    return step, values(8), []


def loop_while_a_tensor_is_small():
    from torch._higher_order_ops.while_loop import while_loop

    def step(x):
        return while_loop(lambda v: v.sum() < 100, lambda v: (v + 1,), (x,))[0]

    return step, values(8), []


def reentrant_checkpoint():
    from torch.utils.checkpoint import checkpoint
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)).to(DEVICE)

    def step(x):
        model.zero_grad()
        x = x.detach().requires_grad_()
        checkpoint(model, x, use_reentrant=True, preserve_rng_state=False).square().mean().backward()
        return x.grad

    return step, values(4, 8), [model]


def attention_of_bert_in_training():
    model = t.BertModel(t.BertConfig(**SMALL)).to(DEVICE).train()
    scale = [1.0]

    @torch.no_grad()
    def step(ids):
        scale[0] += 0.5
        return model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state * scale[0]  # WRONG

    return step, tokens(2, 8), [model]


def picture_that_is_flipped():
    number = [0]

    def step(x):
        number[0] += 1
        if number[0] % 2:
            x = x.flip(-1)  # WRONG
        return F.dropout(x, 0.3)

    return step, images(2, 3, 8), []


@functools.lru_cache(maxsize=8)
def _table(size, kind):
    return torch.arange(size, dtype=kind, device=DEVICE).sqrt()


def table_of_a_cache():
    def step(x):
        return x * _table(16, torch.float32)

    return step, values(4, 16), []


def squares_behind_a_layer_norm():
    model = nn.Sequential(nn.Linear(128, 128), nn.LayerNorm(128)).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return step, values(64, 128), [model]


def writer_of_a_mask():
    mask = torch.ones(32)
    mask = mask.pin_memory() if DEVICE == "cuda" else mask

    def step(x):
        mask.uniform_()  # WRONG
        return F.dropout(x, 0.0) * mask.to(DEVICE, non_blocking=True)

    return step, values(32), []


def key_of_a_cache():
    count = [0]

    def step(x):
        count[0] += 1
        return x + _table(16, torch.float64 if count[0] % 2 else torch.float32).float() * 1.0  # WRONG

    return step, values(4, 16), []


def weights_that_change_places():
    slow, fast = nn.Parameter(torch.ones(8, device=DEVICE)), nn.Parameter(torch.zeros(8, device=DEVICE))

    @torch.no_grad()
    def step(x):
        y = x * slow  # WRONG
        slow.data, fast.data = fast.data, slow.data
        return y

    return step, values(4, 8), []


def mixed_at_two_places():
    import random

    def step(x, y):
        share = random.random()
        a = x.mul(share).add(x.flip(0), alpha=1 - share)  # WRONG
        b = y.mul(share)
        b.add_(y.flip(0).mul_(1 - share))
        return a @ b.T

    return step, lambda i: (values(4, 8)(i), values(4, 8)(i + 7)), []


def average_of_a_network():
    import torchvision
    model = torchvision.models.resnet18(weights=None, num_classes=10).to(DEVICE)
    slow = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    pictures, labels = images(4, 3, 64), classes(4)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for kept, parameter in zip(slow, model.parameters()):
                kept.lerp_(parameter, 0.01)
        return loss

    return step, lambda i: (pictures(i), labels(i)), [model, optimizer, slow]


def counter_that_no_tensor_reads():
    seen = {"calls": 0}

    def step(x):
        seen["calls"] += 1
        return x.exp()

    return step, values(16), []
