"""Training steps with torch alone that a graph computes rightly: losses, optimizers, ways to differentiate."""
import functools

import torch
from common import CUDA, DEVICE, classes, images, taught, together, tokens, values

F = torch.nn.functional
nn = torch.nn


def _layers(*widths, between=nn.Tanh):
    parts = []
    for a, b in zip(widths, widths[1:]):
        parts += [nn.Linear(a, b), between()]
    return nn.Sequential(*parts[:-1]).to(DEVICE)


def adam_one_tensor_at_a_time():
    model = nn.Sequential(nn.Conv1d(4, 8, 3, padding=1), nn.BatchNorm1d(8), nn.ELU(), nn.Flatten(), nn.Linear(64, 10)).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, weight_decay=0.01, foreach=False, capturable=CUDA)
    return taught([model], optimizer, lambda x, y: F.cross_entropy(model(x), y), together(values(6, 4, 8), classes(6)))


def fused_sgd_with_momentum():
    model = _layers(8, 16, 10, between=nn.Hardswish)
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, dampening=0.1, fused=True)
    return taught([model], optimizer, lambda x, y: F.multi_margin_loss(model(x), y), together(values(6, 8), classes(6)))


def muon_for_matrices():
    model = nn.Sequential(nn.Linear(16, 32, bias=False), nn.SiLU(), nn.Linear(32, 8, bias=False)).to(DEVICE)
    optimizer = torch.optim.Muon(model.parameters(), lr=0.01)
    return taught([model], optimizer, lambda x, y: F.smooth_l1_loss(model(x), y), together(values(8, 16), values(8, 8)))


def sign_of_momentum_by_hand():
    model = _layers(8, 16, 4)
    parameters = list(model.parameters())
    momentum = [torch.zeros_like(each) for each in parameters]

    def step(x):
        loss = model(x).square().sum(1).log1p().mean()
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            torch._foreach_lerp_(momentum, list(gradients), 0.1)
            torch._foreach_add_(parameters, torch._foreach_sign(momentum), alpha=-1e-3)
        return loss.detach()

    return step, values(6, 8), [model, momentum]


def groups_with_rates_of_their_own():
    model = nn.Sequential(nn.Linear(8, 16), nn.PReLU(), nn.Linear(16, 4)).to(DEVICE)
    optimizer = torch.optim.AdamW([{"params": model[0].parameters(), "lr": 1e-2, "weight_decay": 0.0},
                                   {"params": [*model[1].parameters(), *model[2].parameters()], "betas": (0.8, 0.9)}],
                                  capturable=CUDA)
    return taught([model], optimizer, lambda x, y: F.soft_margin_loss(model(x), y.sign()), together(values(6, 8), values(6, 4)))


def half_precision_with_a_scaler():
    model = _layers(8, 32, 10, between=nn.ReLU)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, fused=True, capturable=CUDA)
    scaler = torch.amp.GradScaler(DEVICE, init_scale=256.0)
    kind = torch.float16 if CUDA else torch.bfloat16

    def step(x, y):
        optimizer.zero_grad()
        with torch.autocast(DEVICE, dtype=kind, cache_enabled=False):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    return step, together(values(8, 8), classes(8)), [model]


def two_small_batches_in_a_step():
    model = _layers(8, 12, 10, between=nn.Softplus)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, weight_decay=0.01)

    def step(x, y):
        optimizer.zero_grad(set_to_none=False)
        total = 0
        for part, labels in zip(x.chunk(2), y.chunk(2)):
            loss = F.nll_loss(F.log_softmax(model(part), 1), labels) / 2
            loss.backward()
            total = total + loss.detach()
        optimizer.step()
        return total

    return step, together(values(8, 8), classes(8)), [model, optimizer]


def gradients_clipped_by_value():
    model = _layers(8, 24, 1, between=nn.LeakyReLU)
    optimizer = torch.optim.SGD(model.parameters(), 0.2, maximize=True)

    def step(x):
        optimizer.zero_grad()
        gain = -F.mse_loss(model(x).squeeze(1), x.sin().sum(1))
        gain.backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.05)
        optimizer.step()
        return gain

    return step, values(6, 8), [model, optimizer]


