"""The gate's answers on the page are those of `recapture gate`, for each pair of releases, machine and feature."""
import json
import random
import re
import subprocess

from .records import RECAPTURE

SAMPLE, SEED = 12, 73  # Pairs that are tried if not all are.


def data_of(page):
    text = page.read_text()
    begin = '<script type="application/json" id="data">'
    return json.loads(text[text.index(begin) + len(begin):text.index("</script>", text.index(begin))])


def pairs_of(data):
    """Each with the sides and the machine that the page names for it. Runs with chosen libraries are left out."""
    for machine in data["compared"]:
        if not (name := re.fullmatch(r"([^,]*), driver ([^,]*)", data["texts"][machine["name"]])):
            continue
        names = [data["texts"][release] for release in machine["releases"]]
        for older, pairs in zip(names, machine["pairs"]):
            for newer, pair in zip(names, pairs):
                if pair and pair.get("taken"):
                    yield {"from": older, "to": newer}, pair
                elif pair:
                    yield {"from": older, "to": newer, "gpu": name[1], "driver": name[2]}, pair


def check_gates(check, _, page):
    data, folder = data_of(page), page.parent
    pairs = list(pairs_of(data))
    if not check.all_gates:
        pairs = random.Random(SEED).sample(pairs, SAMPLE)
    policies = [{}]
    for number, (tag, *_) in enumerate(data["tags"]):
        policy = folder / f"policy-{number}.toml"
        policy.write_text(f"scope = [{json.dumps(tag)}]\n")
        policies.append({"policy": str(policy)})
    questions = [{**sides, **policy} for sides, _ in pairs for policy in policies]
    asked = "".join(json.dumps(question) + "\n" for question in questions)
    answered = subprocess.run([RECAPTURE, "dev", "gates"], input=asked, stdout=subprocess.PIPE, text=True, check=True)
    shown = [data["gates"][number] for _, pair in pairs for number in data["lists"][pair["gate"]]]
    lines = answered.stdout.splitlines()
    check.equal("gates: an answer to each question", [len(lines), len(shown)], [len(questions)] * 2)
    different = []
    for question, line, (*figures, why) in zip(questions, lines, shown):
        answer = json.loads(line)
        said = [answer.get(key) for key in ("exit", "judged", "unknown", "not_measured", "why")]
        expected = [*figures, "; ".join(data["texts"][part] for part in data["lists"][why])]
        if said != expected:
            different.append([question, said, expected])
    print(f"page: {len(questions)} answers of the gate: {len(pairs)} pairs and machines, {len(policies)} scopes")
    check("gates: those on the page are those of the program", not different, f"{len(different)}: {different[:3]}")
