"""More models of transformers, small, with random weights: texts, sounds, series of numbers."""
import torch
import transformers as t
from common import DEVICE, classes, taught, together, tokens, values
from text import LARGE, SMALL


def _read(model, pick=lambda out: out.last_hidden_state, **extra):
    """A forward pass with token numbers and no mask."""
    model.to(DEVICE).eval()

    @torch.no_grad()
    def step(ids):
        return pick(model(input_ids=ids, **extra))

    return step, tokens(2, 16), [model]


def _told(model):
    return _read(model, lambda out: out.logits, use_cache=False)


def _learned(model, rate=0.05, **options):
    """A training step of a language model."""
    model.to(DEVICE).train()
    optimizer = torch.optim.SGD(model.parameters(), rate, **options)
    return taught([model], optimizer, lambda ids: model(input_ids=ids, labels=ids, use_cache=False).loss, tokens(2, 16))


def fnet_inference():
    return _read(t.FNetModel(t.FNetConfig(**SMALL)))


def squeezebert_inference():
    return _read(t.SqueezeBertModel(t.SqueezeBertConfig(**SMALL, embedding_size=64)))


def nystromformer_inference():
    return _read(t.NystromformerModel(t.NystromformerConfig(**SMALL, num_landmarks=4, segment_means_seq_len=16, conv_kernel_size=5)))


def convbert_inference():
    return _read(t.ConvBertModel(t.ConvBertConfig(**SMALL, embedding_size=32)))


def roformer_inference():
    return _read(t.RoFormerModel(t.RoFormerConfig(**SMALL, embedding_size=64)))


def mobilebert_inference():
    return _read(t.MobileBertModel(t.MobileBertConfig(**SMALL, embedding_size=32, intra_bottleneck_size=32)))


def esm_inference():
    return _read(t.EsmModel(t.EsmConfig(**SMALL, position_embedding_type="rotary", pad_token_id=0, mask_token_id=1)))


def falcon_training():
    return _learned(t.FalconForCausalLM(t.FalconConfig(vocab_size=100, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                                                        multi_query=False)))


def stablelm_training():
    return _learned(t.StableLmForCausalLM(t.StableLmConfig(**LARGE, qk_layernorm=True)), momentum=0.9)


def cohere_inference():
    return _told(t.CohereForCausalLM(t.CohereConfig(**LARGE)))


def olmo2_training():
    return _learned(t.Olmo2ForCausalLM(t.Olmo2Config(**LARGE)), weight_decay=0.1)


def starcoder2_inference():
    return _told(t.Starcoder2ForCausalLM(t.Starcoder2Config(**LARGE, sliding_window=4)))


def granite_training():
    model = t.GraniteForCausalLM(t.GraniteConfig(**LARGE, embedding_multiplier=2.0, residual_multiplier=0.5))
    return _learned(model, nesterov=True, momentum=0.5)


def gemma2_inference():
    return _told(t.Gemma2ForCausalLM(t.Gemma2Config(**LARGE, head_dim=16, sliding_window=8, query_pre_attn_scalar=16)))


def qwen3_training():
    return _learned(t.Qwen3ForCausalLM(t.Qwen3Config(**LARGE, head_dim=16)), dampening=0.1, momentum=0.9)


def nemotron_inference():
    return _told(t.NemotronForCausalLM(t.NemotronConfig(**LARGE)))


def biogpt_inference():
    return _told(t.BioGptForCausalLM(t.BioGptConfig(**SMALL, max_position_embeddings=64)))


def gpt_bigcode_inference():
    return _told(t.GPTBigCodeForCausalLM(t.GPTBigCodeConfig(vocab_size=100, n_positions=32, n_embd=64, n_layer=2, n_head=4)))


def openai_gpt_inference():
    return _read(t.OpenAIGPTLMHeadModel(t.OpenAIGPTConfig(vocab_size=100, n_positions=32, n_embd=64, n_layer=2, n_head=4)),
                 lambda out: out.logits)


def diffllama_inference():
    return _told(t.DiffLlamaForCausalLM(t.DiffLlamaConfig(**LARGE)))


def smollm3_training():
    return _learned(t.SmolLM3ForCausalLM(t.SmolLM3Config(**dict(LARGE, num_hidden_layers=4), no_rope_layer_interval=2)))


def phi3_inference():
    return _told(t.Phi3ForCausalLM(t.Phi3Config(**LARGE)))


def glm_inference():
    return _told(t.GlmForCausalLM(t.GlmConfig(**LARGE, head_dim=16)))


def mixtral_inference_with_batched_experts():
    model = t.MixtralForCausalLM(t.MixtralConfig(**LARGE, num_local_experts=4, num_experts_per_tok=2))
    model.set_experts_implementation("batched_mm")
    return _told(model)


def mamba2_training():
    model = t.Mamba2ForCausalLM(t.Mamba2Config(vocab_size=100, hidden_size=32, num_heads=8, head_dim=8, state_size=8, n_groups=1,
                                               chunk_size=8, num_hidden_layers=1))
    return _learned(model)


def pegasus_training():
    model = t.PegasusForConditionalGeneration(t.PegasusConfig(
        vocab_size=100, d_model=64, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=128, decoder_ffn_dim=128, max_position_embeddings=32))
    return _learned(model)


def perceiver_inference():
    model = t.PerceiverModel(t.PerceiverConfig(num_latents=8, d_latents=32, d_model=16, num_blocks=1, num_self_attends_per_block=2,
                                               num_self_attention_heads=4, num_cross_attention_heads=4)).to(DEVICE).eval()

    @torch.no_grad()
    def step(x):
        return model(inputs=x).last_hidden_state

    return step, values(2, 12, 16), [model]


def wav2vec2_inference():
    model = t.Wav2Vec2Model(t.Wav2Vec2Config(**SMALL, conv_dim=(16, 16, 16), conv_kernel=(10, 3, 3), conv_stride=(5, 2, 2),
                                             num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4)).to(DEVICE).eval()

    @torch.no_grad()
    def step(x):
        return model(x).last_hidden_state

    return step, values(2, 800), [model]


def audio_spectrogram_training():
    sizes = {key: value for key, value in SMALL.items() if key != "vocab_size"}
    model = t.ASTForAudioClassification(t.ASTConfig(**sizes, max_length=48, num_mel_bins=32, num_labels=5)).to(DEVICE).train()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    return taught([model], optimizer, lambda x, y: torch.nn.functional.cross_entropy(model(x).logits, y),
                  together(values(2, 48, 32), classes(2, 5)))


def patches_of_a_series_training():
    model = t.PatchTSTForPrediction(t.PatchTSTConfig(
        num_input_channels=2, context_length=32, prediction_length=8, patch_length=8, patch_stride=8, d_model=16, num_attention_heads=2,
        num_hidden_layers=1, ffn_dim=32, loss="mse")).to(DEVICE).train()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    return taught([model], optimizer, lambda x, y: model(past_values=x, future_values=y).loss, together(values(2, 32, 2), values(2, 8, 2)))


def mixed_patches_of_a_series():
    model = t.PatchTSMixerForPrediction(t.PatchTSMixerConfig(
        num_input_channels=2, context_length=32, prediction_length=8, patch_length=8, patch_stride=8, d_model=16, num_layers=2,
        loss="mse")).to(DEVICE).eval()

    @torch.no_grad()
    def step(x):
        return model(past_values=x).prediction_outputs

    return step, values(2, 32, 2), [model]
