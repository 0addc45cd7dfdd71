"""From noisy tables to the Answer: post-processing (finish.py), the answer itself (model.py), and how it is shown."""
