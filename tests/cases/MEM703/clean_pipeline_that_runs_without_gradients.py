# about: The pipeline's call runs without gradients; the mode is set in what it calls, twice.
import torch


class Pipeline:
    def encode(self, prompt, negative):
        if prompt is not None:
            self.encoder.eval()
            prompt = self.encoder(prompt)
        if negative is not None:
            self.encoder.eval()
            negative = self.encoder(negative)
        return prompt, negative

    @torch.no_grad()
    def __call__(self, prompt, negative):
        return self.encode(prompt, negative)
