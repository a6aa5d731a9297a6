# about: A method of the script may keep what it gets.
import torch


class Policy(torch.nn.Module):
    def load_state_dict(self, state, strict=True):
        return super().load_state_dict(state, strict, assign=True)


model = Policy()
model.load_state_dict(torch.load("policy.pt"))
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
