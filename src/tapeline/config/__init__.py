"""The content of `params.yaml`, typed and checked. No TensorFlow here."""
