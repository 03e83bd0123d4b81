"""Programs as users write them: wrong ones, each with its fixed form, and sound ones that look alike.

The name of a wrong program starts with the case whose failure it has. `# found` is the line that a user should be shown,
and `# or` is another line that would do. EXPECTED has what each program returns on a GPU.
"""
import copy

import torch


def padding_rows_do_work__paged_cache():
    """Rows without a request have slot -1, so they write into the last slot of the cache, which a request uses."""
    block_size = 4
    keys = torch.zeros(8 * block_size, 8, device="cuda")
    to_keys = 2 * torch.eye(8, device="cuda")
    hidden = torch.zeros(4, 8, device="cuda")
    slot_mapping = torch.zeros(4, dtype=torch.long, device="cuda")

    def decode():
        keys[slot_mapping] = hidden @ to_keys  # or
        return keys[slot_mapping].sum(1)

    decode()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        scores = decode()
    keys[7 * block_size:] = 9.0  # The prompt of a request that waits, in block 7.
    block_table = {"a": 0, "b": 3}
    served = []
    for position in range(2):
        slots = [block * block_size + position for block in block_table.values()]
        hidden.zero_()
        hidden[:len(slots)] = position + 1.0
        slot_mapping.fill_(-1)  # found
        slot_mapping[:len(slots)] = torch.tensor(slots, device="cuda")
        graph.replay()
        served.append(scores[0].item())
    return served + keys[31, :3].tolist()


def padding_rows_do_work__paged_cache_fixed():
    """Rows without a request write into a slot that no block has."""
    block_size = 4
    keys = torch.zeros(8 * block_size + 1, 8, device="cuda")
    to_keys = 2 * torch.eye(8, device="cuda")
    hidden = torch.zeros(4, 8, device="cuda")
    slot_mapping = torch.zeros(4, dtype=torch.long, device="cuda")

    def decode():
        keys[slot_mapping] = hidden @ to_keys
        return keys[slot_mapping].sum(1)

    decode()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        scores = decode()
    keys[7 * block_size:8 * block_size] = 9.0
    block_table = {"a": 0, "b": 3}
    served = []
    for position in range(2):
        slots = [block * block_size + position for block in block_table.values()]
        hidden.zero_()
        hidden[:len(slots)] = position + 1.0
        slot_mapping.fill_(8 * block_size)
        slot_mapping[:len(slots)] = torch.tensor(slots, device="cuda")
        graph.replay()
        served.append(scores[0].item())
    return served + keys[31, :3].tolist()


def padding_rows_do_work__recurrent_state():
    """A batch of two leaves two rows of the full batch before it in place, and the states of these requests move again."""
    states = torch.zeros(6, 4, device="cuda")
    rows = torch.zeros(4, dtype=torch.long, device="cuda")
    tokens = torch.zeros(4, 4, device="cuda")

    def step():
        moved = 0.5 * states.index_select(0, rows) + tokens
        states.index_copy_(0, rows, moved)
        return moved.sum(1)

    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        logits = step()
    answers = []
    for batch in ([0, 1, 2, 3], [4, 5]):
        count = len(batch)
        tokens[:count] = 2.0
        rows[:count] = torch.tensor(batch, device="cuda")  # found
        graph.replay()  # or
        answers.append(logits[:count].sum().item())
    return answers + states[2:4, 0].tolist()


def padding_rows_do_work__recurrent_state_fixed():
    """The rows beyond the batch are the last row of the states, which no request has."""
    states = torch.zeros(6 + 1, 4, device="cuda")
    rows = torch.zeros(4, dtype=torch.long, device="cuda")
    tokens = torch.zeros(4, 4, device="cuda")

    def step():
        moved = 0.5 * states.index_select(0, rows) + tokens
        states.index_copy_(0, rows, moved)
        return moved.sum(1)

    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        logits = step()
    answers = []
    for batch in ([0, 1, 2, 3], [4, 5]):
        count = len(batch)
        tokens[:count] = 2.0
        rows[:count] = torch.tensor(batch, device="cuda")
        rows[count:] = 6
        graph.replay()
        answers.append(logits[:count].sum().item())
    return answers + states[2:4, 0].tolist()


def value_cached_by_warm_up__length_masks():
    """The warm-up keeps a mask of its own lengths for each batch size, and replays for other lengths use this mask."""
    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("positions", torch.arange(6, device="cuda"))
            self.masks = {}

        def forward(self, scores, lengths):
            if len(scores) not in self.masks:
                self.masks[len(scores)] = self.positions >= lengths[:, None]  # found
            return scores.masked_fill(self.masks[len(scores)], 0).sum(1)  # or

    attention = Attention()
    scores = torch.ones(3, 6, device="cuda")
    lengths = torch.ones(3, dtype=torch.long, device="cuda")
    for _ in range(2):
        attention(scores, lengths)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = attention(scores, lengths)
    results = []
    for batch in ([2, 3, 4], [5, 5, 6]):
        lengths.copy_(torch.tensor(batch, device="cuda"))
        graph.replay()
        results.append(out.tolist())
    return results


