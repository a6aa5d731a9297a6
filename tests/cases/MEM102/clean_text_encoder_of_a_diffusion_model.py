# about: The text encoder of a diffusion model wants one length.
from diffusers import StableDiffusionPipeline
from transformers import CLIPTokenizer

tokenizer = CLIPTokenizer.from_pretrained("openai/clip-vit-base-patch32")


def tokenize(row):
    return tokenizer(row["caption"], padding="max_length", max_length=77)


for batch in dataset.map(tokenize):
    model(batch).backward()
