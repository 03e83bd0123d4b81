"""Steps whose graphs compute something else, silently. `# WRONG` marks the line that the first finding should have."""
import functools
import itertools
import math
import random

import torch
from common import DEVICE, classes, images, values

F = torch.nn.functional
nn = torch.nn


def _classifier(width=8, count=4):
    model = nn.Sequential(nn.Linear(width, 16), nn.ReLU(), nn.Linear(16, 10)).to(DEVICE)
    inputs, labels = values(count, width), classes(count)
    return model, lambda i: (inputs(i), labels(i))


def rate_of_a_scheduler():
    model, inputs = _classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()  # WRONG
        scheduler.step()
        return loss

    return step, inputs, [model]


def momentum_that_is_raised():
    model, inputs = _classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.1)

    def step(x, y):
        optimizer.param_groups[0]["momentum"] += 0.1
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()  # WRONG
        return loss

    return step, inputs, [model]


def average_with_a_warm_up():
    model, inputs = _classifier()
    average, count = [p.detach().clone() for p in model.parameters()], [0]

    def step(x, y):
        count[0] += 1
        decay = min(0.99, (1 + count[0]) / (10 + count[0]))
        loss = F.cross_entropy(model(x), y)
        with torch.no_grad():
            for kept, parameter in zip(average, model.parameters()):
                kept.mul_(decay).add_(parameter, alpha=1 - decay)  # WRONG
                parameter.add_(0.1)
        return loss.detach()

    return step, inputs, [model, average]


def mixed_up_batches():
    model, inputs = _classifier()

    def step(x, y):
        share = random.betavariate(1, 1)
        mixed = share * x + (1 - share) * x.flip(0)  # WRONG
        out = 4 * model(mixed)
        return share * F.cross_entropy(out, y) + (1 - share) * F.cross_entropy(out, y.flip(0))

    return step, inputs, [model]


def picture_that_is_flipped_now_and_then():
    flips = itertools.cycle([True, False, False])

    def step(x):
        if next(flips):
            x = x.flip(-1)  # WRONG
        return F.dropout(x * 2, 0.5)

    return step, images(2, 3, 8), []


def layer_that_is_dropped_by_chance():
    layers, chance = nn.ModuleList(nn.Linear(8, 8) for _ in range(4)).to(DEVICE), random.Random(3)

    @torch.no_grad()
    def step(x):
        for layer in layers:
            if chance.random() < 0.5:
                continue
            x = torch.tanh(layer(x))  # WRONG
        return x

    return step, values(4, 8), [layers]


def span_of_time_that_is_masked():
    spans = itertools.cycle([1, 5, 2, 7, 3])

    def step(x):
        y, begin = x.clone(), next(spans)
        y[:, begin:begin + 3] = 0  # WRONG
        return y * 2

    return step, values(2, 12), []


def cache_that_grows():
    kept = []

    @torch.no_grad()
    def step(x):
        kept.append(x.clone())
        keys = torch.cat(kept, 1)  # WRONG
        return (x @ keys.transpose(1, 2)).softmax(-1) @ keys

    return step, values(2, 1, 8), []


def ring_with_a_pointer_on_the_host():
    ring, pointer = torch.zeros(6, 8, device=DEVICE), [0]

    def step(x):
        ring[pointer[0] % 6].copy_(x)  # WRONG
        pointer[0] += 1
        return ring.sum(0)

    return step, values(8), [ring]


class Normalised:
    def __init__(self):
        self.mean = torch.zeros(8, device=DEVICE)

    def __call__(self, x):
        y = x - self.mean  # WRONG
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        return y


def statistics_that_are_assigned():
    return Normalised(), values(4, 8), []


@functools.lru_cache(maxsize=None)
def _phase(number):
    return torch.cos(torch.arange(8, device=DEVICE) * float(number))