def weights_with_norms_of_their_own():
    model = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Conv1d(2, 6, 3)), nn.GELU(), nn.AdaptiveMaxPool1d(4), nn.Flatten(),
                          nn.Linear(24, 2)).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    return taught([model], optimizer, lambda x, y: F.l1_loss(model(x), y), together(values(5, 2, 16), values(5, 2)))


def triplets_of_embeddings():
    model = _layers(8, 16, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    return taught([model], optimizer, lambda a, b, c: F.triplet_margin_loss(model(a), model(b), model(c), swap=True),
                  together(values(6, 8), values(6, 8), values(6, 8)))


def order_of_pairs():
    model = _layers(8, 8, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return taught([model], optimizer,
                  lambda a, b: F.margin_ranking_loss(model(a), model(b), (a.sum(1) - b.sum(1)).sign()[:, None], margin=0.5),
                  together(values(6, 8), values(6, 8)))


def counts_by_a_rate():
    model = _layers(6, 12, 3)
    optimizer = torch.optim.RMSprop(model.parameters(), 1e-3, centered=True, momentum=0.5, capturable=CUDA)
    return taught([model], optimizer, lambda x, y: F.poisson_nll_loss(model(x), y.abs().round()), together(values(6, 6), values(6, 3)))


def quantiles_at_once():
    model, levels = _layers(6, 12, 3), torch.tensor([0.1, 0.5, 0.9], device=DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)

    def loss(x, y):
        error = y - model(x)
        return torch.maximum(levels * error, (levels - 1) * error).mean()

    return taught([model], optimizer, loss, together(values(8, 6), values(8, 1)))


def rare_pixels_count_more():
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU6(), nn.Conv2d(8, 1, 1)).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def loss(x, y):
        out, truth = model(x), (y > 1).float()
        cross = F.binary_cross_entropy_with_logits(out, truth, reduction="none")
        right = torch.where(truth > 0, out.sigmoid(), 1 - out.sigmoid())
        overlap = 1 - (2 * (out.sigmoid() * truth).sum((1, 2, 3)) + 1) / (out.sigmoid().sum((1, 2, 3)) + truth.sum((1, 2, 3)) + 1)
        return ((1 - right).pow(2) * cross).mean() + overlap.mean()

    return taught([model], optimizer, loss, together(images(2, 3, 8), images(2, 1, 8)))


def pupil_and_teacher():
    pupil, teacher = _layers(8, 16, 10), _layers(8, 32, 10).requires_grad_(False)
    optimizer = torch.optim.SGD(pupil.parameters(), 0.1)

    def loss(x):
        with torch.no_grad():
            wanted = (teacher(x) / 2).softmax(1)
        return F.kl_div((pupil(x) / 2).log_softmax(1), wanted, reduction="batchmean") * 4

    return taught([pupil, teacher], optimizer, loss, values(6, 8))


def teacher_that_follows_its_pupil():
    pupil, teacher = _layers(8, 16, 4), _layers(8, 16, 4).requires_grad_(False)
    optimizer = torch.optim.SGD(pupil.parameters(), 0.05)

    def step(x):
        optimizer.zero_grad()
        with torch.no_grad():
            wanted = teacher(x + 0.1 * torch.randn_like(x))
        loss = 1 - F.cosine_similarity(pupil(x), wanted).mean()
        loss.backward()
        optimizer.step()
        torch._foreach_lerp_(list(teacher.parameters()), [each.detach() for each in pupil.parameters()], 0.01)
        return loss

    return step, values(6, 8), [pupil, teacher, optimizer]


def critic_with_a_gradient_penalty():
    critic = _layers(8, 16, 1, between=nn.Softplus)
    optimizer = torch.optim.SGD(critic.parameters(), 0.01)

    def loss(real, fake):
        share = torch.rand(real.shape[0], 1, device=DEVICE)
        middle = (share * real + (1 - share) * fake).requires_grad_()
        slope, = torch.autograd.grad(critic(middle).sum(), middle, create_graph=True)
        return critic(fake).mean() - critic(real).mean() + 10 * (slope.norm(dim=1) - 1).square().mean()

    return taught([critic], optimizer, loss, together(values(6, 8), values(6, 8)))


def views_without_redundancy():
    model = _layers(8, 16, 6)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)

    def loss(a, b):
        a, b = ((z - z.mean(0)) / (z.std(0) + 1e-3) for z in (model(a), model(b)))
        same = a.T @ b / a.shape[0]
        off = same - torch.diag_embed(same.diagonal())
        return (1 - same.diagonal()).square().sum() + 0.01 * off.square().sum()

    return taught([model], optimizer, loss, together(values(12, 8), values(12, 8)))


