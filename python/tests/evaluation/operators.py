"""Steps without training, with torch alone, that a graph computes rightly: attention, simulation, sampling, streams, memory."""
import torch
from common import CUDA, DEVICE, images, together, tokens, values

F = torch.nn.functional
nn = torch.nn


def attention_with_slopes_for_distances():
    place = torch.arange(8, device=DEVICE)
    bias = (place[None] - place[:, None]).clamp(max=0) * 2.0 ** -torch.arange(1.0, 5, device=DEVICE)[:, None, None]

    def step(q, k, v):
        return (q @ k.transpose(-1, -2) / 4 + bias).softmax(-1) @ v

    return step, together(values(2, 4, 8, 16), values(2, 4, 8, 16), values(2, 4, 8, 16)), [bias]


def attention_that_shares_its_keys():
    def step(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    return step, together(values(2, 8, 16, 16), values(2, 2, 16, 16), values(2, 2, 16, 16)), []


def attention_without_a_softmax():
    def step(q, k, v):
        q, k = F.elu(q) + 1, F.elu(k) + 1
        state = torch.einsum("bti,btj->btij", k, v).cumsum(1)
        return torch.einsum("bti,btij->btj", q, state) / torch.einsum("bti,bti->bt", q, k.cumsum(1))[..., None]

    return step, together(values(2, 6, 4), values(2, 6, 4), values(2, 6, 4)), []


def attention_in_a_window_with_rotations():
    angles = torch.arange(16, device=DEVICE)[:, None] * 0.1 ** torch.arange(4, device=DEVICE)
    turn = torch.polar(torch.ones_like(angles), angles)
    near = (torch.arange(16, device=DEVICE)[:, None] - torch.arange(16, device=DEVICE)).abs() < 4

    def rotated(x):
        return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (4, 2))) * turn).flatten(-2)

    def step(q, k, v):
        return F.scaled_dot_product_attention(rotated(q), rotated(k), v, attn_mask=near)

    return step, together(values(2, 2, 16, 8), values(2, 2, 16, 8), values(2, 2, 16, 8)), [turn, near]


def encoder_on_the_fast_path():
    layer = nn.TransformerEncoderLayer(16, 2, 32, activation="gelu", batch_first=True, norm_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).to(DEVICE).eval()

    @torch.inference_mode()
    def step(x):
        return model(x)

    return step, values(2, 5, 16), []


def decoder_with_a_memory():
    layer = nn.TransformerDecoderLayer(16, 2, 32, dropout=0.1, batch_first=True).to(DEVICE)
    mask = nn.Transformer.generate_square_subsequent_mask(5, device=DEVICE)

    @torch.no_grad()
    def step(x, memory):
        return layer(x, memory, tgt_mask=mask, tgt_is_causal=True)

    return step, together(values(2, 5, 16), values(2, 3, 16)), [layer]


def long_filter_by_a_transform():
    filter_ = torch.randn(4, 32, device=DEVICE) * torch.exp(-0.2 * torch.arange(32, device=DEVICE))

    def step(x):
        return torch.fft.irfft(torch.fft.rfft(x, n=64) * torch.fft.rfft(filter_, n=64), n=64)[..., :32] * x.sigmoid()

    return step, values(2, 4, 32), [filter_]


def diagonal_states_over_time():
    decay, enter, leave = (torch.randn(4, 8, dtype=torch.cfloat, device=DEVICE) for _ in range(3))
    decay = torch.complex(-decay.real.abs(), decay.imag)
    state = torch.zeros(2, 4, 8, dtype=torch.cfloat, device=DEVICE)

    def step(x):
        now, out = state.clone(), []
        for each in x.unbind(-1):
            now = now * torch.exp(decay * 0.1) + enter * each[..., None]
            out.append((now * leave).sum(-1).real)
        state.copy_(now)
        return torch.stack(out, -1)

    return step, values(2, 4, 6), [state]


def filtered_picture_in_frequencies():
    def step(x):
        spectrum = torch.fft.fftshift(torch.fft.fft2(x, norm="ortho"), dim=(-2, -1))
        spectrum[..., :4, :].zero_()
        return torch.fft.ifft2(torch.fft.ifftshift(spectrum, dim=(-2, -1)), norm="ortho").real

    return step, images(2, 1, 16), []