def value_cached_by_warm_up__length_masks_fixed():
    """The masks of the warm-up are dropped before the capture, so each replay makes its own."""
    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("positions", torch.arange(6, device="cuda"))
            self.masks = {}

        def forward(self, scores, lengths):
            if len(scores) not in self.masks:
                self.masks[len(scores)] = self.positions >= lengths[:, None]
            return scores.masked_fill(self.masks[len(scores)], 0).sum(1)

    attention = Attention()
    scores = torch.ones(3, 6, device="cuda")
    lengths = torch.ones(3, dtype=torch.long, device="cuda")
    for _ in range(2):
        attention(scores, lengths)
    torch.cuda.synchronize()
    attention.masks.clear()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = attention(scores, lengths)
    results = []
    for batch in ([2, 3, 4], [5, 5, 6]):
        lengths.copy_(torch.tensor(batch, device="cuda"))
        graph.replay()
        results.append(out.tolist())
    return results


def value_cached_by_warm_up__policy_update():
    """The warm-up keeps a bfloat16 copy of the weight, and rollouts use this copy after the trainer has sent new weights."""
    class Policy(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(4, 4, device="cuda"))
            self.low = None

        def forward(self, x):
            if self.low is None:
                self.low = self.weight.detach().to(torch.bfloat16)  # found
            return (x.to(torch.bfloat16) @ self.low).float()  # or

    policy = Policy()
    learner = torch.ones(4, 4, device="cuda")
    observation = torch.ones(3, 4, device="cuda")
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.no_grad(), torch.cuda.stream(side):
        policy(observation)
    torch.cuda.synchronize()
    rollout = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(rollout):
        action = policy(observation)
    actions = []
    for _ in range(2):
        learner += 1.0  # A step of the training.
        with torch.no_grad():
            policy.weight.copy_(learner)
        rollout.replay()
        actions.append(action[0, 0].item())
    return actions


def value_cached_by_warm_up__policy_update_fixed():
    """Each update of the weight is copied into the bfloat16 copy that the graph reads."""
    class Policy(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(4, 4, device="cuda"))
            self.low = None

        def forward(self, x):
            if self.low is None:
                self.low = self.weight.detach().to(torch.bfloat16)
            return (x.to(torch.bfloat16) @ self.low).float()

    policy = Policy()
    learner = torch.ones(4, 4, device="cuda")
    observation = torch.ones(3, 4, device="cuda")
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.no_grad(), torch.cuda.stream(side):
        policy(observation)
    torch.cuda.synchronize()
    rollout = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(rollout):
        action = policy(observation)
    actions = []
    for _ in range(2):
        learner += 1.0
        with torch.no_grad():
            policy.weight.copy_(learner)
            policy.low.copy_(policy.weight)
        rollout.replay()
        actions.append(action[0, 0].item())
    return actions


