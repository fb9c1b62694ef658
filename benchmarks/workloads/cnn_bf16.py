"""The network of `cnn` with bfloat16 arithmetic where a peer supports it; the tutorial's loop stays in float32."""

from dataclasses import replace

from benchmarks.peers import eager, engine, keras_fit, torch_loop
from benchmarks.peers.torch_classifier import classifier
from benchmarks.workload import Workload
from benchmarks.workloads import cnn

RECIPE = cnn.RECIPE.having(precision="mixed_bfloat16")
FUSED = RECIPE.having(fused=True)
SHARDED = FUSED.having(shards=2)

WORKLOAD: Workload = replace(
    cnn.WORKLOAD,
    name="cnn_bf16",
    title="CNN 32×32×3, batch 64, bfloat16",
    recipe=RECIPE,
    contenders=[
        engine.contender(RECIPE),
        engine.contender(FUSED),
        engine.contender(SHARDED),
        eager.contender(cnn.tutorial),
        *keras_fit.contenders(cnn.keras_model, jit=(False,), precision="mixed_bfloat16"),
        *torch_loop.contenders(
            classifier(cnn.torch_model, cnn.torch_adam, images=cnn.channels_first, bfloat16=True),
            note="channels last, autocast",
        ),
    ],
    tolerance=3e-2,  # eight bits of mantissa
    targets={keras_fit.FAMILY: 1.3, torch_loop.FAMILY: 1.3},
)
