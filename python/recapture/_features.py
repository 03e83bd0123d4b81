"""The CUDA-graph features of a program: for `recapture blame --features` and `recapture gate … -- PROGRAM`.

The recorder runs this file inside the program, as its own module, and calls begins(), begun() and ends() around each
capture of torch.cuda.CUDAGraph. The contents of a capture come from PyTorch's own record of its operators
(torch.autograd.profiler_legacy) and from Python's profile hook, both only while the capture is open: replays and all
other work cost nothing. docs/reference/features.md describes how each feature is observed. Nothing here may raise, and
nothing calls the driver.

The names of features are those of harness/case/tags.h.
"""
# mypy: ignore-errors
import atexit
import gc
import json
import os
import sys
import threading
import types

_used, _unknown = {}, {}  # From feature to how it was seen, or why it is unknown.
_modes, _operators = set(), set()
_tries, _captures, _open = 0, 0, 0  # Captures that were to begin, that have begun, and that have not ended.
_pinned = None  # PyTorch's pinned blocks in use when the capture began,
_pins = 0  # and how many of PyTorch's own operators took one in it.
_listening = False  # PyTorch reports its operators,
_profiling = False  # and Python its calls.
_error = ""  # Why dependent results are unreliable.
_thread = 0  # Where the capture began; the hooks belong to that thread.
_last = None
_pid = os.getpid()

# Operators of ATen that read a value back to the host, or wait for it.
_READS = {"item", "_local_scalar_dense", "is_nonzero", "nonzero", "equal", "allclose", "masked_select", "unique",
          "_unique2", "unique_dim", "unique_consecutive", "bincount", "multinomial", "repeat_interleave", "tensor_split",
          "histc", "_assert_async", "is_pinned", "_pin_memory"}
_RANDOM = {"dropout", "native_dropout", "_fused_dropout", "feature_dropout", "alpha_dropout", "bernoulli", "bernoulli_",
           "rand", "rand_like", "randn", "randn_like", "randint", "randint_like", "randperm", "normal", "normal_",
           "uniform_", "exponential_", "geometric_", "cauchy_", "log_normal_", "random_", "multinomial", "poisson",
           "rrelu", "rrelu_with_noise", "_sample_dirichlet", "binomial", "_standard_gamma"}
_MATMUL = {"mm", "addmm", "bmm", "baddbmm", "addbmm", "matmul", "linear", "mv", "addmv", "dot", "vdot", "einsum",
           "_scaled_mm", "_addmm_activation", "_grouped_mm", "_scaled_grouped_mm", "ger", "addr", "chain_matmul"}
# Calls of a program that may copy from or to the host; inside other operators the copy stays on the GPU.
_MAY_COPY = {"copy_", "to", "_to_copy", "index", "index_put", "index_put_", "where", "lift_fresh"}
# DDP's name for copying a reduced bucket into the gradients, all on one GPU.
_ON_ONE_GPU = "torch.distributed.ddp.reducer::copy_bucket_to_grad"
# Each takes a pinned block for the value that it reads, and returns it.
_PINS = {"_local_scalar_dense", "nonzero"}
# These may draw random numbers internally, under another name.
_MAY_BE_RANDOM = {"_cudnn_rnn", "_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention",
                  "_scaled_dot_product_cudnn_attention", "_thnn_fused_lstm_cell"}
_OWN_NAMESPACES = {"aten", "prims", "prim", "c10d", "c10d_functional", "_c10d_functional", "nccl", "inductor", "torch",
                   "autograd", "profiler", "debugprims", "rngprims", "fsdp", "quantized", "static_runtime", "detail",
                   "caffe2"}
_STREAM_CALLS = {"wait_stream", "wait_event", "record_event", "_cuda_setStream", "_accelerator_setStream"}
_EVENT_CALLS = {"record", "wait", "query", "synchronize", "elapsed_time", "record_event", "wait_event"}
_WAITS = {"_cuda_synchronize", "synchronize", "query", "_accelerator_synchronizeDevice"}


