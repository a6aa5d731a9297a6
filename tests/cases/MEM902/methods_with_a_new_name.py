# about: Methods of models that warn of their end, where the model is known.
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("m")
model.gradient_checkpointing_enable()  # expect: MEM902
model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})  # expect: MEM902
model.gradient_checkpointing_enable({"use_reentrant": False})
model.gradient_checkpointing_disable()  # expect: MEM902
unknown().gradient_checkpointing_enable()
