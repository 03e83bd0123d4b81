"""Programs with collectives, and the processes that run them: the same program in each of several ranks.

Every rank runs the same source; `rank` is its number, and what it contributes to a collective depends on it. Where one rank
goes another way, such as into a second comparison, all do: they agree through a store, and not by a collective. A crash, a
hang or another value in one of them is the result of all.
"""
import gc
import os
import tempfile
import threading

import torch
import torch.distributed as dist

from recapture._check.cuda import Refused
from recapture._check.ranks import Ranks

from . import programs, running
from .serving import Server

LOCAL = ("mul", "add", "relu", "matmul", "linear", "softmax", "layer_norm", "cumsum", "sort", "fft", "dropout", "state", "in_place",
         "view", "index_add", "conv2d")
WRAPS = ("plain", "write", "side", "grad")  # Of operators that are no collectives.
SHARED_ACTIONS = ("empty_cache", "poison_free", "hold_free", "allocate", "second_graph", "second_graph_in_pool",
                  "second_graph_kept", "other_work", "expandable_segments", "memory_pool", "many_streams", "seed", "recapture",
                  "destroy_other", "pinned_traffic")
VARIABLES = ("NCCL_GRAPH_REGISTER", "NCCL_LOCAL_REGISTER", "NCCL_GRAPH_MIXING_SUPPORT", "NCCL_NVLS_ENABLE",
             "TORCH_SYMM_MEM_DISABLE_MULTICAST", "NVSHMEM_DISABLE_NVLS", "NCCL_PROTO", "NCCL_ALGO")
NO_MULTICAST = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}