def envelope_of_a_signal():
    def step(x):
        spectrum = torch.fft.fft(x)
        spectrum[..., 1:16] *= 2
        spectrum[..., 17:] = 0
        analytic = torch.fft.ifft(spectrum)
        return analytic.abs(), analytic.angle().cos()

    return step, values(3, 32), []


def sparse_rows_times_vectors():
    dense = torch.randn(16, 16, generator=torch.Generator().manual_seed(4))
    matrix = torch.where(dense.abs() > 1, dense, torch.zeros(())).to_sparse_csr().to(DEVICE)

    def step(x):
        return torch.mv(matrix, x[0]), matrix @ x.T

    return step, values(4, 16), []


def sparse_coordinates_times_a_matrix():
    where = torch.tensor([[0, 1, 2, 2, 5], [3, 0, 1, 4, 2]])
    matrix = torch.sparse_coo_tensor(where, torch.arange(1.0, 6), (6, 5)).coalesce().to(DEVICE).coalesce()

    def step(x):
        return torch.sparse.mm(matrix, x)

    return step, values(5, 3), []


def sums_over_segments():
    segment = torch.tensor([0, 0, 1, 3, 3, 3, 2, 1], device=DEVICE)

    def step(x):
        rows = segment[:, None].expand_as(x)
        most = torch.full((4, x.shape[1]), float("-inf"), device=DEVICE).scatter_reduce(0, rows, x, "amax")
        weight = (x - most[segment]).exp()
        total = torch.zeros(4, x.shape[1], device=DEVICE).index_add(0, segment, weight)
        return weight / total[segment]

    return step, values(8, 3), []


def tokens_to_experts_with_room():
    gate, weights = nn.Linear(8, 4).to(DEVICE), torch.randn(4, 8, 8, device=DEVICE)

    @torch.no_grad()
    def step(x):
        chance = gate(x).softmax(-1)
        best, chosen = chance.max(-1)
        one = F.one_hot(chosen, 4)
        place = (one.cumsum(0) * one).sum(-1) - 1
        sent = one[..., None] * F.one_hot(place.clamp(max=3), 4)[:, None] * (place < 4)[:, None, None]
        inside = torch.einsum("tec,td->ecd", sent.float(), x)
        return torch.einsum("tec,ecd,t->td", sent.float(), torch.bmm(inside, weights), best)

    return step, values(10, 8), [gate]


def tokens_that_pass_a_layer_by():
    route, layer = nn.Linear(8, 1).to(DEVICE), nn.Linear(8, 8).to(DEVICE)

    @torch.no_grad()
    def step(x):
        score, chosen = route(x).squeeze(-1).topk(3, dim=1)
        where = chosen[..., None].expand(-1, -1, 8)
        return x.scatter_add(1, where, layer(x.gather(1, where)) * score[..., None])

    return step, values(2, 6, 8), [route, layer]


def most_likely_words():
    embedding, head = nn.Embedding(20, 8).to(DEVICE), nn.Linear(8, 20).to(DEVICE)

    @torch.no_grad()
    def step(ids):
        words, state = [ids[:, -1]], embedding(ids).mean(1)
        for _ in range(4):
            state = torch.tanh(state + embedding(words[-1]))
            words.append(head(state).argmax(-1))
        return torch.stack(words, 1)

    return step, tokens(3, 5, 20), [embedding, head]


def beams_of_words():
    table = torch.randn(12, 12, device=DEVICE).log_softmax(-1)

    def step(start):
        score, words = table[start].topk(3, -1)
        for _ in range(3):
            score, flat = (score[..., None] + table[words]).flatten(1).topk(3, -1)
            words = flat % 12
        return score, words

    return step, lambda i: tokens(2, 1, 12)(i).squeeze(1), [table]


