"""What `params.yaml` says, typed and checked. No TensorFlow here."""
