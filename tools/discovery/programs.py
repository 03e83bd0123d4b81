"""Small programs that can be captured, as data that Hypothesis draws and shrinks, and as Python that runs.

Every value of a program is a float32 matrix of one size. So each statement can take the result of any other, and a
program remains valid when a statement is taken out of it. What a graph is documented not to do is not generated: an
operand that is made again in each call, a number of the host's that changes, an output that is read after another replay.
"""
import dataclasses
import re
from typing import Dict, List, Tuple

SIZES = (8, 32, 64, 100, 257, 512)
INPUTS = 2
FEEDS = 8  # Different contents of the inputs.

# What a statement needs, in the order of the setup.
SETUP: Dict[str, List[str]] = {
    "gen": ['gen = torch.Generator("cuda").manual_seed(1)'],
    "side": ["side = torch.cuda.Stream()"],
    "pin": ["pin = torch.zeros({n}, {n}).pin_memory()"],
    "state": ['state = torch.zeros({n}, {n}, device="cuda")'],
    "index": ['index = torch.arange({n}, device="cuda") * 7 % {n}'],
    "mask": ['mask = torch.arange({n}, device="cuda") % 3 > 0'],
    "csr": ['csr = torch.eye({n}).roll(1, 0).to_sparse_csr().to("cuda")'],
    "coo": ['coo = torch.eye({n}).roll(1, 0).to_sparse().coalesce().to("cuda")'],
    "filters": ['filters = torch.randn(4, 1, 3, 3, device="cuda") / 3'],
    "norm": ['norm = torch.nn.BatchNorm1d({n}, device="cuda")'],
    "lstm": ['lstm = torch.nn.LSTM({n}, {n}, device="cuda")'],
    "gru": ['gru = torch.nn.GRU({n}, {n}, num_layers=2, dropout=0.5, device="cuda")'],
    "attention": ['attention = torch.nn.MultiheadAttention({n}, 1, device="cuda")'],
    "layer": ['layer = torch.nn.TransformerEncoderLayer({n}, 1, 64, dropout=0.0, device="cuda")'],
    "w": ['w = torch.nn.Parameter(torch.randn({n}, {n}, device="cuda"))'],
    "sgd": ["opt = torch.optim.SGD([w], lr=1e-2, momentum=0.9)"],
    "adam": ["opt = torch.optim.AdamW([w], lr=1e-2, capturable=True)"],
    "fused": ["opt = torch.optim.Adam([w], lr=1e-2, capturable=True, fused=True)"],
    "rmsprop": ["opt = torch.optim.RMSprop([w], lr=1e-2, capturable=True)"],
    "rprop": ["opt = torch.optim.Rprop([w], lr=1e-2, capturable=True)"],
}
STATEFUL = {"pin": "pin", "state": "state", "w": "w", "norm": "norm.running_mean"}


@dataclasses.dataclass(frozen=True)
class Op:
    """An expression of matrices {a} and {b}, or lines that end with {v} = …"""

    name: str
    text: str
    needs: Tuple[str, ...] = ()
    alone: bool = False  # Takes no wrapper: it is no function of its operands, or has lines of its own.
    random: bool = False


