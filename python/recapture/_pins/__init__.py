"""The pins of torch in the files of a pull request, for `python -m recapture.gate_pins`.

`words` reads one line, `readers` one file, `changes` compares two versions of a file.
"""