def words_from_the_likely_part():
    head = nn.Linear(8, 20).to(DEVICE)

    @torch.no_grad()
    def step(x, before):
        logits = head(x)
        said = logits.gather(1, before)
        logits.scatter_(1, before, torch.where(said > 0, said / 1.2, said * 1.2))
        chance, order = logits.softmax(-1).sort(descending=True)
        chance = chance.masked_fill(chance.cumsum(-1) - chance > 0.9, 0)
        return order.gather(1, torch.multinomial(chance, 2, replacement=True))

    return step, together(values(3, 8), tokens(3, 4, 20)), [head]


def draft_that_is_accepted_or_not():
    def step(draft, judge, words):
        p, q = judge.softmax(-1).gather(-1, words[..., None]), draft.softmax(-1).gather(-1, words[..., None])
        kept = (torch.rand(p.shape, device=DEVICE) < p / q).squeeze(-1).long().cumprod(-1)
        return torch.where(kept.bool(), words, judge.argmax(-1)), kept.sum(-1)

    return step, together(values(2, 5, 16), values(2, 5, 16), tokens(2, 5, 16)), []


def most_likely_path():
    step_score = torch.randn(4, 4, device=DEVICE)

    def step(x):
        score, back = x[:, 0], []
        for n in range(1, 6):
            score, best = (score[:, :, None] + step_score).max(1)
            back.append(best)
            score = score + x[:, n]
        path = [score.argmax(1, keepdim=True)]
        for best in reversed(back):
            path.append(best.gather(1, path[-1]))
        return torch.cat(path[::-1], 1)

    return step, values(3, 6, 4), [step_score]


def noise_taken_away_in_steps():
    model, kept = nn.Linear(9, 8).to(DEVICE), torch.linspace(0.1, 0.99, 6, device=DEVICE)

    @torch.no_grad()
    def step(x):
        for n in range(5):
            noise = model(torch.cat([x, kept[n].expand(x.shape[0], 1)], 1))
            clean = ((x - (1 - kept[n]).sqrt() * noise) / kept[n].sqrt()).clamp(-3, 3)
            x = kept[n + 1].sqrt() * clean + (1 - kept[n + 1]).sqrt() * torch.randn_like(x)
        return x

    return step, values(4, 8), [model]


def walk_that_accepts_by_chance():
    place, accepted = torch.zeros(32, 2, device=DEVICE), torch.zeros((), device=DEVICE)

    def step(scale):
        proposal = place + scale.abs() * torch.randn_like(place)
        gain = 0.5 * (place.square().sum(1) - proposal.square().sum(1))
        take = torch.rand(32, device=DEVICE).log() < gain
        place.copy_(torch.where(take[:, None], proposal, place))
        accepted.add_(take.float().mean())
        return place.mean(0)

    return step, values(1), [place, accepted]


def particles_drawn_anew():
    particles = torch.zeros(64, device=DEVICE)

    def step(seen):
        particles.mul_(0.9).add_(torch.randn(64, device=DEVICE))
        weight = (-0.5 * (particles - seen).square()).softmax(0)
        where = (torch.arange(64, device=DEVICE) + torch.rand(1, device=DEVICE)) / 64
        particles.copy_(particles[torch.searchsorted(weight.cumsum(0), where).clamp(max=63)])
        return particles.mean()

    return step, values(1), [particles]


def spins_on_a_chessboard():
    spins = torch.ones(8, 8, device=DEVICE)
    black = (torch.arange(8, device=DEVICE)[:, None] + torch.arange(8, device=DEVICE)) % 2 == 0

    def step(heat):
        for colour in (black, ~black):
            around = sum(torch.roll(spins, way, axis) for way in (1, -1) for axis in (0, 1))
            up = torch.rand(8, 8, device=DEVICE) < torch.sigmoid(2 * around / (heat.abs() + 0.5))
            spins.copy_(torch.where(colour, up.float() * 2 - 1, spins))
        return spins.mean()

    return step, values(1), [spins]


def filter_of_a_moving_target():
    state, spread = torch.zeros(5, 2, device=DEVICE), torch.eye(2, device=DEVICE).repeat(5, 1, 1)
    move = torch.tensor([[1.0, 0.1], [0.0, 1.0]], device=DEVICE)

    def step(seen):
        ahead, wide = state @ move.T, move @ spread @ move.T + 0.01 * torch.eye(2, device=DEVICE)
        gain = wide[:, :, 0] / (wide[:, 0, 0] + 0.1)[:, None]
        state.copy_(ahead + gain * (seen - ahead[:, 0])[:, None])
        spread.copy_(wide - gain[:, :, None] * wide[:, :1])
        return state * 1

    return step, values(5), [state, spread]


