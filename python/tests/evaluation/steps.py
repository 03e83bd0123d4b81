"""Steps with torch alone, with torch-geometric, torchmetrics, torchdiffeq, gpytorch, accelerate and Lightning."""
import functools

import torch
from common import DEVICE, classes, images, tokens, trained, values

F = torch.nn.functional
nn = torch.nn


def recurrent_training_with_dropout():
    model = nn.LSTM(8, 16, 2, batch_first=True, dropout=0.2).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), capturable=True)

    def step(x):
        optimizer.zero_grad()
        loss = model(x)[0].square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step, values(4, 6, 8), [model, optimizer]


def gated_recurrent_cell_by_hand():
    cell, state = nn.GRUCell(8, 16).to(DEVICE), torch.zeros(4, 16, device=DEVICE)

    @torch.no_grad()
    def step(x):
        state.copy_(cell(x, state))
        return state * 2

    return step, values(4, 8), [cell, state]


def encoder_layers_training():
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.1, batch_first=True)
    model = nn.Sequential(nn.TransformerEncoder(layer, 2), nn.Flatten(), nn.Linear(96, 10)).to(DEVICE)
    return trained(model, torch.optim.AdamW(model.parameters(), fused=DEVICE == "cuda", capturable=DEVICE == "cuda"),
                   values(4, 6, 16), classes(4))


def attention_with_a_causal_mask():
    attention = nn.MultiheadAttention(16, 4, batch_first=True).to(DEVICE)
    mask = torch.triu(torch.full((6, 6), float("-inf"), device=DEVICE), 1)

    @torch.no_grad()
    def step(x):
        return attention(x, x, x, attn_mask=mask, need_weights=False)[0]

    return step, values(2, 6, 16), [attention]


def flex_attention_eager():
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 128, 128, device=DEVICE)

    @torch.no_grad()
    def step(q):
        return flex_attention(q, q, q, block_mask=mask)

    return step, values(1, 2, 128, 16), []


def flex_attention_compiled_training():
    from torch.nn.attention.flex_attention import flex_attention
    compiled = torch.compile(flex_attention)
    project = nn.Linear(16, 48, device=DEVICE)
    optimizer = torch.optim.SGD(project.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        q, k, v = project(x).view(1, 128, 3, 1, 16).permute(2, 0, 3, 1, 4)
        loss = compiled(q, k, v).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step, values(1, 128, 16), [project, optimizer]


def compiled_multilayer_training():
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 10)).to(DEVICE)
    return trained(torch.compile(model), torch.optim.Adam(model.parameters(), capturable=True), values(8, 16), classes(8))


def compiled_inference_with_random_numbers():
    @torch.compile
    def noisy(x):
        return torch.sin(x + torch.rand_like(x)).cumsum(0)

    return noisy, values(64), []


def prefix_scan():
    from torch._higher_order_ops.associative_scan import associative_scan

    @torch.no_grad()
    def step(x):
        return associative_scan(torch.add, x, 0, combine_mode="generic")

    return step, values(16, 4), []


def scan_over_steps():
    from torch._higher_order_ops.scan import scan

    @torch.no_grad()
    def step(x):
        return scan(lambda state, each: (state * 0.5 + each, state + 0), torch.zeros(4, device=DEVICE), x)[1]

    return step, values(8, 4), []


def checkpointed_training():
    from torch.utils.checkpoint import checkpoint
    block, head = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 16)).to(DEVICE), nn.Linear(16, 10).to(DEVICE)

    def forward(x):
        return head(checkpoint(block, x, use_reentrant=False, preserve_rng_state=False))

    optimizer = torch.optim.Adagrad([*block.parameters(), *head.parameters()], lr=0.01)
    inputs, labels = values(8, 16), classes(8)

    def step(x, y):
        loss = F.cross_entropy(forward(x), y)
        for parameter, gradient in zip(block.parameters(), torch.autograd.grad(loss, list(block.parameters()))):
            with torch.no_grad():
                parameter.sub_(gradient, alpha=0.01)
        return loss.detach()

    return step, lambda i: (inputs(i), labels(i)), [block, head, optimizer]