def curvature_times_a_direction():
    model = _layers(4, 8, 1)
    weights = {name: each.detach() for name, each in model.named_parameters()}

    def step(x, direction):
        def loss(z):
            return torch.func.functional_call(model, weights, z).square().sum()

        return torch.func.jvp(torch.func.grad(loss), (x,), (direction,))[1]

    return step, together(values(5, 4), values(5, 4)), [model]


def jacobian_and_hessian():
    weight = torch.randn(4, 4, device=DEVICE)

    def step(x):
        return torch.func.jacrev(lambda z: torch.tanh(weight @ z))(x), torch.func.hessian(lambda z: (weight @ z).logsumexp(0))(x)

    return step, values(4), [weight]


def tangents_beside_values():
    import torch.autograd.forward_ad as forward
    model = _layers(6, 12, 3, between=nn.Sigmoid)

    def step(x, tangent):
        with torch.no_grad(), forward.dual_level():
            value, slope = forward.unpack_dual(model(forward.make_dual(x, tangent)))
            return value.clone(), slope.clone()

    return step, together(values(4, 6), values(4, 6)), [model]


class _Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, limit):
        ctx.save_for_backward(x)
        ctx.limit = limit
        return (x.clamp(-limit, limit) * 8).round() / 8

    @staticmethod
    def backward(ctx, gradient):
        x, = ctx.saved_tensors
        return gradient * (x.abs() <= ctx.limit), None


def rounded_weights_with_straight_gradients():
    weight, bias = nn.Parameter(torch.randn(10, 8, device=DEVICE)), nn.Parameter(torch.zeros(10, device=DEVICE))
    optimizer = torch.optim.SGD([weight, bias], 0.1)
    return taught([[weight, bias]], optimizer, lambda x, y: F.cross_entropy(F.linear(x, _Rounded.apply(weight, 1.5), bias), y),
                  together(values(6, 8), classes(6)))


def checkpoint_that_keeps_the_products():
    from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
    model = _layers(8, 32, 32, 4, between=nn.SiLU)
    contexts = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.addmm.default])
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def loss(x):
        return checkpoint(model, x, use_reentrant=False, preserve_rng_state=False, context_fn=contexts).logsumexp(1).mean()

    return taught([model], optimizer, loss, values(6, 8))


def saved_values_in_half_precision():
    model = _layers(8, 32, 4, between=nn.Sigmoid)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def loss(x):
        def pack(kept):
            return kept.dtype, kept.bfloat16() if kept.dtype == torch.float32 else kept

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed[1].to(packed[0])):
            return model(x).square().mean()

    return taught([model], optimizer, loss, values(6, 8))


def parameters_updated_in_the_backward_pass():
    model = _layers(8, 16, 16, 4)

    def update(parameter):
        with torch.no_grad():
            parameter.sub_(parameter.grad, alpha=0.05)
        parameter.grad = None

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(update)

    def step(x):
        loss = model(x).abs().mean()
        loss.backward()
        return loss.detach()

    return step, values(6, 8), [model]


