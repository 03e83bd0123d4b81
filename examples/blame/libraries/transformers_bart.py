# api: cuStreamSynchronize code: 900 cause: unique_in_capture
import torch
from transformers import BartConfig, BartForSequenceClassification

config = BartConfig(vocab_size=32, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
                    decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16, max_position_embeddings=16)
model = BartForSequenceClassification(config).cuda().eval()
ids = torch.tensor([[0, 5, 6, 2]], device="cuda")
with torch.no_grad():
    model(ids)
    torch.cuda.synchronize()
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        model(ids)  # CULPRIT
