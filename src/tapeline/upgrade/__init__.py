"""`tapeline upgrade`: bring a project of an older version to this one, and prove which results stay the same."""
