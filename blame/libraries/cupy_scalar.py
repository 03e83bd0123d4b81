# api: cuStreamSynchronize|cuMemcpy code: 900|906
import cupy

x = cupy.arange(8.0)
float(x.sum())
stream = cupy.cuda.Stream(non_blocking=True)
with stream:
    stream.begin_capture()
    try:
        print(float(x.sum()))  # CULPRIT
    finally:
        stream.end_capture()
