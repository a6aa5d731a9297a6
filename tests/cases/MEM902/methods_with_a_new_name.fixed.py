from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("m")
model.activation_checkpointing_enable()
model.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": False})
model.gradient_checkpointing_enable({"use_reentrant": False})
model.activation_checkpointing_disable()
unknown().gradient_checkpointing_enable()
