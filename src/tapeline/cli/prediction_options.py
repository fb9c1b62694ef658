"""What `tapeline predict` and `tapeline infer` say about their options; imports nothing."""

OUT = "a .csv, .jsonl, .parquet, .npy or .npz file"
OUTPUTS = "the outputs to write, or beginnings of their names (all but 'features' and 'logits')"
