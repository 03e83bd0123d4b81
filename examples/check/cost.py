# case: none
"""The cost of a check for a realistic training step: 85 million parameters. There must be no finding."""
import torch

import recapture
from programs import run


def TrainTransformer():
    layer = torch.nn.TransformerEncoderLayer(768, 12, 3072, dropout=0.1, batch_first=True, norm_first=True)
    model = torch.nn.TransformerEncoder(layer, 12).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=True)

    def step(x):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    def inputs(i):
        return torch.randn(8, 512, 768, device="cuda", generator=torch.Generator("cuda").manual_seed(i))

    return recapture.check(step, inputs)


if __name__ == "__main__":
    run(globals())
