# api: exception cause: unregistered_generator|unregistered_generator_in_python
import torch


def draw(generator):
    return torch.randint(1024, (1,), generator=generator, device="cuda")  # CULPRIT


def capture():
    generator = torch.Generator(device="cuda")
    generator.manual_seed(1234)
    for _ in range(2):
        print("drawn:", draw(generator).item())
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        draw(generator)


capture()
