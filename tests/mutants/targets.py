"""Which fast tests stand for which source file: the nearest first, since the first failure ends a mutant."""

TRAIN = ("train/test_loop.py", "train/test_resume.py", "train/test_starting.py")
GATE = ("registry/test_verdict.py", "registry/test_gate.py", "registry/test_paired.py", "registry/test_assess.py")
REGISTRATION = ("registry/test_state.py", "registry/test_register.py", "registry/test_bad_input.py")
PROMOTION = (
    "registry/test_state.py",
    "registry/test_serving.py",
    "registry/test_promote.py",
    "registry/test_bad_input.py",
)

TARGETS: dict[str, tuple[str, ...]] = {
    "train/engine.py": (*TRAIN, "train/test_in_graph.py", "train/test_stopping.py"),
    "train/loop.py": ("train/test_seeds.py", *TRAIN, "train/test_in_graph.py"),
    "train/state.py": ("train/test_checkpoints.py", *TRAIN),
    "train/checkpoints.py": ("train/test_checkpoints.py", "train/test_policies.py", *TRAIN),
    "train/saving.py": ("train/test_policies.py", "train/test_checkpoints.py", *TRAIN),
    "train/batches.py": ("train/test_batches.py", "train/test_loop.py"),
    "train/permutation.py": ("train/test_batches.py",),
    "train/feed.py": ("train/test_seeds.py", "train/test_loop.py", "train/test_resume.py"),
    "train/stopping.py": ("train/test_stopping.py", "train/test_resume.py"),
    "train/completeness.py": ("train/test_completeness.py", "train/test_starting.py"),
    "train/starting.py": TRAIN,
    "files.py": (
        "test_files.py",
        "test_hashing.py",
        "train/test_checkpoints.py",
        "registry/test_store.py",
        "registry/test_bad_input.py",
    ),
    "registry/gate.py": GATE,
    "registry/paired.py": GATE,
    "registry/verdict.py": (*GATE, *PROMOTION),
    "registry/assess.py": (*GATE, *PROMOTION),
    "registry/store.py": ("registry/test_store.py", *PROMOTION, "registry/test_register.py"),
    "registry/register.py": REGISTRATION,
    "registry/names.py": (*REGISTRATION, "registry/test_promote.py"),
    "registry/state.py": (*PROMOTION, "registry/test_register.py"),
    "registry/tagging.py": ("registry/test_tagging.py", *PROMOTION, "registry/test_register.py"),
    "registry/promote.py": PROMOTION,
    "registry/rollback.py": PROMOTION,
    "registry/serving.py": PROMOTION,
}