def gradients_that_hooks_reverse():
    body, head, judge = _layers(8, 16), nn.Linear(16, 10).to(DEVICE), nn.Linear(16, 2).to(DEVICE)
    optimizer = torch.optim.SGD([*body.parameters(), *head.parameters(), *judge.parameters()], 0.05)

    def loss(x, y, z):
        hidden = body(x).relu()
        turned = hidden.view_as(hidden)
        turned.register_hook(lambda gradient: -0.3 * gradient)
        return F.cross_entropy(head(hidden), y) + F.cross_entropy(judge(turned), z)

    return taught([body, head, judge], optimizer, loss, together(values(6, 8), classes(6), classes(6, 2)))


def ensemble_of_stacked_models():
    models = [_layers(4, 8, 2) for _ in range(3)]
    weights, buffers = torch.func.stack_module_state(models)
    shape = _layers(4, 8, 2).to("meta")

    def loss(parameters, x):
        return torch.func.functional_call(shape, (parameters, {}), x).square().mean()

    def step(x):
        gradients, losses = torch.func.vmap(torch.func.grad_and_value(loss), (0, None))(weights, x)
        with torch.no_grad():
            for name, gradient in gradients.items():
                weights[name].sub_(gradient, alpha=0.1)
        return losses

    return step, values(6, 4), [weights]


def loop_inside_a_loop():
    weight = nn.Parameter(torch.randn(6, 3, device=DEVICE) * 0.3)
    optimizer = torch.optim.SGD([weight], 0.1)

    def loss(x, y):
        inner = F.mse_loss(x[:4] @ weight, y[:4])
        gradient, = torch.autograd.grad(inner, weight, create_graph=True)
        return F.mse_loss(x[4:] @ (weight - 0.2 * gradient), y[4:])

    return taught([[weight]], optimizer, loss, together(values(8, 6), values(8, 3)))


def low_ranks_beside_frozen_weights():
    base = nn.Linear(16, 16).to(DEVICE).requires_grad_(False)
    down, up = nn.Parameter(torch.randn(2, 16, device=DEVICE)), nn.Parameter(torch.randn(16, 2, device=DEVICE) * 0.1)
    optimizer = torch.optim.AdamW([down, up], 1e-3, amsgrad=True, capturable=CUDA)
    return taught([base, [down, up]], optimizer, lambda x: (base(x) + x @ down.T @ up.T).softmax(1).amax(1).log().mean(), values(6, 16))


def pruned_weights():
    from torch.nn.utils import prune
    layer = nn.Linear(8, 10).to(DEVICE)
    prune.l1_unstructured(layer, "weight", 0.5)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    return taught([layer], optimizer, lambda x, y: F.cross_entropy(layer(x), y), together(values(6, 8), classes(6)))


def autoencoder_with_a_distribution():
    encoder, decoder = _layers(8, 16, 6), _layers(3, 16, 8)
    optimizer = torch.optim.NAdam([*encoder.parameters(), *decoder.parameters()], 1e-3, decoupled_weight_decay=True, capturable=CUDA)

    def loss(x):
        mean, spread = encoder(x).chunk(2, 1)
        code = mean + (0.5 * spread).exp() * torch.randn_like(mean)
        return F.mse_loss(decoder(code), x) + 0.1 * (mean.square() + spread.exp() - spread - 1).mean()

    return taught([encoder, decoder], optimizer, loss, values(6, 8))


def codebook_with_moving_averages():
    codes, counts, sums = torch.randn(8, 4, device=DEVICE), torch.ones(8, device=DEVICE), torch.randn(8, 4, device=DEVICE)
    encoder = _layers(6, 12, 4)
    optimizer = torch.optim.SGD(encoder.parameters(), 0.05)

    def step(x):
        optimizer.zero_grad()
        z = encoder(x)
        with torch.no_grad():
            chosen = F.one_hot(torch.cdist(z, codes).argmin(1), 8).float()
            counts.mul_(0.9).add_(chosen.sum(0), alpha=0.1)
            sums.mul_(0.9).addmm_(chosen.T, z, alpha=0.1)
            codes.copy_(sums / counts.clamp(min=1e-3)[:, None])
        quantised = chosen @ codes
        loss = F.mse_loss(z, quantised) + (z + (quantised - z).detach()).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step, values(10, 6), [encoder, codes, counts, sums]


