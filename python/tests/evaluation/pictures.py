"""More models and operators of torchvision, and models of transformers for pictures, with random weights."""
import torch
import torchvision
import transformers as t
from common import DEVICE, classes, images, taught, together, tokens, trained, values
from text import SMALL, VISION
from torchvision import ops
from torchvision.models import segmentation, swin_transformer, video
from torchvision.transforms.v2 import functional as change

F = torch.nn.functional
nn = torch.nn


def alexnet_training_with_dropout():
    model = torchvision.models.alexnet(weights=None, num_classes=10).to(DEVICE)
    return trained(model, torch.optim.SGD(model.parameters(), 0.01), images(4, 3, 64), classes(4))


def mobilenet_v2_training():
    model = torchvision.models.mobilenet_v2(weights=None, num_classes=10, width_mult=0.35).to(DEVICE)
    return trained(model, torch.optim.SGD(model.parameters(), 0.01, momentum=0.5), images(4, 3, 64), classes(4))


def shifted_windows_of_the_second_kind_training():
    model = torchvision.models.SwinTransformer([2, 2], 16, [2, 2], [2, 4], [4, 4], block=swin_transformer.SwinTransformerBlockV2,
                                               downsample_layer=swin_transformer.PatchMergingV2, num_classes=10).to(DEVICE)
    return trained(model, torch.optim.SGD(model.parameters(), 0.01), images(2, 3, 32), classes(2))


def deeplab_segmentation_training():
    model = segmentation.deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=4).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    return taught([model], optimizer, lambda x, y: F.cross_entropy(model(x)["out"], (y[:, 0] > 0).long()),
                  together(images(2, 3, 64), images(2, 1, 64)))


def video_of_split_filters():
    model = video.r2plus1d_18(weights=None, num_classes=5).to(DEVICE).eval()

    @torch.no_grad()
    def step(x):
        return model(x)

    return step, values(1, 3, 4, 32, 32), [model]


def features_from_within_a_network():
    from torchvision.models.feature_extraction import create_feature_extractor
    model = create_feature_extractor(torchvision.models.resnet18(weights=None), {"layer1": "low", "layer3": "high"}).to(DEVICE).train()

    @torch.no_grad()
    def step(x):
        out = model(x)
        return out["low"].mean((2, 3)), out["high"].amax((2, 3))

    return step, images(2, 3, 64), [model]


def heads_of_a_detector():
    from torchvision.models.detection.retinanet import RetinaNetHead
    head = RetinaNetHead(8, 3, 4).to(DEVICE).eval()

    @torch.no_grad()
    def step(a, b):
        return head([a, b])

    return step, together(images(1, 8, 16), images(1, 8, 8)), [head]


def losses_of_boxes():
    head = nn.Linear(8, 4).to(DEVICE)
    optimizer = torch.optim.SGD(head.parameters(), 0.01)

    def loss(x, boxes, y):
        def corners(raw):
            return ops.box_convert(torch.cat([raw[:, :2], raw[:, 2:].exp()], 1), "cxcywh", "xyxy")

        found, wanted = corners(head(x)), corners(boxes)
        return (ops.generalized_box_iou(found, wanted).mean() + ops.distance_box_iou(found, wanted).diagonal().sum()
                + ops.sigmoid_focal_loss(found, (y > 0).float(), reduction="mean"))

    return taught([head], optimizer, loss, together(values(6, 8), values(6, 4, scale=0.3), values(6, 4)))


def pooled_regions():
    def step(x, corner):
        where = corner.sigmoid() * 8
        boxes = torch.cat([torch.zeros(5, 1, device=DEVICE), where, where + 6], 1)
        return ops.roi_pool(x, boxes, 3, 0.5), ops.ps_roi_align(x, boxes, 2, 0.5, sampling_ratio=2)

    return step, together(images(1, 8, 8), values(5, 2)), []


def blocks_that_are_dropped_on_the_gpu():
    model = nn.Sequential(ops.Conv2dNormActivation(3, 8, 3), ops.DropBlock2d(0.3, 3), ops.SqueezeExcitation(8, 2),
                          ops.StochasticDepth(0.3, "row"), nn.Flatten(), ops.MLP(512, [16, 5], dropout=0.1)).to(DEVICE)
    return trained(model, torch.optim.SGD(model.parameters(), 0.05), images(3, 3, 8), classes(3, 5))


def pictures_adjusted_by_fixed_amounts():
    def step(x):
        x = change.adjust_contrast(change.horizontal_flip(x.sigmoid()), 1.3)
        x = change.adjust_gamma(change.adjust_saturation(x, 0.7), 1.2)
        return change.resize(change.gaussian_blur(x, [3, 3], [1.0, 1.0]), [6, 6]), change.rgb_to_grayscale(change.solarize(x, 0.5))

    return step, images(2, 3, 12), []


