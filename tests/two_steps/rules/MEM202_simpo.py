# data: preference
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl.experimental.cpo import CPOConfig, CPOTrainer

model = AutoModelForCausalLM.from_pretrained("meta-llama/Meta-Llama-3-8B-Instruct")
tokenizer = AutoTokenizer.from_pretrained("meta-llama/Meta-Llama-3-8B-Instruct")
trainer = CPOTrainer(
    model=model,
    args=CPOConfig(
        "llama-simpo",
        loss_type="simpo",
        cpo_alpha=0.0,
        simpo_gamma=0.5,
        beta=2.0,
        max_length=256,
        per_device_train_batch_size=2,
        learning_rate=1e-2,
        bf16=False,
        max_steps=3,
        logging_steps=1,
    ),
    train_dataset=load_dataset("princeton-nlp/llama3-ultrafeedback", split="train"),
    processing_class=tokenizer,
    peft_config=LoraConfig(r=8, target_modules="all-linear", task_type="CAUSAL_LM"),
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
