tune run full_finetune_single_device --config llama3/8B_full_single_device dtype=fp32 optimizer=torch.optim.AdamW