def _never_raises(function):
    def call(*arguments):
        global _error
        try:
            function(*arguments)
        except Exception as error:
            _error = _error or "{}(): {}: {}".format(function.__name__, type(error).__name__, error)
    return call


def _use(feature, how):
    _used.setdefault(feature, how)


def _doubt(feature, why):
    _unknown.setdefault(feature, why)


def _of_operators(lists):
    """Reads PyTorch's record: a list of events for each thread."""
    for events in lists:
        stack = []
        for event in events:
            kind, name = event.kind(), event.name()
            if kind == "pop":
                if stack:
                    stack.pop()
                continue
            if kind != "push":
                continue
            outermost = next((outer for outer in stack if outer.startswith("aten::")), name)
            _of_operator(name, outermost, _ON_ONE_GPU in stack)
            stack.append(name)


def _of_operator(name, outermost, is_on_one_gpu):
    global _pins
    space, _, op = name.partition("::")
    if not op:
        space, op = "", name
    here = "{} in a capture".format(name)
    if space == "autograd":
        _use("autograd", "a backward pass in a capture")
        return
    if space == "aten":
        _operators.add(op)
        if op in _READS:
            _use("host reads", here)
        if op in _PINS:
            _pins += 1
        if op in ("copy_", "_to_copy") and outermost.partition("::")[2] in _MAY_COPY and not is_on_one_gpu:
            _doubt("host reads", "{}: PyTorch's record does not tell from where to where".format(here))
        if op in _RANDOM:
            _use("generators", here)
        if op in _MAY_BE_RANDOM:
            _doubt("generators", here)
        if op in _MATMUL:
            _use("cuBLAS", here)
        if "convolution" in op or op.startswith(("cudnn_", "_cudnn_")):
            _use("cuDNN", here)
        if op == "record_stream":
            _use("side streams", here)
        if op in ("pin_memory", "_pin_memory"):
            _use("pinned memory", here)
        return
    if space in ("c10d", "nccl", "_c10d_functional", "c10d_functional") or op.startswith("nccl:"):
        _use("NCCL", here)
    elif op.startswith("Optimizer.step"):
        _use("optimizer", here)
    elif op.startswith("DistributedDataParallel"):
        _use("DDP", here)
    elif op.startswith(("FullyShardedDataParallel", "FSDP")):
        _use("FSDP", here)
    elif op.startswith("CheckpointFunction"):
        _use("checkpointing", here)
    elif "CompiledF" in op or op.startswith(("Torch-Compiled", "## Call Compiled")):
        _use("torch.compile", here)
    elif space and space not in _OWN_NAMESPACES and space.isidentifier():
        _use("extensions", here)


_known_code = set()


@_never_raises
def _on_call(frame, event, argument):
    """Python's profile hook, on the thread that captures."""
    if _open == 0:  # Another thread has ended the capture.
        _stop_listening()
    elif event == "c_call":
        name = getattr(argument, "__name__", "")
        owner = type(getattr(argument, "__self__", None)).__name__
        if name in _STREAM_CALLS:
            _use("side streams", name + "() in a capture")
        if name in _EVENT_CALLS and "Event" in owner:
            _use("events", "Event.{}() in a capture".format(name))
        if name in _WAITS and ("Event" in owner or "Stream" in owner or name.startswith("_")):
            _use("host reads", name.lstrip("_") + "() in a capture")
        if name in ("_cuda_emptyCache", "_accelerator_emptyCache"):
            _use("memory pools", "empty_cache() in a capture")
        if name == "_host_emptyCache":
            _use("pinned memory", "its cache is emptied in a capture")
        if name == "_cuda_getDefaultStream":
            _use("default stream", "default_stream() in a capture")
        if name.startswith("begin_capture_to_"):
            _use("conditional nodes", name + "() in a capture")
    elif event == "call":
        code = frame.f_code
        if code not in _known_code:
            _known_code.add(code)
            _of_code(code, "in a capture")


