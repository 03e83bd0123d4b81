# rank 0: ranks; rank 1: ranks
import torch


def program(rank, device):
    x, y, z = (torch.full((8,), 1.0, device=device) for _ in range(3))

    def serve():
        torch.distributed.all_reduce(x)
        torch.cuda.synchronize()
        small, large = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(small):
            torch.distributed.all_reduce(y)
        with torch.cuda.graph(large):
            torch.distributed.all_reduce(y)
            torch.distributed.all_reduce(z)
        for rows in ((8, 8), (5, 12)):  # Of each rank.
            graph = small if rows[rank] <= 8 else large
            graph.replay()  # FOUND 0 1
            torch.cuda.synchronize()

    return serve
