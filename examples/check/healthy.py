# case: none
"""Thirty functions that a graph computes correctly: check() must find nothing in any of them."""
import torch
import torch.nn.functional as F

import recapture
from programs import run


def tensor(*shape, seed=0, dtype=torch.float32):
    generator = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(*shape, device="cuda", generator=generator).to(dtype)


def indices(limit, *shape, seed=0):
    generator = torch.Generator("cuda").manual_seed(seed)
    return torch.randint(limit, shape, device="cuda", generator=generator)


def of(*shape, dtype=torch.float32):
    return lambda i: tensor(*shape, seed=i, dtype=dtype)


def tokens(limit, *shape):
    return lambda i: indices(limit, *shape, seed=i)


def composition(fn, *shapes):
    return recapture.check(fn, lambda i: tuple(tensor(*shape, seed=17 * i + n) for n, shape in enumerate(shapes)))


def train(model, make_optimizer, inputs, loss, autocast=None, set_to_none=True):
    model = model.cuda()
    optimizer = make_optimizer(model.parameters())

    def step(x, y):
        optimizer.zero_grad(set_to_none=set_to_none)
        with torch.autocast("cuda", dtype=autocast or torch.float16, enabled=autocast is not None):
            value = loss(model(x), y)
        value.backward()
        optimizer.step()
        return value

    return recapture.check(step, inputs)


def pairs(i):
    return tensor(16, 32, seed=i), tensor(16, 8, seed=100 + i)


def layers(*more):
    return torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), *more, torch.nn.Linear(64, 8))


# Models.

def GptModel():
    from transformers import GPT2Config, GPT2LMHeadModel
    model = GPT2LMHeadModel(GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=256, n_positions=64)).cuda().eval()
    with torch.no_grad():
        return recapture.check(lambda ids: model(ids, use_cache=False).logits, tokens(256, 2, 32))


def BertEncoder():
    from transformers import BertConfig, BertModel
    model = BertModel(BertConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
                                 vocab_size=256)).cuda().eval()
    with torch.no_grad():
        return recapture.check(lambda ids: model(ids).last_hidden_state, tokens(256, 2, 32))


def LlamaModel():
    from transformers import LlamaConfig, LlamaForCausalLM
    model = LlamaForCausalLM(LlamaConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, vocab_size=256,
                                         num_key_value_heads=2, intermediate_size=128)).cuda().eval()
    with torch.no_grad():
        return recapture.check(lambda ids: model(ids, use_cache=False).logits, tokens(256, 2, 32))


def VisionTransformer():
    from transformers import ViTConfig, ViTModel
    model = ViTModel(ViTConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
                               image_size=32, patch_size=8)).cuda().eval()
    with torch.no_grad():
        return recapture.check(lambda x: model(x).last_hidden_state, of(2, 3, 32, 32))


def TransformerEncoder():
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2).cuda()
    return recapture.check(model, of(4, 16, 64))


def ConvolutionalNetwork():
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.BatchNorm2d(16), torch.nn.ReLU(),
                                torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(16, 10)).cuda()
    return recapture.check(model, of(4, 3, 32, 32))


# Training.

def TrainSgd():
    return train(layers(), lambda p: torch.optim.SGD(p, lr=0.1), pairs, F.mse_loss)


def TrainSgdMomentum():
    return train(layers(), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True), pairs, F.mse_loss,
                 set_to_none=False)


def TrainCapturableAdam():
    return train(layers(), lambda p: torch.optim.Adam(p, lr=1e-3, capturable=True), pairs, F.mse_loss)


def TrainFusedAdamW():
    return train(layers(), lambda p: torch.optim.AdamW(p, lr=1e-3, capturable=True, fused=True), pairs, F.mse_loss)


def TrainWithDropout():
    return train(layers(torch.nn.Dropout(0.3)), lambda p: torch.optim.SGD(p, lr=0.1), pairs, F.mse_loss)


def TrainMixedPrecision():
    return train(layers(), lambda p: torch.optim.SGD(p, lr=0.1), pairs, F.mse_loss, autocast=torch.bfloat16)


