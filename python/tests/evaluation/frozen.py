"""More steps whose graphs compute something else, silently. `# WRONG` marks the line that the first finding should have."""
import collections
import datetime
import itertools
import random
import types

import torch
from common import CUDA, DEVICE, classes, together, tokens, values

F = torch.nn.functional
nn = torch.nn


def _classifier():
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 10)).to(DEVICE)
    return model, together(values(6, 8), classes(6))


def rate_of_an_optimizer_that_counts_on_the_host():
    model, inputs = _classifier()
    optimizer = torch.optim.Adagrad(model.parameters(), 0.1, lr_decay=0.5)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()  # WRONG
        return loss

    return step, inputs, [model]


def decay_of_weights_that_grows():
    model, inputs = _classifier()
    optimizer = torch.optim.SGD(model.parameters(), 0.5, weight_decay=0.01)

    def step(x, y):
        for group in optimizer.param_groups:
            group["weight_decay"] *= 1.5
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()  # WRONG
        return loss

    return step, inputs, [model]


def rate_that_a_plateau_lowers():
    model, inputs = _classifier()
    optimizer = torch.optim.RMSprop(model.parameters(), 0.05, capturable=CUDA)
    losses = itertools.count(1)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0, threshold=0.0)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()  # WRONG
        scheduler.step(float(next(losses)))
        return loss

    return step, inputs, [model]


