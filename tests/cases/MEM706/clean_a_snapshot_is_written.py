import torch

torch.cuda.memory._record_memory_history()
for batch in loader:
    model(**batch).loss.backward()
torch.cuda.memory._dump_snapshot("memory.pickle")
