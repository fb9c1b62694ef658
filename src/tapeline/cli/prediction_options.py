"""What `tapeline predict` and `tapeline infer` say about their options; imports nothing."""

OUT = "a .csv, .jsonl, .parquet, .npy or .npz file; with {name} in it, one for each FILE"
OUTPUTS = "the outputs to write, by name or prefix (default: all but 'features' and 'logits')"
BATCH_SIZE = "examples per call of the model (default: 256 to 4096, by their size)"