def bodies_that_attract():
    place, speed = torch.randn(6, 3, device=DEVICE), torch.zeros(6, 3, device=DEVICE)

    def force():
        apart = place[None] - place[:, None]
        return (apart / (apart.square().sum(-1, keepdim=True) + 0.5).pow(1.5)).sum(1)

    def step(push):
        speed.add_(force() + push, alpha=0.005)
        place.add_(speed, alpha=0.01)
        speed.add_(force(), alpha=0.005)
        return speed.square().sum()

    return step, values(6, 3), [place, speed]


def heat_in_a_plate():
    plate, next_ = torch.zeros(10, 10, device=DEVICE), torch.zeros(10, 10, device=DEVICE)

    def step(edge):
        plate[0].copy_(edge)
        for source, target in ((plate, next_), (next_, plate)):
            target.copy_(source)
            target[1:-1, 1:-1] += 0.2 * (source[2:, 1:-1] + source[:-2, 1:-1] + source[1:-1, 2:] + source[1:-1, :-2]
                                         - 4 * source[1:-1, 1:-1])
        return plate.sum()

    return step, values(10), [plate, next_]


def cells_that_live_and_die():
    board = (torch.rand(1, 1, 12, 12, device=DEVICE) < 0.4).float()
    around = torch.tensor([[1.0, 1, 1], [1, 0, 1], [1, 1, 1]], device=DEVICE)[None, None]

    def step(x):
        count = F.conv2d(F.pad(board, (1, 1, 1, 1), mode="circular"), around)
        board.copy_(((count == 3) | ((count == 2) & (board > 0))).float())
        return (board * x).sum((2, 3))

    return step, images(1, 1, 12), [board]


def centres_of_clusters():
    centres = torch.randn(4, 3, device=DEVICE)

    def step(x):
        for _ in range(3):
            near = torch.cdist(x, centres).argmin(1)
            count = torch.zeros(4, device=DEVICE).index_add_(0, near, torch.ones_like(x[:, 0]))
            total = torch.zeros_like(centres).index_add_(0, near, x)
            centres.copy_(torch.where(count[:, None] > 0, total / count.clamp(min=1)[:, None], centres))
        return near

    return step, values(20, 3), [centres]


def direction_of_most_change():
    direction = torch.ones(6, device=DEVICE)

    def step(x):
        x = x - x.mean(0)
        for _ in range(4):
            direction.copy_(F.normalize(x.T @ (x @ direction), dim=0))
        return torch.outer(x @ direction, direction)

    return step, values(16, 6), [direction]


def equations_by_conjugate_directions():
    def step(a, b):
        matrix = a @ a.T + torch.eye(6, device=DEVICE)
        x, rest = torch.zeros_like(b), b.clone()
        way, size = rest, rest.dot(rest)
        for _ in range(6):
            ahead = matrix @ way
            length = size / (way.dot(ahead) + 1e-9)
            x, rest = x + length * way, rest - length * ahead
            new = rest.dot(rest)
            way, size = rest + new / (size + 1e-9) * way, new
        return matrix @ x

    return step, together(values(6, 6), values(6)), []


def transport_between_two_clouds():
    def step(a, b):
        cost = torch.cdist(a, b).square()
        left, right = torch.zeros(8, device=DEVICE), torch.zeros(8, device=DEVICE)
        for _ in range(10):
            left = -torch.logsumexp((right - cost) / 0.5, 1) * 0.5
            right = -torch.logsumexp((left[:, None] - cost) / 0.5, 0) * 0.5
        return (torch.exp((left[:, None] + right - cost) / 0.5) * cost).sum()

    return step, together(values(8, 3), values(8, 3)), []


