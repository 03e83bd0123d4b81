"""Models of transformers and sentence-transformers, small, with random weights."""
import torch
import transformers as t
from common import DEVICE, tokens, values

SMALL = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, vocab_size=100)
LARGE = dict(SMALL, num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0)


def _read(model, pick, make=None, train=False, **extra):
    """A forward pass with token numbers."""
    model.to(DEVICE).train(train)

    def step(ids):
        with torch.no_grad():
            return pick(model(input_ids=ids, attention_mask=torch.ones_like(ids), **extra))

    return step, make or tokens(2, 16), [model]


def _taught(model, optimizer):
    """A training step of a language model."""
    model.to(DEVICE).train()

    def step(ids):
        optimizer.zero_grad()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        return loss

    return step, tokens(2, 16), [model, optimizer]


def _adamw(model):
    return torch.optim.AdamW(model.to(DEVICE).parameters(), lr=1e-3, capturable=True)


def _last(out):
    return out.last_hidden_state


def _logits(out):
    return out.logits


def bert_with_dropout():
    return _read(t.BertModel(t.BertConfig(**SMALL)), _last, train=True)


def roberta_inference():
    return _read(t.RobertaModel(t.RobertaConfig(**SMALL)), _last)


def distilbert_training():
    model = t.DistilBertForMaskedLM(t.DistilBertConfig(vocab_size=100, dim=64, n_layers=2, n_heads=4, hidden_dim=128))
    return _taught(model, _adamw(model))


def electra_inference():
    return _read(t.ElectraModel(t.ElectraConfig(**SMALL, embedding_size=32)), _last)


def albert_inference():
    return _read(t.AlbertModel(t.AlbertConfig(**SMALL, embedding_size=32)), _last)


def deberta_inference():
    return _read(t.DebertaV2Model(t.DebertaV2Config(**SMALL, relative_attention=True, pos_att_type=["p2c", "c2p"])), _last)


def mpnet_inference():
    return _read(t.MPNetModel(t.MPNetConfig(**SMALL)), _last)


def modernbert_inference():
    return _read(t.ModernBertModel(t.ModernBertConfig(**SMALL, pad_token_id=0)), _last)


def gpt2_training():
    model = t.GPT2LMHeadModel(t.GPT2Config(vocab_size=100, n_embd=64, n_layer=2, n_head=4))
    return _taught(model, _adamw(model))


def opt_training_with_dropout():
    model = t.OPTForCausalLM(t.OPTConfig(vocab_size=100, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                                         ffn_dim=128, word_embed_proj_dim=64, dropout=0.1))
    return _taught(model, torch.optim.RAdam(model.to(DEVICE).parameters(), lr=1e-3, capturable=True))


def llama_training():
    model = t.LlamaForCausalLM(t.LlamaConfig(**LARGE))
    return _taught(model, _adamw(model))


def mistral_inference():
    return _read(t.MistralForCausalLM(t.MistralConfig(**LARGE, sliding_window=8)), _logits, use_cache=False)


def qwen_training_with_checkpoints():
    model = t.Qwen2ForCausalLM(t.Qwen2Config(**LARGE))
    model.gradient_checkpointing_enable({"use_reentrant": False, "preserve_rng_state": False})
    model.config.use_cache = False
    return _taught(model, _adamw(model))


def gemma_inference():
    return _read(t.GemmaForCausalLM(t.GemmaConfig(**LARGE, head_dim=16)), _logits, use_cache=False)


def phi_inference():
    return _read(t.PhiForCausalLM(t.PhiConfig(**LARGE)), _logits, use_cache=False)


def bloom_training():
    model = t.BloomForCausalLM(t.BloomConfig(vocab_size=100, hidden_size=64, n_layer=2, n_head=4))
    return _taught(model, torch.optim.Adadelta(model.to(DEVICE).parameters(), capturable=True))


def gptneox_inference():
    return _read(t.GPTNeoXForCausalLM(t.GPTNeoXConfig(**SMALL)), _logits, use_cache=False)


def t5_training():
    model = t.T5ForConditionalGeneration(t.T5Config(vocab_size=100, d_model=64, d_kv=16, d_ff=128, num_layers=2,
                                                    num_heads=4, decoder_start_token_id=0))
    return _taught(model, torch.optim.ASGD(model.to(DEVICE).parameters(), lr=1e-3, capturable=True))


