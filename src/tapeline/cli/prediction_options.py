"""What `tapeline predict` and `tapeline infer` say about their options; imports nothing."""

OUT = "a .csv, .jsonl, .parquet, .npy or .npz file; with {name} in it, one for each FILE"
OUTPUTS = "the outputs to write, or beginnings of their names (all but 'features' and 'logits')"
BATCH_SIZE = "examples in a call of the model (256 to 4096, by their size)"