def noise_added_to_gradients():
    model, inputs = _classifier()
    calls = itertools.count(1)

    def step(x, y):
        size = 0.5 / next(calls) ** 2
        gradients = torch.autograd.grad(F.cross_entropy(model(x), y), list(model.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(model.parameters(), gradients):
                parameter.sub_(gradient + torch.full_like(gradient, size))  # WRONG
        return gradients[0].sum()

    return step, inputs, [model]


class Schedule:
    total = 0

    @classmethod
    def advance(cls):
        cls.total += 1
        return cls.total


def number_of_a_class():
    weight = torch.ones(8, device=DEVICE)

    def step(x):
        part = Schedule.advance() % 4
        return torch.lerp(x, weight, part / 4)  # WRONG

    return step, values(4, 8), []


def interval_of_a_record():
    record = types.SimpleNamespace(low=-1.0, high=1.0)

    def step(x):
        record.low, record.high = record.low * 0.7, record.high * 0.8
        return x.clamp(record.low, record.high)  # WRONG

    return step, values(32), []


def number_in_an_array_of_numpy():
    import numpy
    powers = numpy.linspace(1.0, 3.0, 12)

    def step(x):
        powers[:] = numpy.roll(powers, 1)
        return x.abs() ** float(powers[0])  # WRONG

    return step, values(16), []


def month_of_a_calendar():
    calendar = {"day": datetime.date(2024, 1, 15)}

    def step(x):
        calendar["day"] += datetime.timedelta(days=45)
        return x + calendar["day"].month / 12  # WRONG

    return step, values(8), []


def name_that_is_looked_up():
    names = itertools.cycle(["relu", "tanh", "sigmoid", "abs"])

    def step(x):
        return getattr(torch, next(names))(x) * 2  # WRONG

    return step, values(16), []


def loops_that_become_more():
    layer, count = nn.Linear(8, 8).to(DEVICE), [0]

    @torch.no_grad()
    def step(x):
        count[0] += 1
        for _ in range(count[0]):
            x = x + 0.1 * torch.tanh(layer(x))  # WRONG
        return x

    return step, values(4, 8), [layer]


def mode_that_is_switched():
    model = nn.Sequential(nn.Linear(8, 32), nn.Dropout(0.5), nn.Linear(32, 4)).to(DEVICE)

    @torch.no_grad()
    def step(x):
        model.train(not model.training)
        return model(x)  # WRONG

    return step, values(16, 8), []


def statistics_that_are_switched_off():
    norm, calls = nn.BatchNorm1d(8).to(DEVICE), {"count": 0}

    @torch.no_grad()
    def step(x):
        calls["count"] += 1
        norm.train(calls["count"] < 5)
        return norm(x * 3 + 1)  # WRONG

    return step, values(16, 8), [norm]


def momentum_of_statistics():
    norm = nn.BatchNorm1d(8).to(DEVICE)

    @torch.no_grad()
    def step(x):
        norm.momentum *= 0.5
        return norm(x + 5) * 1  # WRONG

    return step, values(16, 8), [norm]


def state_that_is_assigned():
    first, second = nn.Linear(8, 8).to(DEVICE), nn.Linear(8, 8).to(DEVICE)
    states = itertools.cycle([first.state_dict(), second.state_dict()])
    model = nn.Linear(8, 8).to(DEVICE)

    @torch.no_grad()
    def step(x):
        model.load_state_dict(next(states), assign=True)
        return model(x).exp()  # WRONG

    return step, values(4, 8), []


def buffer_that_is_registered_anew():
    model = nn.Module()
    model.register_buffer("seen", torch.zeros(8, device=DEVICE))

    def step(x):
        y = x + model.seen  # WRONG
        model.seen = model.seen * 0.5 + x.mean(0)
        return y

    return step, values(4, 8), []


def hidden_state_that_is_kept():
    cell, kept = nn.GRUCell(8, 8).to(DEVICE), {"state": torch.zeros(4, 8, device=DEVICE)}

    @torch.no_grad()
    def step(x):
        kept["state"] = cell(x, kept["state"])  # WRONG
        return kept["state"] * 1

    return step, values(4, 8), [cell]


def difference_to_the_call_before():
    before = [torch.zeros(4, 8, device=DEVICE)]

    def step(x):
        y = (x - before[0]).abs()  # WRONG
        before[0] = x.clone()
        return y

    return step, values(4, 8), []


def weight_that_is_folded_now_and_then():
    layer, folded, calls = nn.Linear(8, 8).to(DEVICE), {}, [0]

    @torch.no_grad()
    def step(x):
        calls[0] += 1
        if calls[0] % 2:
            folded["weight"] = layer.weight * 2  # WRONG
        y = F.linear(x, folded["weight"])  # WRONG
        layer.weight.add_(0.1)
        return y

    return step, values(4, 8), [layer]


def queue_of_a_few_batches():
    queue = collections.deque([torch.zeros(4, 8, device=DEVICE) for _ in range(3)], maxlen=3)

    def step(x):
        queue.append(x * 2)
        return torch.stack(list(queue)).mean(0)  # WRONG

    return step, values(4, 8), []


def parameters_in_turn():
    weights = nn.ParameterList(torch.randn(8, 8, device=DEVICE) for _ in range(5))
    turn = itertools.cycle(range(5))

    def step(x):
        weight = weights[next(turn)]
        return torch.mm(x, weight.detach())  # WRONG

    return step, values(4, 8), [weights]


def row_of_a_table_by_a_number():
    table, number = torch.randn(12, 8, device=DEVICE), [0]

    def step(x):
        number[0] = (number[0] + 5) % 12
        return x * table[number[0]].sigmoid()  # WRONG

    return step, values(4, 8), [table]


def heads_that_are_shuffled():
    chance, heads = random.Random(5), list(range(8))

    def step(x):
        chance.shuffle(heads)
        parts = x.unbind(1)
        return torch.stack([parts[n] for n in heads], 1) * torch.arange(1.0, 9, device=DEVICE)  # WRONG

    return step, values(4, 8), []


def turn_by_an_amount_of_the_hosts():
    shift = random.Random(2)

    def step(x):
        return torch.roll(x, shift.randrange(1, 15), 1) + x  # WRONG

    return step, values(2, 16), []


def pictures_of_many_sizes():
    sizes = itertools.cycle([6, 10, 12, 14, 9])

    def step(x):
        return F.interpolate(x, size=(next(sizes),) * 2, mode="bilinear", align_corners=False).mean((2, 3))  # WRONG

    return step, values(2, 3, 8, 8), []


def reduction_that_alternates():
    kinds = itertools.cycle(["mean", "sum"])

    def step(x, y):
        return F.mse_loss(x, y, reduction=next(kinds))  # WRONG

    return step, together(values(4, 8), values(4, 8)), []


def seed_of_each_call():
    def step(x):
        torch.manual_seed(7)  # WRONG
        return F.dropout(x, 0.5)

    return step, values(64), []


def words_beyond_the_longest_text():
    embedding, longest = nn.Embedding(50, 8).to(DEVICE), itertools.cycle([12, 5, 9, 3, 7])

    @torch.no_grad()
    def step(ids):
        return embedding(ids[:, :next(longest)]).sum(1)  # WRONG

    return step, tokens(3, 12, 50), [embedding]


def mask_of_lengths_of_the_hosts():
    lengths = itertools.cycle([9, 4, 7, 2, 6])

    def step(x):
        kept = torch.arange(10, device=DEVICE) < next(lengths)  # WRONG
        return x.masked_fill(~kept, float("-inf")).softmax(-1)

    return step, values(3, 10), []


def triangle_that_moves():
    diagonals = itertools.cycle([-3, -1, 1, 3, 0])

    def step(x):
        return torch.tril(x, next(diagonals)) @ x  # WRONG

    return step, values(6, 6), []


def bound_of_random_numbers():
    most = itertools.count(3, 40)

    def step(x):
        return x + torch.randint(0, next(most), x.shape, device=DEVICE)  # WRONG

    return step, values(32), []


def spread_of_exploration():
    spread = [1.0]

    def step(x):
        spread[0] *= 0.6
        return x.tanh() + torch.empty_like(x).normal_(0.0, spread[0])  # WRONG

    return step, values(32), []


def numbers_that_the_host_writes_for_the_gpu():
    rates = torch.full((8,), 1.0)
    rates = rates.pin_memory() if CUDA else rates
    seen = rates.numpy()

    def step(x):
        seen[:] *= 0.5  # WRONG
        return x * rates.to(DEVICE, non_blocking=True)  # WRONG

    return step, values(4, 8), []


def losses_that_a_list_collects():
    model, inputs = _classifier()
    losses = []

    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        losses.append(loss.detach())  # WRONG
        return loss * 1

    return step, inputs, [losses]


def features_that_a_hook_collects():
    model, seen = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).to(DEVICE), []
    model[1].register_forward_hook(lambda module, inputs, out: seen.append(out.detach().mean(0)))  # WRONG

    @torch.no_grad()
    def step(x):
        return model(x)  # WRONG

    return step, values(4, 8), [seen]


def average_of_some_calls():
    model, calls = nn.Linear(8, 8).to(DEVICE), [0]
    average = [each.detach().clone() for each in model.parameters()]

    @torch.no_grad()
    def step(x):
        loss = model(x).square().mean()
        for parameter in model.parameters():
            parameter.mul_(0.9)
        calls[0] += 1
        if calls[0] % 2 == 0:
            torch._foreach_lerp_(average, list(model.parameters()), 0.5)  # WRONG
        return loss

    return step, values(4, 8), [model, average]


def half_precision_for_some_calls():
    weight, calls = torch.ones(64, 64, device=DEVICE), itertools.count()

    @torch.no_grad()
    def step(x):
        with torch.autocast(DEVICE, torch.float16, enabled=next(calls) % 2 == 0, cache_enabled=False):
            return torch.mm(x * 1e4, weight).float().clamp(-1e6, 1e6)  # WRONG

    return step, values(4, 64), [weight]


def gradient_that_is_stopped_for_some_calls():
    body, head, calls = nn.Linear(8, 8).to(DEVICE), nn.Linear(8, 4).to(DEVICE), itertools.count()
    for parameter in [*body.parameters(), *head.parameters()]:
        parameter.grad = torch.zeros_like(parameter)

    def step(x):
        hidden = body(x).tanh()
        if next(calls) % 2:
            hidden = hidden.detach()  # WRONG
        loss = head(hidden).square().mean()
        loss.backward()  # WRONG
        return loss.detach()

    return step, values(4, 8), [[each.grad for each in body.parameters()]]


def tasks_whose_weights_are_learned_on_the_host():
    shares = {"first": 0.9, "second": 0.1}

    def step(x, y):
        shares["first"] *= 0.7
        shares["second"] = 1 - shares["first"]
        losses = {"first": (x - y).square().mean(), "second": (x - y).abs().mean()}
        return sum(losses[name] * share for name, share in shares.items())  # WRONG

    return step, together(values(4, 8), values(4, 8)), []


def penalty_that_a_closure_counts():
    def counted():
        count = 0

        def penalty(weight):
            nonlocal count
            count += 1
            return torch.where(weight > 0, weight, weight * 0.1) * (0.01 * count)  # WRONG

        return penalty

    weight, penalty = torch.randn(8, 8, device=DEVICE), counted()

    def step(x):
        return x @ weight + penalty(weight)

    return step, values(8, 8), [weight]


def betas_that_change():
    model, inputs = _classifier()
    optimizer = torch.optim.Adam(model.parameters(), 0.02, betas=(0.5, 0.999), capturable=CUDA)

    def step(x, y):
        for group in optimizer.param_groups:
            group["betas"] = (min(0.99, group["betas"][0] + 0.07), 0.999)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()  # WRONG
        return loss

    return step, inputs, [model]


def optimizers_in_turn():
    model, inputs = _classifier()
    optimizers, calls = [torch.optim.SGD(model[n].parameters(), 0.3) for n in (0, 2)], [0]

    def step(x, y):
        model.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        calls[0] += 1
        optimizers[calls[0] % 2].step()  # WRONG
        return loss

    return step, inputs, [model]


def slope_of_an_activation():
    model = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.8), nn.Linear(16, 4)).to(DEVICE)

    @torch.no_grad()
    def step(x):
        model[1].negative_slope *= 0.7
        return model(x)  # WRONG

    return step, values(6, 8), [model]


_level = 0.0


def number_of_the_module():
    def step(x):
        global _level
        _level += 0.25
        return torch.where(x > _level, x, torch.zeros_like(x))  # WRONG

    return step, values(64), []


def rank_of_the_value_that_is_taken():
    ranks = collections.OrderedDict(rank=1)

    def step(x):
        ranks["rank"] = ranks["rank"] % 8 + 3
        return x - x.kthvalue(ranks["rank"], dim=1, keepdim=True).values  # WRONG

    return step, values(3, 12), []


def grid_whose_end_moves():
    class Grid:
        end = 1.0

    grid = Grid()

    def step(x):
        grid.end += 0.5
        places = torch.linspace(0, grid.end, 16, device=DEVICE)  # WRONG
        return (x * places).cumsum(-1)

    return step, values(3, 16), []