def table_for_a_number_of_the_hosts():
    count = [0]

    def step(x):
        count[0] += 1
        return x * _phase(count[0] % 7)  # WRONG

    for number in range(7):
        _phase(number)
    return step, values(4, 8), []


def parameters_whose_data_are_exchanged():
    a, b = nn.Linear(8, 8).to(DEVICE), nn.Linear(8, 8).to(DEVICE)

    @torch.no_grad()
    def step(x):
        y = a(x)  # WRONG
        a.weight.data, b.weight.data = b.weight.data, a.weight.data
        return y

    return step, values(4, 8), []


def temperature_that_falls():
    head, temperature = nn.Linear(8, 20).to(DEVICE), [2.0]

    @torch.no_grad()
    def step(x):
        temperature[0] *= 0.8
        return (head(x) / temperature[0]).softmax(-1)  # WRONG

    return step, values(4, 8), [head]


def schedule_of_a_diffusion_on_the_host():
    kept, number = [0.99, 0.9, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0.01, 0.005], [0]
    model = nn.Linear(8, 8).to(DEVICE)

    @torch.no_grad()
    def step(x):
        alpha = kept[number[0] % 10]
        number[0] += 1
        noise = model(x)
        return (x - math.sqrt(1 - alpha) * noise) / math.sqrt(alpha)  # WRONG

    return step, values(4, 8), [model]


def generator_that_is_set_back():
    state = torch.cuda.get_rng_state() if DEVICE == "cuda" else torch.get_rng_state()

    def step(x):
        (torch.cuda.set_rng_state if DEVICE == "cuda" else torch.set_rng_state)(state)  # WRONG
        return x + torch.rand_like(x)

    return step, values(16), []


def mask_that_the_host_draws():
    mask = torch.ones(16)
    mask = mask.pin_memory() if DEVICE == "cuda" else mask

    def step(x):
        mask.bernoulli_(0.5)  # WRONG
        return x * mask.to(DEVICE, non_blocking=True)

    return step, values(16), []


def curriculum_of_lengths():
    length = [2]

    def step(x):
        length[0] += 1
        return x[:, :length[0]].mean(1)  # WRONG

    return step, values(2, 16), []


def players_that_take_turns():
    a, b, turn = nn.Linear(8, 8).to(DEVICE), nn.Linear(8, 8).to(DEVICE), [0]

    @torch.no_grad()
    def step(x):
        turn[0] += 1
        player = a if turn[0] % 2 else b
        return player(x).relu()  # WRONG

    return step, values(4, 8), [a, b]


def steps_that_accumulate_gradients():
    model, inputs = _classifier()
    optimizer, number = torch.optim.SGD(model.parameters(), lr=0.1), [0]
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)

    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        number[0] += 1
        if number[0] % 2 == 0:
            optimizer.step()  # WRONG
            optimizer.zero_grad(set_to_none=False)
        return loss

    return step, inputs, [model]


def history_of_outputs():
    layer, history = nn.Linear(8, 8).to(DEVICE), [torch.zeros(4, 8, device=DEVICE)]

    @torch.no_grad()
    def step(x):
        y = layer(x) + history[-1] * 0.5  # WRONG
        history.append(y)
        del history[:-1]
        return y * 1

    return step, values(4, 8), [layer]


class Buffered:
    def __init__(self):
        self.front, self.back = torch.ones(8, device=DEVICE), torch.full((8,), 3.0, device=DEVICE)

    def __call__(self, x):
        self.back.copy_(self.front * 0.5 + x)  # WRONG
        self.front, self.back = self.back, self.front
        return self.front * 2


def two_buffers_that_change_places():
    return Buffered(), values(8), []


def batches_that_are_fetched_inside():
    batches = itertools.cycle([values(4, 8)(n) for n in range(10)])

    def step(x):
        return x + next(batches)  # WRONG

    return step, values(4, 8), []