def table_made_in_capture__rotary():
    """The capture of the decoder makes the rotary table, and an eager prefill reads it before the first replay."""
    class Rotary(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.frequencies = torch.rand(4, device="cuda") + 0.5
            self.cos = None

        def forward(self, query, positions):
            if self.cos is None:
                self.cos = torch.outer(torch.arange(32.0, device="cuda"), self.frequencies).cos()  # or
            return query * self.cos[positions]

    rotary = Rotary()
    query = torch.ones(3, 4, device="cuda")
    positions = torch.arange(5, 8, device="cuda")
    decode = torch.cuda.CUDAGraph()
    with torch.cuda.graph(decode):
        rotated = rotary(query, positions)
    prompt = torch.ones(5, 4, device="cuda")
    prefilled = prompt * rotary.cos[:5]  # found
    wanted = torch.outer(torch.arange(8.0, device="cuda"), rotary.frequencies).cos()
    right = [torch.allclose(prefilled, wanted[:5])]
    for _ in range(2):
        decode.replay()
        right.append(torch.allclose(rotated, wanted[5:]))
    return right


def table_made_in_capture__rotary_fixed():
    """The constructor makes the rotary table."""
    class Rotary(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.frequencies = torch.rand(4, device="cuda") + 0.5
            self.cos = torch.outer(torch.arange(32.0, device="cuda"), self.frequencies).cos()

        def forward(self, query, positions):
            return query * self.cos[positions]

    rotary = Rotary()
    query = torch.ones(3, 4, device="cuda")
    positions = torch.arange(5, 8, device="cuda")
    decode = torch.cuda.CUDAGraph()
    with torch.cuda.graph(decode):
        rotated = rotary(query, positions)
    prompt = torch.ones(5, 4, device="cuda")
    prefilled = prompt * rotary.cos[:5]
    wanted = torch.outer(torch.arange(8.0, device="cuda"), rotary.frequencies).cos()
    right = [torch.allclose(prefilled, wanted[:5])]
    for _ in range(2):
        decode.replay()
        right.append(torch.allclose(rotated, wanted[5:]))
    return right


def table_made_in_capture__two_graphs():
    """The capture for decoding makes the table of biases, and the graph of the prefill reads it in an earlier replay."""
    slopes = torch.rand(4, device="cuda") + 1.0
    tables = {}

    def biases(length):
        if length not in tables:
            tables[length] = torch.arange(float(length), device="cuda")[:, None] * slopes  # or
        return tables[length]

    token = torch.zeros(3, 4, device="cuda")
    prompt = torch.zeros(8, 4, device="cuda")
    decode, prefill = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(decode):
        decoded = token + biases(16)[8:11]
    with torch.cuda.graph(prefill):
        prefilled = prompt + biases(16)[:8]
    wanted = torch.arange(16.0, device="cuda")[:, None] * slopes
    right = []
    for value in (1.0, 2.0):
        prompt.fill_(value)
        prefill.replay()  # found
        right.append(torch.allclose(prefilled, wanted[:8] + value))
        token.fill_(value)
        decode.replay()
        right.append(torch.allclose(decoded, wanted[8:11] + value))
    return right


def table_made_in_capture__two_graphs_fixed():
    """The table of biases is made before both captures."""
    slopes = torch.rand(4, device="cuda") + 1.0
    tables = {}

    def biases(length):
        if length not in tables:
            tables[length] = torch.arange(float(length), device="cuda")[:, None] * slopes
        return tables[length]

    token = torch.zeros(3, 4, device="cuda")
    prompt = torch.zeros(8, 4, device="cuda")
    biases(16)
    torch.cuda.synchronize()
    decode, prefill = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(decode):
        decoded = token + biases(16)[8:11]
    with torch.cuda.graph(prefill):
        prefilled = prompt + biases(16)[:8]
    wanted = torch.arange(16.0, device="cuda")[:, None] * slopes
    right = []
    for value in (1.0, 2.0):
        prompt.fill_(value)
        prefill.replay()
        right.append(torch.allclose(prefilled, wanted[:8] + value))
        token.fill_(value)
        decode.replay()
        right.append(torch.allclose(decoded, wanted[8:11] + value))
    return right


def gradients_set_to_none_between_replays__parameter_groups():
    """The end of each step sets the gradients to None, so the optimizer has none from the second step on."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 3)).cuda()
    for parameter in model.parameters():
        torch.nn.init.constant_(parameter, 0.5)
    optimizer = torch.optim.SGD([
        {"params": model[0].parameters(), "lr": 0.125, "weight_decay": 0.5},
        {"params": model[1].parameters()},
    ], lr=0.25)
    x = torch.ones(2, 4, device="cuda")
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        for _ in range(3):
            model(x).sum().backward()
    torch.cuda.synchronize()
    model.zero_grad()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model(x).sum().backward()
    biases = []
    for value in (1.0, 2.0, 3.0):
        x.copy_(torch.full((2, 4), value, device="cuda"))
        graph.replay()
        optimizer.step()  # or
        biases.append(model[1].bias[0].item())
        model.zero_grad()  # found
    return biases


def gradients_set_to_none_between_replays__parameter_groups_fixed():
    """The end of each step fills the gradients with zeros, and their tensors stay."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 3)).cuda()
    for parameter in model.parameters():
        torch.nn.init.constant_(parameter, 0.5)
    optimizer = torch.optim.SGD([
        {"params": model[0].parameters(), "lr": 0.125, "weight_decay": 0.5},
        {"params": model[1].parameters()},
    ], lr=0.25)
    x = torch.ones(2, 4, device="cuda")
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        for _ in range(3):
            model(x).sum().backward()
    torch.cuda.synchronize()
    model.zero_grad()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model(x).sum().backward()
    biases = []
    for value in (1.0, 2.0, 3.0):
        x.copy_(torch.full((2, 4), value, device="cuda"))
        graph.replay()
        optimizer.step()
        biases.append(model[1].bias[0].item())
        model.zero_grad(set_to_none=False)
    return biases


def gradients_set_to_none_between_replays__micro_batches():
    """Each step starts with .grad = None, and the two micro-batches in the graph add up where the optimizer does not look."""
    weight = torch.nn.Parameter(torch.zeros(4, device="cuda"))
    offset = torch.nn.Parameter(torch.zeros(4, device="cuda"))
    optimizer = torch.optim.Adagrad([weight, offset], lr=1.0)
    batch = torch.ones(2, 4, device="cuda")

    def forward_backward():
        for micro_batch in batch:
            ((weight * micro_batch + offset).sum() / 2).backward()

    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        forward_backward()
    torch.cuda.synchronize()
    weight.grad = offset.grad = None
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        forward_backward()
    values = []
    for value in (1.0, 2.0):
        batch.fill_(value)
        for parameter in (weight, offset):
            parameter.grad = None  # found
        graph.replay()
        torch.nn.utils.clip_grad_norm_([weight, offset], 100.0)
        optimizer.step()  # or
        values.append(round(weight[0].item(), 3))
    return values


def gradients_set_to_none_between_replays__micro_batches_fixed():
    """The gradients of the capture are assigned again after each replay."""
    weight = torch.nn.Parameter(torch.zeros(4, device="cuda"))
    offset = torch.nn.Parameter(torch.zeros(4, device="cuda"))
    optimizer = torch.optim.Adagrad([weight, offset], lr=1.0)
    batch = torch.ones(2, 4, device="cuda")

    def forward_backward():
        for micro_batch in batch:
            ((weight * micro_batch + offset).sum() / 2).backward()

    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        forward_backward()
    torch.cuda.synchronize()
    weight.grad = offset.grad = None
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        forward_backward()
    gradients = [weight.grad, offset.grad]
    values = []
    for value in (1.0, 2.0):
        batch.fill_(value)
        for parameter in (weight, offset):
            parameter.grad = None
        graph.replay()
        for parameter, gradient in zip((weight, offset), gradients):
            parameter.grad = gradient
        torch.nn.utils.clip_grad_norm_([weight, offset], 100.0)
        optimizer.step()
        values.append(round(weight[0].item(), 3))
    return values


def batch_norm_trained_by_warm_up__training_step():
    """Three warm-ups on zeros pull the running variance down before the training's first batch."""
    class Tabular(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(4, momentum=0.5)
            self.out = torch.nn.Linear(4, 3)

        def forward(self, x):
            return self.out(self.norm(x))  # or

    model = Tabular().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.zeros(2, 4, device="cuda")
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        for _ in range(3):
            model(x).sum().backward()  # found
    torch.cuda.synchronize()
    optimizer.zero_grad()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model(x).sum().backward()
    for _ in range(2):
        x[0] = 1.0
        x[1] = -1.0
        graph.replay()
        optimizer.step()
    return [round(value, 5) for value in model.norm.running_var.tolist()]


def batch_norm_trained_by_warm_up__training_step_fixed():
    """The warm-ups run a copy of the model."""
    class Tabular(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(4, momentum=0.5)
            self.out = torch.nn.Linear(4, 3)

        def forward(self, x):
            return self.out(self.norm(x))

    model = Tabular().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.zeros(2, 4, device="cuda")
    rehearsal = copy.deepcopy(model)
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        for _ in range(3):
            rehearsal(x).sum().backward()
    torch.cuda.synchronize()
    optimizer.zero_grad()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model(x).sum().backward()
    for _ in range(2):
        x[0] = 1.0
        x[1] = -1.0
        graph.replay()
        optimizer.step()
    return [round(value, 5) for value in model.norm.running_var.tolist()]


def batch_norm_trained_by_warm_up__image_block():
    """make_graphed_callables() runs the block on its sample image, and the running mean has learnt this image."""
    def block(channels):
        convolution = torch.nn.Conv2d(1, channels, 1, bias=False)
        torch.nn.init.ones_(convolution.weight)
        return torch.nn.Sequential(convolution, torch.nn.BatchNorm2d(channels, momentum=0.5), torch.nn.ReLU())

    backbone = block(4).cuda().train()
    sample = torch.ones(2, 1, 4, 4, device="cuda")
    graphed = torch.cuda.make_graphed_callables(backbone, (sample,))  # found
    batches = [torch.full((2, 1, 4, 4), 3.0, device="cuda") for _ in range(2)]
    features = []
    for batch in batches:
        features.append(graphed(batch).detach().clone())
    torch.cuda.synchronize()
    norm = backbone[1]
    mean = [round(value, 5) for value in norm.running_mean.tolist()]
    return mean


def batch_norm_trained_by_warm_up__image_block_fixed():
    """The buffers get their values back after make_graphed_callables()."""
    def block(channels):
        convolution = torch.nn.Conv2d(1, channels, 1, bias=False)
        torch.nn.init.ones_(convolution.weight)
        return torch.nn.Sequential(convolution, torch.nn.BatchNorm2d(channels, momentum=0.5), torch.nn.ReLU())

    backbone = block(4).cuda().train()
    sample = torch.ones(2, 1, 4, 4, device="cuda")
    saved = {name: buffer.clone() for name, buffer in backbone.named_buffers()}
    graphed = torch.cuda.make_graphed_callables(backbone, (sample,))
    for name, buffer in backbone.named_buffers():
        buffer.copy_(saved[name])
    batches = [torch.full((2, 1, 4, 4), 3.0, device="cuda") for _ in range(2)]
    features = []
    for batch in batches:
        features.append(graphed(batch).detach().clone())
    torch.cuda.synchronize()
    norm = backbone[1]
    mean = [round(value, 5) for value in norm.running_mean.tolist()]
    return mean


def backward_captured_under_autocast__float_head():
    """backward() is inside the captured autocast region, so the gradient of a head in float is made of rounded numbers."""
    body = torch.nn.Linear(4, 4, bias=False).cuda()
    head = torch.nn.Linear(4, 3, bias=False).cuda()
    torch.nn.init.eye_(body.weight)
    x = torch.ones(2, 4, device="cuda")
    importance = torch.ones(2, 3, device="cuda")

    def loss():
        hidden = body(x)
        with torch.autocast("cuda", enabled=False):
            return (head(hidden.float()) * importance).sum()

    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        with torch.autocast("cuda", cache_enabled=False):
            warm = loss()
        warm.backward()
    torch.cuda.synchronize()
    body.weight.grad = head.weight.grad = None
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        with torch.autocast("cuda", cache_enabled=False):  # or
            captured = loss()
            captured.backward()  # found
    gradients = []
    for scale in (1.0, 2.0):
        importance.fill_(scale * (1 + 2**-12))
        graph.replay()
        gradients.append(head.weight.grad[0, 0].item())
    return gradients


def backward_captured_under_autocast__float_head_fixed():
    """The capture leaves the autocast region before backward()."""
    body = torch.nn.Linear(4, 4, bias=False).cuda()
    head = torch.nn.Linear(4, 3, bias=False).cuda()
    torch.nn.init.eye_(body.weight)
    x = torch.ones(2, 4, device="cuda")
    importance = torch.ones(2, 3, device="cuda")

    def loss():
        hidden = body(x)
        with torch.autocast("cuda", enabled=False):
            return (head(hidden.float()) * importance).sum()

    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        with torch.autocast("cuda", cache_enabled=False):
            warm = loss()
        warm.backward()
    torch.cuda.synchronize()
    body.weight.grad = head.weight.grad = None
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        with torch.autocast("cuda", cache_enabled=False):
            captured = loss()
        captured.backward()
    gradients = []
    for scale in (1.0, 2.0):
        importance.fill_(scale * (1 + 2**-12))
        graph.replay()
        gradients.append(head.weight.grad[0, 0].item())
    return gradients


def backward_captured_under_autocast__contrastive():
    """The similarities are in float, but make_graphed_callables() is called under autocast and rounds their gradients."""
    class Similarity(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.tower = torch.nn.Linear(4, 4, bias=False).requires_grad_(False)
            torch.nn.init.eye_(self.tower.weight)

        def forward(self, images, texts):
            embedded = self.tower(images)
            with torch.autocast("cuda", enabled=False):
                return torch.bmm(embedded.float(), texts.transpose(1, 2))

    model = Similarity().cuda()
    images = torch.ones(2, 3, 4, device="cuda", requires_grad=True)
    texts = torch.ones(2, 3, 4, device="cuda", requires_grad=True)
    with torch.autocast("cuda", cache_enabled=False):  # or
        model = torch.cuda.make_graphed_callables(model, (images, texts))  # found
    gradients = []
    for scale in (1.0, 2.0):
        with torch.autocast("cuda"):
            logits = model(images, texts)
        upstream = torch.full((2, 3, 3), scale * (1 + 2**-12), device="cuda")
        _, gradient = torch.autograd.grad(logits, (images, texts), upstream)
        gradients.append(gradient[0, 0, 0].item())
    return gradients


def backward_captured_under_autocast__contrastive_fixed():
    """The autocast region is in the forward pass, and make_graphed_callables() is called outside of any region."""
    class Similarity(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.tower = torch.nn.Linear(4, 4, bias=False).requires_grad_(False)
            torch.nn.init.eye_(self.tower.weight)

        def forward(self, images, texts):
            with torch.autocast("cuda", cache_enabled=False):
                embedded = self.tower(images)
            return torch.bmm(embedded.float(), texts.transpose(1, 2))

    model = Similarity().cuda()
    images = torch.ones(2, 3, 4, device="cuda", requires_grad=True)
    texts = torch.ones(2, 3, 4, device="cuda", requires_grad=True)
    model = torch.cuda.make_graphed_callables(model, (images, texts))
    gradients = []
    for scale in (1.0, 2.0):
        logits = model(images, texts)
        upstream = torch.full((2, 3, 3), scale * (1 + 2**-12), device="cuda")
        _, gradient = torch.autograd.grad(logits, (images, texts), upstream)
        gradients.append(gradient[0, 0, 0].item())
    return gradients


def sound__padding_adds_nothing():
    """Rows of an earlier batch stay in place, but what they add is zero."""
    states = torch.zeros(6, 4, device="cuda")
    rows = torch.zeros(4, dtype=torch.long, device="cuda")
    updates = torch.zeros(4, 4, device="cuda")
    states.index_add_(0, rows, updates)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        states.index_add_(0, rows, updates)
    for batch in ([0, 1, 2, 3], [4, 5]):
        updates.zero_()
        updates[:len(batch)] = 2.0
        rows[:len(batch)] = torch.tensor(batch, device="cuda")
        graph.replay()
    return states[:, 0].tolist()


def sound__graph_for_each_size():
    """The rows of an earlier, larger batch stay in place, but the graph of the smaller size does not read them."""
    states = torch.zeros(6, 4, device="cuda")
    rows = torch.zeros(4, dtype=torch.long, device="cuda")
    tokens = torch.zeros(4, 4, device="cuda")

    def step(count):
        states.index_copy_(0, rows[:count], tokens[:count])

    graphs = {}
    for count in (4, 2):
        step(count)
        torch.cuda.synchronize()
        graphs[count] = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graphs[count]):
            step(count)
    for value, batch in ((1.0, [0, 1, 2, 3]), (2.0, [4, 5]), (3.0, [0, 5])):
        count = len(batch)
        tokens[:count] = value
        rows[:count] = torch.tensor(batch, device="cuda")
        graphs[count].replay()
    return states[:, 0].tolist()


def sound__frozen_reference():
    """The warm-up keeps a bfloat16 copy of the reference's weight, which nobody changes. The policy's is read as it is."""
    class Reference(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(4, 4, device="cuda"), requires_grad=False)
            self.low = None

        def forward(self, x):
            if self.low is None:
                self.low = self.weight.to(torch.bfloat16)
            return (x.to(torch.bfloat16) @ self.low).float()

    reference = Reference()
    policy = torch.ones(4, 4, device="cuda")
    x = torch.ones(3, 4, device="cuda")
    gap = x @ policy - reference(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        gap = x @ policy - reference(x)
    gaps = []
    for value in (2.0, 3.0):
        policy.fill_(value)
        graph.replay()
        gaps.append(gap[0, 0].item())
    return gaps


def sound__causal_mask():
    """The warm-up keeps a mask that depends on the shape alone."""
    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.mask = None

        def forward(self, scores):
            if self.mask is None or self.mask.shape != scores.shape:
                self.mask = torch.ones(scores.shape, dtype=torch.bool, device="cuda").triu(1)
            return scores.masked_fill(self.mask, 0).sum(1)

    attention = Attention()
    scores = torch.ones(3, 3, device="cuda")
    for _ in range(3):
        attention(scores)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = attention(scores)
    results = []
    for value in (2.0, 5.0):
        scores.copy_(torch.full((3, 3), value, device="cuda"))
        graph.replay()
        results.append(out.tolist())
    return results


def sound__workspace_of_warm_up():
    """The warm-up makes a workspace and keeps it, and every replay fills all of it before it is read."""
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.workspace = None

        def forward(self, x):
            if self.workspace is None:
                self.workspace = torch.zeros(x.shape, device="cuda")
            self.workspace.copy_(x)
            self.workspace.mul_(2.0)
            return self.workspace.sum(1)

    layer = Layer()
    x = torch.ones(3, 4, device="cuda")
    layer(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = layer(x)
    results = []
    for value in (2.0, 3.0):
        x.fill_(value)
        graph.replay()
        results.append(out[0].item())
    return results


def sound__table_after_the_first_replay():
    """The capture makes the table, but eager code reads it only after a replay has filled it."""
    frequencies = torch.rand(4, device="cuda") + 0.5
    kept = {}

    def table():
        if "cos" not in kept:
            kept["cos"] = torch.outer(torch.arange(16.0, device="cuda"), frequencies).cos()
        return kept["cos"]

    query = torch.ones(16, 4, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        rotated = query * table()
    wanted = torch.outer(torch.arange(16.0, device="cuda"), frequencies).cos()
    graph.replay()
    right = [torch.allclose(rotated, wanted)]
    prompt = torch.full((5, 4), 2.0, device="cuda")
    right.append(torch.allclose(prompt * table()[:5], 2 * wanted[:5]))
    query.fill_(3.0)
    graph.replay()
    return right + [torch.allclose(rotated, 3 * wanted)]


def sound__scores_kept_by_the_module():
    """The capture leaves its scores in the module, but eager code makes them anew before it reads them."""
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.ones(4, 4, device="cuda")
            self.scores = None

        def forward(self, x):
            self.scores = x @ self.weight
            return self.scores.sum(1)

    layer = Layer()
    x = torch.ones(3, 4, device="cuda")
    layer(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = layer(x)
    layer(torch.full((3, 4), 2.0, device="cuda"))
    results = [layer.scores[0, 0].item()]
    for value in (3.0, 4.0):
        x.fill_(value)
        graph.replay()
        results.append(out[0].item())
    return results


def sound__accumulation_of_copies():
    """zero_grad() drops .grad, but the program adds up copies of the graph's gradient, and the optimizer has these."""
    weight = torch.nn.Parameter(torch.zeros(4, device="cuda"))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    x = torch.ones(4, device="cuda")
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        (weight * x).sum().backward()
    torch.cuda.synchronize()
    optimizer.zero_grad()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        (weight * x).sum().backward()
    captured = weight.grad
    values = []
    for _ in range(2):
        optimizer.zero_grad()
        for value in (1.0, 3.0):
            x.fill_(value)
            graph.replay()
            weight.grad = captured.clone() if weight.grad is None else weight.grad + captured
        optimizer.step()
        values.append(weight[0].item())
    return values


def sound__head_outside_the_graph():
    """zero_grad() drops the gradients of an eager head. The graph has the frozen backbone alone."""
    backbone = torch.full((4, 4), 0.5, device="cuda")
    head = torch.nn.Parameter(torch.zeros(4, device="cuda"))
    optimizer = torch.optim.SGD([head], lr=0.5)
    x = torch.ones(3, 4, device="cuda")
    features = x @ backbone
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        features = x @ backbone
    values = []
    for value in (1.0, 2.0):
        x.fill_(value)
        graph.replay()
        optimizer.zero_grad()
        (features * head).sum().backward()
        optimizer.step()
        values.append(head[0].item())
    return values


def sound__captured_anew_each_epoch():
    """zero_grad() drops the gradients before each capture, and never between a capture and its replays."""
    weight = torch.nn.Parameter(torch.zeros(4, device="cuda"))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    x = torch.ones(4, device="cuda")
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        (weight * x).sum().backward()
    torch.cuda.synchronize()
    values = []
    for _ in range(2):
        optimizer.zero_grad()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            (weight * x).sum().backward()
        for value in (1.0, 2.0):
            x.fill_(value)
            graph.replay()
            optimizer.step()
        values.append(weight[0].item())
    return values


def sound__average_of_weights():
    """The average of the weights is moved in place between replays, and the teacher's graph reads it there."""
    student = torch.nn.Parameter(torch.zeros(4, device="cuda"))
    teacher = torch.zeros(4, device="cuda")
    optimizer = torch.optim.SGD([student], lr=1.0)
    x = torch.ones(4, device="cuda")
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        (student * x).sum().backward()
    torch.cuda.synchronize()
    optimizer.zero_grad()
    training, teaching = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(training):
        (student * x).sum().backward()
    with torch.cuda.graph(teaching):
        target = teacher * x
    targets = []
    for value in (1.0, 2.0):
        x.fill_(value)
        training.replay()
        optimizer.step()
        teacher.lerp_(student.detach(), 0.5)
        teaching.replay()
        targets.append(target[0].item())
    return targets


def sound__batch_norm_in_eval_mode():
    """The warm-ups run BatchNorm in eval mode, which reads the running statistics and does not move them."""
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(4, momentum=0.5), torch.nn.ReLU()).cuda().eval()
    x = torch.full((2, 4), 8.0, device="cuda")
    with torch.no_grad():
        for _ in range(3):
            model(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = model(x)
    results = []
    for value in (2.0, 3.0):
        x.fill_(value)
        graph.replay()
        results.append(round(y[0, 0].item(), 2))
    return results + model[0].running_mean.tolist()


def sound__warm_up_on_first_batches():
    """The warm-ups are the first steps of the training, on its own batches, and these are not trained on again."""
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(4, momentum=0.5), torch.nn.Linear(4, 3)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.zeros(2, 4, device="cuda")
    batches = [torch.tensor([[value] * 4, [-value] * 4], device="cuda") for value in (1.0, 1.0, 2.0, 2.0)]
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        for batch in batches[:2]:
            x.copy_(batch)
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
    torch.cuda.synchronize()
    optimizer.zero_grad()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model(x).sum().backward()
    for batch in batches[2:]:
        x.copy_(batch)
        graph.replay()
        optimizer.step()
    return [round(value, 5) for value in model[0].running_var.tolist()]


def sound__inference_under_autocast():
    """The capture is inside an autocast region, but it has no backward pass."""
    model = torch.nn.Linear(4, 4, bias=False).cuda()
    torch.nn.init.eye_(model.weight)
    x = torch.ones(3, 4, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.autocast("cuda", cache_enabled=False):
        model(x)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            y = model(x)
    results = []
    for value in (2.0, 3.0):
        x.fill_(value)
        graph.replay()
        results.append(y[0, 0].item())
    return results


def sound__autocast_switched_off():
    """The autocast region around make_graphed_callables() is switched off by the program's setting."""
    class Similarity(torch.nn.Module):
        def forward(self, images, texts):
            return torch.bmm(images, texts.transpose(1, 2))

    mixed_precision = False
    images = torch.ones(2, 3, 4, device="cuda", requires_grad=True)
    texts = torch.ones(2, 3, 4, device="cuda", requires_grad=True)
    with torch.autocast("cuda", enabled=mixed_precision, cache_enabled=False):
        model = torch.cuda.make_graphed_callables(Similarity(), (images, texts))
    gradients = []
    for scale in (1.0, 2.0):
        with torch.autocast("cuda", enabled=mixed_precision):
            logits = model(images, texts)
        upstream = torch.full((2, 3, 3), scale * (1 + 2**-12), device="cuda")
        _, gradient = torch.autograd.grad(logits, (images, texts), upstream)
        gradients.append(gradient[0, 0, 0].item())
    return gradients


EXPECTED = {
    "padding_rows_do_work__paged_cache": [16.0, 32.0, 0.0, 0.0, 0.0],
    "padding_rows_do_work__paged_cache_fixed": [16.0, 32.0, 9.0, 9.0, 9.0],
    "padding_rows_do_work__recurrent_state": [32.0, 16.0, 3.0, 3.0],
    "padding_rows_do_work__recurrent_state_fixed": [32.0, 16.0, 2.0, 2.0],
    "value_cached_by_warm_up__length_masks": [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]],
    "value_cached_by_warm_up__length_masks_fixed": [[2.0, 3.0, 4.0], [5.0, 5.0, 6.0]],
    "value_cached_by_warm_up__policy_update": [4.0, 4.0],
    "value_cached_by_warm_up__policy_update_fixed": [8.0, 12.0],
    "table_made_in_capture__rotary": [False, True, True],
    "table_made_in_capture__rotary_fixed": [True, True, True],
    "table_made_in_capture__two_graphs": [False, True, True, True],
    "table_made_in_capture__two_graphs_fixed": [True, True, True, True],
    "gradients_set_to_none_between_replays__parameter_groups": [0.0, 0.0, 0.0],
    "gradients_set_to_none_between_replays__parameter_groups_fixed": [0.0, -0.5, -1.0],
    "gradients_set_to_none_between_replays__micro_batches": [0.0, 0.0],
    "gradients_set_to_none_between_replays__micro_batches_fixed": [-1.0, -1.894],  # 1 / 1, and then 2 / sqrt(1 + 4).
    "batch_norm_trained_by_warm_up__training_step": [1.53125] * 4,  # 1 > 0.5 > 0.25 > 0.125, and then 1.0625.
    "batch_norm_trained_by_warm_up__training_step_fixed": [1.75] * 4,
    "batch_norm_trained_by_warm_up__image_block": [2.46875] * 4,  # 0 > 0.5 > 0.75 > 0.875, and then 1.9375.
    "batch_norm_trained_by_warm_up__image_block_fixed": [2.25] * 4,
    "backward_captured_under_autocast__float_head": [2.0, 4.0],
    "backward_captured_under_autocast__float_head_fixed": [2.00048828125, 4.0009765625],
    "backward_captured_under_autocast__contrastive": [3.0, 6.0],
    "backward_captured_under_autocast__contrastive_fixed": [3.000732421875, 6.00146484375],
    "sound__padding_adds_nothing": [2.0] * 6,
    "sound__graph_for_each_size": [3.0, 1.0, 1.0, 1.0, 2.0, 3.0],
    "sound__frozen_reference": [4.0, 8.0],
    "sound__causal_mask": [[2.0, 4.0, 6.0], [5.0, 10.0, 15.0]],
    "sound__workspace_of_warm_up": [16.0, 24.0],
    "sound__table_after_the_first_replay": [True, True, True],
    "sound__scores_kept_by_the_module": [8.0, 48.0, 64.0],
    "sound__accumulation_of_copies": [-4.0, -8.0],
    "sound__head_outside_the_graph": [-3.0, -9.0],
    "sound__captured_anew_each_epoch": [-3.0, -6.0],
    "sound__average_of_weights": [-0.5, -3.5],
    "sound__batch_norm_in_eval_mode": [2.0, 3.0, 0.0, 0.0, 0.0, 0.0],
    "sound__warm_up_on_first_batches": [6.4375] * 4,  # 1 > 1.5 > 1.75, and then 4.875.
    "sound__inference_under_autocast": [2.0, 3.0],
    "sound__autocast_switched_off": [3.000732421875, 6.00146484375],
}