def whitened_by_iterations():
    def step(x):
        x = x - x.mean(0)
        spread = x.T @ x / x.shape[0] + 0.1 * torch.eye(4, device=DEVICE)
        size = spread.diagonal().sum()
        y, z = spread / size, torch.eye(4, device=DEVICE)
        for _ in range(8):
            mix = 1.5 * torch.eye(4, device=DEVICE) - 0.5 * z @ y
            y, z = y @ mix, mix @ z
        return x @ z / size.sqrt()

    return step, values(16, 4), []


def rows_written_behind_a_pointer():
    kept, end = torch.zeros(10, 3, device=DEVICE), torch.zeros((), dtype=torch.long, device=DEVICE)

    def step(x):
        where = (end + torch.arange(4, device=DEVICE)).remainder(10)
        kept[where] = x
        end.add_(4)
        chosen = torch.randint(0, 10, (5,), device=DEVICE)
        return kept[chosen]

    return step, values(4, 3), [kept, end]


def windows_of_one_buffer():
    buffer = torch.zeros(24, device=DEVICE)
    whole, tail = buffer.as_strided((7, 6), (3, 1)), buffer[16:].view(2, 4)

    def step(x):
        buffer[:16].copy_(buffer[8:].clone())
        tail.t().copy_(x.view(4, 2))
        return whole.sum(1), buffer.unfold(0, 4, 4).amax(1)

    return step, values(8), [buffer]


def bits_of_numbers():
    def step(x):
        bits = x.view(torch.int32)
        power = ((bits >> 23) & 255) - 127
        signs = (x.view(4, 8) > 0).to(torch.uint8)
        packed = (signs << torch.arange(8, dtype=torch.uint8, device=DEVICE)).sum(1, dtype=torch.uint8)
        return power, (bits & -65536).view(torch.float32), packed

    return step, values(32), []


def results_written_into_given_memory():
    a, b, c = (torch.zeros(5, 5, device=DEVICE) for _ in range(3))

    def step(x):
        torch.mm(x, x, out=a)
        torch.add(a, x, alpha=2, out=b)
        torch.cat([a[:2], b[2:]], out=c)
        torch.cumsum(c, 0, out=a)
        return a.clone()

    return step, values(5, 5), [a, b, c]


def counts_in_bins():
    counts, edges = torch.zeros(6, device=DEVICE), torch.tensor([-1.5, -0.5, 0.0, 0.5, 1.5], device=DEVICE)

    def step(x):
        where = torch.bucketize(x.flatten(), edges)
        counts.index_put_((where,), torch.ones(x.numel(), device=DEVICE), accumulate=True)
        return counts / counts.sum()

    return step, values(4, 8), [counts]


def sketch_of_words():
    sketch, odd = torch.zeros(3, 17, device=DEVICE), torch.tensor([5, 7, 11], device=DEVICE)

    def step(ids):
        where = (ids.flatten()[None] * odd[:, None] + odd[:, None]) % 17
        sketch.scatter_add_(1, where, torch.ones_like(where, dtype=torch.float))
        return sketch.gather(1, where).amin(0)

    return step, tokens(3, 4), [sketch]


def pictures_cut_and_turned_on_the_gpu():
    def step(x):
        flip = torch.rand(x.shape[0], 1, 1, 1, device=DEVICE) < 0.5
        x = torch.where(flip, x.flip(-1), x)
        top, left = torch.randint(0, 5, (2, x.shape[0], 1), device=DEVICE).unbind(0)
        rows, columns = top + torch.arange(8, device=DEVICE), left + torch.arange(8, device=DEVICE)
        each = torch.arange(x.shape[0], device=DEVICE)[:, None, None]
        return x[each, :, rows[:, :, None], columns[:, None, :]].movedim(-1, 1)

    return step, images(3, 3, 12), []


def masks_over_time_and_frequency():
    def step(x):
        for axis in (1, 2):
            begin = torch.rand(x.shape[0], 1, 1, device=DEVICE) * x.shape[axis]
            place = torch.arange(x.shape[axis], device=DEVICE).view([-1, 1] if axis == 1 else [1, -1])
            x = x.masked_fill((place >= begin) & (place < begin + 3), 0.0)
        return x

    return step, values(3, 8, 10), []