def gradients_of_each_sample():
    from torch.func import functional_call, grad, vmap
    model = nn.Linear(6, 3).to(DEVICE)
    parameters = dict(model.named_parameters())

    def loss(weights, x, y):
        return F.cross_entropy(functional_call(model, weights, x[None]), y[None])

    def step(x, y):
        return vmap(grad(loss), (None, 0, 0))({k: v.detach() for k, v in parameters.items()}, x, y)["weight"]

    inputs, labels = values(5, 6), classes(5, 3)
    return step, lambda i: (inputs(i), labels(i)), [model]


def spectrogram_and_back():
    window = torch.hann_window(16, device=DEVICE)

    def step(x):
        spectrum = torch.stft(x, 16, 4, window=window, return_complex=True)
        return spectrum.abs().log1p(), torch.fft.irfft(torch.fft.rfft(x) * 0.5)

    return step, values(2, 64), []


def bags_of_embeddings_training():
    model = nn.EmbeddingBag(50, 8, mode="mean").to(DEVICE)
    head = nn.Linear(8, 4).to(DEVICE)
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.5)
    numbers, labels = tokens(6, 5, 50), classes(6, 4)

    def step(ids, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(head(model(ids)), y)
        loss.backward()
        optimizer.step()
        return loss

    return step, lambda i: (numbers(i), labels(i)), [model, head, optimizer]


def spectral_normalisation_training():
    model = nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(16, 16)), nn.ReLU(), nn.Linear(16, 10)).to(DEVICE)
    return trained(model, torch.optim.SGD(model.parameters(), lr=0.1), values(8, 16), classes(8))


def experts_with_dense_routing():
    gate, experts = nn.Linear(8, 4).to(DEVICE), nn.ModuleList(nn.Linear(8, 8) for _ in range(4)).to(DEVICE)

    @torch.no_grad()
    def step(x):
        weight, chosen = gate(x).softmax(-1).topk(2)
        weights = torch.zeros(x.shape[0], 4, device=DEVICE).scatter_(1, chosen, weight)
        return sum(weights[:, n:n + 1] * expert(x) for n, expert in enumerate(experts))

    return step, values(6, 8), [gate, experts]


def quantised_weights_with_scales():
    weight = torch.randint(-127, 127, (16, 16), dtype=torch.int8, device=DEVICE)
    scale = torch.rand(16, 1, device=DEVICE)

    def step(x):
        return x @ (weight.float() * scale).T

    return step, values(4, 16), []


def sampling_with_multinomial():
    head = nn.Linear(8, 20).to(DEVICE)

    @torch.no_grad()
    def step(x):
        return torch.multinomial(head(x).softmax(-1), 1)

    return step, values(4, 8), [head]


def diffusion_noise_on_the_gpu():
    model, schedule = nn.Linear(9, 8).to(DEVICE), torch.linspace(0.99, 0.1, 50, device=DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), capturable=True)

    def step(x):
        optimizer.zero_grad()
        time, noise = torch.randint(50, (x.shape[0],), device=DEVICE), torch.randn_like(x)
        kept = schedule[time][:, None]
        noised = kept.sqrt() * x + (1 - kept).sqrt() * noise
        loss = (model(torch.cat([noised, time[:, None] / 50], 1)) - noise).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step, values(8, 8), [model, optimizer]


def adversarial_training_in_one_step():
    maker, judge = nn.Linear(4, 8).to(DEVICE), nn.Linear(8, 1).to(DEVICE)
    first = torch.optim.SGD(maker.parameters(), lr=0.01)
    second = torch.optim.SGD(judge.parameters(), lr=0.01)

    def step(x):
        second.zero_grad()
        fake = maker(torch.randn(x.shape[0], 4, device=DEVICE))
        (F.softplus(-judge(x)).mean() + F.softplus(judge(fake.detach())).mean()).backward()
        second.step()
        first.zero_grad()
        loss = F.softplus(-judge(fake)).mean()
        loss.backward()
        first.step()
        return loss

    return step, values(6, 8), [maker, judge, first, second]