def TrainWithGradScaler():
    model = layers().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")

    def backward(x, y):
        model.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        return loss

    report = recapture.check(backward, pairs)
    optimizer.zero_grad()
    return report


def TrainWithClipping():
    model = layers().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y.argmax(1))
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        return loss, norm

    return recapture.check(step, pairs)


def RecurrentNetwork():
    model = torch.nn.LSTM(32, 64, num_layers=2, batch_first=True).cuda()

    def step(x):
        model.zero_grad()
        output, (h, c) = model(x)
        output.square().mean().backward()
        return output, h, c

    return recapture.check(step, of(4, 8, 32))


# Compositions of operators.

def Attention():
    return recapture.check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
                           lambda i: tuple(tensor(2, 4, 64, 32, seed=3 * i + n, dtype=torch.float16) for n in range(3)))


def AttentionWithDropout():
    return recapture.check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, dropout_p=0.2),
                           lambda i: tuple(tensor(2, 4, 64, 32, seed=3 * i + n, dtype=torch.float16) for n in range(3)))


def NormalisedProduct():
    return composition(lambda a, b: F.layer_norm(a @ b, (32,)).softmax(-1), (16, 64), (64, 32))


def GatedLinearUnit():
    weight = tensor(128, 32, seed=9)
    return composition(lambda x: F.silu(F.linear(x, weight)[:, :64]) * F.linear(x, weight)[:, 64:], (16, 32))


def Embedding():
    table = torch.nn.Embedding(128, 32).cuda()
    return recapture.check(lambda ids: F.normalize(table(ids), dim=-1).sum(1), tokens(128, 4, 16))


def RotaryEmbedding():
    positions = torch.arange(64, device="cuda", dtype=torch.float32)
    angles = torch.outer(positions, 1e4 ** -(torch.arange(16, device="cuda") / 16))

    def rotated(x):
        a, b = x.chunk(2, -1)
        return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1)

    return composition(rotated, (2, 64, 32))


def TopKRouting():
    def routed(x, gates):
        weights, chosen = gates.softmax(-1).topk(2, -1)
        return torch.zeros_like(gates).scatter(1, chosen, weights) @ x

    return composition(routed, (8, 32), (16, 8))


def SortAndGather():
    return composition(lambda x: x.gather(1, x.argsort(1, descending=True)).cumsum(1), (16, 64))


def SideStreamJoined():
    side = torch.cuda.Stream()

    def both(x):
        current = torch.cuda.current_stream()
        side.wait_stream(current)
        with torch.cuda.stream(side):
            a = x.sin()
        b = x.cos()
        current.wait_stream(side)
        return a + b

    return composition(both, (64, 64))


def RunningMean():
    mean = torch.zeros(32, device="cuda")

    def centred(x):
        mean.lerp_(x.mean(0), 0.1)
        return x - mean

    return composition(centred, (16, 32))


def RandomNoise():
    return composition(lambda x: x + torch.randn_like(x) * torch.rand(64, device="cuda"), (16, 64))


def ConvolutionAndPool():
    weight = tensor(8, 3, 3, 3, seed=5)
    return composition(lambda x: F.max_pool2d(F.conv2d(x, weight, padding=1).relu(), 2).flatten(1), (4, 3, 16, 16))


def BatchedSolve():
    return composition(lambda a, b: torch.baddbmm(b, a, a.transpose(1, 2)).logsumexp(-1), (4, 16, 16), (4, 16, 16))


def MaskedFill():
    mask = torch.ones(32, 32, dtype=torch.bool, device="cuda").triu(1)
    return composition(lambda x: x.masked_fill(mask, float("-inf")).softmax(-1).pow(2).sum(-1), (4, 32, 32))


def IndexAdd():
    chosen = indices(8, 64, seed=3)
    return composition(lambda x: torch.zeros(8, 16, device="cuda").index_add(0, chosen, x).tanh(), (64, 16))


if __name__ == "__main__":
    run(globals())
