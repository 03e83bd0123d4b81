# api: cuStreamQuery code: 900 cause: stream_query_in_capture
import torch


def capture():
    event = torch.cuda.Event()
    event.record()
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    x = torch.randn(8, device="cuda")
    with torch.cuda.graph(graph):
        y = x + 1
        stream.query()  # CULPRIT
        event.query()
        y = y * 2
    graph.replay()


capture()
