# about: An optimizer that torch has, with what its arguments were.
from transformers import AdamW  # expect: MEM901

first = AdamW(model.parameters(), lr=1e-4, no_deprecation_warning=True)
second = AdamW(model.parameters(), 1e-4, (0.9, 0.99), weight_decay=0.1)
