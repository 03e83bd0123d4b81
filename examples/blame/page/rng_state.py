# api: exception fails: sometimes cause: rng_state_in_python_capture|rng_state_set_in_capture; PyTorch 2.10 permits reading it.
import torch


def draw():
    state = torch.cuda.get_rng_state()
    torch.cuda.set_rng_state(state)
    return torch.randint(1024, (1,), device="cuda")


def capture():
    for _ in range(2):
        draw()
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        draw()


capture()