# What a statement needs, as in programs.SETUP.
SETUP = {
    "pair": ["pair = dist.new_group([0, 1])", "dist.all_reduce(torch.ones(1, device=\"cuda\"), group=pair)"],
    "window": ['backend = dist.group.WORLD._get_backend(torch.device("cuda"))', "pool = torch.cuda.MemPool(backend.mem_allocator)",
               "with torch.cuda.use_mem_pool(pool):", '    window = torch.zeros({n}, {n}, device="cuda")',
               "backend.register_mem_pool(pool)"],
    "symm": ['symm = symm_mem.empty({n} * {n}, device="cuda")', "handle = symm_mem.rendezvous(symm, dist.group.WORLD.group_name)"],
}
_WORLD = "dist.group.WORLD"
OPS = {
    "all_reduce": ("{v} = {a} + rank\ndist.all_reduce({v})\n{v} = {v} / 2",),
    "all_reduce_max": ("{v} = {a} * (rank + 1)\ndist.all_reduce({v}, dist.ReduceOp.MAX)",),
    "all_reduce_half": ("{v} = ({a} + rank).half()\ndist.all_reduce({v})\n{v} = {v}.float() / 2",),
    "all_reduce_async": ("{v} = {a} + rank\nwork = dist.all_reduce({v}, async_op=True)\nlocal = {b} * 2\nwork.wait()\n"
                         "{v} = {v} / 2 + local",),
    "all_reduce_twice": ("{v} = {a} + rank\ndist.all_reduce({v})\n{v} = {v} / 4\ndist.all_reduce({v})",),
    "all_reduce_side": ("side.wait_stream(torch.cuda.current_stream())\nwith torch.cuda.stream(side):\n    {v} = {a} + rank\n"
                        "    dist.all_reduce({v})\ntorch.cuda.current_stream().wait_stream(side)\n{v} = {v} / 2", "side"),
    "all_reduce_of_pair": ("{v} = {a} + rank\ndist.all_reduce({v}, group=pair)\n{v} = {v} / 2", "pair"),
    "all_gather": ('every = torch.empty(2 * {n}, {n}, device="cuda")\ndist.all_gather_into_tensor(every, {a} + rank)\n'
                   "{v} = every[:{n}] - 0.5 * every[{n}:]",),
    "reduce_scatter": ("{v} = torch.empty_like({a}.contiguous())\ndist.reduce_scatter_tensor({v}, torch.cat([{a} + rank, {b}]))\n"
                       "{v} = {v} / 2",),
    "broadcast": ("{v} = {a} * (rank + 1)\ndist.broadcast({v}, 1)\n{v} = {v} / 2",),
    "all_to_all": ("{v} = torch.empty_like({a}.contiguous())\ndist.all_to_all_single({v}, ({a} + rank).contiguous())",),
    "send_receive": ("{v} = torch.empty_like({a}.contiguous())\nsent = ({a} + rank).contiguous()\n"
                     "for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, sent, 1 - rank), "
                     "dist.P2POp(dist.irecv, {v}, 1 - rank)]):\n    work.wait()",),
    "coalesced": ("{v}, more = {a} + rank, {b} * 0.5\nwith dist._coalescing_manager():\n    dist.all_reduce({v})\n"
                  "    dist.all_reduce(more)\n{v} = ({v} + more) / 2",),
    "functional": (f'{{v}} = funcol.all_reduce({{a}} + rank, "sum", {_WORLD}) / 2',),
    "functional_gather": (f"{{v}} = funcol.all_gather_tensor({{a}} + rank, 0, {_WORLD})[{{n}}:] * 0.5",),
    "registered": ("window.copy_({a} + rank)\ndist.all_reduce(window)\n{v} = window / 2", "window"),
    "symmetric": (f'symm.copy_(({{a}} + rank).reshape(-1))\n{{v}} = torch.ops.symm_mem.one_shot_all_reduce(symm, "sum", '
                  f"{_WORLD}.group_name).view({{n}}, {{n}}) / 2", "symm"),
    "symmetric_peer": ("symm.copy_(({a} + rank).reshape(-1))\nhandle.barrier()\n"
                       "{v} = handle.get_buffer(1 - rank, ({n}, {n}), torch.float32) * 0.5\nhandle.barrier()", "symm"),
}
# Between replays. A group is not destroyed while a graph has its collectives: that hangs, and is documented.
ACTIONS = {
    "make_group": "others.append(dist.new_group([0, 1]))\ndist.all_reduce(torch.ones(1, device=\"cuda\"), group=others[-1])",
    "make_and_destroy_group": "made = dist.new_group([0, 1])\ndist.all_reduce(torch.ones(1, device=\"cuda\"), group=made)\n"
                              "torch.cuda.synchronize()\ndist.destroy_process_group(made)",
    "make_and_abort_group": "made = dist.new_group([0, 1])\ndist.all_reduce(torch.ones(1, device=\"cuda\"), group=made)\n"
                            "torch.cuda.synchronize()\ndist.distributed_c10d._abort_process_group(made)",
    "split_group": "made = dist.split_group(split_ranks=[[0, 1]])\ndist.all_reduce(torch.ones(1, device=\"cuda\"), group=made)\n"
                   "torch.cuda.synchronize()",
    "group_of_one": "made = dist.new_group([rank], use_local_synchronization=True)\n"
                    "dist.all_reduce(torch.ones(1, device=\"cuda\"), group=made)\ntorch.cuda.synchronize()",
    "graph_of_other_group": "made = dist.new_group([0, 1])\ndist.all_reduce(torch.ones(1, device=\"cuda\"), group=made)\n"
                            "other = capture(lambda: funcol.all_reduce(x0 + rank, \"sum\", made))\nyield other()\nother = None\n"
                            "gc.collect()\ntorch.cuda.synchronize()\ndist.destroy_process_group(made)",
    "eager_collective": "eager = x0 + rank\ndist.all_reduce(eager)\nyield eager",
    "eager_large": "eager = torch.full((1 << 24,), 1.0 + rank, device=\"cuda\")\ndist.all_reduce(eager)\nyield eager[::65536]",
    "eager_gather": "eager = torch.empty(2 * {n}, {n}, device=\"cuda\")\ndist.all_gather_into_tensor(eager, x0 + rank)\nyield eager",
    "eager_on_stream": "with torch.cuda.stream(torch.cuda.Stream()):\n    eager = torch.ones(1 << 20, device=\"cuda\") + rank\n"
                       "    dist.all_reduce(eager)\ntorch.cuda.synchronize()\nyield eager[:4]",
    "barrier": "dist.barrier()",
    "objects": "objects = [None, None]\ndist.all_gather_object(objects, rank)",
    "register_pool": "backend = dist.group.WORLD._get_backend(torch.device(\"cuda\"))\n"
                     "pool = torch.cuda.MemPool(backend.mem_allocator)\nwith torch.cuda.use_mem_pool(pool):\n"
                     "    buffer = torch.ones(1 << 20, device=\"cuda\")\nbackend.register_mem_pool(pool)\ndist.all_reduce(buffer)\n"
                     "torch.cuda.synchronize()\nbackend.deregister_mem_pool(pool)\nbuffer = pool = None",
    "symmetric_made": "made = symm_mem.empty(1 << 16, device=\"cuda\")\nsymm_mem.rendezvous(made, dist.group.WORLD.group_name)\n"
                      "made.fill_(195.0)\ntorch.cuda.synchronize()\nmade = None",
    "segments_and_collective": 'torch.cuda.memory._set_allocator_settings("expandable_segments:True")\n'
                               "eager = torch.ones(1 << 24, device=\"cuda\") + rank\ndist.all_reduce(eager)\nyield eager[::65536]",
}


