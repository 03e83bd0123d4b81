# api: cuStreamSynchronize code: 900
import torch
from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.utilities.grads import grad_norm


class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.layer = torch.nn.Linear(8, 1)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def training_step(self, batch, index):
        self.manual_backward(self.layer(batch).sum())
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            norms = grad_norm(self, 2)  # CULPRIT


trainer = Trainer(accelerator="gpu", devices=1, max_steps=1, logger=False, enable_checkpointing=False,
                  enable_progress_bar=False, enable_model_summary=False)
trainer.fit(Model(), torch.utils.data.DataLoader(torch.ones(4, 8)))
