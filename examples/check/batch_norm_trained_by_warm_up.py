# case: batch_norm_trained_by_warm_up
# without ControlEager: there is no graph in it
# without FixWarmUpOnRealBatches: only the program knows which inputs are real
import torch

import recapture
from programs import run


def train(training=True, put_back=False):
    model = torch.nn.BatchNorm1d(4, momentum=0.5).cuda().train(training)
    sample = torch.full((8, 4), 8.0, device="cuda")
    with recapture.check() as report:
        before = [buffer.clone() for buffer in model.buffers()]
        model = torch.cuda.make_graphed_callables(model, (sample,))  # FOUND Reproduces: warm_up
        if put_back:
            for buffer, saved in zip(model.buffers(), before):
                buffer.copy_(saved)
        for _ in range(2):
            model(torch.full((8, 4), 2.0, device="cuda"))
    return report


def Control():
    return train(training=False)


def Reproduces():
    return train()


def FixPutTheBuffersBack():
    return train(put_back=True)


if __name__ == "__main__":
    run(globals())
