# about: Image tokens must not be cut.
from transformers import AutoProcessor
from trl import SFTConfig, SFTTrainer

processor = AutoProcessor.from_pretrained("Qwen/Qwen2.5-VL-3B-Instruct")
args = SFTConfig("out", max_length=None, dataset_kwargs={"skip_prepare_dataset": True})
SFTTrainer("Qwen/Qwen2.5-VL-3B-Instruct", args=args, processing_class=processor).train()
