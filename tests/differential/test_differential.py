"""Random programs of each kind agree with PyTorch; tests/nightly runs 20,000 of them."""

from __future__ import annotations

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import flambeau

from .broad import BroadRun, random_broad_program
from .programs import ALL, ENDINGS, Program, Step, compare, text
from .wide import WideRun, random_wide_program

torch.set_num_threads(1)
STEPS = st.builds(Step, st.sampled_from(ALL), st.integers(0, 49), st.integers(0, 49), st.sampled_from((0.5, 2.0, -1.5)),
                  st.sampled_from((False,) * 11 + (True,)))
PROGRAMS = st.builds(lambda steps, ending, seed: Program(tuple(steps), ending, seed),
                     st.lists(STEPS, min_size=3, max_size=15), st.sampled_from(ENDINGS), st.integers(0, 2**31))


@settings(max_examples=500, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(PROGRAMS)
def test_random_programs_agree_with_pytorch(program: Program) -> None:
    difference = compare(program, flambeau, torch)
    assert difference is None, f"{text(program)}\n{difference}"


def test_wide_random_programs_agree_with_pytorch() -> None:
    for seed in range(500):
        program = random_wide_program(seed)
        difference = compare(program, flambeau, torch, WideRun)
        assert difference is None, f"{text(program)}\n{difference}"


def test_broad_random_programs_agree_with_pytorch() -> None:
    for seed in range(200):
        program = random_broad_program(seed)
        difference = compare(program, flambeau, torch, BroadRun)
        assert difference is None, f"{text(program)}\n{difference}"
