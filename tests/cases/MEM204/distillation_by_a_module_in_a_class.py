# about: The teacher runs without autograd: its copy is not kept.
import torch
from torch import nn
from transformers import AutoModelForCausalLM


class Imitation:
    def __init__(self, pupil, master, heat):
        self.pupil, self.master, self.heat = pupil, master, heat
        self.divergence = nn.KLDivLoss(reduction="batchmean", log_target=True)

    def loss(self, batch):
        with torch.inference_mode():
            wanted = (self.master(**batch).logits / self.heat).log_softmax(-1)
        given = self.pupil(**batch).logits / self.heat
        return self.divergence(given.log_softmax(-1), wanted) * self.heat**2  # expect: MEM204


pupil = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").to("cuda")
master = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B").to("cuda").eval()
imitation = Imitation(pupil, master, 2.0)
optimizer = torch.optim.AdamW(pupil.parameters(), lr=1e-5)
for batch in loader:
    imitation.loss(batch).backward()
    optimizer.step()
    optimizer.zero_grad()