def _ops() -> List[Op]:
    table = []

    def add(name: str, text: str, *needs: str, **options: bool) -> None:
        table.append(Op(name, text, needs, **options))

    add("mul", "{a} * {b}")
    add("add", "{a} + {b}")
    add("relu", "torch.relu({a}) - 0.5 * {b}")
    # Products: cuBLAS, cuBLASLt, cuSPARSE.
    add("matmul", "{a} @ {b} / {n}")
    add("addmm", "torch.addmm({a}, {a}, {b}, alpha=1 / {n})")
    add("linear", "F.linear({a}, {b}, {b}[0]) / {n}")
    add("linear_gelu", "F.gelu(F.linear({a}, {b}, {b}[0]) / {n})")
    add("matmul_half", "({a}.half() @ {b}.half()).float() / {n}")
    add("matmul_bfloat16", "({a}.bfloat16() @ {b}.bfloat16()).float() / {n}")
    add("matmul_double", "({a}.double() @ {b}.double()).float() / {n}")
    add("matmul_complex", "(torch.complex({a}, {b}) @ torch.complex({b}, {a})).real / {n}")
    add("bmm", "torch.bmm({a}.expand(3, {n}, {n}), {b}.expand(3, {n}, {n})).sum(0) / {n}")
    add("baddbmm", "torch.baddbmm({a}[None], {a}[None], {b}[None], alpha=1 / {n})[0]")
    add("einsum", 'torch.einsum("ij,kj,k->ik", {a}, {b}, {b}[0]) / {n}')
    add("mv", "torch.outer({a} @ {b}[0] / {n}, {b}[1])")
    add("dot", "{a} * (torch.dot({a}[0], {b}[0]) / {n})")
    add("int_mm", "torch._int_mm(({a}.expand(4, {n}, {n}).reshape(4 * {n}, {n})[:, :{n} // 8 * 8] * 9).to(torch.int8), "
        "({b}[:{n} // 8 * 8, :{n} // 8 * 8] * 9).to(torch.int8)).float()[:{n}, :1] / {n} + {b} * 0.5")
    add("chain_matmul", "torch.linalg.multi_dot([{a}, {b}, {a}]) / {n} ** 2")
    add("sparse_mm", "torch.sparse.mm(coo, {a})", "coo")
    add("csr_mm", "csr @ {a}", "csr")
    add("csr_addmm", "torch.sparse.addmm({a}, csr, {b})", "csr")
    # Decompositions: cuSOLVER, MAGMA.
    for name, text in (
            ("inv", "torch.linalg.inv_ex({m})[0]"), ("solve", "torch.linalg.solve_ex({m}, {b})[0]"),
            ("solve_one", "{b} + torch.linalg.solve_ex({m}, {b}[0])[0]"),
            ("cholesky", "torch.linalg.cholesky_ex({m} @ {m}.t())[0]"), ("qr", "torch.linalg.qr({m})[1]"),
            ("eigh", "torch.linalg.eigh({m} + {m}.t())[0].repeat({n}, 1) / 4"),
            ("svd", "torch.linalg.svdvals({m}).repeat({n}, 1) / 4"),
            ("eigvals", "torch.linalg.eigvals({m}).abs().sort()[0].repeat({n}, 1)"),
            ("lu", "torch.linalg.lu_factor_ex({m})[0]"), ("lu_solve", "torch.linalg.lu_solve(*torch.linalg.lu_factor_ex({m})[:2], {b})"),
            ("ldl", "torch.linalg.ldl_factor_ex({m} + {m}.t())[0]"), ("det", "torch.linalg.slogdet({m})[1] / {n} + {a}"),
            ("inverse_batched", "torch.linalg.inv_ex({m}.expand(3, {n}, {n}))[0].sum(0)"),
            ("pinv", "torch.linalg.pinv({m})"), ("lstsq", "torch.linalg.lstsq({m}, {b})[0]"),
            ("matrix_exp", "torch.linalg.matrix_exp({a} / {n})"), ("matrix_power", "torch.linalg.matrix_power({a} / {n}, 3)"),
            ("triangular", "torch.linalg.solve_triangular({m}.triu(), {b}, upper=True)"),
            ("cholesky_solve", "torch.cholesky_solve({b}, torch.linalg.cholesky_ex({m} @ {m}.t())[0])"),
            ("householder", "torch.linalg.householder_product({m} / 8, {b}[0] / {n})")):
        add(name, text.replace("{m}", "(4 * torch.eye({n}, device=\"cuda\") + {a}.clamp(-3, 3) / {n})"))
    # Transforms: cuFFT.
    add("fft", "torch.fft.fft({a}).real / {n} ** 0.5")
    add("rfft", "torch.fft.irfft(torch.fft.rfft({a}) * 0.9, n={n})")
    add("fft2", "torch.fft.fft2({a}).imag / {n}")
    add("fft_one", "torch.fft.fft({a}.reshape(-1)).abs().view({n}, {n}) / {n}")
    add("ihfft", "torch.fft.hfft(torch.fft.ihfft({a}), n={n})")
    add("stft", "{a} + torch.stft({a}.reshape(-1), 8, window={b}[0, :8], return_complex=True).abs().mean() / 8")
    add("istft", "torch.istft(torch.stft({a}, 8, center=True, window=torch.ones(8, device=\"cuda\"), return_complex=True), 8, "
        "window=torch.ones(8, device=\"cuda\"), length={n})")
    # Convolutions and their like: cuDNN.
    image = "{a}.view(1, 1, {n}, {n})"
    add("conv2d", f"F.conv2d({image}, filters, padding=1).mean((0, 1))", "filters")
    add("conv2d_half", f"F.conv2d({image}.half(), filters.half(), padding=1).float().mean((0, 1))", "filters")
    add("conv2d_last", f"F.conv2d({image}.to(memory_format=torch.channels_last), filters, padding=1).mean((0, 1))", "filters")
    add("conv2d_strided", f"F.interpolate(F.conv2d({image}, filters, stride=2, padding=1)[:, :1], size=({{n}}, {{n}}))[0, 0]",
        "filters")
    add("conv_transpose", f"F.conv_transpose2d({image}.expand(1, 4, {{n}}, {{n}}), filters, padding=1)[0, 0]", "filters")
    add("conv_depthwise", f"F.conv2d({image}.expand(1, 4, {{n}}, {{n}}), filters, padding=1, groups=4)[0, 0]", "filters")
    add("conv1d", "F.conv1d({a}[:, None], filters[:, :, 0], padding=1).mean(1)", "filters")
    add("conv3d", "F.conv3d({a}.view(1, 1, 1, {n}, {n}), filters[:, :, None], padding=(0, 1, 1)).mean((0, 1, 2))", "filters")
    add("batch_norm", "F.batch_norm({a}, None, None, training=True)")
    add("batch_norm_running", "norm({a}).detach()", "norm", alone=True)
    add("layer_norm", "F.layer_norm({a}, ({n},))")
    add("group_norm", "F.group_norm({a}[None, :, :], 1)[0]")
    add("instance_norm", "F.instance_norm({a}[None, :, :])[0]")
    add("local_response", f"F.local_response_norm({image}, 2)[0, 0]")
    add("max_pool", f"F.max_pool2d({image}, 3, stride=1, padding=1)[0, 0]")
    add("avg_pool", f"F.avg_pool2d({image}, 3, stride=1, padding=1)[0, 0]")
    add("adaptive_pool", f"F.interpolate(F.adaptive_avg_pool2d({image}, (5, 7)), size=({{n}}, {{n}}), mode=\"bilinear\")[0, 0]")
    add("max_unpool", f"F.max_unpool2d(*F.max_pool2d({image}, 2, return_indices=True), 2, output_size=({{n}}, {{n}}))[0, 0]")
    add("bicubic", f"F.interpolate(F.interpolate({image}, scale_factor=2, mode=\"bicubic\"), size=({{n}}, {{n}}), mode=\"area\")[0, 0]")
    add("grid_sample", f"F.grid_sample({image}, torch.stack([{{a}}, {{b}}], -1)[None].tanh(), align_corners=False)[0, 0]")
    add("unfold", f"F.fold(F.unfold({image}, 3, padding=1), ({{n}}, {{n}}), 3, padding=1)[0, 0] / 9")
    add("lstm", "lstm({a}.view({n}, 1, {n}))[0].view({n}, {n}).detach()", "lstm", alone=True)
    add("gru", "gru({a}.view({n}, 1, {n}))[0].view({n}, {n}).detach()", "gru", alone=True, random=True)
    add("ctc", "{a} + F.ctc_loss({a}.view({n}, 1, {n}).log_softmax(2), (index[None, :4] + 1).clamp(max={n} - 1), "
        "torch.tensor([{n}]), torch.tensor([4])) / {n}", "index")
    # Attention and losses.
    heads = "{a}.view(1, 1, {n}, {n})"
    add("sdpa", f"F.scaled_dot_product_attention({heads}, {{b}}.view(1, 1, {{n}}, {{n}}), {heads})[0, 0]")
    add("sdpa_half", "F.scaled_dot_product_attention(*[t.half()[None, None, :, :64].contiguous() for t in ({a}, {b}, {a})])"
        ".float()[0, 0, :, :1] + 0.5 * {b}")
    add("sdpa_causal", "F.scaled_dot_product_attention(*[t.bfloat16()[None, None, :, :8].contiguous() for t in ({a}, {b}, {a})], "
        "is_causal=True).float()[0, 0, :, :1] + 0.5 * {b}")
    add("multihead", "attention({a}[:, None], {b}[:, None], {a}[:, None])[0][:, 0].detach()", "attention", alone=True)
    add("transformer", "layer({a}[:, None])[:, 0].detach()", "layer", alone=True)
    add("softmax", "torch.softmax({a}, 1) * {b}")
    add("log_softmax", "torch.log_softmax({a}, 0) / 4")
    add("cross_entropy", "F.cross_entropy({a}, index, reduction=\"none\")[:, None] / 4 + {b} * 0.5", "index")
    add("embedding", "F.embedding(index, {a})", "index")
    add("embedding_bag", "F.embedding_bag(index.view(1, -1), {a}, mode=\"mean\") + {b}", "index")
    add("cdist", "torch.cdist({a}, {b}) / {n} ** 0.5")
    # Scans, sorts, indices: CUB, and kernels with workspaces of their own.
    add("cumsum", "{a}.cumsum(0) / {n}")
    add("cumsum_flat", "{a}.reshape(-1).cumsum(0).view({n}, {n}) / {n}")
    add("cumprod", "{a}.tanh().cumprod(1) + 0.5 * {b}")
    add("logcumsumexp", "{a}.logcumsumexp(1) / 4")
    add("cummax", "{a}.cummax(0)[0]")
    add("sort", "{a}.sort(0)[0]")
    add("sort_flat", "{a}.reshape(-1).sort()[0].view({n}, {n})")
    add("argsort", "{a}.gather(1, {b}.argsort(dim=1, stable=True))")
    add("topk", "{a}.topk(5, 1)[0].mean(1, keepdim=True) + 0.5 * {b}")
    add("kthvalue", "{a}.kthvalue(3, 1, keepdim=True)[0] + 0.5 * {b}")
    add("median", "{a}.median(1, keepdim=True)[0] + 0.5 * {b}")
    add("mode", "{a}.round().mode(1, keepdim=True)[0] + 0.5 * {b}")
    add("quantile", "torch.quantile({a}, 0.3, dim=1, keepdim=True) + 0.5 * {b}")
    add("searchsorted", "torch.searchsorted({a}.sort(1)[0], {b}).float() / {n}")
    add("histc", "torch.histc({a}, {n}, -3.0, 3.0) / {n} + 0.5 * {b}")
    add("gather", "{a}.gather(0, index[:, None].expand({n}, {n}))", "index")
    add("take_along", "{a}[index] + {b}[:, index]", "index")
    add("index_add", "{a}.index_add(0, index, {b})", "index")
    add("index_put", "torch.index_put({a}, (index,), {b}, accumulate=True)", "index")
    add("index_copy", "{a}.index_copy(1, index, {b})", "index")
    add("scatter_add", "{a}.scatter_add(0, index[:, None].expand({n}, {n}), {b})", "index")
    add("scatter_reduce", "{a}.scatter_reduce(0, index[:, None].expand({n}, {n}), {b}, \"amax\")", "index")
    add("masked_fill", "{a}.masked_fill(mask, 0.25) + 0.5 * {b}", "mask")
    add("masked_scatter", "{a}.masked_scatter(mask.expand({n}, {n}), {b})", "mask")
    add("where", "torch.where({a} > {b}, {a}, -{b})")
    add("triu", "{a}.triu() + {b}.tril()")
    add("roll", "{a}.roll(3, 0).flip(1)")
    add("sum", "{a}.sum(0) / {n} ** 0.5 + 0.5 * {b}")
    add("var", "{a}.var(1, keepdim=True) + 0.5 * {b}")
    add("norm", "{a} / (1 + {b}.norm())")
    add("logsumexp", "{a}.logsumexp(1, keepdim=True) + 0.5 * {b}")
    add("renorm", "{a}.renorm(2, 0, 1.0)")
    add("kron", "torch.kron({a}[:2, :2], {b})[:{n}, :{n}]")
    add("cat", "torch.cat([{a}, {b}, {a}], 1)[:, 3:{n} + 3].contiguous()")
    add("cov", "torch.cov({a})")
    add("special", "torch.special.i0e({a}) + torch.lgamma({b}.abs() + 1)")
    add("foreach", "torch._foreach_add(torch._foreach_mul([{a}, {b}, {a}], 0.5), 1.0)[1]")
    add("clip_norm", "{a} * torch.nn.utils.get_total_norm([{a}, {b}]).reciprocal().clamp(max=1.0)")
    add("nested", "torch.stack([{a}, {b}]).permute(1, 0, 2).reshape({n}, -1)[:, ::2]")
    # Random numbers.
    add("dropout", "F.dropout({a}, 0.3)", random=True)
    add("rand", "{a} + torch.rand_like({b})", random=True)
    add("randn_generator", '{a} + torch.randn({n}, {n}, device="cuda", generator=gen)', "gen", alone=True, random=True)
    add("bernoulli", "{a} * torch.bernoulli({b}.sigmoid())", random=True)
    add("multinomial", "{a} + torch.multinomial({b}.softmax(1), 2, replacement=True).float().mean() / {n}", random=True)
    add("randperm", '{a}[torch.randperm({n}, device="cuda")]', random=True)
    add("exponential", "{a} + torch.empty_like({b}).exponential_()", random=True)
    add("poisson", "{a} + torch.poisson({b}.abs())", random=True)
    add("normal", "torch.normal({a}, 0.5)", random=True)
    add("rrelu", "F.rrelu({a}, training=True)", random=True)
    add("gumbel", "F.gumbel_softmax({a}, hard=True) + 0.5 * {b}", random=True)
    add("sdpa_dropout", "F.scaled_dot_product_attention(*[t.half()[None, None, :, :64].contiguous() for t in ({a}, {b}, {a})], "
        "dropout_p=0.3).float()[0, 0, :, :1] + 0.5 * {b}", random=True)
    # Views, writes in place, memory that outlives the call.
    add("view", "{a}.t()", alone=True)
    add("strided", "{v} = {a}.reshape(-1).as_strided(({n}, {n}), ({n}, 1))\n{v}[:, ::2].mul_(0.5)", alone=True)
    add("in_place", "{v} = {a}\n{v}[1::2].add_({b}[1::2])", alone=True)
    add("diagonal", "{v} = {a}.clone()\n{v}.diagonal().copy_({b}[0])", alone=True)
    add("state", "state.mul_(0.5).add_({a})\n{v} = state.clone()", "state", alone=True)
    add("state_out", "torch.matmul({a}, {b}, out=state)\n{v} = state / {n}", "state", alone=True)
    add("pinned", "pin.copy_({a}, non_blocking=True)\n{v} = pin.to(\"cuda\", non_blocking=True)", "pin", alone=True)
    # Training steps.
    for name in ("sgd", "adam", "fused", "rmsprop", "rprop"):
        add(f"step_{name}", "opt.zero_grad(set_to_none=False)\n(torch.tanh({a} @ w / {n}) - {b}).square().mean().backward()\n"
            "opt.step()\n{v} = w.detach().clone()", "w", name, alone=True)
    return table


