"""More steps of torch-geometric, torchmetrics, gpytorch, botorch, accelerate, Lightning and sentence-transformers."""
import torch
from common import DEVICE, classes, images, taught, together, tokens, values
from steps import _edges

F = torch.nn.functional
nn = torch.nn


def _graph_layer(layer, width):
    edges, head, layer = _edges(), nn.Linear(width, 3).to(DEVICE), layer.to(DEVICE)
    optimizer = torch.optim.SGD([*layer.parameters(), *head.parameters()], 0.05, momentum=0.9)
    return taught([layer, head], optimizer, lambda x, y: F.cross_entropy(head(layer(x, edges).relu()), y),
                  together(values(12, 8), classes(12, 3)))


def graph_attention_of_the_second_kind():
    from torch_geometric.nn import GATv2Conv
    return _graph_layer(GATv2Conv(8, 8, heads=2, add_self_loops=False, dropout=0.1), 16)


def graph_with_gated_neighbours():
    from torch_geometric.nn import ResGatedGraphConv
    return _graph_layer(ResGatedGraphConv(8, 16), 16)


def graph_with_modulated_features():
    from torch_geometric.nn import FiLMConv
    return _graph_layer(FiLMConv(8, 16), 16)


def graph_of_differences():
    from torch_geometric.nn import EdgeConv
    return _graph_layer(EdgeConv(nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16)), aggr="mean"), 16)


def graph_with_learned_aggregation():
    from torch_geometric.nn import GENConv
    return _graph_layer(GENConv(8, 16, aggr="softmax", learn_t=True, norm="layer"), 16)


def graph_with_a_recurrent_cell():
    from torch_geometric.nn import GatedGraphConv
    return _graph_layer(GatedGraphConv(16, 2), 16)


def graph_with_many_aggregations():
    from torch_geometric.nn import PNAConv
    return _graph_layer(PNAConv(8, 16, ["mean", "min", "max", "std"], ["identity", "amplification", "attenuation"],
                                deg=torch.tensor([0, 2, 4, 3, 2, 1])), 16)


def crystal_graph_with_distances():
    from torch_geometric.nn import CGConv
    layer, edges = CGConv(8, dim=3).to(DEVICE), _edges()
    optimizer = torch.optim.SGD(layer.parameters(), 0.05)
    return taught([layer], optimizer, lambda x, apart: layer(x, edges, apart).square().mean(), together(values(12, 8), values(40, 3)))


def filters_from_the_edges():
    from torch_geometric.nn import NNConv
    layer, edges = NNConv(4, 6, nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 24))).to(DEVICE), _edges()

    @torch.no_grad()
    def step(x, apart):
        return layer(x, edges, apart)

    return step, together(values(12, 4), values(40, 3)), [layer]


def relations_of_several_kinds():
    from torch_geometric.nn import FastRGCNConv
    layer, edges = FastRGCNConv(8, 6, 3, num_bases=2).to(DEVICE), _edges()
    kinds = (torch.arange(40) % 3).to(DEVICE)
    optimizer = torch.optim.SGD(layer.parameters(), 0.05)
    return taught([layer], optimizer, lambda x: layer(x, edges, kinds).tanh().mean(), values(12, 8))


def dense_graphs_that_are_pooled():
    from torch_geometric.nn import DenseGraphConv, dense_diff_pool
    features, groups = DenseGraphConv(6, 8).to(DEVICE), DenseGraphConv(6, 3).to(DEVICE)
    optimizer = torch.optim.SGD([*features.parameters(), *groups.parameters()], 0.05)

    def loss(x, raw):
        near = (raw + raw.transpose(1, 2) > 0).float()
        out, _, link, entropy = dense_diff_pool(features(x, near), near, groups(x, near))
        return out.square().mean() + link + entropy

    return taught([features, groups], optimizer, loss, together(values(2, 7, 6), values(2, 7, 7)))


