# api: cuStreamSynchronize code: 900 cause: host_branch_in_capture; greedy decoding of a small model asks on the host whether it is finished.
import torch


class Sampler:
    def __init__(self, end):
        self.end = end
        self.finished = torch.zeros(8, dtype=torch.bool, device="cuda")

    def accept(self, logits):
        tokens = logits.argmax(-1)
        self.finished |= tokens == self.end
        return tokens

    def done(self):
        return bool(torch.all(self.finished))  # CULPRIT


class Decoder:
    def __init__(self):
        self.embed = torch.nn.Embedding(100, 64).cuda()
        self.head = torch.nn.Linear(64, 100).cuda()
        self.sampler = Sampler(end=7)
        self.tokens = torch.zeros(8, dtype=torch.long, device="cuda")

    @torch.no_grad()
    def step(self):
        self.tokens.copy_(self.sampler.accept(self.head(self.embed(self.tokens))))
        if self.sampler.done():
            self.tokens.zero_()


decoder = Decoder()
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    for _ in range(3):
        decoder.step()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, stream=stream):
    decoder.step()
for _ in range(4):
    graph.replay()
print(decoder.tokens.tolist())