OPS: Dict[str, Op] = {op.name: op for op in _ops()}
OPTIMIZERS = ("sgd", "adam", "fused", "rmsprop", "rprop")

# How a statement runs its expression.
WRAPS: Dict[str, str] = {
    "plain": "{v} = {e}",
    "write": "{a}[::2].copy_(({e})[::2])\n{v} = {a}",
    "double": "{v} = (lambda a, b: {e_ab})({a}.double(), {b}.double()).float()",
    "half": "{v} = (lambda a, b: {e_ab})({a}.half(), {b}.half()).float()",
    "strided": "{v} = (lambda a, b: {e_ab})({a}.t(), {b}[:, :{n}])",
    "grad": "g = {a}.detach().requires_grad_()\n{v} = torch.autograd.grad(({e_g}).square().mean(), g)[0] * {n}",
    "checkpoint": "g = {a}.detach().requires_grad_()\n"
                  "{v} = checkpoint(lambda g: {e_g}, g, use_reentrant=False, preserve_rng_state=False)\n"
                  "{v} = torch.autograd.grad({v}.square().mean(), g)[0] * {n}",
    "jvp": "{v} = torch.func.jvp(lambda g: {e_g}, ({a},), ({b},))[1]",
    "autocast": "with torch.autocast(\"cuda\", torch.bfloat16, cache_enabled=False):\n    {v} = ({e}).float()",
    "side": "side.wait_stream(torch.cuda.current_stream())\nwith torch.cuda.stream(side):\n    {v} = {e}\n"
            "torch.cuda.current_stream().wait_stream(side)",
    "side_grad": "side.wait_stream(torch.cuda.current_stream())\nwith torch.cuda.stream(side):\n"
                 "    g = {a}.detach().requires_grad_()\n    loss = ({e_g}).square().mean()\n"
                 "torch.cuda.current_stream().wait_stream(side)\n{v} = torch.autograd.grad(loss, g)[0] * {n}",
    "compile": "{v} = {f}({a}, {b})",
}