def graphs_pooled_by_attention():
    from torch_geometric.nn.aggr import AttentionalAggregation
    pool, group = AttentionalAggregation(nn.Linear(8, 1)).to(DEVICE), (torch.arange(12) // 4).to(DEVICE)
    optimizer = torch.optim.SGD(pool.parameters(), 0.05)
    return taught([pool], optimizer, lambda x: pool(x, group, dim_size=3).logsumexp(1).sum(), values(12, 8))


def normalised_graphs():
    from torch_geometric.nn import GraphNorm, JumpingKnowledge, PairNorm
    norm, pair, join = GraphNorm(8).to(DEVICE), PairNorm(), JumpingKnowledge("lstm", 8, 2).to(DEVICE)

    @torch.no_grad()
    def step(x):
        return join([x, norm(x), pair(x)])

    return step, values(12, 8), [norm]


def levels_of_a_signal():
    from torchmetrics.functional.audio import scale_invariant_signal_distortion_ratio, signal_noise_ratio

    def step(a, b):
        return scale_invariant_signal_distortion_ratio(a, b, zero_mean=True), signal_noise_ratio(a, b)

    return step, together(values(3, 64), values(3, 64)), []


def variation_of_pictures():
    from torchmetrics.functional.image import spectral_angle_mapper, total_variation

    def step(a, b):
        return total_variation(a), spectral_angle_mapper(a.abs() + 0.1, b.abs() + 0.1)

    return step, together(images(2, 3, 8), images(2, 3, 8)), []


def accuracy_without_checks():
    from torchmetrics.functional.classification import multiclass_accuracy

    def step(scores, labels):
        return multiclass_accuracy(scores, labels, 4, average="micro", validate_args=False)

    return step, together(values(12, 4), classes(12, 4)), []


def mean_absolute_error_that_is_reset():
    from torchmetrics import MeanAbsoluteError
    metric = MeanAbsoluteError().to(DEVICE)

    def step(a, b):
        with torch.no_grad():
            metric.sum_abs_error.zero_()
            metric.total.zero_()
        metric.update(a, b)
        return metric.sum_abs_error / metric.total

    return step, together(values(8), values(8)), []


def structured_matrices():
    from linear_operator.operators import DiagLinearOperator, KroneckerProductLinearOperator
    a, b, rest = torch.randn(2, 2, device=DEVICE), torch.randn(4, 4, device=DEVICE), torch.rand(8, device=DEVICE)

    def step(x):
        return KroneckerProductLinearOperator(a, b) @ x, DiagLinearOperator(rest) @ x

    return step, values(8, 3), [a, b, rest]


def features_of_a_random_kernel():
    from gpytorch.kernels import RFFKernel
    kernel = RFFKernel(num_samples=8, num_dims=3).to(DEVICE)
    weight = nn.Parameter(torch.randn(16, device=DEVICE))
    optimizer = torch.optim.SGD([weight, *kernel.parameters()], 0.01)

    def loss(x, y):
        return ((kernel._featurize(x, normalize=True) @ weight) - y).square().mean()

    return taught([kernel, [weight]], optimizer, loss, together(values(10, 3), values(10)))


def likelihood_of_noisy_values():
    from gpytorch.likelihoods import StudentTLikelihood
    likelihood, net = StudentTLikelihood().to(DEVICE), nn.Linear(4, 1).to(DEVICE)
    optimizer = torch.optim.SGD([*likelihood.parameters(), *net.parameters()], 0.01)

    def loss(x, y):
        mean, noise = net(x).squeeze(1), likelihood.noise
        error = (y - mean) / noise.sqrt()
        return (0.5 * (likelihood.deg_free + 1) * torch.log1p(error.square() / likelihood.deg_free) + 0.5 * noise.log()).mean()

    return taught([likelihood, net], optimizer, loss, together(values(8, 4), values(8)))


def expected_improvement_and_its_slope():
    from botorch.acquisition.analytic import _log_ei_helper, _scaled_improvement
    net, best = nn.Linear(4, 2).to(DEVICE), torch.tensor(0.5, device=DEVICE)

    def step(x):
        x = x.detach().requires_grad_()
        mean, spread = net(x).unbind(1)
        spread = F.softplus(spread)
        gain = _log_ei_helper(_scaled_improvement(mean, spread, best, True)) + spread.log()
        return gain.detach(), torch.autograd.grad(gain.sum(), x)[0]

    return step, values(6, 4), [net]


def descent_on_a_test_function():
    from botorch.test_functions import Levy
    function, place = Levy(dim=4).to(DEVICE), torch.zeros(5, 4, device=DEVICE)

    def step(push):
        x = (place + 0.01 * push).requires_grad_()
        height = function._evaluate_true(x)
        slope, = torch.autograd.grad(height.sum(), x)
        with torch.no_grad():
            place.sub_(slope, alpha=0.01)
        return height.detach()

    return step, values(5, 4), [place]


def smooth_largest_values():
    from botorch.utils.safe_math import logmeanexp, smooth_amax, smooth_amin

    def step(x):
        return smooth_amax(x, dim=-1, tau=0.1), smooth_amin(x, dim=-1, tau=0.1), logmeanexp(x, dim=-1)

    return step, values(5, 7), []


def half_precision_by_accelerate():
    from accelerate import Accelerator
    model = nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 10))
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    accelerator = Accelerator(cpu=DEVICE == "cpu", mixed_precision="bf16")
    model, optimizer = accelerator.prepare(model, optimizer)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    return step, together(values(6, 8), classes(6)), [model]


def frozen_part_of_a_lightning_module():
    import pytorch_lightning as lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = nn.Linear(8, 4), nn.Linear(4, 8)

        def forward(self, x):
            return self.decoder(self.encoder(x).tanh())

        def training_step(self, batch, number):
            return F.mse_loss(self(batch), batch)

        def configure_optimizers(self):
            return torch.optim.SGD(self.decoder.parameters(), 0.1)

    module = Module().to(DEVICE)
    module.encoder.requires_grad_(False)
    optimizer = module.configure_optimizers()
    return taught([module], optimizer, lambda x: module.training_step(x, 0), values(6, 8))


def sentences_by_their_first_token():
    from sentence_transformers.models import Dense, Pooling
    from sentence_transformers.util import pairwise_cos_sim
    embedding = nn.Embedding(50, 16).to(DEVICE)
    pooling, dense = Pooling(16, "cls"), Dense(16, 8).to(DEVICE)
    optimizer = torch.optim.SGD([*embedding.parameters(), *dense.parameters()], 0.1)

    def embed(ids):
        features = pooling({"token_embeddings": embedding(ids), "attention_mask": torch.ones_like(ids)})
        return dense(features)["sentence_embedding"]

    def loss(a, b, y):
        return F.mse_loss(pairwise_cos_sim(embed(a), embed(b)), y.tanh())

    return taught([embedding, dense], optimizer, loss, together(tokens(4, 6, 50), tokens(4, 6, 50), values(4)))