def _of_code(code, when):
    file, name = code.co_filename.replace("\\", "/"), code.co_name
    here = "{}() {}".format(name, when)
    if name in ("make_graphed_callables", "_make_graphed_callables"):
        _use("graphed callables", here)
    is_compiled = file.endswith("/torch/_dynamo/eval_frame.py") and name == "compile_wrapper"
    if is_compiled or "/torch/_inductor/" in file or "/torchinductor" in file:
        _use("torch.compile", here)
    if file.endswith("/torch/utils/checkpoint.py"):
        _use("checkpointing", here)
    if file.endswith("/torch/amp/autocast_mode.py") and name == "__enter__":
        _use("autocast", "autocast " + when)
    if "/transformer_engine/" in file:
        _use("extensions", "Transformer Engine " + when)
    if "/nemo/" in file:
        _use("NeMo", here)
    if "/triton/" in file and name == "run":
        _use("extensions", "a Triton kernel " + when)
    if file.endswith("/torch/random.py") or file.endswith("/torch/cuda/random.py"):
        _use("generators", here)


def _importer_of_bindings():
    """A module that has a part of cuda.bindings, or a function that imports it, besides PyTorch's: 2.15 imports it by itself."""
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] in ("torch", "cuda") or not isinstance(module, types.ModuleType):
            continue
        file = getattr(module, "__file__", None) or ""
        own = "-packages" not in file and not file.startswith(os.path.dirname(os.__file__))
        for value in list(vars(module).values()):
            if isinstance(value, types.ModuleType):
                origin = value.__name__
            elif isinstance(value, type) or "function" in type(value).__name__:
                origin = getattr(value, "__module__", None)
            else:
                continue
            if isinstance(origin, str) and (origin == "cuda" or origin.startswith("cuda.bindings")):
                return name
            if own and isinstance(value, types.FunctionType) and _imports_bindings(value.__code__):
                return name
    return None


def _imports_bindings(code):
    names = code.co_names
    return "cuda" in names and "bindings" in names or any(name.startswith("cuda.bindings") for name in names) or \
        any(_imports_bindings(inner) for inner in code.co_consts if isinstance(inner, types.CodeType))


def _of_process():
    """Queries that are cheap at any time outside captures."""
    if "nemo" in sys.modules:
        _use("NeMo", "nemo is imported")
    for package in ("cuda.cuda", "cuda.cudart", "cupy", "pycuda", "numba.cuda", "cuda.core"):
        if package in sys.modules:
            _use("raw CUDA calls", package + " is imported")
    if "cuda.bindings" in sys.modules and "raw CUDA calls" not in _used:
        name = _importer_of_bindings()
        if name:
            _use("raw CUDA calls", "cuda.bindings is imported by " + name)
    for variable in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        if os.environ.get(variable):
            _use("memory pools", variable + " is set")
            if "pinned_" in os.environ[variable]:
                _use("pinned memory", variable + " has a setting of it")
    _of_settings()
    if "torch._inductor.cudagraph_trees" in sys.modules:
        _use("torch.compile", "Inductor's CUDA graphs are loaded")
    try:
        with_names = os.listdir("/proc/self/task")
        names = []
        for task in with_names:
            with open("/proc/self/task/{}/comm".format(task)) as file:
                names.append(file.read().strip())
        if any(name.startswith("pt_nccl") for name in names):
            _use("NCCL", "NCCL's watchdog runs")
        if any(name.startswith("pt_autograd") for name in names):
            _use("autograd", "a backward pass ran in the process")
    except OSError:
        _doubt("NCCL", "/proc cannot be read")
        _doubt("autograd", "/proc cannot be read")
    distributed = sys.modules.get("torch.distributed")
    try:
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            if "nccl" in str(distributed.get_backend()):
                _use("NCCL", "a process group of NCCL")
            _of_modules()
    except Exception:
        _doubt("DDP", "torch.distributed did not answer")


_SETTINGS = {"expandable_segments:true": "expandable segments", "max_split_size_mb:": "max_split_size",
             "backend:cudamallocasync": "cudaMallocAsync",
             "pinned_use_background_threads:true": "pinned background threads"}