OTHER_GRAPHS = ("second_graph", "second_graph_in_pool", "second_graph_kept")  # Actions that capture one of another operator.
# What a program does between two replays. {e} is an expression of x0 and x1, or of matrices of another size, {m}.
ACTIONS: Dict[str, str] = {
    "clear_fft_plans": "torch.backends.cuda.cufft_plan_cache.clear()",
    "shrink_fft_plans": "torch.backends.cuda.cufft_plan_cache.max_size = 1",
    "clear_workspaces": "torch._C._cuda_clearCublasWorkspaces()",
    "empty_cache": "gc.collect()\ntorch.cuda.empty_cache()",
    "poison_free": 'for block in blocks():\n    held.append(torch.full((block,), 195, dtype=torch.uint8, device="cuda"))\nheld.clear()',
    "hold_free": 'for block in blocks():\n    held.append(torch.full((block,), 195, dtype=torch.uint8, device="cuda"))',
    "allocate": 'held += [torch.full((size,), 195, dtype=torch.uint8, device="cuda") for size in 4 * [64 << 20, 1 << 20, 512]]',
    "second_graph": "other = capture(lambda: {e})\nyield other()\nother = None",
    "second_graph_in_pool": "other = capture(lambda: {e}, run0)\nyield other()\nother = None",
    "second_graph_kept": "others.append(capture(lambda: {e}))\nyield others[-1]()",
    "other_work": "yield {e_m}",
    "other_work_on_stream": "with torch.cuda.stream(torch.cuda.Stream()):\n    busy = {e_m}\ntorch.cuda.synchronize()",
    "other_work_in_thread": "with ThreadPoolExecutor(1) as threads:\n    threads.submit(lambda: {e_m}).result()\ntorch.cuda.synchronize()",
    "expandable_segments": 'torch.cuda.memory._set_allocator_settings("expandable_segments:True")',
    "max_split_size": 'torch.cuda.memory._set_allocator_settings("max_split_size_mb:32")',
    "garbage_collection": 'torch.cuda.memory._set_allocator_settings("garbage_collection_threshold:0.5")',
    "round_up": 'torch.cuda.memory._set_allocator_settings("roundup_power2_divisions:4")',
    "memory_fraction": "torch.cuda.set_per_process_memory_fraction(0.5)",
    "memory_pool": 'with torch.cuda.use_mem_pool(torch.cuda.MemPool()):\n    torch.zeros(1 << 20, device="cuda")',
    "memory_history": "torch.cuda.memory._record_memory_history()\ntorch.cuda.memory._record_memory_history(enabled=None)",
    "many_streams": 'for stream in [torch.cuda.Stream() for _ in range(40)]:\n    with torch.cuda.stream(stream):\n'
                    '        torch.zeros(64, 64, device="cuda") @ torch.zeros(64, 64, device="cuda")\ntorch.cuda.synchronize()',
    "linalg_library": 'torch.backends.cuda.preferred_linalg_library("magma")\ntorch.backends.cuda.preferred_linalg_library("default")',
    "blas_library": 'torch.backends.cuda.preferred_blas_library("cublaslt")\ntorch.backends.cuda.preferred_blas_library("default")',
    "cudnn_benchmark": "torch.backends.cudnn.benchmark = True\nyield {e_m}\ntorch.backends.cudnn.benchmark = False",
    "seed": "torch.manual_seed(3)",
    "set_rng_state": "rng = torch.cuda.get_rng_state()\ntorch.cuda.manual_seed(5)\ntorch.cuda.set_rng_state(rng)",
    "fork_rng": 'with torch.random.fork_rng(devices=[0]):\n    torch.rand(7, device="cuda")',
    "profile": "with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]):\n    yield run0()",
    "dynamo_reset": "torch._dynamo.reset()",
    "deterministic": "torch.use_deterministic_algorithms(True)\ntorch.use_deterministic_algorithms(False)",
    "subprocess": 'subprocess.run(["true"])',
    "loader": "loader = iter(torch.utils.data.DataLoader(torch.ones(8, {n}, {n}), num_workers=1, pin_memory=True))\n"
              "x0.copy_(next(loader)[0], non_blocking=True)",
    "pinned_traffic": "for _ in range(4):\n    torch.ones({n}, {n}).pin_memory().to(\"cuda\", non_blocking=True)",
    "save_and_load": "buffer = io.BytesIO()\ntorch.save(x0, buffer)\nbuffer.seek(0)\nx0.copy_(torch.load(buffer))",
    "recapture": "run{g} = None\nrun{g} = capture(step{g}{shared})",
    "destroy_other": "run{other} = None\ngc.collect()",
}
# What cases document: programs with an operator of the first kind and an action of the second are not run again.
DOCUMENTED: Tuple[Tuple[Tuple[str, ...], Tuple[str, ...], str], ...] = (
    (tuple(name for name, op in OPS.items() if "fft" in op.text or "stft" in op.text), ("clear_fft_plans", "shrink_fft_plans"),
     "fft_plan_dropped"),
    (tuple(name for name, op in OPS.items() if "gru" in op.needs), ("seed", "set_rng_state", "fork_rng"), "rnn_dropout_state_replaced"),
)
ACTIONS_WITH_OP = [name for name, text in ACTIONS.items() if re.search(r"\{e(_m)?\}", text)]
PLAYS: Dict[str, str] = {
    "plain": "yield run{g}()",
    "twice": "run{g}()\nyield run{g}()",
    "many": "for _ in range(20):\n    out = run{g}()\nyield out",
    "stream": "side.wait_stream(torch.cuda.current_stream())\nwith torch.cuda.stream(side):\n    out = run{g}()\n"
              "torch.cuda.current_stream().wait_stream(side)\nyield out",
    "thread": "yield ThreadPoolExecutor(1).submit(run{g}).result()",
}


