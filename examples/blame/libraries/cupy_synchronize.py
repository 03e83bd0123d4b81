# api: cuCtxSynchronize|cuDeviceSynchronize code: 900 cause: device_synchronize_in_capture
import cupy

x = cupy.arange(8.0)
y = x + 1  # Compiled before the capture.
cupy.cuda.Device().synchronize()
stream = cupy.cuda.Stream(non_blocking=True)
with stream:
    stream.begin_capture()
    try:
        y = x + 1
        cupy.cuda.Device().synchronize()  # CULPRIT
    finally:
        stream.end_capture()