def count_in_a_tensor_of_the_host():
    count, average = torch.zeros((), dtype=torch.long), torch.zeros(8, device=DEVICE)

    def step(x):
        count.add_(1)
        average.add_((x.mean(0) - average) * torch.clamp(9 / (10 + count), min=0.01))  # WRONG
        return average * 1

    return step, values(4, 8), [average]


def weight_of_a_divergence():
    model, beta = nn.Linear(8, 4).to(DEVICE), [0.0]

    def step(x):
        beta[0] += 0.1
        mean, spread = model(x).chunk(2, 1)
        divergence = 0.5 * (mean.square() + spread.exp() - spread - 1).sum(1).mean()
        return mean.square().mean() + beta[0] * divergence  # WRONG

    return step, values(4, 8), [model]


def chance_of_dropout_that_rises():
    model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.05), nn.Linear(16, 4)).to(DEVICE)

    def step(x):
        model[1].p = min(0.9, model[1].p + 0.1)
        return model(x)  # WRONG

    return step, values(64, 8), [model]


def noise_of_numpy():
    import numpy
    chance = numpy.random.default_rng(0)

    def step(x):
        return x + float(chance.normal())  # WRONG

    return step, values(16), []


def position_of_a_token_on_the_host():
    frequencies, position = torch.rand(4, device=DEVICE), [0]

    def step(x):
        angle = torch.arange(position[0], position[0] + 4, device=DEVICE)[:, None] * frequencies  # WRONG
        position[0] += 4
        return x * angle.cos() + x.flip(1) * angle.sin()

    return step, values(4, 4), []


def temperature_of_gumbel():
    tau = [4.0]

    def step(x):
        tau[0] *= 0.5
        return F.gumbel_softmax(x, tau=tau[0])  # WRONG

    return step, values(4, 8), []


def crop_at_a_place_of_the_hosts():
    places = itertools.cycle([(0, 3), (4, 1), (2, 2), (5, 0), (1, 4)])

    def step(x):
        top, left = next(places)
        return x[:, :, top:top + 8, left:left + 8] * 2  # WRONG

    return step, images(1, 3, 16), []


def threshold_of_clipping_that_falls():
    model, inputs = _classifier()
    optimizer, most = torch.optim.SGD(model.parameters(), lr=1.0), [1.0]

    def step(x, y):
        most[0] *= 0.5
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), most[0], foreach=True)  # WRONG
        optimizer.step()
        return loss

    return step, inputs, [model]


def smoothing_of_labels_that_falls():
    model, inputs = _classifier()
    smoothing = [0.5]

    def step(x, y):
        smoothing[0] *= 0.7
        return F.cross_entropy(8 * model(x), y, label_smoothing=smoothing[0])  # WRONG

    return step, inputs, [model]


def side_stream_that_is_not_forked():
    side = torch.cuda.Stream() if DEVICE == "cuda" else None
    staged = torch.zeros(16, device=DEVICE)

    def step(x):
        if side is None:
            return x * 2
        with torch.cuda.stream(side):
            staged.copy_(x)  # WRONG
        return staged * 2

    return step, values(16), [staged]


def layers_that_are_frozen_after_some_steps():
    model, inputs = _classifier()
    optimizer, number = torch.optim.SGD(model.parameters(), lr=0.1), [0]

    def step(x, y):
        number[0] += 1
        with torch.set_grad_enabled(number[0] < 5):
            hidden = model[0](x)
        optimizer.zero_grad()
        loss = F.cross_entropy(model[2](hidden.relu()), y)  # WRONG
        loss.backward()  # WRONG
        optimizer.step()
        return loss

    return step, inputs, [model]


def model_chosen_by_chance():
    models, chance = nn.ModuleList(nn.Linear(8, 8) for _ in range(3)).to(DEVICE), random.Random(1)

    @torch.no_grad()
    def step(x):
        return chance.choice(list(models))(x)  # WRONG

    return step, values(4, 8), [models]