@dataclasses.dataclass(frozen=True)
class Statement:
    op: str
    a: int
    b: int
    wrap: str = "plain"


@dataclasses.dataclass(frozen=True)
class Event:
    """A replay of graph `graph`, or an action."""

    name: str
    graph: int = 0
    op: str = "mul"  # Of an action that does other work.
    size: int = 64


@dataclasses.dataclass(frozen=True)
class Program:
    size: int
    graphs: Tuple[Tuple[Statement, ...], ...]
    events: Tuple[Event, ...]
    shared: bool = False  # All graphs are in one pool.

    def to_dict(self):
        return dataclasses.asdict(self)

    @staticmethod
    def of(value):
        return Program(value["size"], tuple(tuple(Statement(**each) for each in graph) for graph in value["graphs"]),
                       tuple(Event(**each) for each in value["events"]), value["shared"])

    def statements(self):
        return [statement for graph in self.graphs for statement in graph]

    def features(self):
        """What a finding may depend on: operators, wrappers, actions, ways to replay."""
        found = {f"op:{statement.op}" for statement in self.statements()}
        found |= {f"wrap:{statement.wrap}" for statement in self.statements() if statement.wrap != "plain"}
        for event in self.events:
            if event.name in ACTIONS:
                found.add(f"action:{event.name}")
                if event.name in ACTIONS_WITH_OP:
                    found.add(f"other:{event.op}")
            elif event.name != "plain":
                found.add(f"play:{event.name}")
        if len(self.graphs) > 1:
            found.add("graphs:shared" if self.shared else "graphs:several")
        return found

    def actions(self):
        return sorted({event.name for event in self.events if event.name in ACTIONS})

    def documented(self):
        """The case that documents what this program may do wrong, or an empty text."""
        ops = {statement.op for statement in self.statements()}
        return next((case for names, actions, case in DOCUMENTED if ops & set(names) and set(actions) & set(self.actions())), "")


