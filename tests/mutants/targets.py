"""Which fast tests stand for which source file: the nearest first, since the first failure ends a mutant."""

TRAIN = ("train/test_loop.py", "train/test_resume.py", "train/test_starting.py")
GATE = (
    "registry/test_verdict.py",
    "registry/test_gate.py",
    "registry/test_paired.py",
    "registry/test_classes.py",
    "registry/test_trial.py",
    "registry/test_assess.py",
)
REGISTRATION = ("registry/test_state.py", "registry/test_register.py", "registry/test_bad_input.py")
PROMOTION = (
    "registry/test_state.py",
    "registry/test_serving.py",
    "registry/test_promote.py",
    "registry/test_bad_input.py",
)

TARGETS: dict[str, tuple[str, ...]] = {
    "train/engine/host.py": ("train/test_host.py", *TRAIN, "train/test_in_graph.py", "train/test_stopping.py"),
    "train/engine/loop.py": ("train/test_seeds.py", *TRAIN, "train/test_in_graph.py"),
    "train/engine/step.py": ("train/test_seeds.py", *TRAIN, "train/test_in_graph.py"),
    "train/engine/state.py": ("train/test_state.py", "train/test_checkpoints.py", *TRAIN),
    "train/checkpoints/disk.py": ("train/test_checkpoints.py", "train/test_policies.py", *TRAIN),
    "train/checkpoints/saving.py": ("train/test_policies.py", "train/test_checkpoints.py", *TRAIN),
    "train/data/batches.py": ("train/test_batches.py", "train/test_loop.py"),
    "train/data/permutation.py": ("train/test_batches.py",),
    "train/data/feed.py": ("train/test_seeds.py", "train/test_loop.py", "train/test_resume.py"),
    "train/data/preparation.py": ("train/test_seeds.py", "train/test_loop.py", "train/test_resume.py"),
    "train/hooks.py": ("train/test_hooks.py",),
    "train/engine/stopping.py": ("train/test_stopping.py", "train/test_resume.py"),
    "train/checks/completeness.py": ("train/test_completeness.py", "train/test_starting.py"),
    "train/starting.py": TRAIN,
    "runtime/files.py": (
        "runtime/test_files.py",
        "runtime/test_hashing.py",
        "train/test_checkpoints.py",
        "registry/test_store.py",
        "registry/test_bad_input.py",
    ),
    "registry/gate/decision.py": GATE,
    "registry/gate/paired.py": GATE,
    "registry/gate/verdict.py": (*GATE, *PROMOTION),
    "registry/assess.py": ("registry/test_trial.py", *GATE, *PROMOTION),
    "registry/store.py": ("registry/test_store.py", *PROMOTION, "registry/test_register.py"),
    "registry/register.py": REGISTRATION,
    "registry/inputs.py": ("registry/test_inputs.py", *REGISTRATION),
    "registry/tags/names.py": ("registry/test_names.py", *REGISTRATION, "registry/test_promote.py"),
    "registry/tags/state.py": (*PROMOTION, "registry/test_register.py"),
    "registry/tags/tagging.py": ("registry/test_tagging.py", *PROMOTION, "registry/test_register.py"),
    "registry/promote.py": PROMOTION,
    "registry/rollback.py": PROMOTION,
    "registry/serving.py": PROMOTION,
}
