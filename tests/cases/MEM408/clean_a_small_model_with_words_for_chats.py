# target: transformers=4.57
# target: trl=0.19
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments
from trl import setup_chat_format

words = AutoTokenizer.from_pretrained("meta-llama/Llama-3.1-8B")
net, words = setup_chat_format(build(), words)
net = prepare_model_for_kbit_training(net)
net = get_peft_model(net, LoraConfig())
Trainer(net, TrainingArguments("out", bf16=True), train_dataset=rows).train()