def wraps_of(op: Op) -> List[str]:
    if op.alone:
        return ["plain"]
    random = ("checkpoint", "jvp")
    return [wrap for wrap in WRAPS if not (op.random and wrap in random)]


def _filled(text: str, **values) -> str:
    for key, value in values.items():
        text = text.replace("{" + key + "}", str(value))
    return text


def _needs(program: Program) -> List[str]:
    needs = set()
    for statement in program.statements():
        needs |= set(OPS[statement.op].needs)
        if statement.wrap.startswith("side"):
            needs.add("side")
    for event in program.events:
        if event.name in ACTIONS_WITH_OP:
            needs |= set(OPS[event.op].needs)
        if event.name == "stream":
            needs.add("side")
    return [name for name in SETUP if name in needs]


def _statement(statement: Statement, names: List[str], v: str, n: int, setup: List[str]) -> List[str]:
    op = OPS[statement.op]
    a, b = (names[index % len(names)] for index in (statement.a, statement.b))
    text = op.text if op.alone and "{v}" in op.text else WRAPS[statement.wrap]
    if statement.wrap == "compile":
        setup.append(f"f_{v} = torch.compile(lambda a, b: {_filled(op.text, a='a', b='b', n=n)})")
    text = _filled(text, e=_filled(op.text, a=a, b=b, n=n), e_g=_filled(op.text, a="g", b=b, n=n),
                   e_ab=_filled(op.text, a="a", b="b", n=n), a=a, b=b, v=v, n=n, f=f"f_{v}")
    return text.split("\n")


