# about: A prompt with images cannot be cut as text.
from transformers import AutoModelForImageTextToText, AutoProcessor
from trl import DPOConfig, DPOTrainer

model = AutoModelForImageTextToText.from_pretrained("Qwen/Qwen2.5-VL-3B-Instruct")
processor = AutoProcessor.from_pretrained("Qwen/Qwen2.5-VL-3B-Instruct")
args = DPOConfig("o", max_prompt_length=512)  # expect: MEM901
DPOTrainer(model, args=args, processing_class=processor, train_dataset=rows)
