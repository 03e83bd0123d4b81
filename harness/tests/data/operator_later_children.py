"""The probe of what operators survive, with fake children: operator_later_children.py TREE SAMPLES FAULTS [BROKEN].

SAMPLES are what becomes of each capture; FAULTS, in JSON, what becomes of the replays after an action: "wrong", "crash",
"hang", "raise", "undone"; with "all" for the action, only after all of them together; with "captures", before any.
"""
import json
import os
import sys
import time

space = {"__name__": "operators"}
for name in ("operators", "operators_later"):
    source = open(f"{sys.argv[1]}/fixtures/python/{name}.h").read()
    exec(source.split('R"py(', 1)[1].split(')py"', 1)[0], space)
space["prepare"] = lambda: None
space["STEP_S"] = 0.5
space["operators"]["x"] = "x"
faults = json.loads(sys.argv[3])
space["broken"] = sys.argv[4] if len(sys.argv) > 4 else "nothing"


def child_later(operator, steps, left_out, tell):
    is_spoiled, has_graphs = False, False
    for number, how in enumerate(sys.argv[2].split(",")):
        key = ("forward", "float32", number)
        if key in left_out:
            continue
        tell("begin", key)
        if how == "crash":
            os.abort()
        tell("end", [key, how])
        is_spoiled, has_graphs = is_spoiled or how != "right", has_graphs or how == "right"
    if not has_graphs:
        return space["FINISHED"]
    if is_spoiled:
        return space["SPOILED"]
    for step in [[]] + steps:
        tell("step", step)
        names = step + ["all"] * (len(step) > 1) + ["captures"] * (not step)
        for fault in filter(None, map(faults.get, names)):
            if fault == "crash":
                os.abort()
            if fault == "hang":
                time.sleep(60)
            if fault == "raise":
                raise ValueError("of the probe itself")
            if fault == "undone":
                tell("undone", [step[0], "no such call"])
                continue
            tell("wrong", {"as": fault, "text": "output: 0 in place of 1"})
            return space["FINISHED"]
        tell("right", step)
    return space["FINISHED"]


space["child_later"] = child_later
print(space["probe_later"]("x"))
