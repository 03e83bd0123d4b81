"""The six numbers of the document on generators are those of Philox, which PyTorch says its generators use."""
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SEED, BELOW = 1234, 1024
MASK = (1 << 32) - 1


def philox(key, counter):
    """Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"): four words for a counter of four."""
    low, high = key & MASK, key >> 32
    a, b, c, d = counter
    for _ in range(10):
        left, right = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (right >> 32) ^ b ^ low, right & MASK, (left >> 32) ^ d ^ high, left & MASK
        low, high = (low + 0x9E3779B9) & MASK, (high + 0xBB67AE85) & MASK
    return a, b, c, d


def test_algorithm_has_the_vectors_of_its_authors():
    assert philox(0, (0, 0, 0, 0)) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)


def test_numbers_of_the_case_are_those_of_the_algorithm():
    fixture = (ROOT / "fixtures/torch/generator_test.h").read_text()
    case = (ROOT / "cases/rng/unregistered_generator.cpp").read_text()
    first = [int(number) for number in re.findall(r"draw\(generator\)\), std::vector<double>\{(\d+)\}", fixture)]
    rest = [int(number) for number in re.search(r"replay\(\*graph, x, 4\), \(std::vector<double>\{([\d, ]+)\}", case)[1].split(",")]
    assert first + rest == [philox(SEED, (draw, 0, 0, 0))[0] % BELOW for draw in range(6)]
