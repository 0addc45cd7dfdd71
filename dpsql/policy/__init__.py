"""What the steward says: policy.toml as a Policy (model.py), how it is read, and what its values may be."""