def shares_drawn_from_a_beta():
    one = torch.full((4, 1), 0.4, device=DEVICE)

    def step(x):
        share = torch.distributions.Beta(one, one, validate_args=False).sample()
        order = torch.rand(4, device=DEVICE).argsort()
        return share * x + (1 - share) * x[order], share

    return step, values(4, 6), []


def counts_drawn_at_a_rate():
    def step(x):
        rate = F.softplus(x)
        return torch.poisson(rate), torch.bernoulli(rate.clamp(max=1)), torch.empty_like(x).exponential_(2.0)

    return step, values(5, 5), []


def many_kinds_of_dropout():
    model = nn.Sequential(nn.Dropout2d(0.3), nn.Conv2d(4, 4, 3), nn.RReLU(), nn.AlphaDropout(0.2), nn.FeatureAlphaDropout(0.2)).to(DEVICE)

    @torch.no_grad()
    def step(x):
        return model(x)

    return step, images(2, 4, 6), [model]


def largest_values_and_back():
    def step(x):
        small, where = F.max_pool2d(x, 2, return_indices=True)
        opened = -F.max_pool2d(-F.max_pool2d(x, 3, 1, 1), 3, 1, 1)
        patches = F.fold(F.unfold(x, 3, padding=1), (8, 8), 3, padding=1)
        return F.max_unpool2d(small, where, 2), opened, patches, F.lp_pool2d(x.abs(), 2, 2)

    return step, images(2, 2, 8), []


def weights_of_eight_bits():
    weight = torch.randn(8, 16, device=DEVICE)
    scale, zero = torch.full((8,), 0.02, device=DEVICE), torch.zeros(8, device=DEVICE)

    def step(x):
        small = torch.fake_quantize_per_channel_affine(weight, scale, zero, 0, -128, 127)
        most = x.abs().amax(1, keepdim=True) / 127
        return (x / most).round().clamp(-127, 127) @ small.T * most

    return step, values(4, 16), [weight]


def running_extremes():
    most, least = torch.full((6,), -100.0, device=DEVICE), torch.full((6,), 100.0, device=DEVICE)

    def step(x):
        torch.maximum(most, x.amax(0), out=most)
        torch.minimum(least, x.amin(0), out=least)
        return (x - least) / (most - least), x.cummax(0).values, torch.logcumsumexp(x, 0), torch.trapezoid(x, dim=0)

    return step, values(7, 6), [most, least]


def statistics_joined_in_parallel():
    count, mean, square = torch.zeros((), device=DEVICE), torch.zeros(4, device=DEVICE), torch.zeros(4, device=DEVICE)

    def step(x):
        total, apart = count + x.shape[0], x.mean(0) - mean
        square.add_(x.var(0, correction=0) * x.shape[0] + apart.square() * count * x.shape[0] / total)
        mean.add_(apart * x.shape[0] / total)
        count.copy_(total)
        return (x - mean) / (square / count + 1e-5).sqrt()

    return step, values(6, 4), [count, mean, square]


def returns_of_a_game():
    def step(gain, value, over):
        over = (over > 1).float()
        total, out = torch.zeros_like(gain[:, 0]), []
        for n in reversed(range(5)):
            error = gain[:, n] + 0.99 * value[:, n + 1] * (1 - over[:, n]) - value[:, n]
            total = error + 0.9 * (1 - over[:, n]) * total
            out.append(total)
        return torch.stack(out[::-1], 1)

    return step, together(values(3, 5), values(3, 6), values(3, 5)), []


def routes_between_capsules():
    weight = torch.randn(6, 3, 4, 5, device=DEVICE)

    def step(x):
        votes = torch.einsum("bni,nmij->bnmj", x, weight)
        agree = torch.zeros(x.shape[0], 6, 3, device=DEVICE)
        for _ in range(3):
            total = (agree.softmax(-1)[..., None] * votes).sum(1)
            size = total.square().sum(-1, keepdim=True)
            out = total * size / (1 + size) / (size + 1e-6).sqrt()
            agree = agree + (votes * out[:, None]).sum(-1)
        return out

    return step, values(2, 6, 4), [weight]