def bart_inference():
    model = t.BartModel(t.BartConfig(vocab_size=100, d_model=64, encoder_layers=1, decoder_layers=1,
                                     encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128,
                                     decoder_ffn_dim=128))
    return _read(model, _last, use_cache=False)


def mamba_training():
    model = t.MambaForCausalLM(t.MambaConfig(vocab_size=100, hidden_size=32, num_hidden_layers=2, state_size=4))
    return _taught(model, torch.optim.SGD(model.to(DEVICE).parameters(), lr=0.1))


def static_cache_decoding():
    """One token at a time; the position is a tensor that the step moves on."""
    model = t.LlamaForCausalLM(t.LlamaConfig(**LARGE)).to(DEVICE).eval()
    head = torch.zeros(2, 2, 64, 16, device=DEVICE)
    kept, position = torch.zeros_like(head), torch.zeros(1, dtype=torch.long, device=DEVICE)
    layer = model.model.layers[0].self_attn

    @torch.no_grad()
    def step(ids):
        hidden = model.model.embed_tokens(ids)
        kept.index_copy_(2, position, layer.k_proj(hidden).view(2, 1, 2, 16).transpose(1, 2))
        query = layer.q_proj(hidden).view(2, 1, 4, 16).transpose(1, 2)
        seen = torch.arange(64, device=DEVICE) <= position
        keys = kept.repeat_interleave(2, 1)
        out = torch.nn.functional.scaled_dot_product_attention(query, keys, keys, attn_mask=seen.view(1, 1, 1, 64))
        position.add_(1)
        return out

    return step, tokens(2, 1), [model, kept, position]


def whisper_encoder():
    config = t.WhisperConfig(vocab_size=100, d_model=64, encoder_layers=2, decoder_layers=1, encoder_attention_heads=4,
                             decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, num_mel_bins=8,
                             max_source_positions=32, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                             decoder_start_token_id=1)
    model = t.WhisperModel(config).to(DEVICE).eval().encoder

    @torch.no_grad()
    def step(x):
        return model(x).last_hidden_state

    return step, values(2, 8, 64), [model]


def clip_training():
    config = t.CLIPConfig(text_config=dict(SMALL, max_position_embeddings=16, eos_token_id=2),
                          vision_config=dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                                             intermediate_size=128, image_size=32, patch_size=16),
                          projection_dim=32)
    model = t.CLIPModel(config).to(DEVICE).train()
    optimizer = torch.optim.Rprop(model.parameters(), lr=1e-3, capturable=True)
    ids, pictures = tokens(4, 8), values(4, 3, 32, 32)

    def step(a, b):
        optimizer.zero_grad()
        loss = model(input_ids=a, pixel_values=b, return_loss=True).loss
        loss.backward()
        optimizer.step()
        return loss

    return step, lambda i: (ids(i), pictures(i)), [model, optimizer]


def _seen(model, size=32):
    model.to(DEVICE).eval()

    @torch.no_grad()
    def step(x):
        return model(pixel_values=x).last_hidden_state

    return step, values(2, 3, size, size), [model]


VISION = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, image_size=32, patch_size=8)


def vit_inference():
    return _seen(t.ViTModel(t.ViTConfig(**VISION)))


def dinov2_inference():
    return _seen(t.Dinov2Model(t.Dinov2Config(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=32,
                                              patch_size=8)))


def segformer_inference():
    return _seen(t.SegformerModel(t.SegformerConfig(hidden_sizes=[8, 16, 32, 64], depths=[1, 1, 1, 1],
                                                    num_attention_heads=[1, 1, 2, 4], decoder_hidden_size=32)), 64)


def sentence_pooling_training():
    from sentence_transformers.models import Normalize, Pooling
    encoder = t.BertModel(t.BertConfig(**SMALL, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)).to(DEVICE)
    pooling, normalize = Pooling(64, "mean"), Normalize()
    optimizer, ids, others = _adamw(encoder), tokens(4, 8), tokens(4, 8)

    def embed(numbers):
        mask = torch.ones_like(numbers)
        hidden = encoder(input_ids=numbers, attention_mask=mask).last_hidden_state
        features = pooling({"token_embeddings": hidden, "attention_mask": mask})
        return normalize(features)["sentence_embedding"]

    def step(a, b):
        optimizer.zero_grad()
        scores = embed(a) @ embed(b).T * 20
        loss = torch.nn.functional.cross_entropy(scores, torch.arange(4, device=DEVICE))
        loss.backward()
        optimizer.step()
        return loss

    return step, lambda i: (ids(i), others(i + 50)), [encoder, optimizer]