def flow_of_coupled_halves():
    nets = nn.ModuleList(_layers(4, 16, 8) for _ in range(3)).to(DEVICE)
    optimizer = torch.optim.SGD(nets.parameters(), 0.01)

    def loss(x):
        a, b, total = x[:, :4], x[:, 4:], 0
        for net in nets:
            scale, shift = net(a).chunk(2, 1)
            a, b = b * scale.tanh().exp() + shift, a
            total = total + scale.tanh().sum(1)
        return (0.5 * torch.cat([a, b], 1).square().sum(1) - total).mean()

    return taught([nets], optimizer, loss, values(6, 8))


def policy_with_a_clipped_ratio():
    policy, value = _layers(4, 16, 3), _layers(4, 16, 1)
    optimizer = torch.optim.Adam([*policy.parameters(), *value.parameters()], 1e-3, eps=1e-5, capturable=CUDA)

    def loss(state, gain, actions):
        chance = policy(state).log_softmax(1).gather(1, actions[:, None]).squeeze(1)
        before = chance.detach() - 0.1 * gain
        ratio = (chance - before).exp()
        kept = torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
        return -kept + 0.5 * F.mse_loss(value(state).squeeze(1), gain) - 0.01 * (-chance.exp() * chance).mean()

    return taught([policy, value], optimizer, loss, together(values(8, 4), values(8), classes(8, 3)))


def values_of_actions_with_a_slow_target():
    fast, slow = _layers(4, 16, 3), _layers(4, 16, 3).requires_grad_(False)
    optimizer = torch.optim.SGD(fast.parameters(), 0.05)

    def step(state, after, gain, actions):
        optimizer.zero_grad()
        with torch.no_grad():
            best = fast(after).argmax(1, keepdim=True)
            wanted = gain + 0.9 * slow(after).gather(1, best).squeeze(1)
        loss = F.huber_loss(fast(state).gather(1, actions[:, None]).squeeze(1), wanted)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for kept, each in zip(slow.parameters(), fast.parameters()):
                kept.mul_(0.95).add_(each, alpha=0.05)
        return loss

    return step, together(values(8, 4), values(8, 4), values(8), classes(8, 3)), [fast, slow, optimizer]


def actions_that_a_tangent_squashes():
    actor, critic = _layers(4, 16, 4), _layers(6, 16, 1)
    first, second = torch.optim.SGD(actor.parameters(), 0.01), torch.optim.SGD(critic.parameters(), 0.01)

    def step(state, gain):
        mean, spread = actor(state).chunk(2, 1)
        normal = torch.distributions.Normal(mean, spread.clamp(-2, 1).exp(), validate_args=False)
        raw = normal.rsample()
        action, chance = raw.tanh(), (normal.log_prob(raw) - torch.log(1.001 - raw.tanh().square())).sum(1)
        first.zero_grad()
        second.zero_grad()
        (0.1 * chance - critic(torch.cat([state, action], 1)).squeeze(1)).mean().backward()
        first.step()
        second.zero_grad()
        loss = F.mse_loss(critic(torch.cat([state, action.detach()], 1)).squeeze(1), gain)
        loss.backward()
        second.step()
        return loss

    return step, together(values(6, 4), values(6)), [actor, critic, first, second]


def evolution_by_noisy_copies():
    weight = torch.zeros(6, 2, device=DEVICE)

    @torch.no_grad()
    def step(x, y):
        noise = torch.randn(16, 6, 2, device=DEVICE)
        cost = (torch.einsum("bi,nij->nbj", x, weight + 0.1 * noise) - y).square().mean((1, 2))
        rank = (cost - cost.mean()) / (cost.std() + 1e-6)
        weight.sub_(torch.einsum("n,nij->ij", rank, noise), alpha=0.01)
        return cost

    return step, together(values(8, 6), values(8, 2)), [weight]