def quaternions_and_turns():
    def step(q, points):
        w, xyz = F.normalize(q, dim=-1).split([1, 3], -1)
        turn = torch.linalg.cross(xyz, points)
        moved = points + 2 * w * turn + 2 * torch.linalg.cross(xyz, turn)
        return moved, torch.linalg.vector_norm(moved, dim=-1), torch.kron(q[:2], points[:2])

    return step, together(values(5, 4), values(5, 3)), []


def polynomials_and_special_functions():
    def step(x):
        value = torch.zeros_like(x)
        for factor in (0.5, -1.0, 2.0, 0.25):
            value = value * x + factor
        size = x.abs()
        return (value, torch.special.i0e(x), torch.lgamma(size + 1), torch.special.xlogy(size, size + 1),
                torch.erfinv(x.tanh() * 0.9))

    return step, values(12), []


def one_call_for_many_tensors():
    kept = [torch.randn(size, device=DEVICE) for size in (3, 5, 8, 13)]

    def step(x):
        torch._foreach_mul_(kept, 0.9)
        torch._foreach_add_(kept, [x[:each.numel()] for each in kept])
        norms = torch.stack(torch._foreach_norm(kept))
        torch._foreach_div_(kept, list((norms + 1).unbind()))
        return norms

    return step, values(16), [kept]


def mapped_over_a_batch_with_random_numbers():
    def one(x):
        return x.sort().values * torch.rand_like(x)

    step = torch.func.vmap(one, randomness="different")
    return step, values(4, 6), []


# Streams.

def _on(stream, make):
    """What `make` has, computed on a stream."""
    if stream is None:
        return make()
    with torch.cuda.stream(stream):
        return make()


def _streams(count):
    return [torch.cuda.Stream() if CUDA else None for _ in range(count)]


def branches_on_three_streams():
    weights, streams = [torch.randn(8, 8, device=DEVICE) for _ in range(3)], _streams(3)

    def step(x):
        results = []
        for weight, stream in zip(weights, streams):
            if CUDA:
                stream.wait_stream(torch.cuda.current_stream())
            results.append(_on(stream, lambda: (x @ weight).relu()))
        for stream in streams:
            if CUDA:
                torch.cuda.current_stream().wait_stream(stream)
        return torch.cat(results, 1)

    return step, values(4, 8), [weights]


def fork_of_a_fork_with_events():
    outer, inner = _streams(2)
    total = torch.zeros(6, device=DEVICE)

    def step(x):
        events = [torch.cuda.Event() for _ in range(4)] if CUDA else []
        if CUDA:
            events[0].record()
            outer.wait_event(events[0])
        a = _on(outer, lambda: x.sin())
        if CUDA:
            events[1].record(outer)
            inner.wait_event(events[1])
        b = _on(inner, lambda: a.exp())
        c = _on(outer, lambda: a * 2)
        if CUDA:
            events[2].record(inner)
            outer.wait_event(events[2])
        _on(outer, lambda: total.add_(b + c))
        if CUDA:
            events[3].record(outer)
            torch.cuda.current_stream().wait_event(events[3])
        return total * 1

    return step, values(6), [total]


def copies_beside_the_work():
    side, = _streams(1)
    parts = [torch.randn(16, 16, device=DEVICE) for _ in range(4)]
    stages = [torch.zeros(16, 16, device=DEVICE) for _ in range(2)]

    def step(x):
        main = torch.cuda.current_stream() if CUDA else None
        for number, part in enumerate(parts):
            if CUDA:
                side.wait_stream(main)
            _on(side, lambda: stages[number % 2].copy_(part))
            if CUDA:
                main.wait_stream(side)
            x = torch.tanh(x @ stages[number % 2])
        return x

    return step, values(3, 16), [stages]


def backward_pass_on_a_side_stream():
    side, = _streams(1)
    weight = nn.Parameter(torch.randn(8, 4, device=DEVICE))

    def step(x):
        weight.grad = None
        if CUDA:
            side.wait_stream(torch.cuda.current_stream())
        loss = _on(side, lambda: (x @ weight).logsumexp(1).sum())
        _on(side, loss.backward)
        if CUDA:
            torch.cuda.current_stream().wait_stream(side)
        return weight.grad * 1

    return step, values(5, 8), [weight]