def install():
    """Adds the operators and actions to those that programs are made of."""
    programs.SETUP.update(SETUP)
    for name, (text, *needs) in OPS.items():
        programs.OPS[name] = programs.Op(name, text, tuple(needs), alone=True)
    programs.ACTIONS.update(ACTIONS)
    return (*OPS, *LOCAL), (*ACTIONS, *SHARED_ACTIONS)


class Agreeing:
    """Of a backend: its rank, and what all ranks of a program do together."""

    ranks: Ranks

    def names(self):
        import torch.distributed._functional_collectives as funcol
        try:
            import torch.distributed._symmetric_memory as symm_mem
        except ImportError:
            symm_mem = None
        return {"dist": dist, "funcol": funcol, "symm_mem": symm_mem, "rank": self.ranks.rank}

    def any(self, name, wanted):
        wanted = self.ranks.any(name, wanted)
        if self.ranks.gone:
            raise RuntimeError(f"left alone: {self.ranks.missing()}")
        return wanted

    def agreed(self, capture):
        """A graph is replayed only if all ranks have theirs."""
        try:
            made = capture()
        except Refused:
            self.any("refused", True)
            raise
        if self.any("refused", False):
            raise Refused(RuntimeError("the capture of another rank was refused"))
        return made


def make_on_cuda(rank, of, folder, limit):
    """The backend of a rank, in its process."""
    class OnRank(Agreeing, running.OnCuda):
        def __init__(self):
            super().__init__()
            os.environ.update(NO_MULTICAST)
            torch.cuda.set_device(rank)
            dist.init_process_group("nccl", f"file://{folder}/store", rank=rank, world_size=of)
            dist.all_reduce(torch.ones(1, device="cuda"))
            torch.cuda.synchronize()
            dist.group.WORLD.bound_device_id = torch.device("cuda", rank)  # split_group() asks for it.
            store = dist.distributed_c10d._get_default_store()
            self.ranks = Ranks(dist.PrefixStore("discover", store), rank, of, limit)
            self.ranks.begin()

        def begin(self):
            super().begin()
            _forget_groups()

        def capture(self, step, stream, like, generators):
            return self.agreed(lambda: super(OnRank, self).capture(step, stream, like, generators))

        def facts(self):
            return {**super().facts(), "gpus": torch.cuda.device_count(), "nccl": ".".join(map(str, torch.cuda.nccl.version())),
                    "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ}}

    return OnRank()


def _forget_groups():
    """Destroys the groups that an earlier program has left, once its graphs are gone: NCCL would wait for them."""
    left = [group for group in dist.distributed_c10d._world.pg_map if group is not dist.group.WORLD]
    if left:
        gc.collect()
        torch.cuda.synchronize()
    for group in left:
        dist.destroy_process_group(group)


# The states of a rank, the worst first; "same" is one that all have. A rank that is left alone, or waits, is a consequence of another one.
_ORDER = ("crash", "refused", "raised", "differs", "invalid", "hang", "not repeated", "rounding", "same")
_KEEPS_GOING = ("refused", "differs", "not repeated", "rounding", "same")


def merged(results):
    """The result of a program from those of its ranks."""
    def place(number):
        result = results[number]
        is_left = "left alone" in result.get("why", "") or "another rank was refused" in result.get("why", "")
        return is_left, _ORDER.index(result["state"])

    worst = min(range(len(results)), key=place)
    result = {**results[worst], "rank": worst, "states": [each["state"] for each in results]}
    states = {each["state"] for each in results}
    goes_on = states <= set(_KEEPS_GOING) or states == {"invalid"}  # What eager code refuses, it refuses in all ranks.
    if not goes_on or any(each.get("broken") for each in results):
        result["broken"] = True
    return result


class RankServer:
    """A serving.Server for each rank, as one."""

    def __init__(self, make, of, limit):
        self.folder = tempfile.TemporaryDirectory(prefix="discover-ranks-")
        self.servers = [Server(lambda rank=rank: make(rank, of, self.folder.name, limit)) for rank in range(of)]

    @property
    def ended(self):
        return any(server.ended for server in self.servers)

    @property
    def before(self):
        return self.servers[0].before

    def run(self, request, limit):
        results = [None] * len(self.servers)

        def run_one(number):
            results[number] = self.servers[number].run(request, limit)

        threads = [threading.Thread(target=run_one, args=(number,)) for number in range(len(self.servers))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        result = merged(results)
        if result.get("broken"):
            self.close()
        return result

    def close(self):
        for server in self.servers:
            server.close()
            server.ended = True
        self.folder.cleanup()
        return 0