def _other_work(op: Op, size: int) -> str:
    """The expression on matrices of another size. What the setup has made is of the program's size."""
    make = f'torch.ones({size}, {size}, device="cuda")'
    return f"(lambda a, b: {_filled(op.text, a='a', b='b', n=size)})({make}, {make})"


def body_of(program: Program, number: int, setup: List[str]) -> Tuple[List[str], List[str]]:
    """The lines of a step, and the names that it returns: what no later statement reads."""
    names, lines, read = [f"x{i}" for i in range(INPUTS)], [], set()
    for index, statement in enumerate(program.graphs[number]):
        v = f"v{index}" if number == 0 else f"v{number}_{index}"
        for operand in (statement.a, statement.b):
            read.add(names[operand % len(names)])
        lines += _statement(statement, names, v, program.size, setup)
        names.append(v)
    results = [name for name in names[INPUTS:] if name not in read or name == names[-1]]
    return lines, results


def source_of(program: Program) -> str:
    """program(): yields what is compared after each replay. `capture` is the caller's: it makes a graph, or does not."""
    n, needs, setup, lines = program.size, _needs(program), [], []
    for name in needs:
        setup += [_filled(line, n=n) for line in SETUP[name]]
    if sum(name in needs for name in OPTIMIZERS) > 1:  # The last one is `opt`.
        last = [line for line in setup if line.startswith("opt = ")][-1]
        setup = [line for line in setup if not line.startswith("opt = ")] + [last]
    steps = []
    for number in range(len(program.graphs)):
        body, results = body_of(program, number, setup)
        steps += [f"def step{number}():", *("    " + line for line in body), f"    return {', '.join(results)}"]
    registered = ", generators=[gen]" if "gen" in needs else ""

    def capture(number: int) -> str:
        like = ", run0" if program.shared and number else ""
        return f"run{number} = capture(step{number}{like}{registered})"

    captures = [capture(number) for number in range(len(program.graphs))]
    feed = [0]

    def fed() -> List[str]:
        feed[0] += 1
        at = feed[0] * INPUTS % FEEDS
        return [f"x0.copy_(data[{at}])"] if len(used) == 1 else [f"x.copy_(data[{at}:{at + INPUTS}])"]

    alive = set(range(len(program.graphs)))
    events: List[str] = []

    def play(number: int, how: str) -> List[str]:
        revived = [] if number in alive else [capture(number)]
        alive.add(number)
        return [*revived, *fed(), *_filled(PLAYS[how], g=number).split("\n")]

    text = "\n".join(steps) + "".join(event.name for event in program.events)
    used = {f"x{i}" for i in range(INPUTS) if re.search(rf"\bx{i}\b", text)} | {"x0"}
    if any(event.name in OTHER_GRAPHS for event in program.events):
        used |= {f"x{i}" for i in range(INPUTS)}
    for event in program.events:
        number = event.graph % len(program.graphs)
        if event.name in PLAYS:
            events += play(number, event.name)
        elif event.name == "destroy_other":
            other = (number + 1) % len(program.graphs)
            if other and other in alive and len(alive) > 1:  # run0 gives its pool.
                alive.discard(other)
                events += _filled(ACTIONS[event.name], other=other).split("\n")
        else:
            shared = (", run0" if program.shared and number else "") + registered
            if event.name == "recapture":
                alive.add(number)
            op = OPS[event.op]
            events += _filled(ACTIONS[event.name], e=_filled(op.text, a="x0", b="x1", n=n), e_m=_other_work(op, event.size),
                              n=n, g=number, shared=shared).split("\n")
    for number in sorted(alive):
        events += play(number, "plain")
    state = [STATEFUL[name] for name in needs if name in STATEFUL]
    if state:
        events.append(f"yield {', '.join(state)}")
    text = "\n".join(events)
    if "hold_free" in [event.name for event in program.events]:
        events.append("yield torch.tensor(all(bool((each == 195).all()) for each in held))")
    if "held" in text:
        setup.append("held = []")
    if "others" in text:
        setup.append("others = []")
    inputs = [f'data = torch.randn({FEEDS}, {n}, {n}, device="cuda")',
              *([f'x0 = torch.zeros({n}, {n}, device="cuda")'] if len(used) == 1 else
                [f'x = torch.zeros({INPUTS}, {n}, {n}, device="cuda")', f"{', '.join(sorted(used))} = x"])]
    lines = ["torch.manual_seed(0)", *inputs, *setup, *steps, *captures, *events]
    return "def program():\n" + "\n".join("    " + line for line in lines) + "\n"


