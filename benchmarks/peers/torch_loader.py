"""PyTorch's `DataLoader` over a map-style dataset: single examples, collated, with or without worker processes."""

from typing import Any

import numpy as np

from benchmarks.images import EVERY
from benchmarks.turn import Turn
from benchmarks.workload import Contender, Inputs

FAMILY = "PyTorch DataLoader"


def contenders(*, in_ram: bool, crop: int = 0, workers: tuple[int, ...] = (0, 2)) -> list[Contender]:
    """Return a loader for each number of workers. in_ram: the images are copied to memory, else memory-mapped."""

    def make(count: int) -> Contender:
        def contend(inputs: Inputs, turn: Turn) -> None:
            import torch

            torch.set_num_threads(1 if count else 2)
            images = inputs.columns["image"]
            data = _examples(np.array(images) if in_ram else images, np.array(inputs.columns["label"]), crop)
            loader = torch.utils.data.DataLoader(
                data,
                batch_size=inputs.batch,
                shuffle=True,
                drop_last=True,
                num_workers=count,
                persistent_workers=count > 0,
            )

            def brightness(image: Any) -> float:
                return float((image[:, ::EVERY, ::EVERY].float() / 255.0).mean())

            total, steps = 0.0, 0
            for image, _ in loader:
                total, steps = total + brightness(image), steps + 1
                turn.stepped()
            turn.learned({"loss": total / steps})
            while True:
                for image, _ in loader:
                    brightness(image)
                    turn.done(1)

        setting = f"{count} workers" if count else "in the process"
        return Contender(family=FAMILY, setting=setting, contend=contend, needs=("torch",))

    return [make(count) for count in workers]


def _examples(images: Any, labels: Any, crop: int) -> Any:
    """Return a dataset of single examples, randomly cropped and flipped if `crop` is set."""
    import torch

    height, width = images.shape[1:3]

    class Examples(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return len(labels)

        def __getitem__(self, number: int) -> Any:
            image = images[number]
            if crop:
                top, left, mirrored = (int(torch.randint(n, ())) for n in (height - crop + 1, width - crop + 1, 2))
                image = image[top : top + crop, left : left + crop]
                image = image[:, ::-1] if mirrored else image
            return torch.from_numpy(image.copy()), int(labels[number])

    return Examples()