# Models of transformers.

def _seen(model, size=32, pick=lambda out: out.last_hidden_state):
    model.to(DEVICE).eval()

    @torch.no_grad()
    def step(x):
        return pick(model(pixel_values=x))

    return step, images(2, 3, size), [model]


def _sorted(model, size, rate=0.01):
    """A training step with labels."""
    model.to(DEVICE).train()
    optimizer = torch.optim.SGD(model.parameters(), rate)
    return taught([model], optimizer, lambda x, y: F.cross_entropy(model(pixel_values=x).logits, y),
                  together(images(4, 3, size), classes(4)))


def beit_inference():
    return _seen(t.BeitModel(t.BeitConfig(**VISION, use_absolute_position_embeddings=True)))


def convnext_v2_training():
    config = t.ConvNextV2Config(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_labels=10)
    return _sorted(t.ConvNextV2ForImageClassification(config), 64)


def convolutional_transformer_inference():
    return _seen(t.CvtModel(t.CvtConfig(embed_dim=[16, 32, 64], num_heads=[1, 2, 4], depth=[1, 2, 3])), 64)


def poolformer_training():
    config = t.PoolFormerConfig(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_labels=10)
    return _sorted(t.PoolFormerForImageClassification(config), 64)


def pyramid_transformer_inference():
    return _seen(t.PvtV2Model(t.PvtV2Config(hidden_sizes=[16, 32, 64, 64], num_attention_heads=[1, 2, 4, 4], depths=[1, 1, 1, 1])), 64)


def levit_inference():
    return _seen(t.LevitModel(t.LevitConfig(image_size=64, hidden_sizes=[16, 32, 48], num_attention_heads=[2, 4, 6], key_dim=[8, 8, 8],
                                            depths=[1, 1, 1])), 64)


def mobilevit_inference():
    return _seen(t.MobileViTModel(t.MobileViTConfig(image_size=64, hidden_sizes=[24, 32, 40], neck_hidden_sizes=[8, 8, 16, 16, 24, 24, 32],
                                                    num_attention_heads=2)), 64)


def focal_modulation_inference():
    return _seen(t.FocalNetModel(t.FocalNetConfig(image_size=64, embed_dim=16, depths=[1, 1, 1, 1])), 64)


def swin_v2_inference():
    return _seen(t.Swinv2Model(t.Swinv2Config(image_size=32, patch_size=2, embed_dim=16, depths=[1, 1], num_heads=[2, 4], window_size=4)))


def space_and_time_inference():
    return _seen_video(t.TimesformerModel(t.TimesformerConfig(**VISION, num_frames=2)))


def _seen_video(model):
    model.to(DEVICE).eval()

    @torch.no_grad()
    def step(x):
        return model(pixel_values=x).last_hidden_state

    return step, values(1, 2, 3, 32, 32), [model]


def masked_autoencoder_training():
    config = t.ViTMAEConfig(**VISION, decoder_hidden_size=32, decoder_num_hidden_layers=1, decoder_num_attention_heads=2,
                            decoder_intermediate_size=64, mask_ratio=0.5)
    model = t.ViTMAEForPreTraining(config).to(DEVICE).train()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    return taught([model], optimizer, lambda x: model(pixel_values=x).loss, images(2, 3, 32))


def siglip_training():
    config = t.SiglipConfig(text_config=dict(SMALL, max_position_embeddings=8), vision_config=VISION)
    model = t.SiglipModel(config).to(DEVICE).train()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    return taught([model], optimizer, lambda ids, x: model(input_ids=ids, pixel_values=x, return_loss=True).loss,
                  together(tokens(3, 8), images(3, 3, 32)))


def swiftformer_inference():
    return _seen(t.SwiftFormerModel(t.SwiftFormerConfig(depths=[1, 1, 1, 1], embed_dims=[16, 24, 32, 48])), 64)


def yolos_inference():
    return _seen(t.YolosForObjectDetection(t.YolosConfig(**dict(VISION, image_size=[32, 32]), num_detection_tokens=5)),
                 pick=lambda out: (out.logits, out.pred_boxes))


def dinov3_inference():
    return _seen(t.DINOv3ViTModel(t.DINOv3ViTConfig(**VISION)))


def mobilenet_v1_training():
    return _sorted(t.MobileNetV1ForImageClassification(t.MobileNetV1Config(depth_multiplier=0.25, num_labels=10)), 64)


def bit_inference():
    return _seen(t.BitModel(t.BitConfig(embedding_size=16, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], num_groups=4)), 64)
