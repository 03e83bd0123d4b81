"""Still more steps whose graphs compute something else, silently. `# WRONG` marks the line that the first finding should have."""
import contextvars
import dataclasses
import itertools

import torch
from common import DEVICE, classes, images, together, tokens, values

F = torch.nn.functional
nn = torch.nn


def schedule_of_transformers():
    import transformers
    model = nn.Linear(8, 4).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), 0.8, momentum=0.5)
    scheduler = transformers.get_polynomial_decay_schedule_with_warmup(optimizer, 5, 20)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()  # WRONG
        scheduler.step()
        return loss

    return step, together(values(6, 8), classes(6, 4)), [model]


def warper_whose_temperature_falls():
    from transformers import TemperatureLogitsWarper
    warper, head = TemperatureLogitsWarper(3.0), nn.Linear(8, 20).to(DEVICE)

    @torch.no_grad()
    def step(ids, x):
        warper.temperature *= 0.7
        return warper(ids, head(x)).softmax(-1)  # WRONG

    return step, together(tokens(3, 4, 20), values(3, 8)), [head]


def pictures_cropped_by_torchvision():
    from torchvision.transforms import v2
    crop = v2.RandomCrop(6)

    def step(x):
        return crop(x) * 2  # WRONG

    return step, images(2, 3, 24), []


def colours_changed_by_torchvision():
    from torchvision.transforms import v2
    jitter = v2.ColorJitter(brightness=(0.1, 1.0))

    def step(x):
        return jitter(x.sigmoid())  # WRONG

    return step, images(2, 3, 8), []


def rows_that_take_turns():
    number = [0]

    def step(x):
        number[0] += 1
        return x[number[0] % 3::3].sum(0)  # WRONG

    return step, values(12, 8), []


@dataclasses.dataclass
class Settings:
    floor: float = 0.1


def floor_of_a_variance():
    settings = Settings()

    def step(x):
        settings.floor *= 2
        return F.layer_norm(x, (8,), eps=settings.floor)  # WRONG

    return step, values(4, 8), []


def rows_that_are_padded_more():
    before = itertools.count(1)

    def step(x):
        return F.pad(x, (next(before), 0))[..., :8].cumsum(-1)  # WRONG

    return step, values(4, 16), []


def largest_values_of_a_growing_number():
    kept = {"number": 1}

    def step(x):
        kept["number"] += 1
        return x.topk(kept["number"], 1).values.sum(1)  # WRONG

    return step, values(3, 16), []


def factors_of_a_generator_function():
    def falling():
        factor = 2.0
        while True:
            yield factor
            factor *= 0.75

    factors = falling()

    def step(x):
        return torch.sin(x * next(factors))  # WRONG

    return step, values(4, 8), []


_gain = contextvars.ContextVar("gain", default=1.0)


def gain_of_a_context():
    def step(x):
        _gain.set(_gain.get() * 1.5)
        return torch.addcmul(x, x, x, value=_gain.get())  # WRONG

    return step, values(4, 8), []


def layers_that_numpy_skips():
    import numpy
    layers, chance = nn.ModuleList(nn.Linear(8, 8) for _ in range(5)).to(DEVICE), numpy.random.RandomState(4)

    @torch.no_grad()
    def step(x):
        for layer in layers:
            if chance.rand() < 0.5:
                x = x + layer(x)  # WRONG
        return x * 1  # WRONG

    return step, values(4, 8), [layers]


def window_of_an_average():
    windows = itertools.cycle([2, 5, 3, 7, 4])

    def step(x):
        return F.avg_pool1d(x, next(windows), stride=1).square().mean(-1)  # WRONG

    return step, values(2, 3, 16), []


def gaps_of_a_convolution():
    gaps, weight = itertools.cycle([1, 3, 2]), torch.randn(4, 3, 3, device=DEVICE)

    def step(x):
        return F.conv1d(x, weight, dilation=next(gaps)).amax(-1)  # WRONG

    return step, values(2, 3, 16), [weight]


def length_of_a_transform():
    lengths = itertools.cycle([8, 12, 16, 10, 14])

    def step(x):
        return torch.fft.rfft(x, n=next(lengths)).abs().sum(-1)  # WRONG

    return step, values(3, 16), []


def level_of_a_quantile():
    level = [0.1]

    def step(x):
        level[0] = level[0] % 0.8 + 0.1
        return x - x.quantile(level[0], dim=1, keepdim=True)  # WRONG

    return step, values(3, 16), []


def diagonal_of_another_place():
    places = itertools.cycle([0, 2, -1, 3, -2])

    def step(x):
        return torch.diagonal(x, offset=next(places)).exp().sum()  # WRONG

    return step, values(8, 8), []


def hook_that_weakens_gradients():
    body, head, share = nn.Linear(8, 8).to(DEVICE), nn.Linear(8, 4).to(DEVICE), [2.0]

    def weaker(gradient):
        share[0] *= 0.5
        return gradient * share[0]  # WRONG

    def step(x):
        hidden = body(x).tanh()
        hidden.register_hook(weaker)
        return torch.autograd.grad(head(hidden).square().mean(), list(body.parameters()))

    return step, values(4, 8), [body, head]


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.scale, None  # WRONG


def scale_that_a_function_keeps():
    weight, scale = nn.Parameter(torch.randn(8, 8, device=DEVICE)), [1.0]

    def step(x):
        scale[0] += 0.5
        return torch.autograd.grad((_Scaled.apply(x @ weight, scale[0])).sin().sum(), weight)

    return step, values(4, 8), [[weight]]


def weights_given_by_name():
    model = nn.Linear(8, 8).to(DEVICE)
    given = itertools.cycle([{name: torch.randn_like(each) for name, each in model.named_parameters()} for _ in range(4)])

    @torch.no_grad()
    def step(x):
        return torch.func.functional_call(model, next(given), (x,))  # WRONG

    return step, values(4, 8), []


class Adapted(nn.Module):
    """A layer with an addition of low rank, which is merged into its weight now and then."""

    def __init__(self):
        super().__init__()
        self.layer, self.merged = nn.Linear(8, 8), False
        self.down, self.up = nn.Linear(8, 2, bias=False), nn.Linear(2, 8, bias=False)

    def forward(self, x):
        return self.layer(x) if self.merged else self.layer(x) + self.up(self.down(x)) * 3  # WRONG


def addition_that_is_merged_now_and_then():
    model = Adapted().to(DEVICE)

    @torch.no_grad()
    def step(x):
        model.merged = not model.merged
        return model(x).relu()  # WRONG

    return step, values(4, 8), []


def sharpness_of_attention():
    scale = {"now": 0.1}

    def step(q, k):
        scale["now"] *= 2
        return F.scaled_dot_product_attention(q, k, k, scale=scale["now"])  # WRONG

    return step, together(values(1, 2, 8, 16), values(1, 2, 8, 16)), []


def parameter_that_is_made_anew():
    layer = nn.Linear(8, 8).to(DEVICE)

    @torch.no_grad()
    def step(x):
        y = layer(x)  # WRONG
        layer.weight = nn.Parameter(layer.weight * 0.5 + 0.1)
        return y * 1

    return step, values(4, 8), []


def outputs_kept_by_their_number():
    kept, number = {}, itertools.count()

    def step(x):
        kept[f"output {next(number)}"] = x.square()  # WRONG
        return x.sum()

    return step, values(4, 8), [kept]


def grid_of_another_spacing():
    base = [1.0]

    def step(x):
        base[0] += 1.0
        return x * torch.logspace(-1, 1, 8, base=base[0], device=DEVICE)  # WRONG

    return step, values(4, 8), []