def contrastive_queue_with_a_pointer_tensor():
    queue, pointer = torch.zeros(16, 8, device=DEVICE), torch.zeros(1, dtype=torch.long, device=DEVICE)
    encoder = nn.Linear(8, 8).to(DEVICE)

    @torch.no_grad()
    def step(x):
        keys = F.normalize(encoder(x), dim=1)
        queue.index_copy_(0, (pointer + torch.arange(4, device=DEVICE)) % 16, keys)
        pointer.add_(4).remainder_(16)
        return keys @ queue.T

    return step, values(4, 8), [encoder, queue, pointer]


def warm_up_rate_in_a_tensor():
    model, rate = nn.Linear(8, 10).to(DEVICE), torch.tensor(0.01, device=DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, capturable=True)
    inputs, labels = values(4, 8), classes(4)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        rate.mul_(1.1)
        return loss

    return step, lambda i: (inputs(i), labels(i)), [model, optimizer, rate]


def two_streams_that_wait():
    side = torch.cuda.Stream() if DEVICE == "cuda" else None
    a, b = nn.Linear(8, 8).to(DEVICE), nn.Linear(8, 8).to(DEVICE)

    @torch.no_grad()
    def step(x):
        if side is None:
            return a(x) + b(x)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            right = b(x)
        left = a(x)
        torch.cuda.current_stream().wait_stream(side)
        return left + right

    return step, values(4, 8), [a, b]


def counter_for_a_log():
    model, counts = nn.Linear(8, 10).to(DEVICE), {"steps": 0, "samples": 0}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs, labels = values(4, 8), classes(4)

    def step(x, y):
        counts["steps"] += 1
        counts["samples"] += len(x)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step, lambda i: (inputs(i), labels(i)), [model, optimizer]


def loss_scale_that_is_divided_out():
    model = nn.Linear(8, 10).to(DEVICE)
    optimizer, scale = torch.optim.SGD(model.parameters(), lr=0.1), [1.0]
    inputs, labels = values(4, 8), classes(4)

    def step(x, y):
        scale[0] *= 2.0
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        (loss * scale[0]).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.grad.div_(scale[0])
        optimizer.step()
        return loss

    return step, lambda i: (inputs(i), labels(i)), [model, optimizer]


@functools.lru_cache(maxsize=None)
def _positions(length):
    return torch.sin(torch.arange(length, device=DEVICE).float())


def table_in_a_cache():
    def step(x):
        return x * _positions(8)

    return step, values(4, 8), []


def mean_of_squares_behind_a_layer_norm():
    model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64), nn.LayerNorm(64, elementwise_affine=False)).to(DEVICE)

    def step(x):
        model.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    return step, values(32, 64), [model]


def rnn_by_cudnn_with_dropout():
    model = nn.RNN(8, 16, 2, dropout=0.3).to(DEVICE)

    @torch.no_grad()
    def step(x):
        return model(x)[0]

    return step, values(5, 3, 8), [model]


def triangular_solve_and_exponential():
    factor = torch.tril(torch.rand(6, 6, device=DEVICE) + torch.eye(6, device=DEVICE))

    def step(x):
        return torch.linalg.solve_triangular(factor, x, upper=False), torch.matrix_exp(x @ x.T * 0.01)

    return step, values(6, 6), []


def nested_heads_with_einsum():
    weights = torch.randn(3, 8, 4, device=DEVICE)

    def step(x):
        return torch.einsum("bi,hij->bhj", x, weights).logsumexp(1).sort(1).values

    return step, values(5, 8), []