def count_lines(source: str) -> int:
    return sum(bool(line.strip()) for line in source.splitlines()[1:])  # Without the def.


def strategy(ops, wraps, actions, sizes=SIZES, compiled=False, most=6):
    """Programs of what `ops` (names), `wraps` (pairs of an operator and a wrapper) and `actions` (names) allow."""
    from hypothesis import strategies as st
    simple = [op for op in ops if not OPS[op].needs and not OPS[op].alone] or ["mul"]

    def wraps_for(op):
        if compiled and (op, "compile") in wraps:
            return ["plain", "compile"]
        return [wrap for wrap in wraps_of(OPS[op]) if (op, wrap) in wraps and wrap != "compile"]

    allowed = {op: wraps_for(op) for op in ops}
    ops = [op for op in ops if allowed[op]]

    @st.composite
    def statement(draw):
        op = draw(st.sampled_from(ops))
        return Statement(op, draw(st.integers(0, 7)), draw(st.integers(0, 7)), draw(st.sampled_from(allowed[op])))

    def event(name):
        if name in ACTIONS_WITH_OP:
            return st.builds(Event, st.just(name), st.just(0), st.sampled_from(simple), st.sampled_from(sizes))
        return st.builds(Event, st.just(name), st.integers(0, 2))

    events = st.one_of(st.sampled_from(list(PLAYS)), st.sampled_from(actions), st.sampled_from(actions)).flatmap(event) \
        if actions else st.sampled_from(list(PLAYS)).flatmap(event)
    graphs = st.lists(st.lists(statement(), min_size=1, max_size=most).map(tuple), min_size=1, max_size=3).map(tuple)
    return st.builds(Program, st.sampled_from(sizes), graphs, st.lists(events, max_size=6).map(tuple), st.booleans())
