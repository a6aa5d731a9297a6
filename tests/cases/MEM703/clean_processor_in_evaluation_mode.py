# about: A processor is no model, whatever is called on it.
import torch
from transformers import AutoProcessor

processor = AutoProcessor.from_pretrained("Qwen/Qwen3-VL-2B-Instruct")
processor.eval()
inputs = processor(images, text)