def _of_settings():
    """The allocator's settings, by PyTorch's own words; by the variables where it does not tell them. cuDNN's by its variable."""
    texts = {name: os.environ.get(name, "") for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")}
    ask = getattr(getattr(sys.modules.get("torch"), "_C", None), "_accelerator_getAllocatorSettings", None)
    if ask is not None:
        texts["the allocator"] = str(ask())
    for where, settings in texts.items():
        plain = settings.replace(" ", "").lower()
        for setting, feature in _SETTINGS.items():
            if setting in plain:
                _use(feature, "{} has {}".format(where, setting.rstrip(":")))
    if "TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT" in os.environ:
        _use("cuDNN plan limit", "TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT is set")
    if ask is None:
        for feature in _SETTINGS.values():
            _doubt(feature, "this PyTorch does not tell its allocator's settings")


def _pinned_blocks():
    """How many pinned blocks of PyTorch are in use now, and how many were given out so far."""
    try:
        stats = sys.modules["torch"]._C._cuda_hostMemoryStats()
        active = stats.get("active_requests") or {"current": stats["num_host_alloc"], "allocated": stats["num_host_alloc"]}
        return active["current"], active["allocated"]
    except Exception:
        _doubt("pinned memory", "this PyTorch does not count it")
        return 0, 0


def _of_modules():
    """Which wrappers are alive. It inspects every object, so it only runs if there is a process group."""
    for thing in gc.get_objects():
        for kind in type(thing).__mro__[:-1]:
            if kind.__name__ == "DistributedDataParallel":
                _use("DDP", "a DistributedDataParallel is alive")
            elif kind.__name__ in ("FullyShardedDataParallel", "FSDPModule"):
                _use("FSDP", "a {} is alive".format(kind.__name__))


def _of_threads():
    own = threading.current_thread()
    others = [thread for thread in threading.enumerate() if thread is not own and thread.is_alive()]
    if others:
        _use("threads", "{} beside a capture".format(", ".join(sorted(thread.name for thread in others)[:3])))
        _doubt("events", "what other threads call beside a capture is not seen")
    for thread in others:
        target = getattr(thread, "_target", None)
        if getattr(target, "__name__", "") == "_pin_memory_loop" or "_pin_memory_loop" in thread.name:
            _use("data loader", "its thread runs beside a capture")


def _at_exit():
    """Checks that are made once."""
    for thing in gc.get_objects():
        if type(thing).__name__ == "CDLL" and any(name in str(getattr(thing, "_name", ""))
                                                  for name in ("cudart", "libcuda.so", "nvrtc", "cublas", "curand")):
            _use("raw CUDA calls", "ctypes has {}".format(os.path.basename(str(thing._name))))


def _of_graph(graph):
    """Whether it is kept to be changed and instantiated by hand. PyTorch gives out its handle only then."""
    ask = getattr(graph, "raw_cuda_graph", None)
    if ask is None:
        return
    try:
        ask()
    except Exception as error:  # That it was not made with keep_graph, or that it has no nodes yet.
        if "keep_graph" in str(error):
            return
    _use("graph updates", "a graph was made with keep_graph")


@_never_raises
def begins(arguments, keywords):
    """Before a capture begins. The graph is the first argument."""
    global _tries
    _tries += 1
    keywords = keywords or {}
    _of_process()
    _of_threads()
    _of_graph(arguments[0])
    if _pinned_blocks()[0] > 0:  # Not at the end: after a failed capture the block of an item() stays in use.
        _use("pinned memory", "PyTorch has given out some where a capture begins")
    torch = sys.modules["torch"]
    mode = keywords.get("capture_error_mode", arguments[2] if len(arguments) > 2 else "global")
    _modes.add(str(mode))
    if keywords.get("pool", arguments[1] if len(arguments) > 1 else None) is not None:
        _use("memory pools", "a capture was given a pool")
    sync_debug_mode = getattr(getattr(torch, "_C", None), "_cuda_get_sync_debug_mode", None)
    if sync_debug_mode is not None and sync_debug_mode():  # The public function initialises CUDA.
        _use("host reads", "set_sync_debug_mode() is on")
    frame = sys._getframe()
    while frame is not None:
        _of_code(frame.f_code, "around a capture")
        frame = frame.f_back
    try:
        if torch.is_autocast_enabled():
            _use("autocast", "autocast around a capture")
    except Exception:
        _doubt("autocast", "this PyTorch does not say")
    try:
        if torch.cuda.current_stream() == torch.cuda.default_stream():
            _use("default stream", "a capture began there")
    except Exception:
        _doubt("default stream", "this PyTorch does not say")


@_never_raises
def begun():
    """A capture has begun on this thread."""
    global _captures, _listening, _profiling, _open, _pinned, _pins, _thread
    _captures += 1
    _open += 1
    if _open == 1:
        _pinned, _pins = _pinned_blocks()[1], 0
    if _captures > 1:
        _use("several graphs", "more than one capture")
    if _open > 1:
        _doubt("host reads", "of two captures at a time only the first is watched")
        return
    _thread = threading.get_ident()
    try:
        from torch._C._autograd import _enable_profiler_legacy
        from torch._C._profiler import ProfilerConfig, ProfilerState, _ExperimentalConfig
        _enable_profiler_legacy(ProfilerConfig(ProfilerState.CPU, False, False, False, False, False,
                                               _ExperimentalConfig()))
        _listening = True
    except Exception as error:  # Another profiler, or a release that has none.
        _doubt_operators("PyTorch's operators are not recorded: {}".format(error))
    if sys.getprofile() in (None, _on_call):
        sys.setprofile(_on_call)
        _profiling = True
    else:
        _doubt_calls("another profiler is here")


def _doubt_operators(why):
    for feature in ("host reads", "generators", "cuBLAS", "cuDNN", "optimizer", "autograd", "extensions",
                    "checkpointing", "torch.compile", "side streams"):
        _doubt(feature, why)


def _doubt_calls(why):
    for feature in ("side streams", "events", "checkpointing", "torch.compile", "default stream", "extensions"):
        _doubt(feature, why)


def _stop_listening():
    """On the thread on which the capture began."""
    global _listening, _profiling
    if _profiling and sys.getprofile() is _on_call:
        sys.setprofile(None)
    _profiling = False
    if _listening:
        _listening = False
        try:
            from torch._C._autograd import _disable_profiler_legacy
            _of_operators(_disable_profiler_legacy())
        except Exception as error:
            _doubt_operators("PyTorch's operators could not be read: {}".format(error))


@_never_raises
def ends():
    """A capture is about to end, on this thread."""
    global _open
    _open = max(0, _open - 1)
    if threading.get_ident() == _thread:
        _stop_listening()
    elif _listening or _profiling:
        _doubt_operators("a capture was ended by another thread")
        _doubt_calls("a capture was ended by another thread")
    if _open == 0 and _pinned is not None and _pinned_blocks()[1] - _pinned > _pins:
        _use("pinned memory", "PyTorch gave out some during a capture")
    if "torch.compile" in _used:
        for feature in ("generators", "runtime compilation"):
            _doubt(feature, "a compiled function may")
    if "autograd" in _used:
        _doubt("default stream", "a tape may have been built there")


@_never_raises
def ended():
    """A capture has ended."""
    write(False)


def write(final):
    global _last
    if os.getpid() != _pid:
        return  # A forked child.
    if final and (_open > 0 or _tries > _captures):  # No call of CUDA need have failed.
        _use("failed captures", "a capture {}".format("was not ended" if _open > 0 else "did not begin"))
    for feature in {"raw CUDA calls", "NeMo"} & set(_used):
        for other in ("conditional nodes", "graph updates"):
            _doubt(other, feature + " may")
    line = {"event": "features", "pid": _pid, "captures": _captures, "modes": sorted(_modes), "used": _used,
            "unknown": {name: why for name, why in _unknown.items() if name not in _used},
            "operators": sorted(_operators), "error": _error, "final": final}
    text = json.dumps(line, sort_keys=True)
    if text == _last:
        return
    _last = text
    file = os.open(os.environ["RECAPTURE_BLAME"], os.O_WRONLY | os.O_APPEND)
    try:
        os.write(file, (text + "\n").encode())
    finally:
        os.close(file)


@_never_raises
def _finish():
    _of_process()
    _at_exit()
    write(True)


atexit.register(_finish)