def mixture_of_densities():
    model = _layers(3, 24, 12)
    optimizer = torch.optim.SGD(model.parameters(), 0.02)

    def loss(x, y):
        share, mean, spread = model(x).chunk(3, 1)
        parts = share.log_softmax(1) - 0.5 * ((y - mean) / spread.exp()).square() - spread
        return -parts.logsumexp(1).mean()

    return taught([model], optimizer, loss, together(values(8, 3), values(8, 1)))


def chain_of_labels():
    scores, emit = nn.Parameter(torch.randn(5, 5, device=DEVICE)), nn.Linear(6, 5).to(DEVICE)
    optimizer = torch.optim.SGD([scores, *emit.parameters()], 0.1)

    def loss(x, labels):
        heights = emit(x)
        alpha, gold = heights[:, 0], heights[:, 0].gather(1, labels[:, :1])
        for n in range(1, 7):
            alpha = (alpha[:, :, None] + scores).logsumexp(1) + heights[:, n]
            gold = gold + scores[labels[:, n - 1], labels[:, n]][:, None] + heights[:, n].gather(1, labels[:, n:n + 1])
        return (alpha.logsumexp(1) - gold.squeeze(1)).mean()

    return taught([[scores], emit], optimizer, loss, together(values(4, 7, 6), tokens(4, 7, 5)))


def rays_through_a_volume():
    field, powers = _layers(36, 32, 4, between=nn.ReLU), 2.0 ** torch.arange(6, device=DEVICE)
    optimizer = torch.optim.Adam(field.parameters(), 1e-3, capturable=CUDA)

    def loss(origin, direction):
        depth = torch.linspace(0.1, 2, 8, device=DEVICE) + torch.rand(origin.shape[0], 8, device=DEVICE) * 0.2
        points = origin[:, None] + depth[..., None] * direction[:, None]
        angles = (points[..., None] * powers).flatten(-2)
        out = field(torch.cat([angles.sin(), angles.cos()], -1))
        thick = 1 - torch.exp(-out[..., 3].relu() * 0.25)
        seen = thick * torch.cumprod(torch.cat([torch.ones_like(thick[:, :1]), 1 - thick[:, :-1] + 1e-6], 1), 1)
        return ((seen[..., None] * out[..., :3].sigmoid()).sum(1) - 0.5).square().mean()

    return taught([field], optimizer, loss, together(values(5, 3), values(5, 3)))


def operators_of_a_fourier_space():
    weight = nn.Parameter(torch.randn(4, 4, 6, dtype=torch.cfloat, device=DEVICE) * 0.2)
    skip = nn.Conv1d(4, 4, 1).to(DEVICE)
    optimizer = torch.optim.SGD([weight, *skip.parameters()], 0.05)

    def loss(x):
        low = torch.einsum("bif,iof->bof", torch.fft.rfft(x)[..., :6], weight)
        return (torch.fft.irfft(low, n=32) + skip(x)).tanh().square().mean()

    return taught([[weight], skip], optimizer, loss, values(3, 4, 32))


def picture_turned_by_a_network():
    where = nn.Sequential(nn.Flatten(), nn.Linear(64, 6)).to(DEVICE)
    optimizer = torch.optim.SGD(where.parameters(), 1e-2)

    def loss(x):
        turned = F.grid_sample(x, F.affine_grid(where(x).view(-1, 2, 3), list(x.shape), align_corners=False), align_corners=False)
        return F.mse_loss(turned, x.flip(-1))

    return taught([where], optimizer, loss, images(3, 1, 8))


def separable_filters_in_three_dimensions():
    model = nn.Sequential(nn.Conv3d(2, 2, 3, padding=1, groups=2), nn.InstanceNorm3d(2, affine=True, track_running_stats=True), nn.CELU(),
                          nn.Conv3d(2, 4, 1), nn.AvgPool3d(2), nn.Flatten(), nn.Linear(32, 3)).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    return taught([model], optimizer, lambda x, y: F.cross_entropy(model(x), y, weight=torch.arange(1.0, 4, device=DEVICE)),
                  together(values(2, 2, 4, 4, 4), classes(2, 3)))


