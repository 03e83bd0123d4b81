"""Models of torchvision, with random weights. Each function returns a step, its inputs, and what it keeps."""
import torch
import torchvision
from common import DEVICE, classes, images, trained
from torchvision.models import detection, optical_flow, segmentation, video  # noqa: F401

F = torch.nn.functional


def _model(make, **options):
    return make(weights=None, **options).to(DEVICE)


def _inferred(model, size, count=4, channels=3):
    model.eval()

    @torch.no_grad()
    def step(x):
        return model(x)

    return step, images(count, channels, size), [model]


def resnet18_inference():
    return _inferred(_model(torchvision.models.resnet18), 64)


def mobilenet_v3_inference():
    return _inferred(_model(torchvision.models.mobilenet_v3_small), 64)


def shufflenet_inference_in_half_precision():
    model, pictures = _model(torchvision.models.shufflenet_v2_x0_5).bfloat16().eval(), images(4, 3, 64)

    @torch.no_grad()
    def step(x):
        return model(x.bfloat16())

    return step, pictures, [model]


def squeezenet_inference_in_channels_last():
    return _inferred(_model(torchvision.models.squeezenet1_1).to(memory_format=torch.channels_last), 96)


def mnasnet_inference():
    return _inferred(_model(torchvision.models.mnasnet0_5), 64)


def swin_inference():
    return _inferred(_model(torchvision.models.swin_t), 64)


def maxvit_inference():
    return _inferred(_model(torchvision.models.maxvit_t), 224, 1)


def fcn_segmentation():
    return _inferred(_model(segmentation.fcn_resnet50, weights_backbone=None), 64, 2)


def lraspp_segmentation():
    return _inferred(_model(segmentation.lraspp_mobilenet_v3_large, weights_backbone=None), 64, 2)


def video_r3d_inference():
    model = _model(video.r3d_18).eval()

    @torch.no_grad()
    def step(x):
        return model(x)

    return step, lambda i: torch.randn(1, 3, 8, 32, 32, device=DEVICE), [model]


def raft_flow():
    model = _model(optical_flow.raft_small).eval()

    @torch.no_grad()
    def step(a, b):
        return model(a, b, num_flow_updates=2)[-1]

    return step, lambda i: (torch.randn(1, 3, 128, 128, device=DEVICE), torch.randn(1, 3, 128, 128, device=DEVICE)), [model]


def resnet50_training():
    model = _model(torchvision.models.resnet50, num_classes=10)
    return trained(model, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9), images(8, 3, 64), classes(8))


def densenet121_training():
    model = _model(torchvision.models.densenet121, num_classes=10)
    return trained(model, torch.optim.SGD(model.parameters(), lr=0.01), images(4, 3, 64), classes(4))


def regnet_training():
    model = _model(torchvision.models.regnet_y_400mf, num_classes=10)
    return trained(model, torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=True), images(4, 3, 64), classes(4))


def efficientnet_training_with_stochastic_depth():
    model = _model(torchvision.models.efficientnet_b0, num_classes=10)
    return trained(model, torch.optim.RMSprop(model.parameters(), lr=1e-4, capturable=True), images(4, 3, 64), classes(4))


def convnext_training():
    model = _model(torchvision.models.convnext_tiny, num_classes=10, stochastic_depth_prob=0.0)
    return trained(model, torch.optim.Adam(model.parameters(), lr=1e-4, capturable=True), images(4, 3, 64), classes(4))


def vgg_training_under_autocast():
    model = _model(torchvision.models.vgg11_bn, num_classes=10)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, nesterov=True, momentum=0.9)
    pictures, labels = images(4, 3, 32), classes(4)

    def step(x, y):
        optimizer.zero_grad()
        with torch.autocast(DEVICE, dtype=torch.bfloat16, cache_enabled=False):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step, lambda i: (pictures(i), labels(i)), [model, optimizer]


def googlenet_training_with_auxiliary_losses():
    model = _model(torchvision.models.googlenet, num_classes=10, aux_logits=True, init_weights=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    pictures, labels = images(4, 3, 96), classes(4)

    def step(x, y):
        optimizer.zero_grad()
        out = model(x)
        loss = sum(F.cross_entropy(each, y) * part for each, part in zip(out, (1.0, 0.3, 0.3)))
        loss.backward()
        optimizer.step()
        return loss

    return step, lambda i: (pictures(i), labels(i)), [model, optimizer]


def vision_transformer_training_with_clipping():
    model = torchvision.models.VisionTransformer(32, 8, 3, 4, 64, 128, dropout=0.1, num_classes=10).to(DEVICE)
    optimizer = torch.optim.NAdam(model.parameters(), lr=1e-3, capturable=True)
    pictures, labels = images(8, 3, 32), classes(8)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        return loss

    return step, lambda i: (pictures(i), labels(i)), [model, optimizer]


def regions_of_a_feature_pyramid():
    pyramid = torchvision.ops.FeaturePyramidNetwork([8, 16], 8).to(DEVICE)

    @torch.no_grad()
    def step(a, b, boxes):
        levels = pyramid({"a": a, "b": b})
        return torchvision.ops.roi_align(levels["a"], boxes, 4, 0.5, sampling_ratio=2)

    def inputs(i):
        corner = torch.rand(6, 2, device=DEVICE) * 16
        boxes = torch.cat([torch.zeros(6, 1, device=DEVICE), corner, corner + 8], 1)
        return torch.randn(1, 8, 16, 16, device=DEVICE), torch.randn(1, 16, 8, 8, device=DEVICE), boxes

    return step, inputs, [pyramid]


def deformable_convolution_training():
    offset = torch.nn.Conv2d(4, 18, 3, padding=1).to(DEVICE)
    conv = torchvision.ops.DeformConv2d(4, 8, 3, padding=1).to(DEVICE)
    optimizer = torch.optim.Adamax([*offset.parameters(), *conv.parameters()], lr=1e-3, capturable=True)

    def step(x):
        optimizer.zero_grad()
        loss = conv(x, offset(x)).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step, images(2, 4, 16), [offset, conv, optimizer]


def average_of_a_resnet():
    model = _model(torchvision.models.resnet18, num_classes=10)
    average = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    pictures, labels = images(4, 3, 64), classes(4)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(average, list(model.parameters()), 0.01)
        return loss

    return step, lambda i: (pictures(i), labels(i)), [model, optimizer, average]