def upsampling_network_training():
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.Mish(), nn.PixelShuffle(2),
                          nn.ConvTranspose2d(2, 3, 3, padding=1)).to(DEVICE)
    optimizer, pictures = torch.optim.Adam(model.parameters(), amsgrad=True, capturable=True), images(2, 3, 8)

    def step(x):
        optimizer.zero_grad()
        loss = F.huber_loss(model(x), F.interpolate(x, scale_factor=2.0, mode="nearest"))
        loss.backward()
        optimizer.step()
        return loss

    return step, pictures, [model, optimizer]


# Other libraries.

def _edges():
    return torch.randint(12, (2, 40), generator=torch.Generator().manual_seed(0)).to(DEVICE)


def _graph_layer(layer, width):
    edges, head = _edges(), nn.Linear(width, 3).to(DEVICE)
    layer = layer.to(DEVICE)
    optimizer = torch.optim.Adam([*layer.parameters(), *head.parameters()], capturable=True)
    labels = classes(12, 3)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(head(layer(x, edges).relu()), y)
        loss.backward()
        optimizer.step()
        return loss

    inputs = values(12, 8)
    return step, lambda i: (inputs(i), labels(i)), [layer, head, optimizer]


def graph_convolution_without_loops():
    from torch_geometric.nn import GraphConv
    return _graph_layer(GraphConv(8, 16), 16)


def graph_sage_training():
    from torch_geometric.nn import SAGEConv
    return _graph_layer(SAGEConv(8, 16, aggr="max"), 16)


def graph_isomorphism_training():
    from torch_geometric.nn import GINConv
    return _graph_layer(GINConv(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16)), train_eps=True), 16)


def graph_attention_training():
    from torch_geometric.nn import TransformerConv
    return _graph_layer(TransformerConv(8, 8, heads=2, dropout=0.1), 16)


def pairwise_metric():
    from torchmetrics.functional import mean_squared_error, pairwise_cosine_similarity

    def step(a, b):
        return pairwise_cosine_similarity(a, b), mean_squared_error(a, b)

    return step, lambda i: (values(5, 8)(i), values(5, 8)(i + 9)), []


def metric_with_state():
    from torchmetrics import MeanSquaredError
    metric = MeanSquaredError().to(DEVICE)

    def step(a, b):
        metric.update(a, b)
        return metric.sum_squared_error * 1

    return step, lambda i: (values(5, 8)(i), values(5, 8)(i + 9)), []


def differential_equation_with_fixed_steps():
    from torchdiffeq._impl.rk_common import rk4_alt_step_func
    field = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 4)).to(DEVICE)

    @torch.no_grad()
    def step(y):
        for begin in (0.0, 0.25, 0.5, 0.75):
            y = y + rk4_alt_step_func(lambda t, z, perturb=None: field(z), begin, 0.25, begin + 0.25, y)
        return y

    return step, values(3, 4), [field]


def kernel_of_a_gaussian_process():
    from gpytorch.kernels import RBFKernel, ScaleKernel
    kernel = ScaleKernel(RBFKernel(ard_num_dims=3)).to(DEVICE)

    def step(x):
        kernel.zero_grad()
        loss = kernel(x).to_dense().logsumexp(1).sum()
        loss.backward()
        return loss

    return step, values(7, 3), [kernel]


def step_prepared_by_accelerate():
    from accelerate import Accelerator
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    accelerator = Accelerator(cpu=DEVICE == "cpu")
    model, optimizer = accelerator.prepare(model, optimizer)
    inputs, labels = values(4, 8), classes(4)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        accelerator.backward(loss)
        optimizer.step()
        return loss

    return step, lambda i: (inputs(i), labels(i)), [model]


def module_of_lightning():
    import pytorch_lightning as lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 10))

        def training_step(self, batch, number):
            x, y = batch
            return F.cross_entropy(self.net(x), y)

    module = Module().to(DEVICE)
    optimizer = torch.optim.Adam(module.parameters(), capturable=True)
    inputs, labels = values(6, 8), classes(6)

    def step(x, y):
        optimizer.zero_grad()
        loss = module.training_step((x, y), 0)
        loss.backward()
        optimizer.step()
        return loss

    return step, lambda i: (inputs(i), labels(i)), [module, optimizer]