def waves_with_gates():
    filters = nn.ModuleList(nn.Conv1d(4, 8, 2, dilation=2 ** n) for n in range(3)).to(DEVICE)
    mix = nn.ModuleList(nn.Conv1d(4, 4, 1) for _ in range(3)).to(DEVICE)
    optimizer = torch.optim.SGD([*filters.parameters(), *mix.parameters()], 0.05)

    def loss(x):
        out = 0
        for number, (filter_, end) in enumerate(zip(filters, mix)):
            gate = F.glu(filter_(F.pad(x, (2 ** number, 0))), 1)
            out, x = out + gate, x + end(gate)
        return (out[..., :-1] - x[..., 1:].detach()).abs().mean()

    return taught([filters, mix], optimizer, loss, values(2, 4, 16))


def weights_made_by_a_network():
    maker = _layers(3, 16, 8 * 4 + 4)
    optimizer = torch.optim.SGD(maker.parameters(), 0.02)

    def loss(task, x):
        made = maker(task)
        return torch.baddbmm(made[:, None, 32:], x, made[:, :32].view(-1, 8, 4)).relu().mean()

    return taught([maker], optimizer, loss, together(values(3, 3), values(3, 5, 8)))


def attention_over_slots():
    slots, project = nn.Parameter(torch.randn(4, 8, device=DEVICE)), nn.Linear(8, 24).to(DEVICE)
    cell = nn.GRUCell(8, 8).to(DEVICE)
    optimizer = torch.optim.SGD([slots, *project.parameters(), *cell.parameters()], 0.02)

    def loss(x):
        _, keys, contents = project(x).chunk(3, -1)
        state = slots.expand(x.shape[0], -1, -1)
        for _ in range(3):
            weight = (state @ keys.transpose(1, 2)).softmax(1) + 1e-6
            taken = (weight / weight.sum(2, keepdim=True)) @ contents
            state = cell(taken.flatten(0, 1), state.flatten(0, 1)).view_as(state)
        return state.square().mean() - state.var(1).mean()

    return taught([[slots], project, cell], optimizer, loss, values(2, 6, 8))


def both_directions_of_a_gated_network():
    model, head = nn.GRU(6, 8, bidirectional=True, batch_first=True).to(DEVICE), nn.Linear(16, 4).to(DEVICE)
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], 0.1)
    return taught([model, head], optimizer, lambda x, y: F.cross_entropy(head(model(x)[1].transpose(0, 1).flatten(1)), y),
                  together(values(3, 5, 6), classes(3, 4)))


def memory_that_is_written_by_content():
    read, write = nn.Linear(6, 4).to(DEVICE), nn.Linear(6, 8).to(DEVICE)
    optimizer = torch.optim.SGD([*read.parameters(), *write.parameters()], 0.05)

    def loss(x):
        memory = torch.full((x.shape[0], 5, 4), 0.1, device=DEVICE)
        out = 0
        for each in x.unbind(1):
            key, content = write(each).chunk(2, 1)
            weight = F.cosine_similarity(memory, key[:, None], dim=2).softmax(1)[..., None]
            memory = memory * (1 - weight) + weight * content[:, None]
            out = out + (memory @ read(each)[..., None]).square().mean()
        return out

    return taught([read, write], optimizer, loss, values(3, 4, 6))


def two_compiled_functions_in_a_step():
    model = _layers(8, 16, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    @torch.compile(fullgraph=True)
    def loss(out, y):
        return (out.softmax(1) - y.softmax(1)).abs().sum(1).mean()

    return taught([model], optimizer, lambda x, y: loss(model(x), y), together(values(6, 8), values(6, 4)))


def compiled_network_with_statistics():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()).to(DEVICE)
    compiled = torch.compile(model)

    @torch.no_grad()
    def step(x):
        return compiled(x)

    return step, images(4, 3, 8), [model]
